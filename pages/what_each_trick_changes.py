"""What each trick changes: one bar per term, blocks of a paged cache, batches over time, a decision guide."""

from dataclasses import replace

import streamlit as st

from lab.cost import catalog
from lab.cost.deployment import Deployment
from lab.cost.guide import MIXED_ANSWERS, advise, problems, resized
from lab.cost.paging import BLOCK_TOKENS
from lab.cost.techniques import TECHNIQUES
from lab.cost.terms import TERMS, answer_steps
from lab.runs import Run, default_spec
from lab.view import (
    bars,
    capacity,
    ceilings,
    controls,
    gaps,
    here,
    latex,
    navigation,
    points,
    scenario,
    skeleton,
    trick_runs,
    tricks,
)
from lab.view.axes import counts_axis
from lab.view.caveats import caveats
from lab.view.format import bytes_text, digits, share, times, whole
from lab.view.frames import Mark
from lab.view.guide_table import QUESTIONS, guide_table, verdict
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
OWN = "own"
CASES = {"source": "the source's", OWN: "my batch and T"}
LENGTHS = (512, 1024, 2048)
LONGEST_MEASURED = 8192
ABBREVIATED = ("gqa", "mqa", "mla")
PLACES = 4
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
    key = f"{PAGE}_techniques"
    chosen = st.pills(
        "Techniques", tuple(TECHNIQUES), selection_mode="multi", key=key, persist_state="session",
        default=None if key in st.session_state else FIRST_SHOWN,
        format_func=short_name, wrap=True,
        help="Applied together to naive attention with a contiguous cache and batches that wait.",
    )  # fmt: skip
    before = replace(plain, cached=False) if "kv-cache" in chosen else plain
    after, applied, refused = tricks.together(before, chosen)
    every_term = tricks.changes(before, after)
    found = [change for change in every_term if None not in (change.before, change.after)]
    unknown = [change.term for change in every_term if change not in found]
    if unknown:
        st.caption(f"Not modelled where K and V differ in width: {', '.join(unknown)}.")
    for name, reason in refused:
        st.caption(f":material/block: {TECHNIQUES[name].name} does not apply: {reason.rstrip('.')}.")
    shown = controls.pick(
        PAGE, "shown", "Show", VIEWS, "Measure measures what is shown; on every term, flash against naive."
    )
    own_length = (scene.context,) if LENGTHS[-1] < scene.context <= LONGEST_MEASURED else ()
    terms_shown = shown == TERMS_SHOWN
    spec = default_spec(
        shown, device=scene.device, dtype=measured_dtype, batches=(scene.batch,), heads=model.heads,
        lengths=(*LENGTHS, *own_length) if terms_shown else trick_runs.LENGTHS[shown],
        kv_heads=model.kv_heads if terms_shown else model.heads, head_dim=model.head_dim,
        threads=here.threads(), implementations=NAMES.get(shown, ()), quick=not terms_shown,
    )  # fmt: skip
    note = "Measures the attention peak, naive against flash." if terms_shown else None
    panel = Panel(
        f"{PAGE}_{shown}", spec, scene.binary, note=" ".join(filter(None, (note, dtype_reason))) or None
    )
    panel.controls()
with right:
    panel.live(draw)

skeleton.formula(
    r"\text{factor} = \frac{\text{term}(\text{deployment after})}{\text{term}(\text{deployment before})}",
    [
        rf"\text{{{change.term}}}:\quad "
        rf"\frac{{{latex.quantity(tricks.amount(change.after, change.unit, scene.binary))}}}"
        rf"{{{latex.quantity(tricks.amount(change.before, change.unit, scene.binary))}}} = "
        rf"{digits(float(change.factor))}"
        for change in strongest()[:LINES]
    ],
)
with st.expander("What each term is, and what each chosen technique keeps"):
    for change in found:
        st.markdown(f"**{change.term}**: {TERMS[change.term].meaning}.")
    for name in applied:
        technique = TECHNIQUES[name]
        st.markdown(
            f"**{technique.name}** {technique.what}. It keeps {technique.keeps}. Source: {technique.source}."
        )

pages = tricks.paging(model, scene.dtype)
st.subheader(
    f"Blocks of {BLOCK_TOKENS} tokens waste {share(pages.blocks_waste)} of what they reserve; one tensor of "
    f"{whole(pages.longest)} tokens for every request wastes {share(pages.contiguous_waste)}",
    anchor=False,
)
for column, blocks in zip(st.columns(2), (False, True), strict=True):
    with column:
        reserved = pages.blocks_bytes if blocks else pages.contiguous_bytes
        st.markdown(f"**{'Paged' if blocks else 'Contiguous'}**: {text(reserved)} reserved")
        skeleton.show(
            bars.draw(
                tricks.paging_bars(palette, blocks=blocks), palette=palette, height_px=300,
                x=counts_axis("tokens", (), linear_up_to=pages.longest),
                description="Tokens that each of eight requests holds and reserves.",
            ),
            f"{PAGE}_paging_{blocks}",
        )  # fmt: skip
st.caption(
    f"Eight example requests that hold {', '.join(map(whole, tricks.CACHED_TOKENS))} tokens; "
    f"{text(pages.needed_bytes)} of {model.name}'s {scene.dtype} cache are needed. The picture shows a "
    "layer with full attention; the bytes are those of all layers, as vLLM counts them."
)

waiting = Deployment(
    model=model, batch=PLACES, context=scene.context, max_context=plain.max_context, answers=MIXED_ANSWERS
)
steps = {continuous: answer_steps(replace(waiting, continuous=continuous)) for continuous in (False, True)}
st.subheader(
    f"Continuous batching answers eight requests in {whole(steps[True])} steps, batches that wait in "
    f"{whole(steps[False])}",
    anchor=False,
)
for column, continuous in zip(st.columns(2), (False, True), strict=True):
    with column:
        st.markdown(
            f"**{'Continuous' if continuous else 'Batch after batch'}**: {whole(steps[continuous])} steps"
        )
        turns = tricks.schedule(MIXED_ANSWERS, PLACES, continuous=continuous)
        skeleton.show(
            bars.draw(
                tricks.schedule_bars(turns, palette), palette=palette, height_px=230,
                x=counts_axis("steps", (), linear_up_to=max(steps.values())),
                description="Which request each place of the batch answers at each step.",
            ),
            f"{PAGE}_batching_{continuous}",
        )  # fmt: skip
st.caption(
    f"Answers of {', '.join(map(whole, MIXED_ANSWERS))} tokens on {PLACES} places: an example, one long "
    "answer among short ones."
)


st.subheader("Which one fits my problem?", anchor=False)
asked, of_size, on_card = st.columns(3)
with asked:
    problem_id = controls.pick(PAGE, "problem", "Problem", QUESTIONS)
with of_size:
    own_case = controls.pick(PAGE, "case", "Sequences and tokens", CASES) == OWN
with on_card:
    cards = {key: card.name for key, card in catalog.hardware().items() if card.memory_bytes}
    cards = {"h100-sxm": cards["h100-sxm"], **cards}
    card = catalog.card(controls.pick(PAGE, "card", "Card", cards, "The memory its driver reports decides."))
problem = next(one for one in problems(model) if one.id == problem_id)
problem = resized(problem, scene.batch, scene.context) if own_case else problem
advice = advise(problem, capacity.known(card).bytes)
st.markdown(verdict(advice, scene.binary))
skeleton.table(guide_table(advice, scene.binary))

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
