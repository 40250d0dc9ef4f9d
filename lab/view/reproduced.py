"""Claims beside what this machine measured: read again only when a run file was written."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from lab.cost import evidence
from lab.cost.evidence import Claim
from lab.runs import JobSpec
from lab.runs.reproduction import Reproduction, Value, reproduce
from lab.runs.reproduction.values import OUTCOMES
from lab.view import calibrations, here, ledger
from lab.view.command import command_line
from lab.view.counted import verb
from lab.view.format import whole
from lab.view.stamp import Stamp, stamp

BELONGS = "Times, peaks and errors belong to a device and a build: another figure on another one contradicts nothing."


def of_this_machine(device: str) -> Mapping[str, Reproduction]:
    """What the runs kept here say of the claims, by the claim's id.

    Args:
        device: the scenario's choice.
    """
    return _read(here.kind(device), stamp())


@st.cache_resource(max_entries=4, show_spinner=False)
def _read(kind: str, written: Stamp) -> Mapping[str, Reproduction]:
    held = [run for run in calibrations.kept() if calibrations.here_kind(run) == kind]
    read = ((claim.id, reproduce(claim, held)) for claim in evidence.claims())
    return {name: found for name, found in read if found is not None}


def value_text(value: Value, unit: str) -> str:
    """A measured value with its spread and unit."""
    middle, low, high = (ledger.number(one) for one in (value.value, value.low, value.high))
    spread = "" if low == high else f" ({low} to {high})"
    return f"{middle}{spread} {ledger.unit_text(unit)}".strip()


def short(claim: Claim, found: Reproduction | None) -> str:
    """One cell of the table: the outcome and the values."""
    if found is None:
        return ""
    values = ledger.SEPARATOR.join(ledger.number(value.value) for value in found.values)
    return f"{found.outcome}: {values} {ledger.unit_text(claim.unit)}".strip() if values else found.outcome


def details(claim: Claim, found: Reproduction | None) -> list[str]:
    """What this machine says of a claim, in sentences.

    Args:
        claim: an entry of the ledger.
        found: read from its runs; None for nothing.
    """
    if found is None:
        return []
    if not found.values:
        return [f"**Here, {found.outcome}:** {found.says}."]
    parts = []
    for value in found.values:
        beside = f", printed {value.printed.printed}" if value.printed else ""
        parts.append(f"{value.label}: {value_text(value, claim.unit)}{beside}")
    return [f"**Here, {found.outcome}:** {'; '.join(parts)}. {BELONGS}"]


def by_hand(spec: JobSpec) -> str:
    """How to measure a claim that no rule reads back from a run.

    Args:
        spec: the job that measures its quantity.
    """
    return (
        f"**How to measure it:** `{command_line(spec)}` in the lab's folder measures its quantity. No rule reads "
        "this figure back: compare the run's points, on the page *My machine*, with the print yourself."
    )


def summary(found: Mapping[str, Reproduction], asked: int) -> str:
    """How many of the claims that a rule reads were read from this machine's runs, and with what outcome.

    Args:
        found: what the runs kept here say, by the claim's id.
        asked: claims that a rule reads.
    """
    if not found:
        return f"Not one of the {whole(asked)} figures that a run here can settle has been measured yet."
    counts = ((sum(one.outcome == outcome for one in found.values()), outcome) for outcome in OUTCOMES)
    said = "; ".join(f"{outcome}: {whole(count)}" for count, outcome in counts if count)
    measured = f"{whole(len(found))} {verb(len(found), 'was', 'were')} measured"
    return f"**This machine:** of {whole(asked)} figures that a run here can settle, {measured}: {said}."
