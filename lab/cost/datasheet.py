"""Ceilings of a named card as a calibration: what can be predicted when nothing was measured on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lab.cost.calibration import Calibration
from lab.cost.rates import Constant, Curve


class DataSheet(Protocol):
    """The figures of a card that are used here; `lab.cost.catalog.Hardware` has them."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def memory_bandwidth_bytes_per_s(self) -> float | None: ...  # noqa: D102
    @property
    def dense_flops(self) -> Mapping[str, float | None]: ...  # noqa: D102
    @property
    def sm_count(self) -> int | None: ...  # noqa: D102
    @property
    def sm_count_means(self) -> str | None: ...  # noqa: D102
    @property
    def compute_capability(self) -> str | None: ...  # noqa: D102
    @property
    def sources(self) -> Sequence[str]: ...  # noqa: D102


def from_sheet(
    hardware: DataSheet, dtype: str, *, matmul: Constant | None = None, wide: Calibration | None = None
) -> Calibration:
    """Turn a card's data sheet into a calibration of ceilings.

    Args:
        hardware: the card.
        dtype: of the inputs.
        matmul: FLOP/s in that dtype where the sheet does not state it, with its source.
        wide: the calibration in fp32, for kernels that promote a 16-bit input; made from the sheet when it
            states an fp32 rate.

    Returns:
        A calibration with one bandwidth for every size, the sheet's matmul rate, and no launch time, element
        rate or fused share: those are measured, never assumed.

    Raises:
        ValueError: the sheet is a CPU's, or states no bandwidth, or no rate for the dtype and none is given.
    """
    sheet = f"data sheet of {hardware.name}"
    if hardware.sm_count_means == "cores":
        raise ValueError(f"{hardware.name} is a CPU, whose passes no sheet prices: calibrate it instead")
    if hardware.memory_bandwidth_bytes_per_s is None:
        raise ValueError(f"the {sheet} states no memory bandwidth")
    rate = hardware.dense_flops.get(dtype)
    if rate is None and matmul is None:
        raise ValueError(f"the {sheet} states no {dtype} matmul rate; give one as matmul with its source")
    if wide is None and dtype in ("fp16", "bf16") and hardware.dense_flops.get("fp32"):
        wide = from_sheet(hardware, "fp32")
    slots = hardware.sm_count
    return Calibration(
        device=hardware.name,
        device_kind="cuda",
        dtype=dtype,
        threads=None,
        source=f"{sheet}, nothing measured",
        bandwidth=Curve(((1.0, float(hardware.memory_bandwidth_bytes_per_s)),), "bytes", "bytes/s", sheet),
        matmul=matmul or Constant(float(rate or 0), "FLOP/s", sheet),
        slots=None if slots is None else Constant(slots, "blocks", sheet),
        wide=wide,
        compute_capability=hardware.compute_capability,
    )
