"""Peaks measured here beside the chapter's: where they differ, the predictor's terms say by what."""

from __future__ import annotations

from lab.cost.calls import AttentionCall
from lab.cost.catalog import model as known_model
from lab.cost.formulas import logits_bytes
from lab.runs.point import Point
from lab.runs.readings.sides import FUSED, NARROW, THERE, chapter_side, side_of
from lab.runs.readings.terms import alike, most_different, nearest, peak_terms
from lab.runs.readings.words import at, groups, one, size
from lab.runs.run import Run

LAST_ROW = "last row of logits"
"""What the model experiment calls the output that generation needs."""


def memory(run: Run, chapter: Run) -> list[str]:
    """Hold the largest peak of each implementation against the chapter's.

    Args:
        run: measured.
        chapter: the chapter's.

    Returns:
        Sentences, two an implementation and number type.
    """
    known = [point for point in run.points if point.experiment == "memory" and point.peak_extra_bytes]
    said = []
    for (name, _), found in groups(known, lambda point: (point.implementation, point.dtype)).items():
        theirs = [
            p for p in chapter.points if p.experiment == "memory" and p.implementation == THERE.get(name)
        ]
        if theirs:
            ours = max(found, key=lambda point: point.kv_len * point.batch)
            said += _peak(ours, max(theirs, key=lambda point: point.kv_len), run)
    return said


def _peak(ours: Point, theirs: Point, run: Run) -> list[str]:
    """Say both peaks in a unit that does not depend on the shape, and which tensor makes the difference."""
    here, there = side_of(run).call(ours), chapter_side().call(theirs)
    units, name = (unit_of(ours.implementation, here), unit_of(ours.implementation, there)), "score tensors"
    if ours.implementation in FUSED:
        name = "outputs"
    try:
        tensors = (peak_terms(ours.implementation, here), peak_terms(theirs.implementation, there))
    except ValueError:  # a call that lab.cost does not model, such as grouped heads on some kernels
        return []
    peaks = (float(ours.peak_extra_bytes or 0), float(theirs.peak_extra_bytes or 0))
    predicted = tuple(sum(terms.values()) for terms in tensors)
    text = (
        f"{ours.implementation} at {at(ours)}: {peaks[0] / units[0]:.3g} {name} here, where its tensors add up to "
        f"{predicted[0] / units[0]:.3g}; the chapter's card, {theirs.implementation} at {at(theirs)}: "
        f"{peaks[1] / units[1]:.3g}."
    )
    if alike(peaks[0] / units[0], peaks[1] / units[1]):
        return [text]
    return [text, _why(tensors, units, peaks, predicted, name)]


def _why(
    tensors: tuple[dict[str, float], dict[str, float]],
    units: tuple[float, float],
    peaks: tuple[float, float],
    predicted: tuple[float, ...],
    name: str,
) -> str:
    shares = [
        {term: value / unit for term, value in of.items()} for of, unit in zip(tensors, units, strict=True)
    ]
    term, here, there = most_different(*shares)
    if alike(1 + here, 1 + there):
        rest = predicted[1] - peaks[1]
        side = "less" if rest > 0 else "more"
        return (
            f"The tensors are the same; the chapter's figure is {size(abs(rest))} {side} than they add up to there, "
            f"and the tensor nearest to that is: {nearest(tensors[1], abs(rest))}."
        )
    bytes_here, bytes_there = (of.get(term, 0.0) for of in tensors)
    return (
        f"What differs most is “{term}”: {here:.2g} {name} here ({size(bytes_here)}), {there:.2g} there "
        f"({size(bytes_there)})."
    )


def unit_of(implementation: str, call: AttentionCall) -> float:
    """The tensor that a peak is told in: the scores, or for a fused kernel, which has none, the output.

    Args:
        implementation: any.
        call: its shape.

    Returns:
        Bytes.
    """
    return float((call.queries if implementation in FUSED else call.scores) * call.element)


