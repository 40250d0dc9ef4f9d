"""Turns the times of micro-benchmarks into the rates of a calibration.

Rates are net of the time it takes to start an operation on a CPU, where starts add up; on an accelerator a
start hides behind the work before it, and the times stand as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from lab.cost.calibration import Calibration, DecodeRate
from lab.cost.calls import AttentionCall
from lab.cost.prediction import predict_attention
from lab.cost.prediction_fused import fused_tile
from lab.cost.prediction_terms import COLD
from lab.cost.rates import Constant, Curve
from lab.measure.device import DTYPES
from lab.measure.microbenchmarks import (
    COPY_BYTES,
    CPU_FUSED,
    CUDA_FUSED,
    DECODE_LENGTHS,
    MODEL_INNER,
    MODEL_TOKENS,
    MODEL_WIDTH,
    SQUARE,
    STREAMED,
    Call,
    Setting,
    backends,
    cold_calls,
    copy_call,
    fused_call,
    lengths,
    mask_calls,
    memory_pool,
    model_calls,
    product_calls,
    score_calls,
    square_call,
    start_call,
    step_calls,
    stream_call,
    tiny_calls,
)

Stopwatch = Callable[[Mapping[str, Call]], Mapping[str, float]]
"""Times calls against each other: seconds of one call, by the name it was given."""


class Calibrator:
    """Runs the micro-benchmarks of one device, thread count and dtype and turns their times into rates.

    Args:
        setting: device, type and heads.
        stopwatch: times calls.
        device_name: as printed beside predictions.
        slots: fused blocks that run at a time: CPU threads or multiprocessors.
        cached_bytes: what no cache of the device holds: its last cache, several times over.
        compute_capability: of a CUDA card.
        tell: called with a few words before each step.
    """

    def __init__(  # noqa: D107
        self,
        setting: Setting,
        stopwatch: Stopwatch,
        *,
        device_name: str,
        slots: int,
        cached_bytes: int,
        compute_capability: str | None = None,
        tell: Callable[[str], None] = lambda what: None,
    ) -> None:
        self.setting, self.stopwatch, self.tell = setting, stopwatch, tell
        self.device_name, self.slots, self.compute_capability = device_name, slots, compute_capability
        self.cached_bytes = cached_bytes
        self.kind = "cpu" if setting.device.type == "cpu" else "cuda"
        self.dtype = next(name for name, dtype in DTYPES.items() if dtype == setting.dtype)
        self.start_s = self._seconds(start_call(setting))

    def run(self, wide: Calibration | None = None) -> Calibration:
        """Measure everything.

        Args:
            wide: the calibration in the accumulator's type, where it was measured already.

        Returns:
            The calibration, with the accumulator's as `wide` where kernels promote this dtype.
        """
        self.tell(f"{self.dtype}: bandwidth and matmul rate")
        calibration = self._ceilings()
        self.tell(f"{self.dtype}: attention's passes one by one")
        linear, passes = self._model()
        pool = memory_pool(self.setting, self.cached_bytes)
        cold, first_reads = self._cold(pool)
        matmuls, elements = self._products() | cold | linear, self._elements() | first_reads | passes
        calibration = replace(calibration, matmuls=matmuls, elements=elements)
        self.tell(f"{self.dtype}: fused kernels")
        kernels = self._kernels(self.setting)
        calibration = replace(calibration, starts=self._starts(kernels))
        calibration = replace(calibration, fused=self._fused(calibration, kernels))
        calibration = replace(calibration, decode=self._decode(calibration, kernels, pool))
        if self.setting.narrow:
            calibration = replace(calibration, wide=wide or self._wide().run())
        return calibration

    def steps(self, wide: Calibration | None = None) -> int:
        """How often the stopwatch is started, from the making of this object to the end of `run`.

        Args:
            wide: as for `run`.
        """
        settings = [self.setting]
        if self.setting.narrow and wide is None:
            settings.append(replace(self.setting, dtype=self.setting.wide))
        return sum(self._own_steps(setting) for setting in settings)

    def _own_steps(self, setting: Setting) -> int:
        shapes = len(CPU_FUSED if self.kind == "cpu" else CUDA_FUSED)
        of_lengths = 3 * len(lengths(setting))  # products, passes over scores, passes over masks
        once = 4  # the start of an operation, copies, the square product, calls on next to nothing
        fused = len(self._kernels(setting)) * (shapes + 2)  # whole tiles, and two decode steps
        return once + len(MODEL_TOKENS) + of_lengths + 2 * len(DECODE_LENGTHS) + fused

    def _kernels(self, setting: Setting) -> list[str]:
        """List the fused kernels whose tiles are known: not those of another maker's card."""
        known = self.kind == "cpu" or self.compute_capability is not None
        return list(backends(setting)) if known else []

    def _wide(self) -> Calibrator:
        """Give the calibrator of the type that kernels accumulate in."""
        return Calibrator(
            replace(self.setting, dtype=self.setting.wide),
            self.stopwatch,
            device_name=self.device_name,
            slots=self.slots,
            cached_bytes=self.cached_bytes,
            compute_capability=self.compute_capability,
            tell=self.tell,
        )

    def _ceilings(self) -> Calibration:
        """Measure bandwidth by size, the rate of a large square product, and the start of an operation."""
        copies = {str(size): copy_call(self.setting, size) for size in COPY_BYTES}
        times = self.stopwatch(copies)
        points = [(size, size / self._net(times[str(size)])) for size in COPY_BYTES]
        size = SQUARE[self.kind]
        seconds = self._net(self._seconds(square_call(self.setting, size)))
        on_cpu = self.kind == "cpu"
        return Calibration(
            device=self.device_name,
            device_kind=self.kind,
            dtype=self.dtype,
            threads=self.slots if on_cpu else None,
            source=f"micro-benchmarks, torch {torch.__version__}",
            bandwidth=Curve(tuple(points), "bytes", "bytes/s", "micro-benchmark: copies, read plus written"),
            matmul=Constant(2 * size**3 / seconds, "FLOP/s", f"micro-benchmark: {size} by {size} product"),
            overhead=Constant(self.start_s, "s", "micro-benchmark: an operation on 16 elements"),
            slots=Constant(self.slots, "blocks", "threads" if on_cpu else "multiprocessors of the driver"),
            compute_capability=self.compute_capability,
        )

    def _products(self) -> dict[str, Curve]:
        """Measure QKᵀ and PV with many queries and with one."""
        setting, points = self.setting, defaultdict(list)
        timed = [("", n * n, partial(product_calls, setting, n, n)) for n in lengths(setting)]
        timed += [("1", keys, partial(step_calls, setting, keys)) for keys in DECODE_LENGTHS]
        for suffix, pairs, make_calls in timed:
            scores = setting.heads * pairs
            for form, seconds in self.stopwatch(make_calls()).items():
                flops = 2 * scores * setting.head_dim
                points[f"{form}{suffix}/{setting.head_dim}"].append((scores, flops / self._net(seconds)))
        source = f"micro-benchmark: the product alone, {setting.heads} heads"
        return {name: Curve(tuple(found), "scores", "FLOP/s", source) for name, found in points.items()}

    def _elements(self) -> dict[str, Curve]:
        """Measure each elementwise pass over scores and masks of several sizes."""
        setting, points = self.setting, defaultdict(list)
        for length in lengths(setting):
            for calls, elements in (
                (score_calls(setting, length), setting.heads * length**2),
                (mask_calls(setting, length), length**2),
            ):
                for kind, seconds in self.stopwatch(calls).items():
                    points[kind].append((elements, elements / self._net(seconds)))
        source = "micro-benchmark: the pass alone"
        return {kind: Curve(tuple(found), "elements", "elements/s", source) for kind, found in points.items()}

    def _model(self) -> tuple[dict[str, Curve], dict[str, Curve]]:
        """Measure a linear layer by its rows, and the passes of a model beside attention."""
        width, inner = MODEL_WIDTH, MODEL_INNER
        points = defaultdict(list)
        for tokens in MODEL_TOKENS:
            work = {
                "linear": (tokens, 2 * tokens * width * inner),
                "layer_norm": (tokens * width, tokens * width),
                "gelu_new": (tokens * inner, tokens * inner),
            }
            for name, seconds in self.stopwatch(model_calls(self.setting, tokens)).items():
                points[name].append((work[name][0], work[name][1] / self._net(seconds)))
        source = f"micro-benchmark: {width} by {inner} with bias"
        linear = Curve(tuple(points.pop("linear")), "rows", "FLOP/s", source)
        passes = {
            kind: Curve(tuple(found), "elements", "elements/s", "micro-benchmark: the passes alone")
            for kind, found in points.items()
        }
        return {f"linear/{width}": linear}, passes

    def _fused(self, calibration: Calibration, kernels: Iterable[str]) -> dict[str, Constant]:
        """Measure the share of the matmul rate that each kernel reaches on its tiles."""
        setting, shares = self.setting, {}
        for backend in kernels:
            for queries, keys in CPU_FUSED if self.kind == "cpu" else CUDA_FUSED:
                shape = self._shape(1, queries, keys)
                tile = fused_tile(backend, self._call(shape), calibration).name
                full = Constant(1.0, "1", "the full rate")
                at_full = replace(calibration, fused={f"{backend}/{tile}": full}, overhead=None, starts={})
                seconds = self._seconds(fused_call(setting, backend, 1, queries, keys))
                seconds = self._net(seconds, calibration.starts[backend].value)
                share = predict_attention(backend, at_full, **shape).seconds / seconds
                source = f"micro-benchmark: {backend}, full, {queries} queries, {keys} keys"
                shares[f"{backend}/{tile}"] = Constant(share, "1", source)
        return shares

    def _starts(self, kernels: Iterable[str]) -> dict[str, Constant]:
        """Measure whole calls on next to nothing."""
        times = self.stopwatch(tiny_calls(self.setting, kernels))
        source = "micro-benchmark: the whole call on 2 keys"
        return {name: Constant(seconds, "s", source) for name, seconds in times.items()}

    def _cold(self, pool: Tensor) -> tuple[dict[str, Curve], dict[str, Curve]]:
        """Measure the products of a decode step, and the pass before them, over keys that no cache holds."""
        setting, points, passes = self.setting, defaultdict(list), {}
        for keys in DECODE_LENGTHS:
            scores = setting.heads * keys
            for name, seconds in self.stopwatch(cold_calls(setting, pool, keys)).items():
                product = name in ("qk", "pv")
                work = (2 if product else 1) * scores * setting.head_dim
                points[name].append((scores if product else work, work / self._net(seconds)))
        source = f"micro-benchmark: from memory, {setting.heads} heads"
        matmuls = {
            f"{form}1{COLD}/{setting.head_dim}": Curve(tuple(points.pop(form)), "scores", "FLOP/s", source)
            for form in ("qk", "pv")
        }
        for kind, found in points.items():
            passes[f"{kind}{COLD}"] = Curve(tuple(found), "elements", "elements/s", source)
        return matmuls, passes

    def _decode(self, calibration: Calibration, kernels: list[str], pool: Tensor) -> dict[str, DecodeRate]:
        """Measure what one work item streams, and what all stream together: from a cache, and from memory."""
        setting, rates = self.setting, {}
        sizes = ((1, DECODE_LENGTHS[1]), STREAMED)
        for backend in kernels:
            warm = {size: fused_call(setting, backend, size[0], 1, size[1]) for size in sizes}
            cold = {size: stream_call(setting, backend, pool, *size) for size in sizes}
            for name, where, calls in ((backend, "", warm), (f"{backend}{COLD}", " from memory", cold)):
                times = self.stopwatch({str(size): call for size, call in calls.items()})
                start_s = calibration.starts[backend].value
                few_s, many_s = (self._net(times[str(size)], start_s) for size in sizes)
                rates[name] = self._streaming(calibration, backend + where, few_s, many_s)
        return rates

    def _streaming(self, calibration: Calibration, kernel: str, few_s: float, many_s: float) -> DecodeRate:
        """Turn the times of a small decode step and of a large one into the rates of an item and of all."""
        setting, few, many = self.setting, (1, DECODE_LENGTHS[1]), STREAMED
        head_bytes = 2 * setting.head_dim * setting.dtype.itemsize
        rounds = -(-setting.heads // self.slots) if self.kind == "cpu" else 1
        stored = many[0] * setting.heads * many[1] * head_bytes
        source = f"micro-benchmark: {kernel}, one query, batch {{}}, {{}} keys"
        share = stored / many_s / calibration.bandwidth.at(stored)
        return DecodeRate(
            item=Constant(rounds * few[1] * head_bytes / few_s, "bytes/s", source.format(*few)),
            fraction=Constant(share, "1", source.format(*many)),
            slots=calibration.slots if self.kind == "cpu" else None,
        )

    def _shape(self, batch: int, queries: int, keys: int) -> dict:
        heads = self.setting.heads
        sizes = {"batch": batch, "heads": heads, "kv_heads": heads, "q_len": queries, "kv_len": keys}
        return {**sizes, "head_dim": self.setting.head_dim, "causal": False}

    def _call(self, shape: dict) -> AttentionCall:
        return AttentionCall(**shape, dtype=self.dtype, device=self.kind)

    def _seconds(self, call: Call) -> float:
        return self.stopwatch({"call": call})["call"]

    def _net(self, seconds: float, start_s: float | None = None) -> float:
        """Take the start of an operation, or of a call, off its time on a CPU; never more than half of it."""
        if self.kind != "cpu":
            return seconds
        return max(seconds - (self.start_s if start_s is None else start_s), seconds / 2)
