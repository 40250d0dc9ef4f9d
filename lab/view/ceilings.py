"""The named ceilings that a page's bounds are drawn under: a measured run's own, or a card's data sheet."""

from __future__ import annotations

from lab.cost import catalog
from lab.cost.predict import Ceilings
from lab.runs import Run
from lab.view import calibrations
from lab.view.format import whole

# Drawn where the recorded card states no matmul rate for the chosen number type.
SHEET_CARD = "a100-sxm-80"


def short_name(run: Run) -> str:
    """The device of a run, without what stands in brackets."""
    return run.device_label.partition(" (")[0]


def of_run(run: Run | None, dtype: str) -> Ceilings | None:
    """The ceilings that were measured on the device of a run.

    Args:
        run: measured here or recorded; None for none.
        dtype: the number type that the matmul rate must hold for.

    Returns:
        The ceilings; None where the run has none for this type.
    """
    if run is None or run.ceilings is None or run.spec.dtype not in (dtype, "auto"):
        return None
    flops, copy = run.ceilings.get("flops_per_s"), run.ceilings.get("copy_bytes_per_s")
    if not flops or not copy:
        return None
    how = str(run.ceilings.get("how") or "measured on the device")
    return Ceilings(short_name(run), how, float(flops), float(copy))


def of_card(card_id: str, dtype: str) -> Ceilings | None:
    """The ceilings of a card's data sheet.

    Args:
        card_id: of the catalogue.
        dtype: the number type of the matmul rate.

    Returns:
        The ceilings; None where the sheet states no rate or no bandwidth.
    """
    card = catalog.card(card_id)
    flops, bandwidth = card.dense_flops.get(dtype), card.memory_bandwidth_bytes_per_s
    if not flops or not bandwidth:
        return None
    return Ceilings(f"{card.name} data sheet", _sources(card), float(flops), float(bandwidth))


def _sources(card: catalog.Hardware) -> str:
    """Where a card's figures can be looked up; its sources are too many to stand under a chart."""
    count = len(card.sources)
    return f"{whole(count)} public source{'' if count == 1 else 's'}, listed in lab/data/hardware.json"


def of_sheet(run: Run | None, dtype: str) -> Ceilings | None:
    """The ceilings of the data sheet of the card that a published run names.

    Args:
        run: bundled; None for none.
        dtype: the number type of the matmul rate.

    Returns:
        The ceilings; None where the run names no card of the catalogue, or its sheet states no rate.
    """
    card_id = str(run.environment.get("card")) if run is not None and run.recorded_on is not None else ""
    return of_card(card_id, dtype) if card_id in catalog.hardware() else None


def of_device(run: Run | None, dtype: str) -> Ceilings | None:
    """The ceilings of the device that a bundled run was recorded on, as far as any are known of it.

    Measured on it in this type, else those of its calibration, else of the sheet of the card that it names.

    Args:
        run: bundled; None for none.
        dtype: the number type of the matmul rate.
    """
    known = calibrations.of_recorded(run, dtype)
    calibrated = calibrations.ceilings_of(known) if known else None
    return of_run(run, dtype) or calibrated or of_sheet(run, dtype)


def reference(recorded: Run | None, dtype: str) -> Ceilings:
    """The ceilings drawn before anything is measured here: the recorded device's, else a data sheet's.

    Args:
        recorded: the run that the reader compares with.
        dtype: the scenario's number type.

    Raises:
        ValueError: the fallback card states no rate for this type.
    """
    found = of_device(recorded, dtype) or of_card(SHEET_CARD, dtype)
    if found is None:
        raise ValueError(f"the data sheet of {SHEET_CARD} states no {dtype} rate")
    return found


def stand_in(recorded: Run | None, dtype: str) -> list[str]:
    """A badge where the lines are drawn under the sheet of a card that the reader did not choose.

    Args:
        recorded: the run that the reader compares with.
        dtype: the scenario's number type.
    """
    if of_device(recorded, dtype) is not None:
        return []
    name = reference(None, dtype).name
    return [
        f"Lines: {name}"
        if recorded is None
        else f"{short_name(recorded)} has no {dtype} rate: {name} instead"
    ]