def model(run: Run, chapter: Run) -> list[str]:
    """Say which tensor of a whole GPT-2 sets its peak, with all logits and without.

    Args:
        run: measured.
        chapter: the chapter's, whose table states peaks with all logits.

    Returns:
        Sentences, one for each kind of output at the longest length, and one beside the chapter's.
    """
    known = [p for p in run.points if p.experiment == "model" and p.peak_extra_bytes and p.kernel]
    said = []
    for (wanted, _), found in groups(known, lambda point: (point.variant, point.dtype)).items():
        longest = max(point.kv_len for point in found)
        pair = [point for point in found if point.kv_len == longest]
        eager, sdpa = one(pair, implementation="eager"), one(pair, implementation="sdpa")
        if wanted is None or eager is None or sdpa is None:
            continue
        said.append(_largest(str(wanted), eager, sdpa, side_of(run).kind))
        row = next((r for r in chapter.tables.get("gpt2_fp32_batch1", ()) if r["tokens"] == longest), None)
        if row is not None and "logits_bytes" in eager.measures and eager.batch == 1:
            said.append(_beside(eager, row["peak_extra_mib"] * 2**20))
    return said


def _tensors(point: Point, kind: str) -> dict[str, float]:
    """The tensors of a pass that can set its peak: logits where all are made, scores, feed-forward activations.

    A CPU adds one: its 16-bit product of a single row that was cut out of a longer sequence copies its weights.
    """
    shape, call = known_model("gpt2"), chapter_side().call(point)
    rows = call.batch * call.q_len
    found = {
        "a layer's scores and probabilities": 2.0 * call.scores * call.element,
        "a layer's feed-forward activations": float(rows * 4 * shape.hidden * call.element),
    }
    if "logits_bytes" in point.measures:
        found["the logits"] = float(logits_bytes(call.batch, call.q_len, shape.vocab, call.element))
    if kind == "cpu" and point.variant == LAST_ROW and point.dtype in NARROW:
        found["a copy of the LM head's weights"] = float(shape.vocab * shape.hidden * call.element)
    return found


def _largest(wanted: str, eager: Point, sdpa: Point, kind: str) -> str:
    terms = _tensors(eager, kind)
    held = max(eager.peak_extra_bytes or 0, sdpa.peak_extra_bytes or 0)
    terms = {name: weight for name, weight in terms.items() if weight <= held}  # a larger one was never made
    if not terms:
        return f"GPT-2, {wanted}, at {at(eager)}: the peak, {size(float(held))}, is less than any tensor counted here."
    ordered = sorted(terms, key=lambda name: -terms[name])
    listed = ", ".join(f"{name} {size(terms[name])}" for name in ordered)
    first, second = float(eager.peak_extra_bytes or 0), float(sdpa.peak_extra_bytes or 0)
    if alike(first, second):
        found = f"both attentions peak at {size(first)}"
    else:
        found = f"eager peaks {size(abs(first - second))} {'above' if first > second else 'below'} SDPA"
    return f"GPT-2, {wanted}, at {at(eager)}: {found}; of its tensors the largest is {ordered[0]} ({listed})."


def _beside(eager: Point, theirs: float) -> str:
    """The chapter's peak is in fp32, at the same tokens: the terms differ in the width of a number alone."""
    ours = float(eager.peak_extra_bytes or 0)
    wide = Point.from_dict(eager.to_dict() | {"dtype": "fp32"})
    name, here, there = most_different(_tensors(eager, "cuda"), _tensors(wide, "cuda"))
    text = f"The chapter's card held {size(theirs)} at as many tokens in fp32, against {size(ours)} here"
    if eager.dtype == "fp32":
        terms = _tensors(eager, "cuda")
        apart = abs(ours - theirs)
        same = f": {size(apart)} apart, of tensors that are the same ({nearest(terms, apart)} is nearest to that)"
        return text + (": the same." if alike(ours, theirs) else f"{same}.")
    return f"{text}; what differs most is {name}: {size(here)} here, {size(there)} in fp32."
