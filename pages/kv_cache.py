"""KV cache: bytes kept and read in each decode step, and the batch at which they pass the weights."""

import math
from collections.abc import Callable

import streamlit as st

from lab.cost import BYTES_PER_ELEMENT, serving
from lab.cost.cache import cache_bytes
from lab.cost.predict import Ceilings
from lab.runs import Point, Run, default_spec
from lab.view import (
    ceilings,
    charts,
    controls,
    decode_device,
    forecasts,
    gaps,
    here,
    latex,
    navigation,
    points,
    scenario,
    skeleton,
)
from lab.view.axes import TOKENS, bytes_axis, counts_axis, seconds_axis, tokens_axis
from lab.view.caveats import caveats
from lab.view.format import bytes_text, digits, other_bytes, seconds_text, share, times, tokens_label, whole
from lab.view.frames import Extras, Mark
from lab.view.measure_panel import Panel
from lab.view.palette import WEIGHTS

navigation.guard()

PAGE = "kv_cache"
BATCH_TICKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MEASURED_LENGTHS = (128, 1024, 4096)
MEASURED_BATCHES = (1, 16)
HEADS = (
    "A single sequence offers few independent heads to share among a card's multiprocessors; that this is "
    "why a lone step falls short of the bandwidth is the chapter's hypothesis, untested there."
)
KERNEL = (
    "Above it: launch time, too few independent heads for the cores, or a kernel whose inner loop cannot "
    "keep up with the memory."
)
# Holds one token on a card and batch 1,024 on a slow CPU; fixed, so that points arriving move nothing.
SECONDS = (1e-6, 1e1)
BYTES, RECORDED, HERE = "bytes", "recorded", "here"

scene, palette = scenario.current(), scenario.theme()
model = scene.model
T, B = scene.context, scene.batch
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
width = BYTES_PER_ELEMENT[scene.dtype]
crossing = float(serving.crossover_batch(model, T, weight_type=scene.dtype, k_type=scene.dtype))


def traffic(batch: int, context: int) -> serving.DecodeTraffic:
    """What one decode step reads."""
    return serving.decode_traffic(model, batch, context, weight_type=scene.dtype, k_type=scene.dtype)


def cache(batch: int, context: int) -> int:
    """The cache that is kept, and read once in every step, in bytes."""
    return int(traffic(batch, context).cache_bytes)


def weights(batch: int) -> float:
    """The weights that one step reads, in bytes; of a mixture, the experts that the batch probably uses."""
    return float(traffic(batch, T).weight_bytes)


def text(count: float) -> str:
    """Bytes in the unit chosen."""
    return bytes_text(count, scene.binary)


def takeaway() -> str:
    """Cache against weights at the scenario, and where they cross."""
    one = f"{model.name} at T = {tokens_label(T)}: one sequence keeps {text(cache(1, T))}"
    if not math.isfinite(crossing):
        return f"{one}; at no batch does a step read more cache than weights"
    if crossing < 1:
        return f"{one}, more than the weights that a step reads ({text(weights(1))})"
    first = math.floor(crossing) + 1
    return f"{one}; from batch {whole(first)} on, a step reads more cache than weights"


