"""The cross-check of the clock: the same calls timed by independent tools, in the same process.

A part of the measuring child. PyTorch's own timer runs everywhere, with as many threads as ours and the same
heap; Triton's, where it is installed, on a CUDA card. Ours and theirs take turns, so that a slow minute of the
machine falls on both.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable, Sequence

from torch.utils.benchmark import Timer

from lab.measure.cells import Cell
from lab.measure.device import Call
from lab.measure.events import Events
from lab.measure.experiments.scaling import Scaling
from lab.measure.gate import Gate, gate_for
from lab.measure.job import Job
from lab.measure.null_ab import checked
from lab.measure.protocol import time_variants
from lab.measure.samples import Samples
from lab.runs.clocks import TORCH_TIMER, TRITON_TIMER, TwoClocks

SHORTEST_S = 0.4  # of PyTorch's timer, at least
BLOCKS = 10  # at least, of PyTorch's timer
LONGEST_S = 10.0

Tool = Callable[[Job, Call, Samples], float]


def cross_check_part(job: Job, events: Events) -> None:
    """Time every cell by our protocol and by the other tools, as often as the job has repeats.

    Args:
        job: device, lengths, implementations, rounds and repeats.
        events: where pairs of times are told.
    """
    scaling = Scaling()
    protocol = scaling.protocol(job.spec)
    gate = gate_for(job.device.kind, job.threads)
    events.plan(0)
    for call in scaling.calls(job):
        for cell in checked(job, call, events):
            for number in range(job.spec.repeats):
                here = f"{cell.implementation} at T = {call.kv_len:,}"
                events.progress(f"{here}: pass {number + 1} of {job.spec.repeats}")
                ours = time_variants(job.device, {"ours": cell.run}, protocol, gate)["ours"]
                for name, tool in tools(job).items():
                    pair = read(job, cell, gate, ours, name, tool)
                    events.pass_on({"event": "clocks", "clocks": pair.to_dict()})


def read(job: Job, cell: Cell, gate: Gate, ours: Samples, name: str, tool: Tool) -> TwoClocks:
    """Time a cell by another tool, beside what our protocol has just read.

    Args:
        job: where it runs.
        cell: what is called.
        gate: what tells a busy machine.
        ours: the samples of our protocol.
        name: of the tool.
        tool: gives its seconds per call.

    Returns:
        Both times.
    """
    ours_s = ours.timing().median_s
    gate.start()
    theirs_s = tool(job, cell.run, ours)
    busy = gate.busy(f"{name} {cell.implementation} {cell.call.kv_len}")
    return TwoClocks(
        implementation=cell.implementation,
        kv_len=cell.call.kv_len,
        tool=name,
        ours_s=ours_s,
        theirs_s=theirs_s,
        clean=ours.noise is None and not busy,
    )


def tools(job: Job) -> dict[str, Tool]:
    """Give the tools that can time calls on a device, by name.

    Args:
        job: the device.
    """
    found: dict[str, Tool] = {TORCH_TIMER: torch_timer}
    if job.device.kind == "cuda" and importlib.util.find_spec("triton") is not None:
        found[TRITON_TIMER] = triton_timer
    return found


def torch_timer(job: Job, call: Call, ours: Samples) -> float:
    """Time a call by torch.utils.benchmark, with our number of threads instead of its default of one.

    Its blocks are short, often of one call, so that their median leaves out every slow call, and ours, a median
    of longer blocks, does not. Its times are therefore averaged over as many calls as a block of ours has
    before their median is taken: two clocks are compared, not two statistics.

    Args:
        job: threads.
        call: what to time; the timer waits for a card itself.
        ours: our samples: how long a call takes, and how many make a block.

    Returns:
        The median, in seconds per call.
    """
    timer = Timer(stmt="call()", globals={"call": call}, num_threads=job.threads)
    lasting_s = min(LONGEST_S, max(SHORTEST_S, BLOCKS * ours.timing().median_s))
    found = timer.blocked_autorange(min_run_time=lasting_s)
    return statistics.median(averages(found.times, max(1, round(ours.calls / found.number_per_run))))


def averages(times: Sequence[float], size: int) -> list[float]:
    """Average times that follow each other.

    Args:
        times: at least one.
        size: how many make a group; a last group that is not full is left out, unless it is the only one.

    Returns:
        One average a group.
    """
    groups = [times[i : i + size] for i in range(0, max(1, len(times) - size + 1), size)]
    return [statistics.fmean(group) for group in groups]


def triton_timer(job: Job, call: Call, ours: Samples) -> float:
    """Time a call by triton.testing.do_bench, which empties the card's cache before each call.

    Args:
        job: unused: it knows the device by the call.
        call: what to time.
        ours: unused: it finds its number of calls itself.

    Returns:
        The median, in seconds per call.
    """
    testing = importlib.import_module("triton.testing")
    return float(testing.do_bench(call, return_mode="median")) / 1000
