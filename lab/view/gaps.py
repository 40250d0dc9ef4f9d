"""The distance between prediction and measurement, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lab.view.forecasts import BOUND, PREDICTION
from lab.view.format import digits, tokens_label
from lab.view.frames import Mark

CLOSE, INVISIBLE = 0.02, 5e-4
_BASES = {
    BOUND: "The bound is what the named ceilings allow if every pass ran at full rate, one by one.",
    PREDICTION: "The prediction adds up the passes at rates that this machine was calibrated with, none of them "
    "from these points.",
}


@dataclass(frozen=True)
class Ratio:
    """Measured over predicted for one point."""

    mark: Mark
    label: str
    value: float


def ratios(
    marks: Sequence[Mark], kind: str, labels: dict[str, str], predicted: Callable[[Mark], float | None]
) -> list[Ratio]:
    """Measured over predicted, for the points of one kind.

    Args:
        marks: the points of a chart.
        kind: "measured", those still without a memory figure among them, or "recorded".
        labels: the name of each series.
        predicted: the line's value at a point, for points that carry no prediction; None where no line is.
    """
    found, kinds = [], (kind, "pending") if kind == "measured" else (kind,)
    for mark in marks:
        if mark.kind not in kinds:
            continue
        expected = mark.predicted or predicted(mark)
        if expected:
            found.append(Ratio(mark, labels[mark.series], mark.y / expected))
    return found


def peaks_text(found: Sequence[Ratio], where: str) -> str:
    """How measured peaks compare with predicted ones.

    Args:
        found: measured over predicted.
        where: the device, in words.
    """
    if not found:
        return f"Nothing measured on {where} fits this scenario."
    worst = max(found, key=lambda ratio: abs(ratio.value - 1))
    off = abs(worst.value - 1)
    if off <= CLOSE:
        return f"**{_capital(where)}:** all {len(found)} measured peaks are {_within(off)}."
    close = sum(abs(ratio.value - 1) <= CLOSE for ratio in found)
    return (
        f"**{_capital(where)}:** {close} of {len(found)} peaks are within {digits(100 * CLOSE)} % "
        f"of the prediction. The farthest is {worst.label} at T = {tokens_label(int(worst.mark.x))}: "
        f"{digits(worst.value)} times what the list of live tensors gives. The smaller the tensors, the "
        "more a library's own workspace and rounding to whole blocks weigh."
    )


def times_texts(sides: Iterable[tuple[Sequence[Ratio], str, str]], reasons: str) -> list[str]:
    """How measured times of several devices compare with bounds or predictions; each basis is explained once.

    Args:
        sides: of each device measured over the bound, the device in words, and BOUND or PREDICTION.
        reasons: why times lie above the bound here.
    """
    told = [(found, basis, _times(found, where, basis)) for found, where, basis in sides]
    bases = dict.fromkeys(basis for found, basis, _ in told if found)
    explained = [_BASES[basis] for basis in bases] + ([reasons] if bases else [])
    return [*(text for *_, text in told), *([" ".join(explained)] if explained else [])]


def times_text(found: Sequence[Ratio], where: str, reasons: str, basis: str = BOUND) -> str:
    """How measured times compare with a bound or a prediction.

    Args:
        found: measured over the bound.
        where: the device, in words.
        reasons: why times lie above the bound here.
        basis: BOUND or PREDICTION.
    """
    return " ".join(times_texts([(found, where, basis)], reasons))


def _times(found: Sequence[Ratio], where: str, basis: str) -> str:
    if not found:
        return f"Nothing measured on {where} fits this scenario."
    parts = []
    for label in dict.fromkeys(ratio.label for ratio in found):
        own = [ratio.value for ratio in found if ratio.label == label]
        low, high = digits(min(own), 2), digits(max(own), 2)
        parts.append(f"{label}: {low}" if low == high else f"{label}: {low} to {high}")
    text = f"**{_capital(where)}**, measured time over the {basis}: {'; '.join(parts)}."
    loud = sum(ratio.mark.noisy for ratio in found)
    if loud:
        text += f" {'All' if loud == len(found) else loud} of these times are noisy: the machine was busy."
    if basis == BOUND and any(ratio.value < 1 for ratio in found):
        text += " A value below 1 means that part of the traffic stayed in a cache."
    return text


def _within(off: float) -> str:
    """How close the farthest is; a difference that three figures cannot show is no difference to a reader."""
    if off == 0:
        return "exactly as predicted"
    if off < INVISIBLE:
        return "as predicted in every digit shown"
    return f"within {digits(100 * off, 2)} % of the prediction"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