def family() -> list[int]:
    """The scenario's context, a quarter of it and four times it, as far as the axis goes."""
    return [context for context in (T // 4, T, 4 * T) if TOKENS[0] <= context <= TOKENS[-1]]


def bytes_chart() -> None:
    """Bytes read in one decode step against batch: the weights once, the cache once for every sequence."""
    contexts, batches = family(), list(BATCH_TICKS)
    if linear:
        batches = sorted({1, *range(0, 2 * max(B, 8) + 1, max(B, 8) // 8)} - {0})
    colours = palette.family(len(contexts))
    series = []
    for context, colour in zip(contexts, colours, strict=True):
        label = f"cache, T = {tokens_label(context)}"
        series.append(charts.Series(f"cache_{context}", label, colour, width=4 if context == T else 2))
    series.append(charts.role_series(WEIGHTS, WEIGHTS, "weights", palette))
    curves = {f"cache_{context}": [(b, float(cache(b, context))) for b in batches] for context in contexts}
    curves[WEIGHTS] = [(b, weights(b)) for b in batches]
    skeleton.badges(measured=False, recorded_on=None, extra=skeleton.beyond(scene))
    values = [y for curve in curves.values() for _, y in curve]
    x = counts_axis("batch (sequences)", BATCH_TICKS, linear_up_to=batches[-1] if linear else None, room=0.24)
    y = bytes_axis("bytes read in one decode step", values, binary=scene.binary, linear=linear)
    level = crossing * cache(1, T)
    notes = [(crossing, level, f"equal at batch {digits(crossing, 2)}")] if math.isfinite(crossing) else []
    skeleton.chart(
        PAGE, curves, [], series, Extras(marker_x=B, notes=notes), x=x, y=y, at=lambda b: whole(int(b)),
        value=lambda v: f"{text(v)} ({other_bytes(v, scene.binary)})", palette=palette,
        description="Bytes read in one decode step against batch: cache lines rise, the weights stay level.",
    )  # fmt: skip


def expected(run: Run | None, *, recorded: bool) -> Callable[[int, int], float | None]:
    """The time of a step by batch and context: its bound, or what this machine's calibration predicts."""
    if not recorded:
        own = decode_device.own_device(scene, run, measured_dtype)
        return lambda batch, context: own.seconds(model, batch, context)
    device = decode_device.recorded_device(scene)
    limits = ceilings.reference(scene.recorded, scene.dtype)
    return lambda batch, context: device.bound(model, batch, context, limits).seconds


def decode_marks(run: Run | None, *, recorded: bool) -> list[Mark]:
    """The decode points of a run at this model's heads, one line a batch."""
    wanted = {
        "heads": model.heads, "kv_heads": model.kv_heads, "head_dim": model.head_dim, "q_len": 1,
        "dtype": scene.dtype if recorded else measured_dtype,
    }  # fmt: skip

    def series_of(point: Point) -> str | None:
        fused = point.implementation in ("sdpa", "flash", "efficient")
        return f"batch_{point.batch}" if point.experiment == "decode" and fused else None

    return points.marks(run, wanted, series_of, points.time_mark, recorded=recorded, same_type=True)


def timed(run: Run | None, *, recorded: bool) -> tuple[Ceilings | None, str, list[Mark]]:
    """Ceilings, number type and points of the device that the time view shows."""
    if recorded:
        limits = ceilings.reference(scene.recorded, scene.dtype)
        return limits, scene.dtype, decode_marks(scene.recorded, recorded=True)
    return ceilings.of_run(run, measured_dtype), measured_dtype, decode_marks(run, recorded=False)


def time_takeaway(marks: list[Mark], curves: dict, where: str) -> str:
    """What a larger batch costs in time, measured or as a bound."""
    timed_at = {(int(mark.series.partition("_")[2]), mark.x): mark.y for mark in points.clean(marks)}
    verb = "took"
    if not timed_at:
        here_at = ((key, dict(curve).get(T)) for key, curve in curves.items())
        timed_at = {(int(key.partition("_")[2]), T): seconds for key, seconds in here_at if seconds}
        verb = "takes at least"
    pairs = [(t, batch) for batch, t in timed_at if batch > 1 and (1, t) in timed_at]
    if not pairs:
        return f"One decode step in one layer of {model.name}: press Measure to see this machine's times"
    t, batch = max(pairs)
    one, many = timed_at[1, t], timed_at[batch, t]
    return (
        f"On {where} one layer's step at T = {tokens_label(int(t))} {verb} {seconds_text(one)} for one "
        f"sequence, {seconds_text(many)} for {batch}: {times(many / one)} as long"
    )


def time_chart(run: Run | None, *, recorded: bool) -> None:
    """Time of one layer's attention in a decode step against context: bounds by batch, measured points."""
    limits, _, marks = timed(run, recorded=recorded)
    batches = sorted({1, 16, 64, B} if recorded else {*MEASURED_BATCHES, B})
    grid = [max(1, T * place // 32) for place in range(1, 33)] if linear else list(TOKENS)
    series = [
        charts.Series(f"batch_{batch}", f"batch {batch}", colour)
        for batch, colour in zip(batches, palette.family(len(batches)), strict=True)
    ]
    seconds_of = expected(run, recorded=recorded)
    lines = {
        item.key: [(t, seconds_of(batch, t)) for t in grid]
        for item, batch in zip(series, batches, strict=True)
    }
    curves = {
        key: [(t, seconds) for t, seconds in line if seconds is not None] for key, line in lines.items()
    }
    marks = [mark for mark in marks if mark.series in curves]
    skeleton.takeaway(time_takeaway(marks, curves, limits.name if recorded and limits else "this machine"))
    read_as = decode_device.form_badges(model, here=not recorded)
    read_as += decode_device.stand_in(scene) if recorded else []
    drawn_from = forecasts.of_scene(scene, run, measured_dtype).badges if not recorded else ["Lines: bounds"]
    skeleton.badges(
        measured=not recorded and bool(marks),
        recorded_on=limits.name if recorded and marks and limits else None,
        extra=[*skeleton.beyond(scene), *read_as, *drawn_from],
    )
    top = [y for curve in curves.values() for _, y in curve]
    x = tokens_axis("context T (tokens)", linear_up_to=T if linear else None, room=0.18)
    y_values = top if linear and top else [*top, *SECONDS]
    y = seconds_axis("one layer's attention, one new token", y_values, linear=linear)
    skeleton.chart(
        PAGE, curves, marks, series, Extras(limits_x=skeleton.context_limit(scene), marker_x=T), x=x, y=y,
        at=lambda t: whole(int(t)), value=seconds_text, palette=palette,
        description="Time of one layer's attention in a decode step against context, by batch.",
    )  # fmt: skip


def draw(run: Run | None) -> None:
    """The heading and the chart that the reader chose."""
    if shown == BYTES:
        skeleton.takeaway(takeaway())
        bytes_chart()
    else:
        time_chart(run, recorded=shown == RECORDED)


def show_here() -> None:
    """Pressing Measure turns to the chart on which its points will appear."""
    st.session_state[f"{PAGE}_shown"] = HERE


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    views = {BYTES: "bytes of a step", RECORDED: "time, other device", HERE: "time, this machine"}
    views_help = "Bytes of a whole step, or the time of one layer's attention."
    shown = controls.pick(PAGE, "shown", "Show", views, views_help)
    linear = controls.linear(PAGE)
    st.metric(
        f"Cache, batch {B}, T = {tokens_label(T)}",
        text(cache(B, T)),
        delta=f"{share(cache(B, T) / weights(B))} of the weights",
        delta_color="off",
        delta_arrow="off",
        help=f"{other_bytes(cache(B, T), scene.binary)}; {whole(cache(B, T))} bytes",
    )
    spec = default_spec(
        "decode", device=scene.device, dtype=measured_dtype, lengths=MEASURED_LENGTHS,
        batches=MEASURED_BATCHES, heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_dim,
        threads=here.threads(), implementations=("sdpa",),
    )  # fmt: skip
    panel = Panel(PAGE, spec, scene.binary, note=dtype_reason)
    panel.controls(on_press=show_here)
with right:
    panel.live(draw)

parts = cache_bytes(model, B, T, scene.dtype).parts
skeleton.formula(
    r"\text{KV} = B \sum_{\text{kinds of layer}} L\,\min(T, w)\,(k + v) \qquad "
    r"B^{*}:\ \text{KV}(B^{*}) = \text{weights}(B^{*})",
    [
        rf"{B} \cdot {part.layers.layers}\ \text{{layers}} \cdot {latex.number(int(part.tokens))}\ "
        rf"\text{{tokens}} \cdot ({latex.number(part.layers.k_token_bytes)} + "
        rf"{latex.number(part.layers.v_token_bytes)})\ \text{{B}} "
        rf"= {latex.byte_count(part.bytes, scene.binary)}\quad\text{{({part.layers.kind})}}"
        for part in parts
    ]
    + [
        rf"\text{{weights}}({B}) = {latex.byte_count(weights(B), scene.binary)}, \qquad B^{{*}} = "
        + (digits(crossing) if math.isfinite(crossing) else r"\text{none}")
    ],
)
st.caption(
    f"k and v are the bytes of a token's keys and values in one layer: {decode_device.row_words(model)}, "
    f"{width} bytes a number. w is the layer's window, where it has one. The weights are what one step reads: "
    "all but tables of which it looks up a row, and of a mixture the experts that the batch is expected to use."
)


def gap_text(run: Run | None, *, recorded: bool) -> str:
    """How the measured times of one device compare with its bound."""
    limits, _, marks = timed(run, recorded=recorded)
    seconds_of = expected(run, recorded=recorded)
    labels = {mark.series: mark.series.replace("_", " ") for mark in marks}
    found = gaps.ratios(
        marks, "recorded" if recorded else "measured", labels,
        lambda mark: seconds_of(int(mark.series.partition("_")[2]), int(mark.x)),
    )  # fmt: skip
    where = limits.name if recorded and limits else "this machine"
    basis = forecasts.BOUND if recorded else forecasts.of_scene(scene, run, measured_dtype).kind
    return gaps.times_text(found, where, HEADS if recorded else KERNEL, basis)


run = panel.run()
skeleton.gap([gap_text(run, recorded=False), gap_text(run, recorded=True)])
skeleton.misconception(
    "Batching is free: the weights are read once for the whole batch.",
    f"For the weights, yes. The cache is read once for every sequence: at T = {tokens_label(T)} one step of "
    f"batch {B} reads {text(cache(B, T))} of cache beside {text(weights(B))} of weights: "
    f"{share(cache(B, T) / weights(B))} of them, and as much again for every further "
    f"{'sequence' if B == 1 else f'{whole(B)} sequences'}.",
)
drawn = [(run, "this machine")] if run else []
drawn += [(scene.recorded, ceilings.short_name(scene.recorded))] if scene.recorded else []
skeleton.limits(caveats(drawn, ("decode",)))
skeleton.closing(PAGE)
