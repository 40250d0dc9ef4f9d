"""Round-number calibrations for tests: every price can be checked by hand."""

from dataclasses import replace

from lab.cost.calibration import Calibration, DecodeRate
from lab.cost.rates import Constant, Curve


def constant(value: float, unit: str = "1") -> Constant:
    return Constant(value, unit, "test")


def flat(rate: float, unit: str = "elements/s") -> Curve:
    return Curve(((1.0, rate),), "elements", unit, "test")


def plain(dtype: str = "fp32", **changes) -> Calibration:
    """A card of 1 TFLOP/s and 100 GB/s with 10 slots, nothing else known."""
    fields = {
        "device": "test card",
        "device_kind": "cuda",
        "dtype": dtype,
        "threads": None,
        "source": "test",
        "bandwidth": Curve(((1.0, 1e11),), "bytes", "bytes/s", "test"),
        "matmul": constant(1e12, "FLOP/s"),
        "slots": constant(10, "blocks"),
        "compute_capability": "8.0",
    }
    return Calibration(**{**fields, **changes})


def cpu(dtype: str = "fp32", **changes) -> Calibration:
    """Two threads; element rates, product rates, a start of 1 µs, shares of tiles, a decode rate."""
    fields = {
        "device": "test processor",
        "device_kind": "cpu",
        "threads": 2,
        "slots": constant(2, "blocks"),
        "compute_capability": None,
        "matmuls": {
            "qk/64": flat(5e11, "FLOP/s"),
            "pv/64": flat(4e11, "FLOP/s"),
            "pv/128": flat(8e11, "FLOP/s"),
        },
        "elements": {"softmax": flat(2e9), "masked_fill_": flat(1e9), "mul": flat(8e9), "clone": flat(8e9)},
        "overhead": constant(1e-6, "s"),
        "fused": {
            "flash/64x512": constant(0.5),
            "flash/64x256": constant(0.4),
            "flash/256x512": constant(0.8),
        },
        "decode": {"flash": DecodeRate(constant(1e10, "bytes/s"), slots=constant(2, "blocks"))},
    }
    return plain(dtype, **{**fields, **changes})


def promoting() -> Calibration:
    """A bf16 calibration with the fp32 one that the math kernel computes in."""
    return replace(cpu("bf16"), wide=cpu("fp32", matmul=constant(5e11, "FLOP/s")))
