"""The predictor against the chapter's tables: which cells are scored, and how far off each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lab.cost.calibration import Calibration
from lab.cost.chapter_card import (
    FUSED_CELL,
    ITEM_CELL,
    LAUNCH_CELL,
    STREAM_CELL,
    chapter_calibration,
    fused_share,
    predict_chapter,
    sheet_calibration,
)
from lab.cost.datasheet import DataSheet
from lab.cost.prediction_model import predict_gpt2
from lab.cost.score import FITTED, HELD_OUT, Cell
from lab.cost.shapes import ModelShape

DTYPES = ("fp16", "fp32")
PREFILL = ("naive", "efficient")


def prefill_cells(recorded: Mapping[str, Any], sheet: DataSheet) -> list[Cell]:
    """Compare the chapter's table of times with the calibrated predictor.

    Args:
        recorded: the chapter's measurements.
        sheet: the data sheet of the card.

    Returns:
        20 cells, one of them fitted.
    """
    calibrations = {dtype: chapter_calibration(recorded, sheet, dtype) for dtype in DTYPES}
    return _prefill(recorded, calibrations, FUSED_CELL)


def sheet_cells(recorded: Mapping[str, Any], sheet: DataSheet) -> list[Cell]:
    """Compare the same table with what the data sheet alone predicts.

    Args:
        recorded: the chapter's measurements.
        sheet: the data sheet of the card.

    Returns:
        20 cells, none fitted.
    """
    return _prefill(recorded, {dtype: sheet_calibration(sheet, dtype) for dtype in DTYPES}, None)


def causal_cells(recorded: Mapping[str, Any], sheet: DataSheet) -> list[Cell]:
    """Compare the printed ratios of causal to full time (fp16) with the predicted ones.

    Args:
        recorded: the chapter's measurements.
        sheet: the data sheet of the card.

    Returns:
        9 cells of ratios; no constant comes from them.
    """
    calibration = chapter_calibration(recorded, sheet, "fp16")
    table = recorded["causal_over_full_time"]
    cells = []
    for implementation in ("naive", "math", "efficient"):
        for length, measured in zip(table["T"], table[implementation], strict=True):
            causal, full = (
                predict_chapter(implementation, calibration, recorded, length, causal=mask).seconds
                for mask in (True, False)
            )
            cells.append(Cell(f"causal/full {implementation}", f"T = {length}", causal / full, measured))
    return cells


def decode_cells(recorded: Mapping[str, Any], sheet: DataSheet) -> list[Cell]:
    """Compare the chapter's decode table with the streaming model.

    Args:
        recorded: the chapter's measurements.
        sheet: the data sheet of the card.

    Returns:
        7 cells, three of them fitted.
    """
    calibration = chapter_calibration(recorded, sheet, "fp16")
    cells = []
    for row in recorded["decode_fp16_one_layer_12_heads_of_64"]:
        predicted = predict_chapter(
            "efficient", calibration, recorded, row["T"], batch=row["batch"], q_len=1
        ).seconds
        fitted = (row["batch"], row["T"]) in (LAUNCH_CELL, ITEM_CELL, STREAM_CELL)
        label = f"batch {row['batch']}, T = {row['T']}"
        cells.append(Cell("decode fp16", label, predicted, row["us"] / 1e6, FITTED if fitted else HELD_OUT))
    return cells


def gpt2_cells(recorded: Mapping[str, Any], sheet: DataSheet, model: ModelShape) -> list[Cell]:
    """Compare the chapter's GPT-2 times (fp32, one prompt, all logits) with the prediction by module.

    Args:
        recorded: the chapter's measurements.
        sheet: the data sheet of the card.
        model: GPT-2.

    Returns:
        6 cells; no constant comes from them.
    """
    calibration = chapter_calibration(recorded, sheet, "fp32")
    cells = []
    for attention, column in (("eager", "eager_ms"), ("efficient", "sdpa_ms")):
        for row in recorded["gpt2_fp32_batch1"]:
            tokens = row["tokens"]
            predicted = predict_gpt2(model, calibration, batch=1, tokens=tokens, attention=attention).seconds
            cells.append(Cell(f"GPT-2 {attention}", f"{tokens} tokens", predicted, row[column] / 1e3))
    return cells


def left_out_fused(recorded: Mapping[str, Any], sheet: DataSheet) -> list[Cell]:
    """Predict each fused cell with the share taken from each other one: how much the choice of cell matters.

    Args:
        recorded: the chapter's measurements.
        sheet: the data sheet of the card.

    Returns:
        90 cells: 10 choices of the fitted cell, 9 others each.
    """
    plain = {dtype: chapter_calibration(recorded, sheet, dtype) for dtype in DTYPES}
    cells = []
    for dtype in DTYPES:
        for row in recorded["time_ms"]:
            fitted = (dtype, row["T"])
            share = fused_share(recorded, plain[dtype], *fitted)
            shared = {
                name: replace(calibration, fused={"efficient/64x64": share})
                for name, calibration in plain.items()
            }
            others = _prefill(recorded, shared, fitted, ("efficient",))
            family = f"fitted to {dtype} T = {row['T']}"
            cells += [replace(cell, family=family) for cell in others if cell.role == HELD_OUT]
    return cells


def _prefill(
    recorded: Mapping[str, Any],
    calibrations: Mapping[str, Calibration],
    fitted: tuple[str, int] | None,
    implementations: tuple[str, ...] = PREFILL,
) -> list[Cell]:
    cells = []
    for implementation in implementations:
        for dtype in DTYPES:
            for row in recorded["time_ms"]:
                length = row["T"]
                predicted = predict_chapter(implementation, calibrations[dtype], recorded, length).seconds
                role = FITTED if implementation == "efficient" and (dtype, length) == fitted else HELD_OUT
                measured = row[f"{dtype}_{implementation}"] / 1e3
                cells.append(Cell(f"{implementation} {dtype}", f"T = {length}", predicted, measured, role))
    return cells
