"""What a run says, in sentences computed from its points: one file a group of experiments. No torch.

A reading is never stored: it is computed from the points of the run, so a run of another day or machine is read by
the same rules. A sentence that no points support is not said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.runs.point import Point
from lab.runs.readings import chapter_memory, chapter_times, decode, kernels, masks, whole
from lab.runs.readings.published import published
from lab.runs.readings.sides import kind_of
from lab.runs.reference import reference_runs
from lab.runs.run import Run

Reader = Callable[[Sequence[Point]], list[str]]

READERS: dict[str, Reader] = {
    "backends": kernels.backends,
    "memory": kernels.memory,
    "accuracy": kernels.accuracy,
    "first_call": kernels.first_call,
    "causal": masks.causal,
    "mask": masks.mask,
    "windowed": masks.windowed,
    "decode": decode.decode,
    "split_kv": decode.split_kv,
    "gqa": decode.gqa,
    "kv_int8": decode.kv_int8,
    "training": whole.training,
    "model": whole.model,
    "flops": whole.flops,
}
"""Who reads the points of each experiment."""

OF_DEVICE: dict[str, Callable[[Sequence[Point], str], list[str]]] = {"scaling": masks.scaling}
"""Who reads those of the experiments whose sentences depend on the kind of device as well."""

BESIDE_CHAPTER: dict[str, Callable[[Run, Run], list[str]]] = {
    "memory": chapter_memory.memory,
    "model": chapter_memory.model,
    "scaling": chapter_times.scaling,
    "causal": chapter_times.causal,
}
"""Who holds a run of each experiment against the chapter's, and opens the difference into terms."""


def reading(run: Run) -> dict[str, list[str]]:
    """Read a run.

    Args:
        run: any run.

    Returns:
        Sentences by experiment, in the order of the points; experiments that say nothing are left out.
    """
    if run.title is not None:
        said = published(run.points)
        return {run.points[0].experiment: said} if said else {}
    found = {}
    for experiment in dict.fromkeys(point.experiment for point in run.points):
        points = [point for point in run.points if point.experiment == experiment]
        said = read_points(experiment, points, kind_of(run))
        if experiment in BESIDE_CHAPTER and run.recorded_on is None:
            said += BESIDE_CHAPTER[experiment](run, reference_runs()[0])
        if said:
            found[experiment] = said
    return found


def read_points(experiment: str, points: Sequence[Point], kind: str) -> list[str]:
    """Read points of one experiment.

    Args:
        experiment: that all of them belong to.
        points: of one run.
        kind: of its device, "cpu" or "cuda".

    Returns:
        Sentences; none of an experiment that nobody reads.
    """
    if experiment in OF_DEVICE:
        return OF_DEVICE[experiment](points, kind)
    return READERS[experiment](points) if experiment in READERS else []
