"""The evidence ledger as a table, as bars of verdicts, and one claim opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

import pandas as pd

from lab.cost import evidence
from lab.cost.claims.printed import COUNTED_UNITS
from lab.cost.evidence import CATEGORIES, SOURCES, VERDICTS, Claim
from lab.view.bars import Bars, Part, Segment, faded
from lab.view.format import digits, whole
from lab.view.palette import Palette

ALL = "all"
SEPARATOR = "; "
RELATIONS = {"at_least": "at least ", "at_most": "at most ", "between": "between "}
FIGURES = 4
"""Significant figures of a recomputed value."""


@cache
def recomputed(claim: Claim) -> evidence.Recomputation | None:
    """The recomputation of a claim, made once."""
    return evidence.recompute(claim)


def matches(claim: Claim, words: str, source: str, verdict: str, category: str) -> bool:
    """Whether a claim passes the filters.

    Args:
        claim: an entry of the ledger.
        words: every one of them must stand somewhere in the claim, in any case; empty passes all.
        source: a key of SOURCES, or ALL.
        verdict: one of VERDICTS, or ALL.
        category: one of CATEGORIES, or ALL.
    """
    printed = " ".join(figure.printed for figure in claim.figures)
    everything = " ".join(
        (claim.id, claim.section, claim.says, evidence.reason(claim), claim.unit, printed, *claim.labels)
    ).lower()
    asked = ((claim.source, source), (claim.verdict, verdict), (claim.category, category))
    return all(wanted in (ALL, value) for value, wanted in asked) and all(
        word in everything for word in words.lower().split()
    )


def printed_text(claim: Claim) -> str:
    """The figures as printed, with the unit."""
    between = " and " if claim.relation == "between" else SEPARATOR
    figures = between.join(
        digits(figure.value) if "e" in figure.printed else figure.printed for figure in claim.figures
    )
    relation = RELATIONS.get(claim.relation, "")
    return f"{relation}{figures} {unit_text(claim.unit, figures)}".strip() if figures else "no figure"


def unit_text(unit: str, figures: str = "") -> str:
    """A unit behind figures: a lone sign of multiplication would read as one; one of what is counted is singular.

    Args:
        unit: of the claim.
        figures: that stand before it, as written.
    """
    if unit in COUNTED_UNITS and figures == "1":
        return unit.removesuffix("es") if unit == "passes" else unit.removesuffix("s")
    return "times" if unit == "×" else unit


def recomputed_text(claim: Claim) -> str:
    """What the lab computes for the same quantity; why not, where it cannot."""
    found = recomputed(claim)
    if found is None:
        return "needs a run" if claim.experiment else "not checkable"
    spans = zip(found.value, found.low, found.high, strict=True)
    figures = SEPARATOR.join(_span(*span) for span in spans)
    return f"{figures} {unit_text(found.unit, figures)}".strip()


def _span(value: float, low: float, high: float) -> str:
    """A value, with the range that the rounding of printed inputs leaves open where it shows."""
    middle, least, most = (number(one) for one in (value, low, high))
    return middle if least == most else f"{middle} ({least} to {most})"


def number(value: float) -> str:
    """A value with a few figures; very small ones with a power of ten."""
    if value and abs(value) < 1e-3:
        return f"{value:.2e}"
    return digits(value, FIGURES)


def table(claims: Iterable[Claim], here: Callable[[Claim], str]) -> pd.DataFrame:
    """One row a claim.

    Args:
        claims: in the order of their documents.
        here: what this machine measured of a claim, in a few words; empty for nothing.
    """
    columns = ("verdict", "says", "printed", "recomputed", "measured here", "category", "section", "source")
    rows = [
        (
            claim.verdict, claim.says, printed_text(claim), recomputed_text(claim), here(claim), claim.category,
            claim.section, SOURCES[claim.source],
        )
        for claim in claims
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(columns))


def verdict_bars(claims: Sequence[Claim], palette: Palette) -> Bars:
    """One row a category with its verdicts stacked, the longest row first in the order of CATEGORIES.

    Args:
        claims: those that the filters leave.
        palette: of the theme in use.
    """
    limit = palette.roles["limit"]
    colours = (palette.ramp[3], palette.ramp[0], limit, faded(limit, palette), palette.grid)
    segments, ends = [], []
    for category in CATEGORIES:
        own, at = [claim for claim in claims if claim.category == category], 0
        for verdict in VERDICTS:
            count = sum(claim.verdict == verdict for claim in own)
            inside = "" if verdict == VERDICTS[-1] else str(count)
            segments.append(Segment(category, verdict, at, at + count, f"{verdict}: {whole(count)}", inside))
            at += count
        ends.append((category, float(at), whole(at)))
    parts = [Part(verdict, colour) for verdict, colour in zip(VERDICTS, colours, strict=True)]
    return Bars(CATEGORIES, parts, segments, ends)


def details(claim: Claim) -> list[str]:
    """Everything the ledger holds on a claim, in sentences.

    Args:
        claim: an entry of the ledger.
    """
    found = recomputed(claim)
    lines = [
        f"**{claim.says}** ({SOURCES[claim.source]}, {claim.section})",
        f"**Printed:** {printed_text(claim)}. Taken to be precise to: {claim.precision}.",
    ]
    if claim.labels:
        lines.append(f"**In this order:** {', '.join(claim.labels)}.")
    if found is not None:
        inputs = ", ".join(f"{name} = {_input(value)}" for name, value in found.inputs.items())
        lines.append(f"**Recomputed:** {recomputed_text(claim)}. {found.formula}")
        lines.append(f"**From:** {inputs or 'the printed figures alone'}.")
    if claim.right:
        right = SEPARATOR.join(claim.right)
        lines.append(f"**Right would be:** {right} {unit_text(claim.unit, right)}.")
    return [*lines, f"**{claim.verdict.capitalize()}:** {evidence.reason(claim)}"]


def compared(claim: Claim) -> list[str]:
    """The recomputed range against what the first printed figure stands for, in LaTeX.

    Args:
        claim: an entry of the ledger.
    """
    found = recomputed(claim)
    if found is None or not claim.figures:
        return []
    printed = claim.figures[0].interval
    ends = [number(float(end)) for end in (found.low[0], found.high[0], printed.low, printed.high)]
    low, high, least, most = (rf"\text{{{end}}}" for end in ends)
    unit = claim.unit.replace("%", r"\%")
    return [rf"[{low},\ {high}]\ \text{{against}}\ [{least},\ {most}]\ \text{{{unit}}}"]


def _input(value: object) -> str:
    """An input of a recomputation, as a reader would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_input, value))
    if isinstance(value, dict):
        return "; ".join(f"{name} {_input(one)}" for name, one in value.items())
    return whole(value) if isinstance(value, int) else str(value)
