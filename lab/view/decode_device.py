"""One layer's attention in a decode step on one device: its predicted time and the bandwidth that implies.

A latent (MLA) is read as it is cached, one row a token for all heads. PyTorch's SDPA takes no latent: what
the button measures, and so this machine's lines, are K and V expanded for every head.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.cost import BYTES_PER_ELEMENT, kv_bytes
from lab.cost.calibration import Calibration
from lab.cost.decode_layer import decode_operation, layer_cache_bytes, widest_attention
from lab.cost.predict import Bound, Ceilings, attention_bound, operations_bound
from lab.cost.prediction import Prediction, predict_attention
from lab.cost.shapes import ModelShape
from lab.runs import Point, Run
from lab.view import calibrations, ceilings, here
from lab.view.counted import counted, verb
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
        expanded: whether K and V of a latent are expanded for every head, as SDPA takes them.
    """

    name: str
    dtype: str
    kind: str
    limits: Ceilings | None
    calibration: Calibration | None
    expanded: bool = False

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
        """Predict a step of one layer; None without a calibration, and over a latent, whose kernels have none."""
        if self.calibration is None or self._reads_latent(model):
            return None
        return predict_attention(
            self.kernel, self.calibration, batch=batch, heads=model.heads, kv_heads=model.kv_heads, q_len=1,
            kv_len=context, head_dim=model.head_dim, causal=True, splits=splits, cold=True,
        )  # fmt: skip

    def seconds(self, model: ModelShape, batch: int, context: int, splits: int = 1) -> float | None:
        """The predicted time of a step of one layer, else its bound; None where nothing is known."""
        found = self.prediction(model, batch, context, splits)
        if found is not None:
            return found.seconds
        return None if self.limits is None else self.bound(model, batch, context, self.limits).seconds

    def bound(self, model: ModelShape, batch: int, context: int, limits: Ceilings) -> Bound:
        """The least time of a step of one layer under some ceilings."""
        if self._reads_latent(model):
            attention, _ = widest_attention(model)
            step = decode_operation(
                attention, batch=batch, context=context, dtype=self.dtype, device=self.kind
            )
            return operations_bound((step,), limits)
        return attention_bound(
            "flash", limits, batch=batch, heads=model.heads, kv_heads=model.kv_heads, q_len=1,
            kv_len=context, head_dim=model.head_dim, dtype=self.dtype, causal=True, device=self.kind,
        )  # fmt: skip

    def _reads_latent(self, model: ModelShape) -> bool:
        return is_latent(model) and not self.expanded

    def cache(self, model: ModelShape, batch: int, context: int) -> int:
        """One layer's keys and values, in bytes."""
        if self._reads_latent(model):
            return layer_cache_bytes(widest_attention(model)[0], batch, context, self.dtype)
        width = BYTES_PER_ELEMENT[self.dtype]
        return int(kv_bytes(batch, 1, model.kv_heads, context, model.head_dim, width))

    def rate(self, model: ModelShape, batch: int, context: int, splits: int = 1) -> float | None:
        """Bytes of the cache over the predicted time, in bytes/s."""
        seconds = self.seconds(model, batch, context, splits)
        return None if not seconds else self.cache(model, batch, context) / seconds


def is_latent(model: ModelShape) -> bool:
    """Whether the layers keep a latent in place of K and V."""
    return widest_attention(model)[0].latent is not None


def seen_words(model: ModelShape) -> str:
    """What the layer whose cache a page weighs sees, and how many layers are like it."""
    attention, alike = widest_attention(model)
    which = f"{alike} of {model.layers} layers {verb(alike, 'does', 'do')}"
    if attention.window is not None:
        return f"in a layer that sees the last {attention.window:,} tokens alone: {which}"
    if attention.chunk is not None:
        return f"in a layer that sees its chunk of {attention.chunk:,} tokens alone: {which}"
    return f"in a layer that sees the whole context: {which}"


def row_words(model: ModelShape) -> str:
    """What a layer keeps of one token."""
    attention, _ = widest_attention(model)
    if attention.latent is None:
        return f"{counted(attention.kv_heads, 'KV head')} of {attention.head_dim}"
    return (
        f"one latent of {attention.latent.kv_rank} and one rotary key of {attention.latent.rope_dim}, from "
        f"which K and V of all {attention.heads} heads follow (nothing is kept for V apart)"
    )


def form_badges(model: ModelShape, *, here: bool) -> list[str]:
    """Say in which form a latent is read; nothing for other models."""
    latent = widest_attention(model)[0].latent
    if latent is None:
        return []
    if here:
        return [f"Here: K and V expanded, {model.heads} heads of {model.head_dim}"]
    return [f"Reads the latent: {latent.cached_elements_per_token} numbers a token for all heads"]


def recorded_device(scene: Scenario) -> DecodeDevice:
    """The device that the reader compares with, else a card's data sheet."""
    found = calibrations.of_recorded(scene.recorded, scene.dtype)
    limits = (
        ceilings.reference(scene.recorded, scene.dtype) if found is None else calibrations.ceilings_of(found)
    )
    grouped = scene.model.heads != scene.model.kv_heads
    if (found is not None and grouped and set(found.decode) == {"efficient"}) or is_latent(scene.model):
        found = None  # its rates are of a kernel that takes no such heads: the bandwidth alone is known
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
    return DecodeDevice("this machine", dtype, here.cost_device(scene.device), limits, found, expanded=True)


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
    rates = (read / mark.y, read / mark.high, read / mark.low)
    return Mark(series, mark.kind, float(point.batch), *rates, noisy=mark.noisy)


def parts_of(point: Point) -> int:
    """The parts that a split-KV point cut each head's cache into: "4 parts, fused kernel" is 4."""
    first = (point.variant or "").partition(" ")[0]
    return int(first) if first.isdigit() else 1


def split_mark(point: Point, series: str, *, recorded: bool) -> Mark | None:
    """A split-KV point at its number of parts."""
    mark = time_mark(point, series, recorded=recorded)
    if mark is None:
        return None
    return Mark(series, mark.kind, float(parts_of(point)), mark.y, mark.low, mark.high, noisy=mark.noisy)
