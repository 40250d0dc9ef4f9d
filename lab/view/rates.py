"""How fast the counted FLOPs of attention were computed: bounds, points, and the device's matmul rate."""

from __future__ import annotations

from lab.cost import attention_flops
from lab.runs import Point, Run
from lab.view import ceilings, plain_axes, points, prompt, skeleton
from lab.view.axes import TOKENS, tokens_axis
from lab.view.format import scaled, share, tokens_label, whole
from lab.view.frames import Extras, Mark
from lab.view.palette import Palette

# Holds a slow CPU at a short prompt and a card at its best; fixed, so that points arriving move nothing.
RATES = (1e9, 1e14)


def core_flops(view: prompt.Prompt, tokens: int) -> int:
    """One layer's two products over a whole prompt, counted as the reader chose, in FLOPs."""
    model = view.scene.model
    return int(attention_flops(view.scene.batch, model.heads, tokens, tokens, model.head_dim, view.causal))


def marks(view: prompt.Prompt, run: Run | None, *, recorded: bool) -> list[Mark]:
    """The points of a run as rates: counted FLOPs over time.

    Args:
        view: what the charts of the page share.
        run: measured here, or recorded; None for none.
        recorded: whether the run came from another machine.
    """

    def rate_mark(point: Point, series: str, *, recorded: bool) -> Mark | None:
        mark = points.time_mark(point, series, recorded=recorded)
        if mark is None or not mark.low:
            return None
        work = core_flops(view, point.kv_len)
        return Mark(
            series, mark.kind, mark.x, work / mark.y, work / mark.high, work / mark.low, noisy=mark.noisy
        )

    return view.marks(run, rate_mark, recorded=recorded)


def takeaway(view: prompt.Prompt, run: Run | None) -> str:
    """The best rate that was reached, beside the device's own."""
    own = marks(view, run, recorded=False)
    found = own or marks(view, view.scene.recorded, recorded=True)
    limits = view.sides(run)["here" if own else "reference"][0]
    if not found:
        return "Nothing measured fits this scenario yet: the lines are what the ceilings allow"
    quiet = points.clean(found)
    if not quiet:
        return "Every time measured here is noisy or refused: no rate can be read from them"
    best = max(quiet, key=lambda mark: mark.y)
    told = (
        f"Counted FLOPs are not time: at T = {tokens_label(int(best.x))} "
        f"{prompt.LABELS[best.series].partition(',')[0]} ran {scaled(best.y, 'FLOP/s')} of them on "
    )
    recorded = view.scene.recorded
    where = ceilings.short_name(recorded) if recorded and not own else "this machine"
    if limits is None:  # the run ended before its ceilings were taken
        return f"{told}{where}, whose matmul rate is not known from this run"
    if not own and ceilings.of_device(recorded, view.scene.dtype) is None:
        return f"{told}{where}, whose matmul rate in {view.scene.dtype} is not known"
    return f"{told}{where}, {share(best.y / limits.flops_per_s)} of its matmul rate"


def show(page: str, view: prompt.Prompt, run: Run | None, palette: Palette, *, linear: bool) -> None:
    """Draw counted FLOPs a second against context.

    Args:
        page: the page's file name.
        view: what the charts of the page share.
        run: measured here; None for none.
        palette: of the theme in use.
        linear: axes from zero to the scenario's context.
    """
    scene = view.scene
    recorded, own = marks(view, scene.recorded, recorded=True), marks(view, run, recorded=False)
    skeleton.takeaway(takeaway(view, run))
    skeleton.badges(
        measured=bool(own),
        recorded_on=ceilings.short_name(scene.recorded) if scene.recorded and recorded else None,
        extra=[
            *skeleton.beyond(scene),
            *prompt.both_widths(scene.model),
            *ceilings.stand_in(scene.recorded, scene.dtype),
            *view.forecast(run).badges,
        ],
    )
    T = scene.context
    grid = [max(1, T * place // 32) for place in range(1, 33)] if linear else list(TOKENS)
    curves = {
        key: [(tokens, core_flops(view, int(tokens)) / seconds) for tokens, seconds in line]
        for key, line in view.bounds(run, grid).items()
    }
    drawn = [y for curve in curves.values() for _, y in curve] + ([] if linear else list(RATES))
    skeleton.chart(
        page, curves, [*recorded, *own], prompt.series(palette),
        Extras(limits_x=skeleton.context_limit(scene), marker_x=T),
        x=tokens_axis("context T (tokens)", linear_up_to=T if linear else None, room=0.18),
        y=plain_axes.counts_of("counted FLOPs a second, one layer", drawn, "FLOP/s", linear=linear),
        at=lambda tokens: whole(int(tokens)), value=lambda rate: scaled(rate, "FLOP/s"), palette=palette,
        description="Counted attention FLOPs a second against context: bounds as lines, measured points.",
    )  # fmt: skip
