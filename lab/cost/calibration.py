"""What a device was found, or is stated, to reach: the constants that turn counts into seconds.

A calibration belongs to one device, one dtype and one number of CPU threads. It is written by
`lab.measure.calibrate` from micro-benchmarks of a few seconds, by `from_sheet` from a data sheet, or by hand
from printed figures (lab.cost.chapter_card); every figure in it names its source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lab.cost.formulas import element_bytes
from lab.cost.rates import Constant, Curve, read_table

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class DecodeRate:
    """How fast one kernel streams a cache when each sequence has a single query.

    Args:
        item: bytes/s that one work item (a head of a sequence, or a split of it) streams alone.
        fraction: share of the bandwidth that enough items reach together; None for all of it.
        launch: seconds that a call takes at least; None when not known.
        slots: items that run at a time; None when all of them do.
    """

    item: Constant
    fraction: Constant | None = None
    launch: Constant | None = None
    slots: Constant | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the rate as JSON values."""
        return {name: None if part is None else part.to_dict() for name, part in vars(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DecodeRate:
        """Read a rate back from JSON values.

        Raises:
            ValueError: a missing or bad figure.
        """
        if not isinstance(values, Mapping) or values.get("item") is None:
            raise ValueError(f"decode must state item, got {values!r}")
        optional = (values.get(name) for name in ("fraction", "launch", "slots"))
        parts = (None if part is None else Constant.from_dict(part) for part in optional)
        return cls(Constant.from_dict(values["item"]), *parts)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The constants of one device, dtype and thread count.

    Args:
        device: its name, as printed beside a prediction.
        device_kind: "cpu" or "cuda".
        dtype: of the inputs.
        threads: CPU threads; None on an accelerator.
        source: one sentence on where the figures come from.
        bandwidth: bytes/s, read and written bytes both counted, by the bytes that an operation touches.
        matmul: FLOP/s of a large square product.
        matmuls: FLOP/s of attention's own products by their number of scores, where measured: keys such as
            "qk/64" and "pv/64" (many queries, head_dim 64), "qk1/64" and "pv1/64" (one query).
        elements: elements/s of elementwise operations by their number of elements, where measured; without a
            curve an operation is priced by its bytes.
        overhead: seconds of an operation on next to nothing; None when not known.
        starts: seconds of a whole call on next to nothing, by implementation and, where a causal mask adds
            operations, as "naive masked"; where measured they stand for the overheads of its operations.
        slots: fused blocks that run at a time: CPU threads or multiprocessors.
        fused: share of `matmul` that a fused kernel reaches on whole tiles, by kernel and tile such as
            "flash/64x512"; None of it where not measured.
        decode: streaming rates by kernel.
        wide: the calibration in the accumulator's type, for kernels that promote a 16-bit input.
        compute_capability: of a CUDA card, which decides the tiles of its kernels.

    Raises:
        ValueError: a field that does not fit the others.
    """

    device: str
    device_kind: str
    dtype: str
    threads: int | None
    source: str
    bandwidth: Curve
    matmul: Constant
    matmuls: Mapping[str, Curve] = field(default_factory=dict)
    elements: Mapping[str, Curve] = field(default_factory=dict)
    overhead: Constant | None = None
    starts: Mapping[str, Constant] = field(default_factory=dict)
    slots: Constant | None = None
    fused: Mapping[str, Constant] = field(default_factory=dict)
    decode: Mapping[str, DecodeRate] = field(default_factory=dict)
    wide: Calibration | None = None
    compute_capability: str | None = None

    def __post_init__(self) -> None:
        """Check the names and that the parts belong together."""
        element_bytes(self.dtype)
        if self.device_kind not in ("cpu", "cuda"):
            raise ValueError(f"device_kind must be cpu or cuda, got {self.device_kind!r}")
        if self.device_kind == "cpu" and (not isinstance(self.threads, int) or self.threads < 1):
            raise ValueError(f"threads must be at least 1 on a CPU, got {self.threads!r}")
        if self.wide is not None and (self.wide.device, self.wide.threads) != (self.device, self.threads):
            raise ValueError("wide must be a calibration of the same device and thread count")

    def in_dtype(self, dtype: str) -> Calibration:
        """Return the calibration for work in a dtype: itself, or the accumulator's.

        Raises:
            ValueError: no calibration for that dtype.
        """
        if dtype == self.dtype:
            return self
        if self.wide is not None and self.wide.dtype == dtype:
            return self.wide
        raise ValueError(f"no calibration of {self.device} for {dtype}, only for {self.dtype}")

    def without_overhead(self) -> Calibration:
        """Return the calibration without the overhead of single operations, in the accumulator's type too."""
        wide = None if self.wide is None else replace(self.wide, overhead=None)
        return replace(self, overhead=None, wide=wide)

    def constants(self, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
        """List every figure as (name, value, unit, source), curves as their range."""
        named: dict[str, Any] = {"bandwidth": self.bandwidth, "matmul": self.matmul}
        named |= {f"matmul {name}": curve for name, curve in self.matmuls.items()}
        named |= {f"elements {name}": curve for name, curve in self.elements.items()}
        named |= {"overhead": self.overhead, "slots": self.slots}
        named |= {f"start {name}": seconds for name, seconds in self.starts.items()}
        named |= {f"fused {name}": share for name, share in self.fused.items()}
        for kernel, rate in self.decode.items():
            named |= {f"decode {kernel} {name}": part for name, part in vars(rate).items()}
        for name, figure in named.items():
            if isinstance(figure, Curve):
                rates = [rate for _, rate in figure.points]
                value = f"{min(rates):.4g} to {max(rates):.4g}" if len(rates) > 1 else f"{rates[0]:.4g}"
                yield f"{prefix}{name}", value, figure.unit, figure.source
            elif figure is not None:
                yield f"{prefix}{name}", f"{figure.value:.4g}", figure.unit, figure.source
        if self.wide is not None:
            yield from self.wide.constants(prefix=f"{self.wide.dtype}: ")

    def to_json(self) -> str:
        """Write the calibration as JSON text."""
        return json.dumps({"schema": SCHEMA_VERSION, **self.to_dict()}, indent=1, ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as JSON values."""
        plain = ("device", "device_kind", "dtype", "threads", "source", "compute_capability")
        tables = ("matmuls", "elements", "starts", "fused", "decode")
        parts = ("bandwidth", "matmul", "overhead", "slots", "wide")
        values: dict[str, Any] = {name: getattr(self, name) for name in plain}
        values |= {name: {k: v.to_dict() for k, v in getattr(self, name).items()} for name in tables}
        for name in parts:
            part = getattr(self, name)
            values[name] = None if part is None else part.to_dict()
        return values

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Read a calibration from JSON text.

        Raises:
            ValueError: not JSON, a newer schema, a missing or bad field.
        """
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"the calibration is not JSON: {error}") from None
        if not isinstance(values, dict) or values.get("schema") != SCHEMA_VERSION:
            found = values.get("schema") if isinstance(values, dict) else values
            raise ValueError(f"schema must be {SCHEMA_VERSION} in a calibration, got {found!r}")
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """Read a calibration back from JSON values.

        Raises:
            ValueError: a missing or bad field.
        """
        missing = {"device", "device_kind", "dtype", "threads", "source", "bandwidth", "matmul"} - set(values)
        if missing:
            raise ValueError(f"a calibration must state {', '.join(sorted(missing))}")
        return cls(
            device=str(values["device"]),
            device_kind=values["device_kind"],
            dtype=values["dtype"],
            threads=values["threads"],
            source=str(values["source"]),
            compute_capability=values.get("compute_capability"),
            bandwidth=Curve.from_dict(values["bandwidth"]),
            matmul=Constant.from_dict(values["matmul"]),
            matmuls=read_table(values.get("matmuls", {}), "matmuls", Curve.from_dict),
            elements=read_table(values.get("elements", {}), "elements", Curve.from_dict),
            starts=read_table(values.get("starts", {}), "starts", Constant.from_dict),
            fused=read_table(values.get("fused", {}), "fused", Constant.from_dict),
            decode=read_table(values.get("decode", {}), "decode", DecodeRate.from_dict),
            overhead=None if values.get("overhead") is None else Constant.from_dict(values["overhead"]),
            slots=None if values.get("slots") is None else Constant.from_dict(values["slots"]),
            wide=None if values.get("wide") is None else cls.from_dict(values["wide"]),
        )
