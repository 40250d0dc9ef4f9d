"""Cases of one attention call: the inputs of a group, drawn once, and the float64 truth they are held to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from lab.cost.calls import AttentionCall
from lab.measure.accuracy import Truth, check
from lab.measure.case import Case, Plan
from lab.measure.cells import Inputs, copies_for_cold_cache, draw_inputs, watched
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.job import Job

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def draw(job: Job, call: AttentionCall, *, cold: bool = False) -> list[Inputs]:
    """Draw Q, K and V of a shape in its own dtype.

    Args:
        job: device and seed.
        call: the shape and the dtype.
        cold: whether to give so many sets of the same values that no cache holds them all, where the job
            does not say.

    Returns:
        The sets.
    """
    typed = replace(job, dtype=call.dtype)
    return draw_inputs(typed, call, copies_for_cold_cache(typed, call) if job.cold_cache(cold) else 1)


def attention_case(
    plan: Plan, function: Attention, inputs: Sequence[Inputs], expected: Truth, **more: Any
) -> Case:
    """Make a case that calls a function of Q, K and V.

    Args:
        plan: what it is.
        function: attention with everything but Q, K and V settled.
        inputs: sets of the same values, used in turn.
        expected: what it must give.
        more: further fields of the case.

    Returns:
        The case.
    """
    turns = itertools.cycle(inputs)
    held = sum(tensor.nbytes for each in inputs for tensor in each)
    more = {"input_bytes": held, **more}
    return Case(
        plan,
        lambda: function(*next(turns)),
        lambda output: check(output, expected),
        watched(inputs),
        late=lambda: function(*inputs[0]),
        **more,
    )


def named(name: str, causal: bool) -> Attention:
    """Give an implementation as a function of Q, K and V alone.

    Args:
        name: of `IMPLEMENTATIONS`.
        causal: whether it masks.

    Returns:
        The function.
    """
    function = IMPLEMENTATIONS[name].function
    return lambda q, k, v: function(q, k, v, causal=causal)
