"""The code that produced a page's numbers, as it stands in its file.

Read from the file and not from the imported module: the measured side needs torch, which never enters the
process of the pages.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import streamlit as st

_ROOT = Path(__file__).resolve().parents[2]
PREDICTED, MEASURED = "predicted", "measured"

SHOWN: dict[str, dict[str, tuple[str, ...]]] = {
    "start_here": {
        PREDICTED: (
            "cost.formulas:attention_flops", "cost.predict:attention_bound", "cost.prediction:predict_attention",
        ),
        MEASURED: ("measure.attention:naive_attention", "measure.attention:sdpa"),
    },
    "count_the_work": {
        PREDICTED: ("cost.formulas:attention_pairs", "cost.flops:core_flops", "cost.crossings:crossing_context"),
        MEASURED: ("measure.meta_models:MetaModel", "measure.protocol:time_variants"),
    },
    "score_tensor": {
        PREDICTED: ("cost.formulas:score_bytes", "cost.peaks:peak_extra_bytes", "cost.peaks:live_stages"),
        MEASURED: ("measure.attention:naive_attention", "measure.trace:record"),
    },
    "which_kernel_ran": {
        PREDICTED: ("cost.online_softmax:online_softmax",),
        MEASURED: (
            "measure.attention:sdpa", "measure.kernels:backend_of", "measure.kernels:attempt",
            "measure.accuracy:check",
        ),
    },
    "how_time_scales": {
        PREDICTED: ("cost.formulas:fit_exponent", "cost.formulas:attention_pairs", "cost.tiles:slot_pairs"),
        MEASURED: ("measure.protocol:time_variants", "measure.experiments.first_call:fresh"),
    },
    "roofline": {
        PREDICTED: ("cost.predict:bound_seconds", "cost.predict:attention_bound", "cost.traffic:operations"),
        MEASURED: ("measure.ceilings:probe",),
    },
    "whole_model": {
        PREDICTED: ("cost.prediction_model:predict_gpt2", "cost.formulas:logits_bytes"),
        MEASURED: ("measure.gpt2:load", "measure.experiments.model:judge"),
    },
    "kv_cache": {
        PREDICTED: ("cost.formulas:kv_bytes", "cost.serving:decode_traffic", "cost.serving:crossover_batch"),
        MEASURED: ("measure.attention:sdpa", "measure.experiments.decode:Decode"),
    },
    "batch_and_bandwidth": {
        PREDICTED: ("cost.formulas:kv_bytes", "cost.prediction_fused:decode_term"),
        MEASURED: ("measure.split_kv:split_kv", "measure.split_kv:merge"),
    },
    "what_each_trick_changes": {
        PREDICTED: ("cost.techniques:grouped", "cost.terms:traffic_bytes", "cost.terms:answer_steps"),
        MEASURED: ("measure.trace:record", "measure.windowed:windowed", "measure.quantised:store"),
    },
    "serving_budget": {
        PREDICTED: ("cost.terms:sequences_that_fit", "cost.terms:step_bytes", "cost.predict:bound_seconds"),
        MEASURED: ("measure.ceilings:probe",),
    },
    "training_and_rules": {
        PREDICTED: ("cost.activations:stored_activations", "cost.training:training_budget"),
        MEASURED: ("measure.gradients:forward_and_backward",),
    },
    "my_machine": {
        PREDICTED: ("cost.prediction:predict_attention", "cost.score:score"),
        MEASURED: ("measure.calibrate:calibrate",),
    },
    "claims": {
        PREDICTED: ("cost.evidence:recompute", "cost.evidence:judge", "cost.evidence:verdict"),
        MEASURED: ("measure.attention:naive_attention",),
    },
}  # fmt: skip
"""The functions of each page: module below lab, a colon, the name in it."""


@dataclass(frozen=True)
class Source:
    """One function or class as it stands in its file.

    Args:
        path: from the root of the repository, with forward slashes.
        line: where it begins, counted from 1.
        code: its lines.
    """

    path: str
    line: int
    code: str


@cache
def source(reference: str) -> Source:
    """Read a function from its file, without importing it.

    Args:
        reference: module below lab, a colon, the name in it.

    Raises:
        ValueError: the module defines no such name.
    """
    module, _, name = reference.partition(":")
    path = Path("lab", *module.split(".")).with_suffix(".py")
    text = (_ROOT / path).read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            lines = text.splitlines()[first - 1 : node.end_lineno]
            return Source(path.as_posix(), first, "\n".join(lines))
    raise ValueError(f"reference must name a function of {path.as_posix()}, got {reference!r}")


def drawer(page: str) -> None:
    """The functions behind a page, folded; their text travels only when it is asked for.

    Args:
        page: the page's file name.
    """
    fold = st.expander("Show the code", icon=":material/code:", key=f"code_{page}", on_change="rerun")
    if not fold.open:
        return
    with fold:
        for side, references in SHOWN[page].items():
            st.markdown(f"**What is {side}**")
            for reference in references:
                found = source(reference)
                st.caption(f"{found.path}, line {found.line}")
                st.code(found.code, language="python")
