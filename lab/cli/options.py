"""The options that all measuring commands share: names, help and types, once."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.runs import IMPLEMENTATIONS

Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps or xpu.")]
Dtype = Annotated[str, typer.Option(help="auto (what the device is good at), fp32, bf16, fp16 or fp64.")]
Lengths = Annotated[str | None, typer.Option(help="Contexts T, separated by commas.")]
Batches = Annotated[str | None, typer.Option(help="Batch sizes, separated by commas.")]
Heads = Annotated[int | None, typer.Option(help=r"Query heads. \[default: 12]")]
KvHeads = Annotated[
    int | None, typer.Option(help=r"Key/value heads; they divide heads. \[default: as heads]")
]
HeadDim = Annotated[int | None, typer.Option(help=r"Width of a head. \[default: 64]")]
Causal = Annotated[bool, typer.Option("--causal/--full", help="With or without a causal mask.")]
Implementations = Annotated[
    str | None,
    typer.Option(help=f"{', '.join(IMPLEMENTATIONS)}; if unset, those the experiment is about."),
]
Rounds = Annotated[int | None, typer.Option(help="Timed rounds.")]
Threads = Annotated[int | None, typer.Option(help=r"CPU threads. \[default: all]")]
Seed = Annotated[int | None, typer.Option(help=r"Of the random inputs. \[default: 0]")]
Model = Annotated[
    str | None, typer.Option(help=r"Whose modules flops counts, such as llama-3-8b. \[default: gpt2]")
]
Repeats = Annotated[
    int | None,
    typer.Option(help=r"Processes that time every cell anew, to see how far apart they lie. \[default: 1]"),
]
Cache = Annotated[
    str,
    typer.Option(help="cold: inputs take turns so that no cache holds them; warm; auto: cold for decode."),
]
PageFaults = Annotated[
    bool, typer.Option("--page-faults", help="CPU: let every call pay for fresh memory pages.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer and shorter measurements, where it has any.")]
JsonLines = Annotated[bool, typer.Option("--json-lines", help="One JSON object a line.")]
