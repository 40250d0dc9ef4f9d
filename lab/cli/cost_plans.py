"""The optional sections of a cost report: a training step, and the model spread over several devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.cli.cost_rows import Row, Section, summed
from lab.cli.cost_sections import Question
from lab.cost.activations import Kept, stored_activations
from lab.cost.parallel import Plan, context_parallel, pipeline_parallel, tensor_parallel
from lab.cost.training import training_budget

TRAINING = (("materialised", "none"), ("fused", "none"), ("fused", "full"))
"""Ways to train that are shown: attention as written down, as fused, and with every layer checkpointed."""


def training_section(asked: Question) -> Section:
    """Count a training step over the whole context, three ways."""
    rows: list[Row] = []
    for attention, checkpointing in TRAINING:
        options: dict[str, Any] = {"attention": attention, "checkpointing": checkpointing}
        step = training_budget(asked.model, asked.work(asked.context), **options)
        kept = stored_activations(asked.model, asked.work(asked.context), **options)
        name = f"{attention} attention" + (", checkpointed layers" if checkpointing == "full" else "")
        flops = (
            Row("forward", step.forward_flops, "FLOPs"),
            Row("computed again", step.recomputed_flops, "FLOPs"),
            Row("backward", step.backward_flops, "FLOPs", "2 · forward, fused also QKᵀ once more"),
        )
        layers = (
            summed(
                f"{layer.layers} layers",
                "bytes",
                (
                    Row(
                        tensor.name,
                        layer.layers * layer.tokens * tensor.token_bytes,
                        "bytes",
                        _kept(layer.layers, tensor),
                    )
                    for tensor in layer.kept
                ),
            )
            for layer in kept.layers
        )
        rows += [
            summed(f"products, {name}", "FLOPs", flops),
            summed(f"activations kept, {name}", "bytes", layers),
            Row("head: its input and the loss's log-probabilities", kept.head_bytes, "bytes"),
        ]
    return Section(f"One training step over {asked.batch} × {asked.context:,} tokens", tuple(rows))


def _kept(layers: int, tensor: Kept) -> str:
    return f"{layers} layers · {tensor.elements:,} a token · {tensor.element} bytes"


def plan_section(plan: Plan) -> Section:
    """Show what the largest rank holds, the most that one sends in a pass, and what is held twice."""
    rank = plan.largest
    sender = max(plan.ranks, key=lambda one: one.sent_bytes)
    messages = (
        Row(message.name, message.total_bytes, "bytes", f"{message.times} · {message.sent_bytes:,} bytes")
        for message in sender.messages
    )
    copies = (Row(name, extra, "parameters") for name, extra in plan.replicated.items())
    rows = (
        Row("weights of the largest rank", rank.weight_bytes, "bytes"),
        Row("cache of that rank", rank.kv_bytes, "bytes"),
        Row("K and V of other ranks, held meanwhile", rank.buffer_bytes, "bytes"),
        summed("most sent by a rank in one pass", "bytes", messages),
        summed("held beyond one copy, all ranks", "parameters", copies),
        Row("cache beyond one copy, all ranks", plan.replicated_kv_bytes, "bytes"),
    )
    notes = (Row(note, "") for note in plan.notes)
    return Section(plan.scheme, (*(row for row in rows if row.value), *notes))


def plans(asked: Question, tensor: int | None, pipeline: int | None, context: int | None) -> Iterator[Plan]:
    """Build the plans asked for: decode steps split by matrices or layers, a prefill split by tokens.

    Args:
        asked: the question.
        tensor: tensor-parallel ranks, or None.
        pipeline: pipeline stages, or None.
        context: context-parallel ranks, or None.

    Returns:
        The plans.

    Raises:
        ValueError: a number of ranks that does not fit the model.
    """
    if tensor is not None:
        yield tensor_parallel(asked.model, asked.work(1), tensor, **asked.reads)
    if pipeline is not None:
        yield pipeline_parallel(asked.model, asked.work(1), pipeline, **asked.reads)
    if context is not None:
        types = {name: value for name, value in asked.reads.items() if name != "source_tokens"}
        yield context_parallel(asked.model, asked.work(asked.context), context, **types)
