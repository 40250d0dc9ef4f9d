"""What each trick changes: one bar per term, blocks of a paged cache, batches over time, a decision guide."""

from dataclasses import replace

import streamlit as st

from lab.cost.deployment import Deployment
from lab.cost.guide import MIXED_ANSWERS
from lab.cost.techniques import TECHNIQUES
from lab.cost.terms import TERMS
from lab.runs import Run, default_spec
from lab.view import (
    bars,
    ceilings,
    controls,
    gaps,
    guide_table,
    here,
    latex,
    navigation,
    points,
    scenario,
    serving_pictures,
    skeleton,
    trick_runs,
    tricks,
)
from lab.view.caveats import caveats
from lab.view.format import bytes_text, digits, times
from lab.view.frames import Mark
from lab.view.measure_panel import Panel
from lab.view.palette import FUSED, NAIVE, role_of

navigation.guard()

PAGE = "what_each_trick_changes"
FIRST_SHOWN = ("flash", "kv-quantisation")
PEAK = "attention peak"
TERMS_SHOWN = "memory"
VIEWS = {
    TERMS_SHOWN: "every term",
    trick_runs.WINDOWED: "windows",
    trick_runs.GROUPED: "grouped heads",
    trick_runs.STORAGES: "stored cache",
}
LENGTHS = (512, 1024, 2048)
LONGEST_MEASURED = 8192
ABBREVIATED = ("gqa", "mqa", "mla")
LINES = 3
LABELS = {NAIVE: "naive", FUSED: "flash"}
NAMES = {TERMS_SHOWN: ("naive", "flash"), trick_runs.GROUPED: ("sdpa",)}

scene, palette = scenario.current(), scenario.theme()
model = scene.model
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
plain = Deployment(
    model=model, batch=scene.batch, context=scene.context,
    max_context=max(scene.context, model.max_context or scene.context), answers=MIXED_ANSWERS,
    dtype=scene.dtype, k_type=scene.dtype, v_type=scene.dtype,
)  # fmt: skip


def text(count: float) -> str:
    """Bytes in the unit chosen."""
    return bytes_text(count, scene.binary)


def short_name(technique: str) -> str:
    """What the toggle says: an abbreviation where there is one, else the name without its brackets."""
    if technique in ABBREVIATED:
        return technique.upper()
    return TECHNIQUES[technique].name.partition(" (")[0]


def techniques() -> tuple[str, ...]:
    """The techniques that the reader applies."""
    key = f"{PAGE}_techniques"
    chosen = st.pills(
        "Techniques", tuple(TECHNIQUES), selection_mode="multi", key=key, persist_state="session",
        default=None if key in st.session_state else FIRST_SHOWN, format_func=short_name, wrap=True,
        help="Applied together to naive attention with a contiguous cache and batches that wait.",
    )  # fmt: skip
    return tuple(chosen)


def remarks() -> list[str]:
    """What could not be applied or is not modelled, and how many KV heads sharing leaves."""
    said = []
    unknown = [change.term for change in every_term if None in (change.before, change.after)]
    if unknown:
        said.append(f"Not modelled where K and V differ in width: {', '.join(unknown)}.")
    if heads := tricks.shared_words(before.model, after.model):
        said.append(heads)
    for name, reason in refused:
        said.append(f":material/block: {TECHNIQUES[name].name} does not apply: {reason.rstrip('.')}.")
    return said


def strongest() -> list[tricks.Change]:
    """The terms that changed, the largest factor first."""
    changed = [change for change in found if change.factor not in (None, 1)]
    return sorted(changed, key=lambda change: max(change.factor, 1 / change.factor), reverse=True)


def takeaway() -> str:
    """The largest changes, and how many terms stay."""
    if not applied:
        return "Choose a technique: nothing is changed yet"
    names = " + ".join(TECHNIQUES[name].name for name in applied)
    words = ", ".join(f"{change.term} {tricks.ratio(change.factor)}" for change in strongest()[:2])
    stay = sum(change.before == change.after for change in found)
    return f"{names}: {words or 'nothing smaller or larger'}; {stay} of {len(found)} terms stay"


def peaks_of(run: Run | None, *, recorded: bool) -> list[Mark]:
    """The measured peaks of naive and flash attention at this scenario's shape."""
    wanted = {
        "batch": scene.batch, "heads": model.heads, "kv_heads": model.kv_heads, "head_dim": model.head_dim,
        "dtype": scene.dtype, "causal": True,
    }  # fmt: skip

    def series_of(point) -> str | None:
        role = role_of(point.implementation) if point.implementation in ("naive", "flash") else None
        return role if point.experiment == "memory" else None

    return points.marks(run, wanted, series_of, points.peak_mark, recorded=recorded, same_type=False)


def measured_factor(run: Run | None) -> float | None:
    """Flash's measured peak over naive attention's, at the scenario's context."""
    kept = {mark.series: mark.y for mark in peaks_of(run, recorded=False) if mark.x == scene.context}
    return kept[FUSED] / kept[NAIVE] if len(kept) == len(LABELS) else None


