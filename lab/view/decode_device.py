"""One layer's attention in a decode step on one device: its predicted time and the bandwidth that implies."""

from __future__ import annotations

from dataclasses import dataclass

from lab.cost import BYTES_PER_ELEMENT, kv_bytes
from lab.cost.calibration import Calibration
from lab.cost.predict import Ceilings, attention_bound
from lab.cost.prediction import Prediction, predict_attention
from lab.cost.shapes import ModelShape
from lab.runs import Point, Run
from lab.view import calibrations, ceilings, here
from lab.view.frames import Mark
from lab.view.points import fits, time_mark
from lab.view.scenario import Scenario

FUSED_NAMES = ("sdpa", "flash", "efficient", "cudnn")


@dataclass(frozen=True)
class DecodeDevice:
    """A device that steps are predicted for.

    Args:
        name: in words.
        dtype: of the cache.
        kind: "cpu" or "cuda", as lab.cost names devices.
        limits: its ceilings; None until they were measured.
        calibration: with its rates; None where it has none.
    """

    name: str
    dtype: str
    kind: str
    limits: Ceilings | None
    calibration: Calibration | None

    @property
    def kernel(self) -> str:
        """The fused kernel whose streaming rate is known, else the device's usual one."""
        known = tuple(self.calibration.decode) if self.calibration else ()
        return known[0] if known else "flash"

    @property
    def has_rates(self) -> bool:
        """Whether the rate of single work items is known; else a prediction is the bandwidth alone."""
        return bool(self.calibration and self.calibration.decode)

    def prediction(self, model: ModelShape, batch: int, context: int, splits: int = 1) -> Prediction | None:
        """Predict a step of one layer; None without a calibration."""
        if self.calibration is None:
            return None
        return predict_attention(
            self.kernel, self.calibration, batch=batch, heads=model.heads, kv_heads=model.kv_heads, q_len=1,
            kv_len=context, head_dim=model.head_dim, causal=True, splits=splits,
        )  # fmt: skip

    def seconds(self, model: ModelShape, batch: int, context: int, splits: int = 1) -> float | None:
        """The predicted time of a step of one layer, else its bound; None where nothing is known."""
        found = self.prediction(model, batch, context, splits)
        if found is not None:
            return found.seconds
        if self.limits is None:
            return None
        return attention_bound(
            "flash", self.limits, batch=batch, heads=model.heads, kv_heads=model.kv_heads, q_len=1,
            kv_len=context, head_dim=model.head_dim, dtype=self.dtype, causal=True, device=self.kind,
        ).seconds  # fmt: skip

    def cache(self, model: ModelShape, batch: int, context: int) -> int:
        """One layer's keys and values, in bytes."""
        width = BYTES_PER_ELEMENT[self.dtype]
        return int(kv_bytes(batch, 1, model.kv_heads, context, model.head_dim, width))

    def rate(self, model: ModelShape, batch: int, context: int, splits: int = 1) -> float | None:
        """Bytes of the cache over the predicted time, in bytes/s."""
        seconds = self.seconds(model, batch, context, splits)
        return None if not seconds else self.cache(model, batch, context) / seconds


def recorded_device(scene: Scenario) -> DecodeDevice:
    """The device that the reader compares with, else a card's data sheet."""
    found = calibrations.of_recorded(scene.recorded, scene.dtype)
    limits = (
        ceilings.reference(scene.recorded, scene.dtype) if found is None else calibrations.ceilings_of(found)
    )
    grouped = scene.model.heads != scene.model.kv_heads
    if found is not None and grouped and set(found.decode) == {"efficient"}:
        found = None  # its rates are of a kernel that takes no grouped heads: the bandwidth alone is known
    return DecodeDevice(limits.name, scene.dtype, "cuda", limits, found)


def own_device(scene: Scenario, run: Run | None, dtype: str) -> DecodeDevice:
    """This machine, with the ceilings of the run shown.

    Args:
        scene: the scenario.
        run: measured here; None for none.
        dtype: what the button measures.
    """
    found = calibrations.of_this_machine(scene.device, dtype, here.threads(run))
    limits = calibrations.ceilings_of(found) if found else ceilings.of_run(run, dtype)
    return DecodeDevice("this machine", dtype, here.cost_device(scene.device), limits, found)


def points_of(run: Run | None, experiment: str, model: ModelShape, dtype: str) -> list[Point]:
    """The points of a run at a model's heads, one new token each."""
    wanted = {
        "experiment": experiment, "heads": model.heads, "kv_heads": model.kv_heads,
        "head_dim": model.head_dim, "q_len": 1, "dtype": dtype,
    }  # fmt: skip
    return [point for point in run.points if fits(point, wanted, same_type=True)] if run else []


def point_bytes(point: Point) -> int:
    """The keys and values that a decode point read, in bytes."""
    width = BYTES_PER_ELEMENT[point.dtype]
    return int(kv_bytes(point.batch, 1, point.kv_heads, point.kv_len, point.head_dim, width))


def rate_mark(point: Point, series: str, *, recorded: bool) -> Mark | None:
    """A decode point at its batch, as the bytes of its cache over its time; the quartiles change places."""
    mark = time_mark(point, series, recorded=recorded)
    if mark is None or not mark.low:
        return None
    read = point_bytes(point)
    return Mark(series, mark.kind, float(point.batch), read / mark.y, read / mark.high, read / mark.low)


def parts_of(point: Point) -> int:
    """The parts that a split-KV point cut each head's cache into: "4 parts, fused kernel" is 4."""
    first = (point.variant or "").partition(" ")[0]
    return int(first) if first.isdigit() else 1


def split_mark(point: Point, series: str, *, recorded: bool) -> Mark | None:
    """A split-KV point at its number of parts."""
    mark = time_mark(point, series, recorded=recorded)
    if mark is None:
        return None
    return Mark(series, mark.kind, float(parts_of(point)), mark.y, mark.low, mark.high)
