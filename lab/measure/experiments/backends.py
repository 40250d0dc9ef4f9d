"""Which backend of PyTorch runs, and which refuses, in PyTorch's own words: by dtype, mask, width and heads.

One property of a plain causal call is changed at a time. Every backend is demanded in turn, then PyTorch is
left to choose; FlexAttention is compiled where there is a compiler. Some inputs make the choice fall back to
the slow backend without a word: they are measured too. Nothing is timed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lab.cost.calls import AttentionCall
from lab.measure.accuracy import truth
from lab.measure.attention import visible_keys
from lab.measure.attention_cases import Attention, attention_case, draw, named
from lab.measure.case import Case, Plan
from lab.measure.cases import CaseExperiment
from lab.measure.experiments.mask import BOOLEAN, FLOAT, with_mask
from lab.measure.job import Job

PLAIN = "causal"
FORCED = ("math", "flash", "efficient", "cudnn", "sdpa")
HEAD_DIMS = (8, 65, 128, 256, 512)
THREE_D, STRIDED = "3-D inputs", "K strided in its last dimension"
GROUP = 4
COMPILED = (PLAIN, f"{GROUP} query heads a KV head")


class Backends(CaseExperiment):
    """Kernel, reason, error and peak memory of each backend, by kind of call."""

    name: ClassVar[str] = "backends"
    parts: ClassVar[tuple[str, ...]] = ("memory",)

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List a group for each kind of call."""
        names = job.spec.implementations or (*FORCED, "flex")
        groups = []
        for call in self.calls(job):
            for variant, changed in kinds(job, call).items():
                silent = variant in (THREE_D, STRIDED)
                tried = ["sdpa"] if silent else [name for name in names if name != "flex"]
                if "flex" in names and variant in COMPILED[: 1 if job.spec.quick else None]:
                    tried.append("flex")
                groups.append([Plan(name, changed, variant) for name in tried])
        return groups

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Draw the inputs of a kind of call."""
        call = plans[0].call
        inputs = draw(job, call)
        expected = truth(*inputs[0], causal=call.causal, seed=job.spec.seed)
        return [attention_case(plan, function_of(plan), inputs, expected) for plan in plans]


def kinds(job: Job, call: AttentionCall) -> dict[str, AttentionCall]:
    """List the kinds of call: a plain causal one, and those that differ from it in one property.

    Args:
        job: dtypes of the device.
        call: the shape.

    Returns:
        The calls, by what is special about them.
    """
    plain = replace(call, causal=True, q_len=call.kv_len, kv_heads=call.heads)
    found = {PLAIN: plain, "full": replace(plain, causal=False), BOOLEAN: plain, FLOAT: plain}
    for dtype in job.device.dtypes():
        if dtype != plain.dtype:
            found[dtype] = replace(plain, dtype=dtype)
    for head_dim in HEAD_DIMS:
        if head_dim != plain.head_dim:
            found[f"head_dim {head_dim}"] = replace(plain, head_dim=head_dim)
    if call.heads % GROUP == 0:
        found[COMPILED[1]] = replace(plain, kv_heads=call.heads // GROUP)
    if call.kv_len > 1:
        found["half as many queries"] = replace(plain, q_len=call.kv_len // 2)
        found["one query"] = replace(plain, q_len=1)
    return found | {THREE_D: replace(plain, batch=1), STRIDED: plain}


def function_of(plan: Plan) -> Attention:
    """Give what computes a plan.

    Args:
        plan: a backend and a kind of call.

    Returns:
        A function of Q, K and V.
    """
    if plan.variant in (BOOLEAN, FLOAT):
        return partial(_masked, plan.implementation, plan.variant)
    if plan.variant == THREE_D:
        return three_dimensional
    if plan.variant == STRIDED:
        return strided
    return named(plan.implementation, plan.call.causal)


def _masked(backend: str, kind: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = visible_keys(q.shape[2], k.shape[2], q.device)
    if kind == FLOAT:
        mask = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill_(~mask, -math.inf)
    return with_mask(q, k, v, backend=backend, mask=mask)


def three_dimensional(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute causal attention of one sequence without its batch dimension.

    Args:
        q: (1, heads, q_len, head_dim), and so are k and v.
        k: as q.
        v: as q.

    Returns:
        (1, heads, q_len, head_dim).
    """
    return scaled_dot_product_attention(q[0], k[0], v[0], is_causal=True)[None]


def strided(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute causal attention over keys that are stored transposed.

    Args:
        q: (batch, heads, q_len, head_dim), and so are k and v.
        k: as q.
        v: as q.

    Returns:
        (batch, heads, q_len, head_dim).
    """
    stored = k.transpose(-2, -1).contiguous()
    return scaled_dot_product_attention(q, stored.transpose(-2, -1), v, is_causal=True)
