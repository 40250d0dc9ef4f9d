"""Which of the runs kept on this machine a panel shows."""

from __future__ import annotations

from lab import runs
from lab.runs.point import COUNTED
from lab.runs.suites import SUITES
from lab.view import calibrations, here

ALSO = {"selftest": "scaling"}
"""Whose points stand in where a run has none of an experiment: the self-test is a scaling at four short lengths."""


def shown_run(spec: runs.JobSpec) -> runs.Run | None:
    """The newest run of this machine that holds points of a job's experiment, a suite's among them.

    Args:
        spec: the job; a run of its shape and number type comes before a newer one of another, and one that
            finished before a newer one that did not, if it holds all that the newer one has.
    """
    held = kept_runs(spec)
    held.sort(key=lambda run: not _is_alike(run, spec))  # else newest first
    return whole_run(held[0], held, spec) if held else None


def kept_runs(spec: runs.JobSpec) -> list[runs.Run]:
    """The runs of this machine that hold points of a job's experiment, the newest first."""
    kind = here.kind(spec.device)
    return [
        run
        for run in calibrations.kept()
        if points_of(run, spec.experiment) and calibrations.here_kind(run) == kind
    ]


def whole_run(run: runs.Run, held: list[runs.Run], spec: runs.JobSpec) -> runs.Run:
    """The newest finished run that holds everything a run has of an experiment; else that run itself."""
    cells = _cells(run, spec)
    finished = (other for other in held if other.status == "finished" and _same_model(other, spec))
    return next((other for other in finished if cells <= _cells(other, spec)), run)


def _cells(run: runs.Run, spec: runs.JobSpec) -> set[tuple[object, ...]]:
    return {point.key for point in points_of(run, spec.experiment)}


def _is_alike(run: runs.Run, spec: runs.JobSpec) -> bool:
    """Whether a run holds points of a job's shape and number type."""
    own = points_of(run, spec.experiment)
    return _same_model(run, spec) and any(_same_shape(point, spec) for point in own)


def points_of(run: runs.Run, experiment: str) -> list[runs.Point]:
    """The points of an experiment, or of what counts as it; of a suite's run, all of them."""
    if experiment in SUITES:
        return list(run.points) if run.spec.experiment == experiment else []
    own = [point for point in run.points if point.experiment == experiment]
    return own or [point for point in run.points if point.experiment == ALSO.get(experiment)]


def _same_model(run: runs.Run, spec: runs.JobSpec) -> bool:
    return run.spec.model == spec.model or spec.experiment not in COUNTED


def _same_shape(point: runs.Point, spec: runs.JobSpec) -> bool:
    names = ("heads", "kv_heads", "head_dim")
    same = all(getattr(point, name) == getattr(spec, name) for name in names)
    return same and point.batch in spec.batches and spec.dtype in (point.dtype, "auto")
