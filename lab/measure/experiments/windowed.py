"""Sliding windows: work of T x window where blocks are skipped, of T x T where a mask hides the same keys.

Three ways to the same kind of answer, timed against each other: full causal attention, a window computed
block by block, and the same window as a T x T mask over one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from lab.cost.formulas import attention_pairs
from lab.measure.accuracy import truth
from lab.measure.attention_cases import attention_case, draw, named
from lab.measure.case import Case, Plan
from lab.measure.cases import CaseExperiment
from lab.measure.job import Job
from lab.measure.windowed import masked_window, windowed
from lab.runs.variants import WINDOWS


class Windowed(CaseExperiment):
    """Time and peak memory of causal attention in full and in windows."""

    name: ClassVar[str] = "windowed"

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List a group for each length: full, and the windows that are shorter."""
        groups = []
        for call in self.calls(job):
            plans = [Plan("sdpa", call)]
            for window in WINDOWS:
                if window < call.kv_len:
                    plans.append(Plan("windowed", call, f"window {window}"))
                    plans.append(Plan("sdpa", call, f"window {window} as a T x T mask"))
            groups.append(plans)
        return groups

    def refusal(self, job: Job, plan: Plan) -> str | None:
        """Refuse windows without a causal mask."""
        return None if plan.call.causal else "a sliding window is causal; measure it without --full"

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Draw the inputs; the truth is computed once a window."""
        call = plans[0].call
        inputs = draw(job, call)
        spans = {plan: _window(plan) for plan in plans}
        truths = {
            span: truth(*inputs[0], causal=True, seed=job.spec.seed, window=span)
            for span in set(spans.values())
        }
        cases = []
        for plan, span in spans.items():
            function = named("sdpa", True)
            if span is not None:
                function = (
                    partial(windowed, causal=True, window=span)
                    if plan.implementation == "windowed"
                    else partial(masked_window, window=span)
                )
            pairs = call.batch * call.heads * attention_pairs(call.q_len, call.kv_len, True, span)
            seen = {"pairs_needed": float(pairs)}
            cases.append(attention_case(plan, function, inputs, truths[span], measures=seen))
        return cases


def _window(plan: Plan) -> int | None:
    """Read the window of a variant; None for full attention."""
    return int(plan.variant.split()[1]) if plan.variant else None
