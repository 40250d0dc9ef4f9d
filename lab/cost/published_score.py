"""The predictor against published tables of other cards: nothing of its structure was chosen on them.

`waves_cells` tests that a decode kernel without splitting runs in rounds of one block per multiprocessor;
`sheet_cells` tests what a data sheet alone says about a fused kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from lab.cost.calibration import DecodeRate
from lab.cost.datasheet import DataSheet, from_sheet
from lab.cost.formulas import attention_flops
from lab.cost.prediction import predict_attention
from lab.cost.rates import Constant
from lab.cost.score import FITTED, HELD_OUT, Cell

FLASH_DECODING_TABLE = "D20"
FUSED_FORWARD_TABLES = ("D09", "D10", "D11", "D12")
WAVES_CELL = (1, 131072)
"""Batch and keys of the one row that gives what a block streams alone."""

PASSES = {"fwd": Fraction(1), "fwd+bwd": 1 + Fraction(5, 2)}
"""FLOPs counted over those of the forward pass, whose two products have five in a fused backward pass.

Source: benchmarks/benchmark_flash_attention.py of Dao-AILab/flash-attention, which the tables were made with.
"""


def counted_flops(config: Mapping[str, Any], batch: int, heads: int, length: int) -> int:
    """Count a call's FLOPs as the tables do that print TFLOP/s: causal work is half of the dense work.

    Args:
        config: of the table: head_dim, causal, and the mode, one of PASSES.
        batch: sequences.
        heads: query heads, as many as key/value heads.
        length: queries, as many as keys.

    Returns:
        FLOPs. Dividing them by the printed rate gives the time that was measured.

    Raises:
        ValueError: a mode that the convention does not cover.
    """
    if config["mode"] not in PASSES:
        raise ValueError(f"mode must be one of {', '.join(PASSES)}, got {config['mode']!r}")
    dense = int(attention_flops(batch, heads, length, length, config["head_dim"], False))
    return int(PASSES[config["mode"]] * dense / (2 if config["causal"] else 1))


def waves_cells(tables: Sequence[Mapping[str, Any]], sheet: DataSheet) -> list[Cell]:
    """Predict FlashAttention 2.0.9 at decode on an A100 from one row of the Flash-Decoding table.

    Args:
        tables: the published tables.
        sheet: the data sheet of the A100, for its multiprocessors and bandwidth.

    Returns:
        10 cells, one of them fitted.

    Raises:
        ValueError: the table is missing, or the sheet states no multiprocessors.
    """
    table = _table(tables, FLASH_DECODING_TABLE)
    config = table["config"]
    plain = from_sheet(sheet, config["dtype"])
    if plain.slots is None:
        raise ValueError(f"the data sheet of {sheet.name} states no multiprocessors")
    batch, length = (table["columns"].index(name) for name in ("B", "Tk"))
    column = table["columns"].index("flash_attention_2.0.9_us")
    fitted = next(row for row in table["rows"] if (row[batch], row[length]) == WAVES_CELL)
    item_bytes = 2 * fitted[length] * config["head_dim"] * 2
    source = f"cell: batch {WAVES_CELL[0]}, T = {WAVES_CELL[1]}, {fitted[column]} µs"
    item = Constant(item_bytes / fitted[column] * 1e6, "bytes/s", source)
    calibration = replace(plain, decode={"flash": DecodeRate(item, slots=plain.slots)})
    cells = []
    for row in table["rows"]:
        prediction = predict_attention(
            "flash",
            calibration,
            batch=row[batch],
            heads=config["q_heads"],
            kv_heads=config["kv_heads"],
            q_len=1,
            kv_len=row[length],
            head_dim=config["head_dim"],
            causal=False,
        )
        role = FITTED if row is fitted else HELD_OUT
        label = f"batch {row[batch]}, T = {row[length]}"
        cells.append(Cell("waves, A100 decode", label, prediction.seconds, row[column] / 1e6, role))
    return cells


def sheet_cells(tables: Sequence[Mapping[str, Any]], sheet: DataSheet) -> list[Cell]:
    """Predict FlashAttention-2's forward pass on an H100 from the data sheet alone.

    Args:
        tables: the published tables.
        sheet: the data sheet of the H100 SXM.

    Returns:
        24 cells: two head dims, causal and full, six lengths.

    Raises:
        ValueError: a table is missing.
    """
    cells = []
    for name in FUSED_FORWARD_TABLES:
        table = _table(tables, name)
        config, columns = table["config"], table["columns"]
        calibration = from_sheet(sheet, config["dtype"])
        family = f"H100 flash2 head_dim {config['head_dim']} {'causal' if config['causal'] else 'full'}"
        for row in table["rows"]:
            length, batch, heads = row[:3]
            prediction = predict_attention(
                "flash",
                calibration,
                batch=batch,
                heads=heads,
                kv_heads=heads,
                q_len=length,
                kv_len=length,
                head_dim=config["head_dim"],
                causal=config["causal"],
            )
            counted = counted_flops(config, batch, heads, length)
            measured = counted / row[columns.index("flash2")] / 1e12
            cells.append(Cell(family, f"T = {length}", prediction.seconds, measured))
    return cells


def _table(tables: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    found = next((table for table in tables if table["id"] == name), None)
    if found is None:
        raise ValueError(f"tables must hold the published table {name!r}, which is missing")
    return found
