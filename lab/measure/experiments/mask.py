"""Explicit masks: does one keep the fast kernel (exercise 5), and what does masking cost (exercise 3)?

The same causal attention is asked for by `is_causal`, by a boolean mask and by a mask of floats to add, once
by PyTorch's default dispatch and once with a backend demanded. The masks are made before the call, as a model
makes them once for all its layers. Beside them naive attention, with its mask on every row and on fewer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.attention import sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from lab.cost.limits import kernel_limit
from lab.measure.accuracy import Truth, check, truth
from lab.measure.attention import BACKENDS, naive_attention, visible_keys
from lab.measure.attention_cases import Attention, attention_case, draw, named
from lab.measure.case import Case, Plan
from lab.measure.cases import CaseExperiment
from lab.measure.cells import Inputs
from lab.measure.job import Job
from lab.measure.row_skipping import BLOCK, masked_on_diagonal, opened_rows, unmasked_first_rows

IS_CAUSAL, BOOLEAN, FLOAT = "is_causal", "boolean mask", "float mask"
EVERY_ROW, DIAGONAL = "mask on every row", "mask on the diagonal blocks"
LITERAL = "first row of each block unmasked"
ON_CPU = ("sdpa", "math", "flash")
ON_ACCELERATOR = ("sdpa", "math", "flash", "efficient", "cudnn")


class Mask(CaseExperiment):
    """Time, kernel and peak memory of causal attention by three kinds of mask, and of three naive ones."""

    name: ClassVar[str] = "mask"

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List a group for each length."""
        names = job.spec.implementations or (ON_CPU if job.device.kind == "cpu" else ON_ACCELERATOR)
        groups = []
        for call in self.calls(job):
            plans = [
                Plan(name, call, kind)
                for name in names
                if name in (*BACKENDS, "sdpa")
                for kind in (IS_CAUSAL, BOOLEAN, FLOAT)
            ]
            if not job.spec.implementations or "naive" in names:
                plans += [Plan("naive", call, kind) for kind in (EVERY_ROW, DIAGONAL, LITERAL)]
            groups.append(plans)
        return groups

    def refusal(self, job: Job, plan: Plan) -> str | None:
        """Refuse a call without a causal mask, and masks past what the efficient kernel holds."""
        if not plan.call.causal:
            return "this experiment is about the causal mask; measure it without --full"
        limit = kernel_limit(
            plan.implementation,
            heads=plan.call.heads,
            q_len=plan.call.q_len,
            kv_len=plan.call.kv_len,
            causal=True,
            bias=plan.variant in (BOOLEAN, FLOAT),
            device=job.device.kind,
        )
        return None if limit is None else limit.reason

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Draw the inputs and make the masks of a length."""
        inputs = draw(job, plans[0].call)
        q, k, _ = inputs[0]
        seen = visible_keys(q.shape[2], k.shape[2], q.device)
        added = torch.zeros(seen.shape, dtype=q.dtype, device=q.device).masked_fill_(~seen, -math.inf)
        masks = {BOOLEAN: seen, FLOAT: added}
        expected = truth(*inputs[0], causal=True, seed=job.spec.seed)
        return [self._case(plan, inputs, masks, expected) for plan in plans]

    def _case(self, plan: Plan, inputs: list[Inputs], masks: dict[str, Tensor], expected: Truth) -> Case:
        if plan.variant == LITERAL:
            return literal_case(plan, inputs, expected)
        figures = {}
        function: Attention = naive_causal if plan.variant == EVERY_ROW else masked_on_diagonal
        if plan.variant == IS_CAUSAL:
            function = named(plan.implementation, True)
        elif plan.variant in masks:
            mask = masks[plan.variant]
            function = partial(with_mask, backend=plan.implementation, mask=mask)
            figures = {"mask_bytes": float(mask.nbytes)}
        return attention_case(plan, function, inputs, expected, measures=figures)


def naive_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute naive attention, causal.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim).
        v: (batch, kv_heads, kv_len, head_dim).

    Returns:
        (batch, heads, q_len, head_dim).
    """
    return naive_attention(q, k, v, causal=True)


def with_mask(q: Tensor, k: Tensor, v: Tensor, *, backend: str, mask: Tensor) -> Tensor:
    """Call PyTorch's attention with an explicit mask.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim).
        v: (batch, kv_heads, kv_len, head_dim).
        backend: of `BACKENDS`, or "sdpa" for the default dispatch.
        mask: (q_len, kv_len), of bool (True is seen) or of the inputs' dtype (added to the scores).

    Returns:
        (batch, heads, q_len, head_dim).
    """
    grouped = q.shape[1] != k.shape[1]
    if backend == "sdpa":
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)
    with sdpa_kernel(BACKENDS[backend]):
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)


def literal_case(plan: Plan, inputs: list[Inputs], expected: Truth) -> Case:
    """Make the case of exercise 3 taken literally, held to its own float64 result, the harm told beside.

    Args:
        plan: what it is.
        inputs: one set.
        expected: causal attention.

    Returns:
        The case.
    """
    q, k, v = (tensor.cpu().double() for tensor in inputs[0])
    rows = torch.arange(q.shape[2]) if expected.rows is None else expected.rows
    mask = opened_rows(q.shape[2], k.shape[2], q.device)[rows]
    own = scaled_dot_product_attention(
        q[:, :, rows], k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1]
    )
    harm = float((own - expected.values.cpu()).abs().max())
    opened = len(range(0, q.shape[2], BLOCK))
    said = (
        f"another function than causal attention: {opened} of {q.shape[2]} rows see every key, which differs "
        f"by up to {harm:.2g}"
    )
    own_truth = Truth(expected.rows, own.to(expected.values.device), expected.kv_len, expected.form)
    figures = {"error_against_causal": harm}
    return Case(
        plan,
        lambda: unmasked_first_rows(*inputs[0]),
        lambda output: check(output, own_truth),
        inputs[0],
        figures,
        (said,),
    )