def draw(run: Run | None) -> None:
    """The heading, the badges and one bar a term, or the trick that the reader chose to measure."""
    if shown != TERMS_SHOWN:
        trick_runs.show(PAGE, scene, spec, run, palette)
        return
    factor = measured_factor(run) if "flash" in applied else None
    picture = tricks.factor_bars(found, palette, scene.binary)
    if factor:
        picture = replace(picture, points=[(PEAK, factor, f"flash over naive: {tricks.ratio(factor)}")])
    skeleton.takeaway(takeaway())
    skeleton.badges(measured=factor is not None, recorded_on=None, extra=skeleton.beyond(scene))
    skeleton.show(
        bars.draw(
            picture, x=tricks.factor_axis(found), palette=palette, height_px=skeleton.HEIGHT_PX, legend=False,
            description="Every term of the cost after the chosen techniques over the same term before them.",
        ),
        f"{PAGE}_chart",
    )  # fmt: skip


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    shown = controls.pick(
        PAGE, "shown", "Show", VIEWS, "Measure measures what is shown; on every term, flash against naive."
    )
    terms_shown = shown == TERMS_SHOWN
    chosen = techniques() if terms_shown else ()
    before = replace(plain, cached=False) if "kv-cache" in chosen else plain
    after, applied, refused = tricks.together(before, chosen)
    every_term = tricks.changes(before, after)
    for sentence in remarks():
        st.caption(sentence)
    own_length = (scene.context,) if LENGTHS[-1] < scene.context <= LONGEST_MEASURED else ()
    spec = default_spec(
        shown, device=scene.device, dtype=measured_dtype, batches=(scene.batch,), heads=model.heads,
        lengths=(*LENGTHS, *own_length) if terms_shown else trick_runs.LENGTHS[shown],
        kv_heads=model.kv_heads if terms_shown else model.heads, head_dim=model.head_dim,
        threads=here.threads(), implementations=NAMES.get(shown, ()), quick=not terms_shown,
    )  # fmt: skip
    modelled = [change for change in every_term if None not in (change.before, change.after)]
    found = modelled if terms_shown else trick_runs.changes(spec)
    note = "Measures the attention peak, naive against flash." if terms_shown else None
    panel = Panel(
        f"{PAGE}_{shown}", spec, scene.binary, note=" ".join(filter(None, (note, dtype_reason))) or None
    )
    panel.controls()
with right:
    panel.live(draw)

skeleton.formula(
    r"\text{factor} = \frac{\text{term after}}{\text{term before}}",
    [
        rf"\text{{{change.term}}}:\quad "
        rf"\frac{{{latex.quantity(tricks.amount(change.after, change.unit, scene.binary))}}}"
        rf"{{{latex.quantity(tricks.amount(change.before, change.unit, scene.binary))}}} = "
        rf"{digits(float(change.factor))}"
        for change in strongest()[:LINES]
    ],
)
if terms_shown:
    with st.expander("What each term is, and what each chosen technique keeps"):
        for change in found:
            st.markdown(f"**{change.term}**: {TERMS[change.term].meaning}.")
        for name in applied:
            used = TECHNIQUES[name]
            st.markdown(f"**{used.name}** {used.what}. It keeps {used.keeps}. Source: {used.source}.")

st.markdown(serving_pictures.linear_text(scene))

serving_pictures.show_paging(PAGE, scene, palette)
serving_pictures.show_batching(PAGE, model, palette)
guide_table.show(PAGE, scene)

run = panel.run()
expected = replace(plain, implementation="naive"), replace(plain, implementation="flash")
card_name = ceilings.short_name(scene.recorded) if scene.recorded else "another machine"
peaks = run if terms_shown else None
every = [*peaks_of(scene.recorded, recorded=True), *peaks_of(peaks, recorded=False)]


def predicted(mark: Mark) -> float:
    """The attention peak that TERMS gives for a point, where the point carries no prediction itself."""
    case = replace(plain, context=int(mark.x), max_context=max(int(mark.x), plain.max_context))
    return float(TERMS[PEAK].value(replace(case, implementation=LABELS[mark.series])))


skeleton.gap(
    [trick_runs.gap_text(spec, run)]
    if not terms_shown
    else [
        gaps.peaks_text(gaps.ratios(every, kind, LABELS, predicted), where)
        for kind, where in (("measured", "this machine"), ("recorded", card_name))
    ]
)
cheaper = replace(plain, implementation="flash")
cached = [TERMS["cache needed"].value(one) for one in (plain, cheaper)]
traffic = [TERMS[PEAK].value(one) for one in (plain, cheaper)]
skeleton.misconception(
    "FlashAttention saves KV cache memory.",
    "It shrinks the scores that are alive while a prompt is read, "
    f"{here.ON_A_CARD} from {text(traffic[0])} to {text(traffic[1])} "
    f"({times(traffic[0] / traffic[1])} less). The cache is {text(cached[0])} before and "
    f"{text(cached[1])} after: only fewer KV heads, fewer tokens or fewer bits shrink it.",
)
drawn = [(run, "this machine")] if run else []
skeleton.limits(
    f"{caveats(drawn, (shown,))} Factors are counts, not speed-ups; what a technique costs in "
    "quality, its kernels and their launches are not in them."
)
skeleton.closing(PAGE)
