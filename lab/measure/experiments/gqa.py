"""Grouped-query attention: fewer KV heads for the same query heads, in decode and in prefill.

Decode reads the cache and little else, so a quarter of the KV heads should take about a quarter of the time;
prefill does the same work for every query head and should not change. Whether a kernel takes grouped heads or
copies K and V for every query head shows in its peak memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from lab.cost.calls import AttentionCall
from lab.cost.formulas import kv_bytes
from lab.measure.accuracy import truth
from lab.measure.attention_cases import attention_case, draw, named
from lab.measure.case import Case, Plan
from lab.measure.cases import CaseExperiment
from lab.measure.job import Job
from lab.measure.memory import predicted_peak
from lab.runs.variants import groupings

NAMES = ("naive", "sdpa")
LONGEST_PREFILL = 1024


class Gqa(CaseExperiment):
    """Time and peak memory by number of KV heads."""

    name: ClassVar[str] = "gqa"
    cold_cache: ClassVar[bool] = True

    def shape(self, job: Job, batch: int, length: int) -> AttentionCall:
        """Make one shape: a single query against `length` keys."""
        return job.call(batch=batch, q_len=1, kv_len=length)

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List a group for each shape: decode, and prefill at a length it can pay for."""
        names = job.spec.implementations or NAMES
        groups = [
            [
                Plan(name, replace(call, kv_heads=kv), "decode")
                for name in names
                for kv in groupings(call.heads)
            ]
            for call in self.calls(job)
        ]
        length = min(LONGEST_PREFILL, *job.spec.lengths, LONGEST_PREFILL)
        call = job.call(batch=1, q_len=length, kv_len=length)
        prefill = [
            Plan(name, replace(call, kv_heads=kv), "prefill")
            for name in names
            for kv in groupings(call.heads)
        ]
        return [prefill, *groups]

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Draw inputs for each number of KV heads."""
        cases = []
        drawn = {}
        for plan in plans:
            call = plan.call
            if call.kv_heads not in drawn:
                inputs = draw(job, call, cold=call.q_len == 1)
                drawn[call.kv_heads] = inputs, truth(*inputs[0], causal=call.causal, seed=job.spec.seed)
            inputs, expected = drawn[call.kv_heads]
            held = kv_bytes(call.batch, 1, call.kv_heads, call.kv_len, call.head_dim, call.element)
            cases.append(
                attention_case(
                    plan,
                    named(plan.implementation, call.causal),
                    inputs,
                    expected,
                    measures={"cache_bytes": float(held)},
                    predicted_peak_bytes=predicted_peak(plan.implementation, call),
                )
            )
        return cases
