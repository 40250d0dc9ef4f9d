"""What a quantised cache costs in accuracy: one decode step over K and V stored in 8 or 4 bits.

The implementation reads the stored cache back and attends. It is held to float64 attention over the numbers
read back, which says that it computes attention; the error that quantising brought is counted against the
original numbers, with the bytes it saved. Keys with outlier channels are where one scale a token fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from torch import Tensor

from lab.cost.calls import AttentionCall
from lab.measure.accuracy import Truth, check, truth
from lab.measure.attention_cases import draw, named
from lab.measure.case import Case, Plan
from lab.measure.cases import CaseExperiment
from lab.measure.cells import Inputs
from lab.measure.distributions import OUTLIERS, RANDOM, shaped
from lab.measure.experiments.accuracy import errors
from lab.measure.job import Job
from lab.measure.memory import Need, guard
from lab.measure.quantised import BLOCK, KINDS, Stored, store


class KvInt8(CaseExperiment):
    """Error, bytes, time and peak memory of one decode step over quantised caches."""

    name: ClassVar[str] = "kv_int8"

    def shape(self, job: Job, batch: int, length: int) -> AttentionCall:
        """Make one shape: a single query against `length` keys."""
        return job.call(batch=batch, q_len=1, kv_len=length)

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List a group for each shape and kind of keys: the cache as it is, and in each storage type."""
        return [
            [Plan("sdpa", call, kind), *(Plan("quantised", call, f"{stored}, {kind}") for stored in KINDS)]
            for call in self.calls(job)
            for kind in (RANDOM, OUTLIERS)
        ]

    def need(self, job: Job, plan: Plan, part: str) -> Need:
        """Count the original cache, the stored one and the one read back."""
        return guard("sdpa", replace(plan.call, batch=3 * plan.call.batch), job.device)

    def refusal(self, job: Job, plan: Plan) -> str | None:
        """Refuse a head that is not a whole number of blocks."""
        stored = str(plan.variant).partition(",")[0]
        if stored in ("q8_0", "q4_0") and plan.call.head_dim % BLOCK:
            return f"{stored} has blocks of {BLOCK} numbers; head_dim {plan.call.head_dim} is no multiple"
        return None

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Draw a cache and store it in every type."""
        kind = str(plans[0].variant).rpartition(", ")[2]
        inputs = shaped(draw(job, plans[0].call)[0], kind)
        original = truth(*inputs, causal=False)
        return [self._case(plan, inputs, original) for plan in plans]

    def _case(self, plan: Plan, inputs: Inputs, original: Truth) -> Case:
        q, k, v = inputs
        if plan.implementation == "sdpa":
            function = named("sdpa", False)
            held = {"cache_bytes": float(k.nbytes + v.nbytes)}
            seen = partial(errors, original)
            judged = partial(check, expected=original)
            return Case(plan, lambda: function(q, k, v), judged, inputs, held, inspect=seen)
        stored = str(plan.variant).partition(",")[0]
        keys, values = store(k, stored), store(v, stored)
        own = truth(q, keys.read(), values.read(), causal=False)
        return Case(
            plan,
            partial(attend, q, keys, values),
            partial(check, expected=own),
            (q, keys.codes, keys.scales, values.codes, values.scales),
            {"cache_bytes": float(keys.nbytes + values.nbytes)},
            inspect=partial(errors, original),
        )


def attend(q: Tensor, keys: Stored, values: Stored) -> Tensor:
    """Read a stored cache back and attend to it.

    Args:
        q: (batch, heads, 1, head_dim).
        keys: (batch, kv_heads, kv_len, head_dim), stored.
        values: the same.

    Returns:
        (batch, heads, 1, head_dim).
    """
    return named("sdpa", False)(q, keys.read(), values.read())
