"""Does splitting the cache along T help a lone sequence? The chapter's untested hypothesis, its exercise 4.

One decode step of batch 1 offers a kernel heads x batch pieces of work. The same step is computed whole, and
in 2, 4 and 8 parts merged by their log-sum-exp: by plain matmuls, by PyTorch's fused kernel with the parts as
heads of their own, and compiled where there is a compiler. Each way also computes one part, the control: what
compiling alone brings is no gain of splitting. Inputs rotate, so that no cache holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from lab.cost.calls import AttentionCall
from lab.measure.accuracy import truth
from lab.measure.attention_cases import Attention, attention_case, draw, named
from lab.measure.case import Case, Plan
from lab.measure.cases import CaseExperiment
from lab.measure.compiling import compiled
from lab.measure.job import Job
from lab.measure.split_kv import split_kv, split_kv_fused

MATMUL, FUSED, COMPILED = "matmul", "fused kernel", "compiled"
PARTS = {MATMUL: (1, 2, 4, 8), FUSED: (1, 2, 4, 8), COMPILED: (1, 4)}
"""Parts by how they are computed; one part is the control, by the same code without a split."""


class SplitKv(CaseExperiment):
    """Time and peak memory of one decode step, whole and split."""

    name: ClassVar[str] = "split_kv"
    cold_cache: ClassVar[bool] = True

    def shape(self, job: Job, batch: int, length: int) -> AttentionCall:
        """Make one shape: a single query against `length` keys."""
        return job.call(batch=batch, q_len=1, kv_len=length)

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List a group for each shape: the whole cache, then its parts; compiling takes too long to be quick."""
        whole = job.spec.implementations or ("naive", "sdpa")
        ways = [how for how in PARTS if how != COMPILED or not job.spec.quick]
        split = [f"{count} part{'s' * (count > 1)}, {how}" for how in ways for count in PARTS[how]]
        return [
            [*(Plan(name, call) for name in whole), *(Plan("split_kv", call, way) for way in split)]
            for call in self.calls(job)
        ]

    def refusal(self, job: Job, plan: Plan) -> str | None:
        """Refuse parts that are not equal: the fused kernel takes them as heads of one call."""
        if plan.variant and plan.call.kv_len % _parts(plan):
            return f"{plan.call.kv_len} keys cannot be cut into {_parts(plan)} equal parts"
        return None

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Draw the caches of a shape."""
        call = plans[0].call
        inputs = draw(job, call, cold=True)
        expected = truth(*inputs[0], causal=False, seed=job.spec.seed)
        read = sum(tensor.nbytes for tensor in inputs[0][1:])
        cases = []
        for plan in plans:
            pieces = call.batch * call.kv_heads * (_parts(plan) if plan.variant else 1)
            figures = {"work_items": float(pieces), "cache_bytes": float(read)}
            cases.append(attention_case(plan, _function(plan), inputs, expected, measures=figures))
        return cases


def _parts(plan: Plan) -> int:
    return int(str(plan.variant).split()[0])


def _function(plan: Plan) -> Attention:
    """Give what computes a plan."""
    if not plan.variant:
        return named(plan.implementation, False)
    how = plan.variant.rpartition(", ")[2]
    if how == FUSED:
        return partial(split_kv_fused, causal=False, splits=_parts(plan))
    function: Any = partial(split_kv, causal=False, splits=_parts(plan))
    return compiled(function) if how == COMPILED else function
