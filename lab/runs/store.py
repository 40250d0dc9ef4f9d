"""Where runs are kept: one JSON file each in the user's data folder, replaced atomically."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lab.runs.checks import printable, shown
from lab.runs.migrations import MIGRATIONS
from lab.runs.privacy import cleaned
from lab.runs.run import RUN_ID, SCHEMA_VERSION, Run

MAX_FILE_BYTES = 16 * 2**20
REPLACE_TRIES = 5
REPLACE_PAUSE_S = 0.02


class RunFileError(ValueError):
    """A run file that cannot be read, in one sentence."""


def data_folder() -> Path:
    """Return the folder of this user's runs: LAB_HOME, else the system's place for user data."""
    home = os.environ.get("LAB_HOME")
    if home:
        return Path(home).expanduser()
    import platformdirs  # not needed, and not always there, where LAB_HOME is set

    return Path(platformdirs.user_data_dir("attention-cost-lab", appauthor=False))


def runs_folder() -> Path:
    """Return the folder with the run files inside the data folder."""
    return data_folder() / "runs"


def to_text(run: Run) -> str:
    """Return the run as strict JSON, without paths and without the names of this host and user."""
    return json.dumps(cleaned(run.to_dict()), indent=1, allow_nan=False, ensure_ascii=False)


def from_text(text: str | bytes, name: str = "the run file") -> Run:
    """Read a run from JSON text, whoever wrote it.

    Args:
        text: the content of a run file.
        name: what to call it in an error.

    Returns:
        The run, migrated to this version's schema.

    Raises:
        RunFileError: too large, damaged, of a newer schema, or with a value that is not allowed.
    """
    if len(text) > MAX_FILE_BYTES:
        raise RunFileError(f"{name} has {len(text):,} bytes; run files have at most {MAX_FILE_BYTES:,}.")
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RunFileError(
            f"{name} is damaged: it is not the JSON of a run ({_first_line(error)})."
        ) from None
    if not isinstance(data, dict) or type(data.get("schema")) is not int or "points" not in data:
        raise RunFileError(f"{name} is not a run file: it lacks the fields 'schema' and 'points'.")
    return _from_dict(data, name)


def _from_dict(data: dict[str, Any], name: str) -> Run:
    schema = data["schema"]
    if schema > SCHEMA_VERSION:
        raise RunFileError(
            f"{name} was written by a newer version of the lab (schema {schema}; this one reads up to "
            f"{SCHEMA_VERSION}): update the lab to open it."
        )
    if schema < min(MIGRATIONS, default=SCHEMA_VERSION):
        raise RunFileError(f"{name} has schema {schema}, which no version of the lab wrote.")
    try:
        for number in range(schema, SCHEMA_VERSION):
            data = MIGRATIONS[number](data)
        return Run.from_dict(data)
    except (ValueError, TypeError, AttributeError) as error:
        raise RunFileError(f"{name} is damaged: {_first_line(error)}.") from None


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number that JSON allows")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def save(run: Run) -> Path:
    """Write a run to its file; readers see the old file or the new one, never a half.

    Args:
        run: any run.

    Returns:
        The file.

    Raises:
        OSError: the folder cannot be written or the disk is full; an earlier file of the run stays as it was.
    """
    text = to_text(run)
    folder = runs_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.run_id}.json"
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return path


def _replace(temporary: str, path: Path) -> None:
    """Put the new file in the old one's place; on Windows not while somebody reads the old one."""
    for _ in range(REPLACE_TRIES - 1):
        with contextlib.suppress(PermissionError):
            os.replace(temporary, path)
            return
        time.sleep(REPLACE_PAUSE_S)
    os.replace(temporary, path)


def load(path: Path | str) -> Run:
    """Read a run file.

    Args:
        path: a file, or the identifier of a run in the data folder.

    Returns:
        The run; one whose program died while it was running is told as crashed.

    Raises:
        RunFileError: no such file or run, or not one that can be read.
    """
    place = Path(path)
    try:
        if not place.exists() and re.fullmatch(RUN_ID, str(path)):
            place = runs_folder() / f"{path}.json"
        state = place.stat()
        if state.st_size > MAX_FILE_BYTES:
            raise RunFileError(
                f"{printable(place.name)} is larger than the {MAX_FILE_BYTES:,} bytes of a run file."
            )
        return _settled(_read(place, state.st_mtime_ns, state.st_size, state.st_ino))
    except FileNotFoundError:
        raise RunFileError(f"There is no run or file named {shown(str(path))}.") from None
    except OSError as error:
        raise RunFileError(f"{shown(place.name)} cannot be read: {error.strerror}.") from None


@lru_cache(maxsize=256)
def _read(path: Path, *state: int) -> Run:
    """Read a file, or remember it while its state (time, size, identity) is the same."""
    return from_text(path.read_bytes(), printable(path.name))


def _settled(run: Run) -> Run:
    """A file says "running" until its program writes the end; if none is measuring, that program has died."""
    if run.status != "running" or measuring_now():
        return run
    message = "The program ended before the measurement did; the points finished until then are here."
    return replace(run, status="crashed", message=message)


def lock_file() -> Path:
    """Return the file that whoever is measuring on this machine holds locked."""
    return data_folder() / "measuring.lock"


def measuring_now() -> bool:
    """Whether some process of this user is measuring; True as well where that cannot be told."""
    if not lock_file().exists():
        return False
    try:
        from filelock import FileLock, Timeout  # comes with torch; reading runs needs neither
    except ImportError:
        return True
    try:
        FileLock(lock_file()).acquire(timeout=0).lock.release()
    except (Timeout, OSError):
        return True
    return False


def list_runs() -> tuple[Run, ...]:
    """Return the runs in the data folder that can be read, newest first."""
    found = []
    for path in _files():
        with contextlib.suppress(RunFileError):
            found.append(load(path))
    return tuple(found)


def unreadable() -> tuple[str, ...]:
    """Return one sentence for each file in the data folder that cannot be read."""
    found = []
    for path in _files():
        try:
            load(path)
        except RunFileError as error:
            found.append(str(error))
    return tuple(found)


def latest(experiment: str, device_key: str) -> Run | None:
    """Return the newest finished run of an experiment on a device that has points, else the newest of any end.

    Args:
        experiment: one of EXPERIMENTS.
        device_key: of the device, or only its kind ("cpu", "cuda").

    Returns:
        The run, or None.
    """
    unfinished = None
    for path in _files():
        with contextlib.suppress(RunFileError):
            run = load(path)
            same_device = device_key in (run.device_key, run.device_key.partition(":")[0])
            if run.spec.experiment == experiment and same_device and run.points:
                if run.status == "finished":
                    return run
                unfinished = unfinished or run
    return unfinished


def _files() -> list[Path]:
    """The run files, newest first: their names begin with the time."""
    with contextlib.suppress(OSError):
        return sorted(runs_folder().glob("*.json"), reverse=True)
    return []
