"""What changes in training: the backward pass, and what the forward pass must keep for it.

Naive attention keeps its probabilities and goes back through every T x T tensor; a fused kernel keeps the
output and a log-sum-exp a row, and computes the scores again. Forward and backward together are timed against
the forward pass alone; outputs and gradients are held to float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch

from lab.cost.formulas import attention_flops
from lab.measure.attention_cases import draw, named
from lab.measure.case import Case, Plan
from lab.measure.cases import CaseExperiment
from lab.measure.events import Events
from lab.measure.gradients import Step, forward, forward_and_backward, judge, true_gradients
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.job import Job
from lab.measure.memory import Need, guard

FORWARD, BOTH = "forward", "forward and backward"
LONGEST = 4096
KEPT = 3
"""Tensors alive in a naive backward pass for each that a forward pass holds at its peak."""
BACKWARD_MATMULS = {"fused": 5, "naive": 4, "math": 4}
"""Products of a backward pass, where a forward pass has 2: a fused one computes QKᵀ again."""


class Training(CaseExperiment):
    """Time and peak memory of a forward pass that keeps its tensors, and of both passes."""

    name: ClassVar[str] = "training"

    def run(self, job: Job, part: str, events: Events) -> None:
        """Run one part with gradients: a worker is in inference mode otherwise."""
        with torch.inference_mode(False), torch.enable_grad():
            super().run(job, part, events)

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List a group for each shape."""
        return [
            [Plan(name, call, what) for name in job.implementations for what in (FORWARD, BOTH)]
            for call in self.calls(job)
        ]

    def refusal(self, job: Job, plan: Plan) -> str | None:
        """Refuse lengths whose gradients are too much to compute in float64."""
        if plan.call.kv_len <= LONGEST:
            return None
        return f"gradients are checked in float64 up to T = {LONGEST:,}; T = {plan.call.kv_len:,} is not"

    def need(self, job: Job, plan: Plan, part: str) -> Need:
        """Count what a backward pass holds beside a forward one."""
        wide = replace(plan.call, batch=KEPT * plan.call.batch)
        return guard(plan.implementation, wide, job.device, warm_heap=part == "time" and job.warm_heap)

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Draw the inputs of a shape; output and gradients are computed in float64."""
        call = plans[0].call
        q, k, v = (tensor.requires_grad_() for tensor in draw(job, call)[0])
        generator = torch.Generator(device=q.device).manual_seed(job.spec.seed + 1)
        upstream = torch.randn(q.shape, generator=generator, dtype=q.dtype, device=q.device)
        step = Step(q, k, v, upstream)
        expected = true_gradients(step, call.causal)
        cases = []
        for plan in plans:
            passes = forward_and_backward if plan.variant == BOTH else forward
            run = partial(passes, named(plan.implementation, call.causal), step)
            cases.append(Case(plan, run, partial(judge, expected), (q, k, v, upstream), matmul_flops(plan)))
        return cases


def matmul_flops(plan: Plan) -> dict[str, float]:
    """Count the matmul FLOPs that a case needs by the mask's pairs.

    Args:
        plan: the case.

    Returns:
        "matmul_flops".
    """
    call = plan.call
    role = IMPLEMENTATIONS[plan.implementation].role
    causal = call.causal and role == "fused"  # the others compute every pair, then hide half
    flops = attention_flops(call.batch, call.heads, call.q_len, call.kv_len, call.head_dim, causal)
    products = 2 + (BACKWARD_MATMULS[role] if plan.variant == BOTH else 0)
    return {"matmul_flops": float(flops) * products / 2}
