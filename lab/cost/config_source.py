"""Where a config.json comes from: a pasted text, a local file, a model's page on the Hugging Face hub.

A config is a few kilobytes of JSON. Whatever is not that is refused in one sentence before it can cost
memory or time: too long, cut off, nested without end, not a number, a field twice.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections import Counter
from http.client import HTTPException
from pathlib import Path
from typing import Any, NoReturn

from lab.cost.catalog import models
from lab.cost.configs import from_config
from lab.cost.fields import ConfigError, shown
from lab.cost.shapes import ModelShape

MAX_BYTES = 4 * 2**20
"""Largest config read. The largest published ones list every quantised module and stay below 1 MiB."""
TIMEOUT_S = 10.0
_CHUNK_BYTES = 2**16
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
_COMMIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")


def parse_config(text: str | bytes) -> dict[str, Any]:
    """Parse the text of a config.json.

    Args:
        text: the file's content.

    Returns:
        Its fields.

    Raises:
        ConfigError: too long, not UTF-8, not valid JSON, nested too deeply, NaN, a field twice, no object.
    """
    if len(text) > MAX_BYTES:
        raise ConfigError(f"The config is longer than {MAX_BYTES:,} bytes; no model's config is.")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ConfigError("The config is not UTF-8 text.") from None
    try:
        config = json.loads(
            text.removeprefix("\ufeff"), object_pairs_hook=_object, parse_constant=_not_a_number
        )
    except RecursionError:
        raise ConfigError("The config is nested too deeply to be a model's config.") from None
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"The config is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except ConfigError:
        raise
    except ValueError:  # Python refuses to read integers of more than 4,300 digits
        raise ConfigError("The config holds a number too long to be a size.") from None
    if not isinstance(config, dict):
        raise ConfigError(f"The config must be a JSON object, got {shown(config)}.")
    return config


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = Counter(name for name, _ in pairs)
        twice = next(name for name, times in seen.items() if times > 1)
        raise ConfigError(f"The config states the field {shown(twice)} twice.")
    return found


def _not_a_number(word: str) -> NoReturn:
    raise ConfigError(f"The config holds {word}, which is no JSON number.")


def from_config_text(text: str | bytes, **described: Any) -> ModelShape:
    """Build a shape from the text of a config.json.

    Args:
        text: the file's content, for example pasted.
        described: options of `from_config`.

    Returns:
        The shape.

    Raises:
        ConfigError: the text or a field is not usable; says which and why.
    """
    return from_config(parse_config(text), **described)


def from_config_file(path: str | Path, **described: Any) -> ModelShape:
    """Build a shape from a local config.json.

    Args:
        path: the file, or the folder of a checkpoint that holds it.
        described: options of `from_config`.

    Returns:
        The shape; its id is the folder's or file's name.

    Raises:
        ConfigError: no such file, not a regular file, too long, or not usable.
    """
    found = Path(path)
    try:
        if found.is_dir():
            found = found / "config.json"
        if not found.is_file():
            raise ConfigError(f"{shown(str(path))} is no file.")
        with found.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a path"
        raise ConfigError(f"{shown(str(path))} cannot be read: {reason}.") from None
    name = found.parent.resolve().name if found.name == "config.json" else found.stem
    return from_config_text(text, **{"model_id": name, "sources": (found.name,)} | described)


def from_hub(model_id: str, *, revision: str = "main", timeout_s: float = TIMEOUT_S) -> ModelShape:
    """Build a shape from the config.json of a model on the Hugging Face hub; no weights, no code.

    Args:
        model_id: such as "openai-community/gpt2".
        revision: branch, tag or commit.
        timeout_s: seconds after which the attempt is given up.

    Returns:
        The shape.

    Raises:
        ConfigError: not an id, no connection, no such model, a gated model, or a config that is not usable.
    """
    if not _HUB_ID.fullmatch(model_id) or ".." in model_id:
        raise ConfigError(f"{shown(model_id)} is no model id such as openai-community/gpt2.")
    if not _COMMIT.fullmatch(revision) or ".." in revision:
        raise ConfigError(f"revision must be a branch, tag or commit, got {shown(revision)}.")
    try:
        from huggingface_hub import hf_hub_url
    except ImportError:
        raise ConfigError("Reading from the hub needs the package huggingface_hub; pass the file.") from None
    text = _download(hf_hub_url(model_id, "config.json", revision=revision), model_id, timeout_s)
    return from_config_text(text, model_id=model_id, sources=(f"{model_id}: config.json at {revision}",))


def _download(url: str, model_id: str, timeout_s: float) -> bytes:
    """Read a small file, within the time given even when it comes in drips."""
    deadline = time.monotonic() + timeout_s
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            text = b""
            while len(text) <= MAX_BYTES and (more := answer.read1(_CHUNK_BYTES)):
                text += more
                if time.monotonic() > deadline:
                    raise TimeoutError
            return text
    except urllib.error.HTTPError as error:
        reasons = {401: "is gated or does not exist", 403: "is gated", 404: "has no config.json there"}
        reason = reasons.get(error.code, f"was answered with status {error.code}")
        raise ConfigError(f"{model_id} {reason}; if you have its config.json, pass the file.") from None
    except TimeoutError:
        reason = f"did not answer within {timeout_s:g} s"
    except (OSError, HTTPException, ValueError) as error:
        reason = f"cannot be reached ({shown(str(getattr(error, 'reason', error)))})"
    raise ConfigError(f"The hub {reason}; pass the config.json of {model_id} as a file.")


def find_model(wanted: str, *, online: bool = True) -> ModelShape:
    """Find the model a reader means: an id of the catalogue, a local config, or an id of the hub.

    Args:
        wanted: such as "llama-3-8b", "./config.json" or "openai-community/gpt2".
        online: whether the hub may be asked.

    Returns:
        The shape.

    Raises:
        ConfigError: nothing of that name, or a config that is not usable.
    """
    if wanted in models():
        return models()[wanted]
    try:
        local = Path(wanted).exists()
    except (OSError, ValueError):
        local = False
    if local or wanted.endswith(".json"):
        return from_config_file(wanted)
    if online and "/" in wanted:
        return from_hub(wanted)
    known = ", ".join(models())
    raise ConfigError(
        f"model must be a config.json, an id of the hub or one of {known}; got {shown(wanted)}."
    )
