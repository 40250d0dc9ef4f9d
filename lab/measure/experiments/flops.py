"""The FLOPs of a model's real modules, as PyTorch counts them, against those that lab.cost counts by formula.

Nothing is timed and no weight exists: transformers builds the model on the meta device, where tensors have
shapes and no numbers. A prompt and one new token after it are counted; each part must be the formula's to the
last FLOP, over all pairs, since eager attention computes those that the mask hides as well.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import ClassVar

from lab.cost import catalog
from lab.cost.budget import Budget, budget
from lab.cost.calls import AttentionCall
from lab.cost.shapes import ModelShape, decode, prefill
from lab.measure.case import Plan, plan_point
from lab.measure.events import Events
from lab.measure.experiments.base import Experiment
from lab.measure.job import Job
from lab.measure.meta_models import ALL_EXPERTS, CORE, FEED_FORWARD, HEAD, PARTS, PROJECTIONS, MetaModel
from lab.runs import Point

PREFILL, DECODE = "prefill", "decode"
COUNTER = "torch.utils.flop_counter on the meta device"


class Flops(Experiment):
    """FLOPs of projections, attention core, feed-forward blocks and LM head, counted twice."""

    name: ClassVar[str] = "flops"
    parts: ClassVar[tuple[str, ...]] = ("memory",)

    def run(self, job: Job, part: str, events: Events) -> None:
        """Count.

        Args:
            job: the model, its batch and its lengths.
            part: "memory"; the other has nothing to do.
            events: where points are told.
        """
        calls = self.calls(job)
        if part not in self.parts:
            events.plan(0)
            return
        events.plan(len(calls) * 2 * len(PARTS))
        config, shape = catalog.config(job.spec.model), catalog.model(job.spec.model)
        reason = refusal(str(config["model_type"]))
        if reason is not None:
            for call in calls:
                for plan in plans(call):
                    events.point(plan_point(job, plan, "refused", reason=reason))
            return
        events.progress(f"{shape.name} without its weights")
        module = MetaModel(config)
        for call in calls:
            events.progress(f"{shape.name} at T = {call.kv_len:,}")
            self._count(job, events, call, module, shape)

    def shape(self, job: Job, batch: int, length: int) -> AttentionCall:
        """Make the attention call of a layer of the model, whatever heads the job names."""
        model = catalog.model(job.spec.model)
        return AttentionCall(
            batch=batch,
            heads=model.heads,
            kv_heads=model.kv_heads,
            q_len=length,
            kv_len=length,
            head_dim=model.head_dim,
            dtype=job.dtype,
            causal=False,
            threads=job.threads,
            device="cpu",
        )

    def _count(
        self, job: Job, events: Events, call: AttentionCall, module: MetaModel, shape: ModelShape
    ) -> None:
        prompt, cache = module.prefill(call.batch, call.kv_len)
        token = module.decode(call.batch, cache)
        works = {
            PREFILL: prefill(call.batch, call.kv_len, job.dtype, causal=False),
            DECODE: decode(call.batch, call.kv_len + 1, job.dtype),
        }
        expected = {
            phase: by_part(budget(shape, work, latent_form="re-expanded")) for phase, work in works.items()
        }
        for plan in plans(call):
            phase, _, part = str(plan.variant).partition(": ")
            seen = (prompt if phase == PREFILL else token)[part]
            events.point(judged(job, plan, seen, expected[phase][part]))


def refusal(kind: str) -> str | None:
    """Say why a model cannot be counted; None when it can.

    Args:
        kind: its model_type.
    """
    if importlib.util.find_spec("transformers") is None:
        return "counting real modules needs the transformers package, which is not installed"
    if kind in ALL_EXPERTS:
        return f"transformers computes every expert of {kind} for every token: its count is not the model's"
    return None


def plans(call: AttentionCall) -> list[Plan]:
    """List what is counted at one length: every part of a prompt, then of a token."""
    return [Plan("eager", call, f"{phase}: {part}") for phase in (PREFILL, DECODE) for part in PARTS]


def by_part(found: Budget) -> dict[str, int]:
    """Give the FLOPs of a budget by the parts that modules are sorted into."""
    return {
        PROJECTIONS: found.projection_flops,
        CORE: found.core_flops,
        FEED_FORWARD: found.feed_forward_flops,
        HEAD: found.lm_head_flops,
    }


def judged(job: Job, plan: Plan, seen: int, expected: int) -> Point:
    """Make the point of a part: right to the last FLOP, or wrong."""
    measures: Mapping[str, float] = {"counted_flops": float(seen), "formula_flops": float(expected)}
    status, reason = "ok", None
    if seen != expected:
        status, reason = "wrong", f"the counter saw {seen:,} FLOPs, the formula gives {expected:,}"
    return plan_point(job, plan, status, reason=reason, kernel=COUNTER, measures=dict(measures))
