"""The store: one file a run, whole or not at all; damaged, foreign and newer files are refused in a sentence."""

import getpass
import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from lab import runs
from lab.runs import JobSpec, RunFileError, new_run, reference_runs, to_text
from lab.runs.migrations import MIGRATIONS

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_saved_run_is_found_again(home: Path) -> None:
    run = new_run(JobSpec("memory")).ended("finished")
    path = runs.save(run)
    assert path.parent == home / "runs"
    assert runs.load(path) == runs.load(run.run_id) == run
    assert runs.list_runs() == (run,)


def test_without_lab_home_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_HOME")
    assert runs.data_folder().name == "attention-cost-lab"


def test_latest_is_the_newest_of_its_experiment_and_device_with_points() -> None:
    point = reference_runs()[0].points[0]
    for stamp, kind, points in (
        ("1", "cpu", (point,)),
        ("2", "cpu", (point,)),
        ("3", "cpu", ()),
        ("4", "cuda", (point,)),
    ):
        run = runs.Run(
            run_id=f"{stamp}-x", spec=JobSpec("memory"), environment={"device_kind": kind, "device_name": "d"},
            points=points, created_utc=runs.utc_now(),
        )  # fmt: skip
        runs.save(run)
    found = runs.latest("memory", "cpu")
    assert found is not None
    assert found.run_id == "2-x"
    assert runs.latest("memory", "cpu: d") == found
    assert runs.latest("memory", "cpu: other") is None
    assert runs.latest("decode", "cpu") is None
    runs.save(replace(found, run_id="0-x", status="finished"))
    whole = runs.latest("memory", "cpu")
    assert whole is not None
    assert whole.run_id == "0-x"  # older than 2-x, which did not finish


def test_a_write_that_fails_leaves_the_earlier_file_and_no_litter(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(JobSpec("memory")).ended("finished")
    runs.save(run)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        runs.save(run.with_warning("later"))
    assert runs.load(run.run_id) == run
    assert [path.name for path in (home / "runs").iterdir()] == [f"{run.run_id}.json"]


def changed(**fields: object) -> str:
    return json.dumps({**json.loads(to_text(reference_runs()[0])), **fields})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "damaged"),
        (to_text(reference_runs()[0])[:-20], "damaged"),
        ("[1, 2]", "not a run file"),
        ('{"schema": 1}', "not a run file"),
        ("[" * 100_000, "damaged"),
        (changed(schema=runs.SCHEMA_VERSION + 1), "newer version of the lab"),
        (changed(schema=0), "no version of the lab wrote"),
        (changed(schema=1), "schema 1 and a field 'title', which that schema did not have"),
        (changed(schema=True), "not a run file"),
        (changed(points=3), "points is 3; it must be a list"),
        (changed(points=[{}]), "lacks the field"),
        (changed(run_id="../../etc/passwd"), "run_id"),
        (changed(status="fine"), "status is 'fine'"),
        (changed(surprise=1), "a field 'surprise' that this version does not know"),
        (changed(environment={"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {}}}}}}}}}}), "nested more than"),
        (changed().replace('"median_s": 0.00029', '"median_s": NaN'), "NaN is not a number"),
        (changed().replace('"median_s": 0.00029', '"median_s": 1e999'), "finite"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_run_is_refused_in_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "upload.json"
    path.write_text(text)
    with pytest.raises(RunFileError, match=words) as refusal:
        runs.load(path)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


def test_a_bad_file_among_the_runs_does_not_hide_the_others(home: Path) -> None:
    run = new_run(JobSpec("memory")).ended("finished")
    runs.save(run)
    (home / "runs" / "9999-damaged.json").write_text("{")
    assert runs.list_runs() == (run,)


def test_a_file_whose_name_cannot_be_written_is_told_of_in_a_text_that_can(home: Path) -> None:
    (home / "runs").mkdir(parents=True)
    (home / "runs" / "\x1b[2J\udc80.json").write_text("{")
    (sentence,) = runs.unreadable()
    assert sentence.encode("utf-8").startswith(b"?[2J?.json is damaged")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(17 * 2**20)
    with pytest.raises(RunFileError, match="larger than"):
        runs.load(path)


@pytest.mark.parametrize("name", ["schema_1_first", "schema_1_last"])
def test_a_file_that_an_older_lab_wrote_is_migrated(name: str) -> None:
    text = (FIXTURES / f"{name}.json").read_text(encoding="utf-8")
    was = json.loads(text)
    run = runs.from_text(text)
    assert (was["schema"], run.schema, run.title) == (1, runs.SCHEMA_VERSION, None)
    assert len(run.points) == len(was["points"]) > 0
    for point, old in zip(run.points, was["points"], strict=True):
        now = json.loads(json.dumps(point.to_dict()))
        if old["timing"]:
            now["timing"] = {key: now["timing"][key] for key in old["timing"]}
        assert {key: now[key] for key in old} == old
        added = {key: now[key] for key in now if key not in old}
        assert added in ({"cache": None}, {"cache": None, "variant": None, "measures": {}})
        assert point.accepted
    assert run.spec.quick == was["spec"].get("quick", False)
    assert runs.from_text(to_text(run)) == run


def test_the_first_files_lack_what_the_last_ones_have() -> None:
    first, last = (
        json.loads((FIXTURES / f"schema_1_{which}.json").read_text("utf-8")) for which in ("first", "last")
    )
    assert last["points"][0].keys() - first["points"][0].keys() == {"variant", "measures"}
    assert last["spec"].keys() - first["spec"].keys() == {"quick"}


def test_every_schema_before_this_one_has_a_migration() -> None:
    assert sorted(MIGRATIONS) == list(range(1, runs.SCHEMA_VERSION))


def test_no_run_file_names_the_host_the_user_or_a_path() -> None:
    text = to_text(reference_runs()[0])
    for word in (socket.gethostname(), getpass.getuser(), str(Path.home())):
        assert f'"{word}' not in text
