"""Claims that the sources derive from their tables: multiples, rates, exponents and gains, derived likewise here."""

from __future__ import annotations

import re
from collections.abc import Callable

from lab.cost import BYTES_PER_ELEMENT, attention_flops, kv_bytes, score_bytes
from lab.cost.evidence import Claim
from lab.cost.formulas import fit_exponent
from lab.runs.comparison import Ratio, ratio_of
from lab.runs.point import Point
from lab.runs.reproduction import figures
from lab.runs.reproduction.figures import ALL_LOGITS, EAGER_AND_SDPA, FUSED, RANDOM, WIDTHS
from lab.runs.reproduction.values import (
    Found,
    Measured,
    Seen,
    batches_of,
    exact,
    lengths_of,
    ratio,
    time,
    values,
)

SHAPE = {"batch": 1, "heads": 12}
"""Of the chapter's calls: one sequence, GPT-2's heads."""
GAINS: dict[str, Callable[[float], float]] = {
    "faster": lambda value: value - 1,
    "saved": lambda value: 1 - 1 / value,
}
"""What eager over SDPA becomes: how much faster SDPA is, or the part of eager's time that it saves."""


def _wanted(name: str) -> tuple[str, ...]:
    """The implementations that stand in for a printed one, the best match first."""
    return FUSED if name == "efficient" else (name,)


def _peak(seen: Seen, name: str, length: int) -> Point | None:
    return seen.find(
        experiment=("memory", "scaling"), implementation=_wanted(name), kv_len=length, dtype=WIDTHS["fp16"],
        **SHAPE,
    )  # fmt: skip


