"""Pictures of what the techniques do: factors by term, blocks and waste of a cache, batches over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lab.cost.allocation import contiguous, vllm
from lab.cost.cache import cache_layers
from lab.cost.decode_layer import widest_attention
from lab.cost.deployment import Deployment
from lab.cost.paging import BLOCK_TOKENS, blocks_of
from lab.cost.shapes import ModelShape
from lab.cost.techniques import TECHNIQUES
from lab.cost.terms import TERMS
from lab.view.axes import Axis
from lab.view.bars import Bars, Part, Segment, faded
from lab.view.counted import counted
from lab.view.format import bytes_text, digits, flops_text, seconds_text, whole
from lab.view.palette import WEIGHTS, Palette

LESS, MORE, SAME = "less", "more", "unchanged"
USED, WASTED = "tokens there are", "reserved, unused"

CACHED_TOKENS = (990, 37, 70, 9, 250, 45, 130, 61)
"""Tokens that eight requests have so far, one long among short ones: an example, not a measurement."""


NUMBERED = 0.045
"""Part of the axis that a request needs to bear its number: half a chart is 330 pixels wide, at least."""

MOST_TICKS = 5
"""Steps of the factors' axis: more names than these hide one another on the part that bars take."""


@dataclass(frozen=True)
class Change:
    """One term before and after the chosen techniques; None where the lab does not model it."""

    term: str
    unit: str
    before: int | None
    after: int | None

    @property
    def factor(self) -> Fraction | None:
        """After over before; None where there is nothing to divide."""
        return Fraction(self.after, self.before) if self.before and self.after else None


def together(
    deployment: Deployment, chosen: Sequence[str]
) -> tuple[Deployment, list[str], list[tuple[str, str]]]:
    """Apply several techniques, one after the other, in the order of the list.

    Args:
        deployment: a model at work.
        chosen: ids of TECHNIQUES.

    Returns:
        The deployment after them, the ids that applied, and (id, reason) for those that could not.
    """
    applied: list[str] = []
    refused: list[tuple[str, str]] = []
    for name, technique in TECHNIQUES.items():
        if name not in chosen:
            continue
        try:
            deployment = technique.apply(deployment)
            applied.append(name)
        except ValueError as error:
            refused.append((name, str(error)))
    return deployment, applied, refused


def shared_words(before: ModelShape, after: ModelShape) -> str | None:
    """How many KV heads a model keeps when heads are shared; None where they are as before.

    Args:
        before: the model.
        after: the same after the techniques.
    """
    (had, _), (has, _) = widest_attention(before), widest_attention(after)
    if has.latent is not None or had.kv_heads == has.kv_heads:
        return None
    queries = has.heads // has.kv_heads
    return (
        f"{before.name} then keeps {counted(has.kv_heads, 'KV head')} in place of {whole(had.kv_heads)}: each is "
        f"read by {counted(queries, 'query head')}."
    )


def changes(before: Deployment, after: Deployment) -> list[Change]:
    """Every term before and after."""
    return [Change(name, term.unit, term.value(before), term.value(after)) for name, term in TERMS.items()]


def amount(count: float, unit: str, binary: bool) -> str:
    """A term's value with its unit."""
    if unit == "bytes":
        return bytes_text(count, binary)
    if unit == "FLOPs":
        return flops_text(count)
    if unit == "seconds":
        return seconds_text(count)
    return counted(int(count), unit.removesuffix("es" if unit == "passes" else "s"), unit)


def ratio(factor: Fraction | float) -> str:
    """A factor in words: "÷ 8", "× 1.5" or "unchanged"."""
    if factor == 1:
        return SAME
    size = digits(float(1 / factor if factor < 1 else factor))
    return "almost as before" if size == "1" else f"{'÷' if factor < 1 else '×'} {size}"


def factor_axis(found: Sequence[Change]) -> Axis:
    """After ÷ before on log2; the right half is kept for the words."""
    factors = [float(change.factor) for change in found if change.factor is not None]
    low = min(-2, math.floor(math.log2(min(factors, default=1.0))))
    high = max(0, math.ceil(math.log2(max(factors, default=1.0))))
    step = max(1, math.ceil((high - low) / MOST_TICKS))
    low -= low % step  # a whole number of steps: the axis ends on a tick
    powers = range(low, high + 1, step)
    ticks = tuple((2.0**power, f"÷ {2**-power}" if power < 0 else f"× {2**power}") for power in powers)
    return Axis("after ÷ before (× 1: unchanged)", 2.0**low, 2.0 ** (high + 1.5 * (high - low)), ticks, 2)


