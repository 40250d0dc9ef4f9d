"""Named models and hardware, loaded from lab/data, each with the sources of its figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from lab.cost.configs import from_config
from lab.cost.shapes import ModelShape

Entry = TypeVar("Entry")
DATA = Path(__file__).resolve().parents[1] / "data"


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The data sheet of an accelerator or CPU; None is a figure that no source establishes.

    `dense_flops` are FLOPs a second by dtype, without structured sparsity. `memory_bytes` is what is
    installed; `nvidia_smi_total_mib` is the total that the driver reports, in MiB.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    memory_bytes: int | None
    nvidia_smi_total_mib: int | None
    memory_bandwidth_bytes_per_s: int | None
    dense_flops: Mapping[str, int | None]
    sm_count: int | None
    sm_count_means: str | None
    compute_capability: str | None
    l2_bytes: int | None
    sources: tuple[str, ...]
    agreement: int  # independent sources that agree on at least part of the figures
    notes: str  # also why a figure is None


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return rows


@cache
def models() -> Mapping[str, ModelShape]:
    """Return the catalogue's models by id, in the file's order."""
    return MappingProxyType({row["id"]: _model(row) for row in _rows("models.json")})


def _model(row: Mapping[str, Any]) -> ModelShape:
    return from_config(
        row["config"],
        model_id=row["id"],
        name=row["name"],
        sources=row["sources"],
        notes=row["notes"],
        agreement=row["agreement"],
        published_parameters=row["params_published"],
    )


@cache
def hardware() -> Mapping[str, Hardware]:
    """Return the catalogue's accelerators and CPUs by id, in the file's order."""
    fields = Hardware.__dataclass_fields__
    found = {}
    for row in _rows("hardware.json"):
        values = {name: row[name] for name in fields} | {"sources": tuple(row["sources"])}
        found[row["id"]] = Hardware(**values)
    return MappingProxyType(found)


def model(model_id: str) -> ModelShape:
    """Look up a model.

    Args:
        model_id: such as "gpt2" or "llama-3-8b".

    Returns:
        Its shape.

    Raises:
        ValueError: no such model in the catalogue.
    """
    return _look_up("model", model_id, models())


def config(model_id: str) -> Mapping[str, Any]:
    """Return the configuration that a model of the catalogue was read from.

    Args:
        model_id: such as "gpt2" or "llama-3-8b".

    Returns:
        Values by name, as in the model's own config.json.

    Raises:
        ValueError: no such model in the catalogue.
    """
    found = {row["id"]: row["config"] for row in _rows("models.json")}
    return MappingProxyType(_look_up("model", model_id, found))


def card(card_id: str) -> Hardware:
    """Look up an accelerator or CPU.

    Args:
        card_id: such as "h100-sxm".

    Returns:
        Its data sheet.

    Raises:
        ValueError: no such hardware in the catalogue.
    """
    return _look_up("hardware", card_id, hardware())


def _look_up(what: str, wanted: str, known: Mapping[str, Entry]) -> Entry:
    if not isinstance(wanted, str) or wanted not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, got {wanted!r}.")
    return known[wanted]
