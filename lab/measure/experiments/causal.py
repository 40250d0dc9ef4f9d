"""What the causal mask saves or costs: causal against full attention, by implementation and length.

A causal mask hides half of the pairs. Implementations that materialise the scores compute them all and pay
for the mask on top; a fused kernel skips whole tiles above the diagonal, so what it saves follows from its
tiles. Both masks of every implementation are timed against each other in the same rounds, so that their ratio
is a paired one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from lab.cost.calls import AttentionCall
from lab.cost.tiles import Tile, causal_share, cpu_tile, cuda_tile
from lab.measure.accuracy import truth
from lab.measure.attention_cases import attention_case, draw, named
from lab.measure.case import Case, Plan
from lab.measure.cases import CaseExperiment
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.job import Job
from lab.measure.memory import predicted_peak


class Causal(CaseExperiment):
    """Time and peak memory of each implementation, causal and full."""

    name: ClassVar[str] = "causal"

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List a group for each shape: every implementation with both masks."""
        return [
            [Plan(name, replace(call, causal=mask)) for name in job.implementations for mask in (True, False)]
            for call in self.calls(job)
        ]

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Draw the inputs of a shape; the truth is computed once a mask."""
        inputs = draw(job, plans[0].call)
        masks = {plan.call.causal for plan in plans}
        truths = {mask: truth(*inputs[0], causal=mask, seed=job.spec.seed) for mask in masks}
        return [
            attention_case(
                plan,
                named(plan.implementation, plan.call.causal),
                inputs,
                truths[plan.call.causal],
                measures=tile_ratio(job, plan),
                predicted_peak_bytes=predicted_peak(plan.implementation, plan.call),
            )
            for plan in plans
        ]


def tile_ratio(job: Job, plan: Plan) -> dict[str, float]:
    """Predict the causal time over the full one of a fused kernel from the tiles it must compute.

    Args:
        job: the device.
        plan: the case.

    Returns:
        "predicted_causal_over_full", of a causal case whose kernel's tiles are known; else nothing.
    """
    if not plan.call.causal or IMPLEMENTATIONS[plan.implementation].role != "fused":
        return {}
    known = tile_and_slots(job, plan.implementation, plan.call)
    if known is None:
        return {}
    call = plan.call
    share = causal_share(call.batch * call.heads, call.q_len, call.kv_len, *known, job.device.kind)
    return {"predicted_causal_over_full": share}


def tile_and_slots(job: Job, implementation: str, call: AttentionCall) -> tuple[Tile, int] | None:
    """Give the tile of a fused kernel and how many run at a time, or None where the tiles are not known.

    Args:
        job: the device.
        implementation: a fused kernel.
        call: the shape.

    Returns:
        The tile, and the threads of a CPU or the multiprocessors of a card.
    """
    if job.device.kind == "cpu":
        return cpu_tile(call.q_len, call.kv_len), job.threads
    identity = job.device.identity()
    capability = identity.get("compute_capability")  # of NVIDIA's cards; other makers' tiles are not known
    if implementation not in ("flash", "efficient") or capability is None:
        return None
    return cuda_tile(implementation, call.head_dim, str(capability)), int(identity["multiprocessors"])
