"""The ledger's records, loaded from lab/data/claims/*.json and checked for completeness."""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lab.cost.claims.facts import row, tables
from lab.cost.claims.printed import Figure, read_figure, unit_scale
from lab.cost.claims.registry import FORMULAS

DATA = Path(__file__).resolve().parents[2] / "data" / "claims"

SOURCES = {
    "chapter": "Attention and Its Computational Cost",
    "overview": "Attention Complexity & Cost",
}
CATEGORIES = ("established", "arithmetic", "estimate", "measured", "hypothesis", "not measured")
VERDICTS = ("holds", "holds in part", "wrong", "needs a run", "not checkable")
RELATIONS = ("equal", "between", "at_least", "at_most")
EXPERIMENTS = (
    *(
        "memory",
        "scaling",
        "decode",
        "causal",
        "model",
        "first_call",
        "split_kv",
        "backends",
        "accuracy",
        "mask",
    ),
)


@dataclass(frozen=True)
class Claim:
    """One claim of a source document: what it prints, and how it was judged."""

    id: str
    source: str  # a key of SOURCES
    section: str
    says: str  # our paraphrase
    figures: tuple[Figure, ...]  # the printed numbers; empty where the source only names what it did not test
    unit: str
    labels: tuple[str, ...]  # what each value is, where there is more than one
    relation: str  # how a figure binds its value: one of RELATIONS
    category: str
    precision: str  # why the figures are taken to be as precise as they are
    formula: str | None  # a key of FORMULAS; None where arithmetic cannot settle it
    inputs: dict[str, Any] = field(hash=False)
    experiment: str | None  # the experiment that checks it on a machine, alone or once more
    verdict: str
    right: tuple[str, ...]  # the right values in the claim's unit, where the verdict is not "holds"
    why: str  # with places for figures: lab.cost.evidence.reason puts them in
    steps: dict[str, dict[str, Any]] = field(
        hash=False
    )  # further figures of `why`: formula, inputs and unit by name

    @property
    def claimed(self) -> tuple[float, ...]:
        """The printed numbers in the claim's unit."""
        return tuple(figure.value for figure in self.figures)


@dataclass(frozen=True)
class Exercise:
    """One reader exercise of the chapter and what answers it: formulas, an experiment, or both."""

    number: int
    asks: str  # our paraphrase
    answer: str
    steps: tuple[dict[str, Any], ...]  # formula, inputs, unit and label of every number in the answer
    experiment: str | None


@cache
def claims() -> tuple[Claim, ...]:
    """Load the ledger.

    Returns:
        Every claim, in the order of its document.

    Raises:
        ValueError: an entry names a category, verdict, relation, experiment, unit or formula that is unknown.
    """
    return tuple(_claim(source, entry) for source in SOURCES for entry in _entries(source))


@cache
def exercises() -> tuple[Exercise, ...]:
    """Load the chapter's eight reader exercises.

    Returns:
        The exercises by number.
    """
    return tuple(
        Exercise(
            number=entry["number"],
            asks=entry["asks"],
            answer=entry["answer"],
            steps=tuple(entry["steps"]),
            experiment=entry["experiment"],
        )
        for entry in _entries("exercises")
    )


def _entries(name: str) -> list[dict[str, Any]]:
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def _claim(source: str, entry: dict[str, Any]) -> Claim:
    about, cells = entry.get("about", False), entry.get("cells")
    printed = _printed_cells(cells) if cells else entry["printed"]
    figures = [read_figure(text, about=about, half_width=entry.get("half_width")) for text in printed]
    half_unit = (
        "one unit of the last digit: marked as approximate" if about else "half a unit of the last digit"
    )
    claim = Claim(
        id=entry["id"],
        source=source,
        section=entry["section"],
        says=entry["says"],
        figures=tuple(figures),
        unit=entry["unit"],
        labels=tuple(entry.get("labels") or (cells["columns"] if cells and len(figures) > 1 else ())),
        relation=entry.get("relation", "equal"),
        category=entry["category"],
        precision=entry.get("precision", half_unit),
        formula=entry.get("formula"),
        inputs=entry.get("inputs", {}),
        experiment=entry.get("experiment"),
        verdict=entry["verdict"],
        right=tuple(entry.get("right", ())),
        why=entry["why"],
        steps=entry.get("steps", {}),
    )
    _check(claim)
    return claim


def _printed_cells(cells: dict[str, Any]) -> list[str]:
    """Read a claim's digits from the chapter's tables, so that no measured number is stored twice."""
    found = row(cells["table"], cells["where"]) if "where" in cells else tables()[cells["table"]]
    columns = [found[name] for name in cells["columns"]]
    return [str(number) for entry in columns for number in (entry if isinstance(entry, list) else [entry])]


def _check(claim: Claim) -> None:
    unit_scale(claim.unit)
    choices = {
        "category": (claim.category, CATEGORIES),
        "verdict": (claim.verdict, VERDICTS),
        "relation": (claim.relation, RELATIONS),
        "experiment": (claim.experiment, (None, *EXPERIMENTS)),
        "formula": (claim.formula, (None, *FORMULAS)),
    }
    for name, (value, allowed) in choices.items():
        if value not in allowed:
            raise ValueError(
                f"{name} of claim {claim.id} must be one of {', '.join(map(str, allowed))}, got {value!r}"
            )
