"""The chapter's card as a calibration: each constant with the sentence, the sheet or the cell it comes from.

The chapter printed its card's copy bandwidth and number of multiprocessors and, indirectly, its best matmul
rate. What it did not print is taken from the fewest cells that state it, and those cells are not scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lab.cost.calibration import Calibration, DecodeRate
from lab.cost.datasheet import DataSheet, from_sheet
from lab.cost.prediction import Prediction, predict_attention
from lab.cost.rates import Constant, Curve

SHEET_ID = "rtx-2060-12"
"""The card in lab/data/hardware.json with the chapter's memory, compute capability and multiprocessors."""

FUSED_CELL = ("fp16", 4096)
"""dtype and T of the one fused cell that gives the share of the matmul rate."""

LAUNCH_CELL, ITEM_CELL, STREAM_CELL = (1, 128), (1, 16384), (64, 16384)
"""Batch and T of the decode cells that give the launch time, one item's rate, the share of the bandwidth."""

# Turing's tensor cores with fp32 accumulation against its fp32 lanes, on the architecture's own data sheet.
TENSOR_PER_FP32 = 53.8 / 13.4
TENSOR_SOURCE = (
    "fp32 rate of the sheet times 53.8/13.4, FP16 tensor (FP32 accumulate) to FP32 in NVIDIA's Turing "
    "whitepaper, table of the RTX 2080 Ti"
)


def chapter_calibration(recorded: Mapping[str, Any], sheet: DataSheet, dtype: str) -> Calibration:
    """Build the calibration of the chapter's card.

    Args:
        recorded: the chapter's measurements, lab/data/chapter_measurements.json.
        sheet: the data sheet of the card, `SHEET_ID` in the catalog.
        dtype: "fp16" or "fp32".

    Returns:
        The calibration; its fused share and decode rates come from the cells named in this module.

    Raises:
        ValueError: another dtype, or a sheet without an fp32 rate.
    """
    if dtype not in ("fp16", "fp32"):
        raise ValueError(f"dtype must be fp16 or fp32, the chapter measured no other, got {dtype!r}")
    plain = _plain_calibration(recorded, sheet, "fp16")
    tile = "efficient/64x64"
    share = fused_share(recorded, plain, *FUSED_CELL)
    decode = {"efficient": decode_rate(recorded)} if dtype == "fp16" else {}
    return _plain_calibration(recorded, sheet, dtype, {tile: share}, decode)


def fused_share(recorded: Mapping[str, Any], plain: Calibration, dtype: str, length: int) -> Constant:
    """Find the share of the matmul rate that makes one fused cell come out exactly.

    Args:
        recorded: the chapter's measurements.
        plain: a calibration in that dtype; its own share, if any, is not used.
        dtype: of the cell.
        length: T of the cell.

    Returns:
        The share.
    """
    full = Constant(1.0, "1", "the full rate")
    at_full = predict_chapter("efficient", _with_share(plain, full), recorded, length).seconds
    row = next(row for row in recorded["time_ms"] if row["T"] == length)
    measured = row[f"{dtype}_efficient"] / 1e3
    cell = f"cell: efficient {dtype} causal T = {length}, {row[f'{dtype}_efficient']} ms"
    return Constant(at_full / measured, "1", cell)


def decode_rate(recorded: Mapping[str, Any]) -> DecodeRate:
    """Read the streaming rates of the decode table from three of its cells."""
    shape = recorded["shape"]
    cell_bytes = {}
    times = {}
    for row in recorded["decode_fp16_one_layer_12_heads_of_64"]:
        key = (row["batch"], row["T"])
        cell_bytes[key] = 2 * row["batch"] * shape["heads"] * row["T"] * shape["head_dim"] * 2
        times[key] = row["us"] / 1e6
    copy = recorded["device"]["copy_bandwidth_bytes_per_s"]

    def source(key: tuple[int, int]) -> str:
        return f"cell: decode fp16 batch {key[0]}, T = {key[1]}, {times[key] * 1e6:.5g} µs"

    item = cell_bytes[ITEM_CELL] / ITEM_CELL[0] / shape["heads"] / times[ITEM_CELL]
    stream = cell_bytes[STREAM_CELL] / times[STREAM_CELL] / copy
    return DecodeRate(
        item=Constant(item, "bytes/s", source(ITEM_CELL)),
        fraction=Constant(stream, "1", source(STREAM_CELL)),
        launch=Constant(times[LAUNCH_CELL], "s", source(LAUNCH_CELL)),
    )


def sheet_calibration(sheet: DataSheet, dtype: str) -> Calibration:
    """Build a calibration from the data sheet alone: no measurement of the card enters.

    Args:
        sheet: the data sheet of the card.
        dtype: "fp16" or "fp32".

    Returns:
        The calibration; the fp16 rate, which the sheet does not print, follows from the architecture's ratio.
    """
    if dtype == "fp32":
        return from_sheet(sheet, dtype)
    fp32 = from_sheet(sheet, "fp32")
    rate = Constant(fp32.matmul.value * TENSOR_PER_FP32, "FLOP/s", TENSOR_SOURCE)
    return from_sheet(sheet, dtype, matmul=rate, wide=fp32)


def predict_chapter(
    implementation: str,
    calibration: Calibration,
    recorded: Mapping[str, Any],
    length: int,
    *,
    batch: int = 1,
    q_len: int | None = None,
    causal: bool = True,
    splits: int = 1,
) -> Prediction:
    """Predict one call at the chapter's shape: 12 heads of 64.

    Args:
        implementation: "naive", "naive_inplace", "math" or "efficient".
        calibration: of a CUDA card.
        recorded: the chapter's measurements, for the shape.
        length: keys.
        batch: sequences.
        q_len: queries; None for as many as keys.
        causal: whether the mask applies.
        splits: of a decode step.

    Returns:
        The prediction.
    """
    shape = recorded["shape"]
    return predict_attention(
        implementation,
        calibration,
        batch=batch,
        heads=shape["heads"],
        kv_heads=shape["heads"],
        q_len=q_len or length,
        kv_len=length,
        head_dim=shape["head_dim"],
        causal=causal,
        splits=splits,
    )


def _plain_calibration(
    recorded: Mapping[str, Any],
    sheet: DataSheet,
    dtype: str,
    fused: Mapping[str, Constant] | None = None,
    decode: Mapping[str, DecodeRate] | None = None,
) -> Calibration:
    device = recorded["device"]
    if dtype == "fp32":
        rate = from_sheet(sheet, "fp32").matmul
    else:
        printed = "printed: 17.3 TFLOP/s was about 55 per cent of the best matmul rate"
        rate = Constant(device["best_fp16_matmul_flops_per_s"], "FLOP/s", printed)
    bandwidth = ((1.0, device["copy_bandwidth_bytes_per_s"]),)
    wide = None if dtype == "fp32" else _plain_calibration(recorded, sheet, "fp32")
    return Calibration(
        device="the chapter's card",
        device_kind="cuda",
        dtype=dtype,
        threads=None,
        source="printed figures, the data sheet and the cells named",
        bandwidth=Curve(bandwidth, "bytes", "bytes/s", "printed: copy bandwidth, read and written counted"),
        matmul=rate,
        slots=Constant(device["sm_count"], "blocks", "printed: multiprocessors"),
        fused=fused or {},
        decode=decode or {},
        wide=wide,
        compute_capability=device["compute_capability"],
    )


def _with_share(calibration: Calibration, share: Constant) -> Calibration:
    return replace(calibration, fused={"efficient/64x64": share})