def factor_bars(found: Sequence[Change], palette: Palette, binary: bool) -> Bars:
    """One row a term, from 1 to after ÷ before on a logarithmic axis."""
    rows, segments, ends = [], [], []
    for change in found:
        if change.before is None or change.after is None:
            continue
        rows.append(change.term)
        start, end = (amount(value, change.unit, binary) for value in (change.before, change.after))
        if change.factor is None:
            ends.append((change.term, 1.0, f"from {start} to {end}" if start != end else f"{start}, {SAME}"))
            continue
        value = float(change.factor)
        words = f"{start}, {SAME}" if value == 1 else f"{start} → {end} ({ratio(change.factor)})"
        part = LESS if value < 1 else MORE
        segments.append(Segment(change.term, part, min(1.0, value), max(1.0, value), words))
        ends.append((change.term, max(1.0, value), words))
    parts = (Part(LESS, palette.ramp[2]), Part(MORE, palette.roles["limit"]))
    return Bars(rows, parts, segments, ends)


@dataclass(frozen=True)
class Paging:
    """Two ways to reserve the cache of the same requests, in tokens and in bytes."""

    longest: int
    needed_bytes: int
    contiguous_bytes: int
    blocks_bytes: int

    @property
    def contiguous_waste(self) -> float:
        """Part of what contiguous tensors reserve that holds nothing."""
        return 1 - self.needed_bytes / self.contiguous_bytes

    @property
    def blocks_waste(self) -> float:
        """Part of what blocks reserve that holds nothing."""
        return 1 - self.needed_bytes / self.blocks_bytes


def paging(model: ModelShape, dtype: str, tokens: Sequence[int] = CACHED_TOKENS) -> Paging:
    """Reserve the requests of the example both ways, each request by itself.

    Args:
        model: any shape.
        dtype: of the cache.
        tokens: of each request.
    """
    layers, longest = cache_layers(model, dtype), padded(max(tokens))
    whole_tensors = [contiguous(layers, 1, one, max_context=longest) for one in tokens]
    blocks = [vllm(layers, 1, one) for one in tokens]
    return Paging(
        longest=longest,
        needed_bytes=sum(one.needed_bytes for one in whole_tensors),
        contiguous_bytes=sum(one.reserved_bytes for one in whole_tensors),
        blocks_bytes=sum(one.reserved_bytes for one in blocks),
    )


def padded(tokens: int) -> int:
    """Tokens of the blocks that hold some tokens."""
    return blocks_of(tokens, BLOCK_TOKENS) * BLOCK_TOKENS


def paging_bars(palette: Palette, *, blocks: bool, tokens: Sequence[int] = CACHED_TOKENS) -> Bars:
    """One row a request: what it fills and what it reserves, block by block or as one tensor."""
    longest = padded(max(tokens))
    rows, segments = [f"request {place}" for place in range(1, len(tokens) + 1)], []
    for row, held in zip(rows, tokens, strict=True):
        reserved = padded(held) if blocks else longest
        step = BLOCK_TOKENS if blocks else longest
        what = f"{whole(held)} of {whole(reserved)} reserved tokens in use"
        for start in range(0, reserved, step):
            filled = min(held, start + step)
            segments.append(Segment(row, USED, start, filled, what))
            if filled < start + step:
                segments.append(Segment(row, WASTED, filled, start + step, what))
    parts = (Part(USED, palette.ramp[3]), Part(WASTED, faded(palette.roles["limit"], palette)))
    return Bars(rows, parts, segments)


@dataclass(frozen=True)
class Turn:
    """One request on its place: from which step to which."""

    request: int
    place: int
    start: int
    end: int


def schedule(answers: Sequence[int], places: int, *, continuous: bool) -> list[Turn]:
    """Seat requests on the places of a batch, in the order they arrive; `answer_steps` counts the same.

    Args:
        answers: tokens that each asks for.
        places: sequences that run at once.
        continuous: a place is given on as soon as it is free, not when the batch ends.
    """
    free_at = [0] * min(places, len(answers))
    turns = []
    for request, answer in enumerate(answers):
        if not continuous and request % places == 0:
            free_at = [max(free_at)] * len(free_at)
        place = min(range(len(free_at)), key=lambda seat: free_at[seat])
        turns.append(Turn(request, place, free_at[place], free_at[place] + answer))
        free_at[place] += answer
    return turns


def schedule_bars(turns: Sequence[Turn], palette: Palette) -> Bars:
    """One row a place of the batch, the requests one after the other."""
    last = max(turn.end for turn in turns)
    places = sorted({turn.place for turn in turns})
    rows = [f"place {place + 1}" for place in places]
    segments = []
    for row, place in zip(rows, places, strict=True):
        at = 0
        for turn in sorted((one for one in turns if one.place == place), key=lambda one: one.start):
            segments.append(Segment(row, "idle", at, turn.start, "nobody's turn"))
            name, steps = f"request {turn.request + 1}", turn.end - turn.start
            what = f"{name}: {whole(steps)} tokens"
            number = str(turn.request + 1) if steps >= NUMBERED * last else ""
            segments.append(Segment(row, "answering", turn.start, turn.end, what, number))
            at = turn.end
        segments.append(Segment(row, "idle", at, last, "nobody's turn"))
    parts = (Part("answering", palette.roles[WEIGHTS]), Part("idle", palette.grid))
    return Bars(rows, parts, segments)
