"""Where a config comes from: pasted text, file, folder, catalogue, hub; and what is said when there is none."""

import http.server
import json
import threading
import time

import pytest

from lab.cost import config_source
from lab.cost.catalog import model
from lab.cost.config_source import find_model, from_config_file, from_config_text, from_hub
from lab.cost.configs import ConfigError, from_config
from tests.cost.family_configs import GROUPED

LLAMA = GROUPED | {"model_type": "llama"}


def test_a_pasted_text_a_file_and_a_folder_give_the_same_shape(tmp_path):
    text = json.dumps(LLAMA)
    folder = tmp_path / "tiny-llama"
    folder.mkdir()
    (folder / "config.json").write_text(text)
    (tmp_path / "other.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    pasted = from_config_text(text)
    assert pasted.kinds == from_config_file(folder).kinds == from_config_file(tmp_path / "other.json").kinds
    assert from_config_file(folder).id == "tiny-llama"
    assert from_config_file(tmp_path / "other.json").id == "other"
    assert find_model(str(folder)).parameters == pasted.parameters


def test_a_model_is_found_in_the_catalogue_first_and_nothing_else_is_guessed(tmp_path):
    assert find_model("llama-3-8b") is model("llama-3-8b")
    with pytest.raises(ConfigError, match=r"model must be a config\.json, an id of the hub or one of gpt2"):
        find_model("llama")
    with pytest.raises(ConfigError, match="is no file"):
        find_model(str(tmp_path / "absent.json"))
    with pytest.raises(ConfigError, match=r"model must be a config\.json"):
        find_model("meta-llama/Llama-3.1-8B", online=False)


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers as the hub does: a config, a gated model, a missing one, an endless one, one in drips."""

    def do_GET(self):
        wanted = self.path.split("/")[-1]
        codes = {"gated": 401, "forbidden": 403, "absent": 404, "broken": 500}
        self.send_response(codes.get(wanted, 200))
        self.end_headers()
        try:
            if wanted == "endless":
                while True:
                    self.wfile.write(b" " * 65536)
            for _ in range(100 if wanted == "drips" else 0):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.05)
            self.wfile.write(json.dumps(LLAMA).encode())
        except OSError:
            pass  # the reader hung up, as it should

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(huggingface_hub, "hf_hub_url", lambda name, *_, **__: f"{address}/{name}")
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_a_config_is_read_from_the_hub(hub):
    shape = from_hub("org/tiny")
    assert shape.kinds == from_config(LLAMA).kinds
    assert (shape.id, shape.sources) == ("org/tiny", ("org/tiny: config.json at main",))
    assert find_model("org/tiny").parameters == shape.parameters


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("org/gated", "org/gated is gated or does not exist; if you have its config.json, pass the file."),
        ("org/forbidden", "org/forbidden is gated; if you have its config.json, pass the file."),
        ("org/absent", "org/absent has no config.json there; if you have its config.json, pass the file."),
        (
            "org/broken",
            "org/broken was answered with status 500; if you have its config.json, pass the file.",
        ),
        ("org/endless", "The config is longer than 4,194,304 bytes; no model's config is."),
    ],
)
def test_each_answer_of_the_hub_becomes_a_sentence(hub, name, reason):
    with pytest.raises(ConfigError) as refused:
        from_hub(name)
    assert reason in str(refused.value)


def test_an_answer_in_drips_is_given_up_in_time(hub):
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"did not answer within 0\.5 s; pass the config\.json"):
        from_hub("org/drips", timeout_s=0.5)
    assert time.monotonic() - started < 3


def test_offline_is_said_in_one_sentence(monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(huggingface_hub, "hf_hub_url", lambda *_, **__: "http://127.0.0.1:9/config.json")
    with pytest.raises(
        ConfigError, match=r"^The hub cannot be reached \(.*\); pass the config\.json of org/x as"
    ):
        from_hub("org/x")


@pytest.mark.parametrize(
    "bad", ["", "../etc", "a/b/c", "org/..", "org name/x", "x" * 300, "org/x\n", "file:///x"]
)
def test_what_is_no_id_is_never_asked_for(bad, monkeypatch):
    monkeypatch.setattr(config_source, "_download", lambda *_: pytest.fail("asked"))
    with pytest.raises(ConfigError, match="is no model id"):
        from_hub(bad)
    with pytest.raises(ConfigError, match="revision must be"):
        from_hub("org/x", revision="../" + bad)
