"""Calibrations that pages predict with: the chapter's card as printed, this machine's from its runs."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import streamlit as st

from lab import runs
from lab.cost import catalog
from lab.cost.calibration import Calibration
from lab.cost.chapter_card import SHEET_ID, chapter_calibration
from lab.cost.predict import Ceilings
from lab.runs.calibrations import calibrated_runs, newest_calibration, noise_of
from lab.runs.reference import CHAPTER_RUN_ID
from lab.view import here
from lab.view.stamp import Stamp, stamp


@cache
def chapter_figures() -> dict[str, Any]:
    """What the chapter printed of its card."""
    text = (catalog.DATA / "chapter_measurements.json").read_text(encoding="utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures


@cache
def of_chapter(dtype: str) -> Calibration | None:
    """The calibration of the chapter's card.

    Args:
        dtype: of the inputs.

    Returns:
        The calibration; None in a type that the chapter did not measure.
    """
    try:
        return chapter_calibration(chapter_figures(), catalog.card(SHEET_ID), dtype)
    except ValueError:
        return None


def of_recorded(run: runs.Run | None, dtype: str) -> Calibration | None:
    """The calibration of the device of a reference run; None where none is known."""
    return of_chapter(dtype) if run is not None and run.run_id == CHAPTER_RUN_ID else None


def of_run(run: runs.Run, dtype: str) -> Calibration | None:
    """The newest calibration of the device that a run was measured on, with as many threads.

    Args:
        run: kept on this machine, bundled or uploaded; it may hold its calibration itself.
        dtype: of the inputs.
    """
    if run.recorded_on is not None:
        return of_recorded(run, dtype)
    threads = run.environment.get("threads") if here_kind(run) == "cpu" else None
    return newest_calibration((run, *kept()), run.device_key, dtype, threads)


def ceilings_of(calibration: Calibration) -> Ceilings:
    """The roofs of a calibration: its matmul rate, its bandwidth on the most bytes, an operation's start."""
    launch = calibration.overhead.value if calibration.overhead else None
    return Ceilings(
        calibration.device, calibration.source, calibration.matmul.value,
        calibration.bandwidth.points[-1][1], launch,
    )  # fmt: skip


def call_launch_s(calibration: Calibration) -> float | None:
    """Seconds that a whole call takes at least, where no single operation's start is known."""
    launches = (rate.launch.value for rate in calibration.decode.values() if rate.launch)
    return None if calibration.overhead else next(launches, None)


def here_kind(run: runs.Run) -> str:
    """The kind of device of a run: "cpu", "cuda", "mps" or "xpu"."""
    return str(run.environment.get("device_kind") or run.spec.device)


def of_this_machine(device: str, dtype: str, threads: int | None = None) -> Calibration | None:
    """The newest quiet calibration of a kind of device of this machine, else the newest.

    Args:
        device: the scenario's choice.
        dtype: of the inputs.
        threads: CPU threads that compute, for which alone it holds; None for those that the buttons use.

    Returns:
        The calibration; None until Roofline or the command line calibrated this machine in that type.
    """
    found = _of_this_machine(device, dtype, threads)
    return found[1] if found else None


def calibrated_run(device: str, dtype: str, threads: int | None = None) -> runs.Run | None:
    """The run whose calibration `of_this_machine` gives.

    Args:
        device: the scenario's choice.
        dtype: of the inputs.
        threads: as for `of_this_machine`.
    """
    found = _of_this_machine(device, dtype, threads)
    return found[0] if found else None


def noise(run: runs.Run | None) -> str | None:
    """What to say of the calibration of a run where it is noisy; else None.

    Args:
        run: that calibrated a device; None for none.
    """
    found = noise_of(run) if run else None
    return found.sentence if found and found.noisy else None


def _of_this_machine(device: str, dtype: str, threads: int | None) -> tuple[runs.Run, Calibration] | None:
    kind = here.kind(device)
    wanted = (threads or here.threads()) if kind == "cpu" else None
    own = (run for run in kept() if here_kind(run) == kind)
    return next(calibrated_runs(own, None, dtype, wanted), None)


def kept() -> tuple[runs.Run, ...]:
    """The runs kept on this machine, newest first; read again when one was written."""
    return _kept(stamp())


@st.cache_resource(max_entries=4, show_spinner=False)
def _kept(written: Stamp) -> tuple[runs.Run, ...]:
    return runs.list_runs()
