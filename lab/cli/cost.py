"""`python -m lab cost`: the whole budget of a model, every term openable, for people and for programs."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from lab.cli.cost_plans import plan_section, plans, training_section
from lab.cli.cost_rows import Section, print_sections
from lab.cli.cost_sections import (
    Question,
    cache_section,
    crossing_section,
    decode_section,
    model_section,
    prefill_section,
)
from lab.cli.exits import usage_errors
from lab.cost.catalog import models
from lab.cost.config_source import MAX_BYTES, find_model, from_config_text
from lab.cost.exact import count
from lab.cost.formulas import element_bytes
from lab.cost.shapes import ModelShape

SCHEMA_VERSION = 1
_LONGEST_DEFAULT = 4096

MODELS_HELP = f"Names of the catalogue: {', '.join(models())}"
MODEL_HELP = "A name listed below, a config.json, - for a config on standard input, or an id of the hub."


def cost(
    model: Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)],
    context: Annotated[
        int | None, typer.Option(help="Tokens of each sequence. [default: up to 4096]")
    ] = None,
    batch: Annotated[int, typer.Option(help="Sequences.")] = 1,
    dtype: Annotated[str, typer.Option(help="Weights and activations: fp32, fp16 or bf16.")] = "fp16",
    kv_dtype: Annotated[str, typer.Option(help="Storage of the cache: fp16, fp8, q8_0, …")] = "fp16",
    v_dtype: Annotated[str | None, typer.Option(help="Storage of V. [default: that of K]")] = None,
    engine: Annotated[str, typer.Option(help="exact, contiguous, llama.cpp or vllm.")] = "exact",
    causal: Annotated[
        bool, typer.Option("--causal/--dense", help="Count what masks keep, or every pair.")
    ] = True,
    logits: Annotated[str, typer.Option(help="LM head at all new positions, the last, or none.")] = "all",
    source_tokens: Annotated[int | None, typer.Option(help="The other sequence of cross-attention.")] = None,
    training: Annotated[bool, typer.Option("--training", help="Add a training step.")] = False,
    tensor: Annotated[int | None, typer.Option("--tp", help="Add a tensor-parallel plan.")] = None,
    pipeline: Annotated[int | None, typer.Option("--pp", help="Add a pipeline-parallel plan.")] = None,
    ring: Annotated[int | None, typer.Option("--cp", help="Add a context-parallel plan.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never ask the hub.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Open every total into terms and formulas.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Exact values for programs, always opened.")
    ] = False,
) -> None:
    """Compute what a model costs: parameters, FLOPs of prefill and decode, cache, crossings."""
    with usage_errors():
        element_bytes(dtype)
        shape = read_model(model, online=not offline)
        length = (
            context if context is not None else min(_LONGEST_DEFAULT, shape.max_context or _LONGEST_DEFAULT)
        )
        check_source(shape, source_tokens)
        asked = Question(
            model=shape,
            batch=int(count("batch", batch)),
            context=int(count("context", length)),
            dtype=dtype,
            k_type=kv_dtype,
            v_type=v_dtype,
            engine=engine,
            causal=causal,
            logits=logits,
            source_tokens=source_tokens,
        )
        found = report(asked)
        found += [training_section(asked)] if training else []
        found += [plan_section(plan) for plan in plans(asked, tensor, pipeline, ring)]
    if as_json:
        typer.echo(json.dumps(as_values(asked, found), indent=2, ensure_ascii=False))
        return
    console = Console()
    print_sections(console, found, explain=explain)
    for note in notes(asked, sources=explain):
        console.print(f"Note: {note}", style="dim", markup=False)


def read_model(wanted: str, *, online: bool) -> ModelShape:
    """Find the model that an argument means; "-" reads a config from standard input.

    Args:
        wanted: the argument.
        online: whether the hub may be asked.

    Returns:
        The shape.

    Raises:
        ValueError: nothing of that name, or a config that is not usable.
    """
    if wanted == "-":
        return from_config_text(sys.stdin.buffer.read(MAX_BYTES + 1), model_id="config")
    return find_model(wanted, online=online)


def check_source(model: ModelShape, source_tokens: int | None) -> None:
    """Refuse another sequence that no layer would read, or one without tokens.

    Args:
        model: the shape.
        source_tokens: tokens of the other sequence, or None.

    Raises:
        ValueError: a number below 1, or a model without cross-attention.
    """
    if source_tokens is None:
        return
    count("source_tokens", source_tokens)
    if not any(kind.cross_attention for kind in model.kinds):
        raise ValueError(
            f"source_tokens is for models with cross-attention, got {source_tokens} for {model.id}"
        )


def report(asked: Question) -> list[Section]:
    """Build the sections that every report has."""
    return [
        model_section(asked),
        prefill_section(asked),
        decode_section(asked),
        cache_section(asked),
        crossing_section(asked),
    ]


def notes(asked: Question, *, sources: bool = True) -> list[str]:
    """List what belongs beside the figures: a context past the model's limit, assumptions, sources."""
    model, found = asked.model, []
    if model.max_context is not None and asked.context > model.max_context:
        found.append(f"{asked.context:,} tokens are beyond the model's own limit of {model.max_context:,}.")
    if model.assumed:
        found.append(f"Not stated in the config, taken from its family: {', '.join(model.assumed)}.")
    if model.notes:
        found.append(model.notes)
    if sources and model.sources:
        found.append(f"Shape from {'; '.join(model.sources)}.")
    return found


def as_values(asked: Question, sections: list[Section]) -> dict[str, object]:
    """Return a report as JSON values."""
    return {
        "schema": SCHEMA_VERSION,
        "model": asked.model.id,
        "workload": {
            "batch": asked.batch,
            "context": asked.context,
            "dtype": asked.dtype,
            "k_type": asked.k_type,
            "v_type": asked.v_type or asked.k_type,
            "engine": asked.engine,
            "causal": asked.causal,
            "logits": asked.logits,
        },
        "sections": [
            {"title": section.title, "rows": [row.to_dict() for row in section.rows]} for section in sections
        ],
        "notes": notes(asked),
    }
