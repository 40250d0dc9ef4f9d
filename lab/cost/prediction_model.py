"""How long a whole GPT-2 should take, module by module: where its time goes beside attention.

The modules are those of Hugging Face's GPT-2: one matrix for q, k and v, a tanh-approximated GELU written as
eight elementwise passes, residual additions of their own, and the LM head over all rows or the last one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from lab.cost.calibration import Calibration
from lab.cost.formulas import element_bytes
from lab.cost.prediction import FUSED, Prediction, predict_attention
from lab.cost.prediction_terms import ARITHMETIC, BANDWIDTH, Term, elementwise_seconds, with_overhead
from lab.cost.shapes import ModelShape

LOGITS = ("all", "last", "none")
GELU_PASSES = 8  # half, cube, scale, add, scale, tanh, add, multiply
GELU_TENSORS = 2 * GELU_PASSES + 2  # each reads one and writes one; two of them read a second


def predict_gpt2(
    model: ModelShape,
    calibration: Calibration,
    *,
    batch: int,
    tokens: int,
    attention: str,
    logits: str = "all",
) -> Prediction:
    """Predict one forward pass over a prompt.

    Args:
        model: a GPT-2 shape.
        calibration: of the device, dtype and thread count.
        batch: sequences.
        tokens: of each.
        attention: "eager", or what SDPA takes: "math", "flash" or "efficient".
        logits: "all" rows, the "last" row, or "none" (the body alone).

    Returns:
        The prediction, one term a module, its layers added up.

    Raises:
        ValueError: another family, too many tokens, or an unknown attention or logits.
    """
    _check(model, tokens, attention, logits)
    inner = feed_forward_width(model)
    rows, width = batch * tokens, model.hidden
    qkv = model.heads * (2 * model.head_dim + model.head_dim_v)
    layer = [
        _norm("layer norms", 2, rows * width, calibration),
        _linear("q, k, v projection", rows, width, qkv, calibration),
        _attention(attention, model, batch, tokens, calibration),
        _linear("output projection", rows, width, width, calibration),
        _pass("residual additions", "mul", 2 * rows * width, 3, calibration, starts=2),
        _linear("feed-forward, up", rows, width, inner, calibration),
        _pass("feed-forward, GELU", "gelu_new", rows * inner, GELU_TENSORS, calibration, starts=GELU_PASSES),
        _linear("feed-forward, down", rows, inner, width, calibration),
    ]
    terms = [_pass("embeddings", "mul", rows * width, 6, calibration, starts=3)]
    terms += [_times(term, model.layers) for term in layer]
    terms.append(_norm("final norm", 1, rows * width, calibration))
    if logits != "none":
        head_rows = rows if logits == "all" else batch
        terms.append(_linear(f"LM head, {logits} logits", head_rows, width, model.vocab, calibration))
    notes = () if "gelu_new" in calibration.elements else ("the GELU's passes are priced by their bytes",)
    label = f"{calibration.device}, {calibration.dtype}: {calibration.source}"
    return Prediction(math.fsum(term.seconds for term in terms), tuple(terms), label, notes)


def feed_forward_width(model: ModelShape) -> int:
    """Give the inner width of the feed-forward blocks of a model whose layers are alike.

    Raises:
        ValueError: layers that differ, or have no feed-forward block.
    """
    kind = model.kinds[0]
    if len(model.kinds) != 1 or kind.feed_forward is None:
        raise ValueError(f"model must have layers alike with a feed-forward block, {model.id} has not")
    return kind.feed_forward.intermediate


def _check(model: ModelShape, tokens: int, attention: str, logits: str) -> None:
    if model.family != "gpt2":
        raise ValueError(f"model must be of the family gpt2, whose modules are known, got {model.family!r}")
    if model.max_context is not None and not 1 <= tokens <= model.max_context:
        raise ValueError(f"tokens must be 1 to {model.max_context} for {model.id}, got {tokens}")
    if attention not in ("eager", "math", *FUSED):
        raise ValueError(f"attention must be eager, math, flash or efficient, got {attention!r}")
    if logits not in LOGITS:
        raise ValueError(f"logits must be one of {', '.join(LOGITS)}, got {logits!r}")


def _attention(attention: str, model: ModelShape, batch: int, tokens: int, calibration: Calibration) -> Term:
    """Price attention itself: SDPA's kernel, or the passes of eager attention."""
    shape: dict[str, Any] = {
        "batch": batch,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "q_len": tokens,
        "kv_len": tokens,
        "head_dim": model.head_dim,
    }
    if attention != "eager":
        prediction = predict_attention(attention, calibration, **shape, causal=True)
        return _joined(f"attention, {attention}", prediction.terms)
    # Without a mask naive attention is QKᵀ, scale, softmax, PV; Hugging Face adds a mask of numbers.
    plain = predict_attention("naive", replace(calibration, starts={}), **shape, causal=False)
    scores = batch * model.heads * tokens * tokens
    added = _pass("add mask", "mul", scores, 3, calibration)
    joined = _pass("join heads", "clone", batch * tokens * model.hidden, 2, calibration)
    return _joined("attention, eager", (*plain.terms, added, joined))


def _joined(name: str, terms: tuple[Term, ...]) -> Term:
    longest = max(terms, key=lambda term: term.seconds)
    return Term(
        name,
        sum(term.flops for term in terms),
        sum(term.bytes_moved for term in terms),
        sum(term.elements for term in terms),
        math.fsum(term.seconds for term in terms),
        longest.limited_by,
    )


def _linear(name: str, rows: int, inputs: int, outputs: int, calibration: Calibration) -> Term:
    """Price a product with a weight matrix: every weight is read once."""
    size = element_bytes(calibration.dtype)
    flops = 2 * rows * inputs * outputs
    moved = size * (rows * (inputs + 2 * outputs) + inputs * outputs)  # the bias is copied into the output
    curve = calibration.matmuls.get("linear/768")
    arithmetic = flops / calibration.matmul.value
    traffic = moved / calibration.bandwidth.at(moved)
    seconds = arithmetic + traffic if curve is None else max(flops / curve.at(rows), traffic)
    limited_by = ARITHMETIC if arithmetic >= traffic else BANDWIDTH
    seconds, limited_by = with_overhead(seconds, limited_by, calibration)
    return Term(name, flops, moved, 0, seconds, limited_by)


def _norm(name: str, count: int, elements: int, calibration: Calibration) -> Term:
    return _times(_pass(name, "layer_norm", elements, 2, calibration), count)


def _pass(
    name: str, kind: str, elements: int, tensors: int, calibration: Calibration, starts: int = 1
) -> Term:
    """Price elementwise work that reads and writes a number of tensors of so many elements."""
    moved = elements * tensors * element_bytes(calibration.dtype)
    seconds, limited_by = elementwise_seconds(kind, elements, moved, calibration)
    each, limited_by = with_overhead(seconds / starts, limited_by, calibration)
    return Term(name, 0, moved, elements, each * starts, limited_by)


def _times(term: Term, count: int) -> Term:
    return Term(
        term.name if count == 1 else f"{count} × {term.name}",
        count * term.flops,
        count * term.bytes_moved,
        count * term.elements,
        count * term.seconds,
        term.limited_by,
    )