def peaks(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """The peak of one implementation beside its inputs."""
    name = str(claim.inputs.get("implementation", "efficient"))
    found = []
    for length in lengths_of(claim):
        point = _peak(seen, name, length)
        found.append(exact(_label(point), point.peak_extra_bytes) if point else None)
    return values(claim, found)


def multiples(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """The peak of one implementation in score tensors."""
    found: list[Measured | None] = []
    for length in lengths_of(claim):
        point = _peak(seen, str(claim.inputs["implementation"]), length)
        if point is None or not point.peak_extra_bytes:
            found.append(None)
            continue
        width = BYTES_PER_ELEMENT[point.dtype]
        one = int(score_bytes(point.batch, point.heads, length, length, width))
        found.append(exact(_label(point), point.peak_extra_bytes / one))
    return values(claim, found)


def less_memory(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """The peak of naive attention over that of a fused kernel."""
    pair = seen.pair(
        {"implementation": "naive"}, {"implementation": FUSED}, experiment=("memory", "scaling"),
        kv_len=lengths_of(claim)[0], dtype=WIDTHS["fp16"], **SHAPE,
    )  # fmt: skip
    if pair is None or not pair[0].peak_extra_bytes or not pair[1].peak_extra_bytes:
        return None
    return values(claim, [exact(_pair_label(pair), pair[0].peak_extra_bytes / pair[1].peak_extra_bytes)])


def less_time(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """The time of naive attention over that of a fused kernel."""
    pair = seen.pair(
        {"implementation": "naive"}, {"implementation": FUSED}, experiment="scaling",
        kv_len=lengths_of(claim)[0], dtype=WIDTHS["fp16"], **SHAPE,
    )  # fmt: skip
    compared = ratio_of(*pair, paired=True) if pair else None
    return values(claim, [ratio(_pair_label(pair), compared)]) if pair and compared else None


def exponents(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """The fitted exponent of time against length, from the printed first length on."""
    found: list[Measured | None] = []
    for column in claim.inputs["columns"]:
        dtype, name = column.split("_")
        points = seen.lengths(
            claim.inputs["first"], experiment="scaling", implementation=_wanted(name), dtype=WIDTHS[dtype],
            **SHAPE,
        )  # fmt: skip
        if not points:
            found.append(None)
            continue
        lengths = [point.kv_len for point in points]
        slope = fit_exponent(lengths, [point.timing.median_s for point in points if point.timing])
        found.append(exact(f"{_label(points[0])}, {lengths[0]:,} to {lengths[-1]:,}", slope))
    return values(claim, found)


def throughputs(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """FLOPs of the pairs that the causal mask keeps, over the time."""
    dtype, name = str(claim.inputs["name"]).split("_")
    found = []
    for length in lengths_of(claim):
        point = seen.find(
            experiment="scaling", implementation=_wanted(name), kv_len=length, dtype=WIDTHS[dtype], **SHAPE
        )
        flops = int(attention_flops(1, SHAPE["heads"], length, length, point.head_dim, True)) if point else 0
        found.append(_rate(flops, point))
    return values(claim, found)


def bandwidths(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """Keys and values that a decode step reads, over its time."""
    found = []
    for length in lengths_of(claim):
        point = seen.find(
            experiment="decode", implementation=FUSED, batch=batches_of(claim)[0], kv_len=length, heads=12,
            kv_heads=12, dtype=WIDTHS["fp16"],
        )  # fmt: skip
        found.append(_rate(_read_bytes(point), point) if point else None)
    return values(claim, found)


def _read_bytes(point: Point) -> int:
    width = BYTES_PER_ELEMENT[point.dtype]
    return int(kv_bytes(point.batch, 1, point.kv_heads, point.kv_len, point.head_dim, width))


def masked_extra(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """What a causal mask costs beyond the time without one."""
    found: list[Measured | None] = []
    for length in lengths_of(claim):
        pair = seen.pair(
            {"causal": True}, {"causal": False}, experiment="causal", kv_len=length,
            implementation=str(claim.inputs["implementation"]),
        )  # fmt: skip
        compared = ratio_of(*pair, paired=True) if pair else None
        label = f"{pair[0].implementation} at T = {length:,}" if pair else ""
        found.append(_changed(label, compared, GAINS["faster"]) if compared else None)
    return values(claim, found)


def model_gain(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """How much faster whole GPT-2 is with SDPA than with eager attention, or the time that it saves."""
    gain = GAINS["saved" if ".saved_" in claim.id else "faster"]
    found: list[Measured | None] = []
    for length in lengths_of(claim):
        pair = seen.pair(*EAGER_AND_SDPA, experiment="model", variant=ALL_LOGITS, kv_len=length)
        compared = ratio_of(*pair, paired=True) if pair else None
        label = f"{pair[0].dtype} at {length:,}" if pair else ""
        found.append(_changed(label, compared, gain) if compared else None)
    return values(claim, found)


def error_ratio(claim: Claim, _: re.Match[str], seen: Seen) -> Found:
    """The largest error of one implementation over that of another, on random inputs."""
    larger, smaller = ({"implementation": str(claim.inputs[side])} for side in ("larger", "smaller"))
    found: list[Measured | None] = []
    for length in lengths_of(claim):
        pair = seen.pair(
            larger, smaller, experiment="accuracy", variant=RANDOM, kv_len=length,
            dtype=WIDTHS[str(claim.inputs["dtype"])],
        )  # fmt: skip
        if pair is None or pair[0].max_abs_error is None or not pair[1].max_abs_error:
            found.append(None)
            continue
        found.append(exact(_pair_label(pair), pair[0].max_abs_error / pair[1].max_abs_error))
    return values(claim, found)


def cold_gap(claim: Claim, match: re.Match[str], seen: Seen) -> Found:
    """Naive over SDPA, of first calls alone."""
    found = figures.first_call(claim, match, seen)
    return found[:1] if isinstance(found, list) else found


def _label(point: Point) -> str:
    return f"{point.implementation}, {point.dtype}"


def _pair_label(pair: tuple[Point, Point]) -> str:
    return f"{pair[0].implementation} over {pair[1].implementation}, {pair[0].dtype}"


def _rate(amount: int, point: Point | None) -> Measured | None:
    """An amount a second; the quartiles of the time change places."""
    timed = time(_label(point), point) if point else None
    return (timed[0], amount / timed[1], amount / timed[3], amount / timed[2]) if timed else None


def _changed(label: str, found: Ratio, change: Callable[[float], float]) -> Measured:
    """A ratio and the ends of its spread, each changed by a function that grows with it."""
    name, value, low, high = ratio(label, found)
    return name, change(value), change(low), change(high)
