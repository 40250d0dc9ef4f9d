"""Claims: every figure that the two source documents print, recomputed and judged."""

import streamlit as st

from lab.cost import catalog, evidence
from lab.cost.evidence import CATEGORIES, SOURCES, VERDICTS, Claim
from lab.runs import EXPERIMENTS, JobSpec, Run, default_spec
from lab.runs.reproduction import batches_of, lengths_of, measurable
from lab.view import bars, controls, glossary, here, ledger, navigation, reproduced, scenario, skeleton
from lab.view.axes import counts_axis
from lab.view.caveats import caveats
from lab.view.counted import verb
from lab.view.format import whole
from lab.view.measure_panel import Panel

navigation.guard()

PAGE = "claims"
CHART_PX, TABLE_PX, VERDICT_PX = 330, 420, 110
MEASURED = {"scaling": ("naive", "sdpa"), "decode": ("sdpa",)}
"""Implementations that claims of an experiment are about, where they are not all that it has."""
FAILS = ("wrong", "holds in part")

scene, palette = scenario.current(), scenario.theme()
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
every = evidence.claims()
seen = reproduced.of_this_machine(scene.device)


def count(claims: list[Claim], *verdicts: str) -> int:
    """Claims with one of some verdicts."""
    return sum(claim.verdict in verdicts for claim in claims)


def takeaway() -> str:
    """How the claims that the filters leave were judged."""
    if not shown:
        return f"No figure of {whole(len(every))} passes these filters"
    hold, wrong = count(shown, "holds"), count(shown, "wrong")
    return (
        f"{whole(len(shown))} of {whole(len(every))} figures: {whole(hold)} {verb(hold, 'holds', 'hold')}, "
        f"{whole(count(shown, 'holds in part'))} in part, {whole(wrong)} {verb(wrong, 'is', 'are')} wrong, "
        f"{whole(count(shown, 'needs a run', 'not checkable'))} no arithmetic can settle"
    )


def spec_of(claim: Claim) -> JobSpec:
    """The job that measures a claim's quantity on this machine, at its model's heads and lengths."""
    model = catalog.models().get(str(claim.inputs.get("model")), catalog.model("gpt2"))
    # Errors are printed for several types: "auto" measures all that the device computes in.
    dtype = "auto" if claim.experiment == "accuracy" else measured_dtype
    return default_spec(
        claim.experiment, device=scene.device, dtype=dtype, heads=model.heads, kv_heads=model.kv_heads,
        head_dim=model.head_dim, threads=here.threads(), lengths=lengths_of(claim) or None,
        batches=batches_of(claim) or None, implementations=MEASURED.get(claim.experiment), quick=True,
    )  # fmt: skip


def reproduce(claim: Claim) -> Run | None:
    """The measure panel of a claim, and the run that it shows: press again in fp32 for what is printed in it."""
    spec = spec_of(claim)
    panel = Panel(
        f"{PAGE}_{claim.id}", spec, scene.binary, note=None if spec.dtype == "auto" else dtype_reason
    )
    beside, results = st.columns([1, 3])
    with beside:
        panel.controls()
    with results:
        panel.live(lambda run: skeleton.badges(measured=run is not None, recorded_on=None))
    return panel.run()


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    words = st.text_input(
        "Search", key=f"{PAGE}_search", persist_state="session", max_chars=100,
        placeholder="KV cache", help="Every word must stand somewhere in the claim.",
    )  # fmt: skip
    anything = {ledger.ALL: "all"}
    source = controls.pick(
        PAGE,
        "source",
        "Source",
        anything | SOURCES,
        f"{glossary.says('The chapter')} {glossary.says('The overview')}",
    )
    verdict = controls.pick(PAGE, "verdict", "Verdict", anything | {one: one for one in VERDICTS})
    category = controls.pick(PAGE, "category", "Category", anything | {one: one for one in CATEGORIES})
    shown = [claim for claim in every if ledger.matches(claim, words or "", source, verdict, category)]
    st.metric("Figures shown", whole(len(shown)))
with right:
    skeleton.takeaway(takeaway())
    skeleton.badges(measured=any(one.id in seen for one in shown), recorded_on=None)
    picture = ledger.verdict_bars(shown, palette)
    longest = max(1, *(int(at) for _, at, _ in picture.ends))
    skeleton.show(
        bars.draw(
            picture, x=counts_axis("figures", (), linear_up_to=longest, room=0.1), palette=palette,
            height_px=CHART_PX, description="Printed figures by category, stacked by verdict.",
        ),
        f"{PAGE}_chart",
    )  # fmt: skip

st.subheader("Select a row to open its recomputation", anchor=False)
event = st.dataframe(
    ledger.table(shown, lambda one: reproduced.short(one, seen.get(one.id))), hide_index=True,
    height=TABLE_PX, key=f"{PAGE}_table", on_select="rerun", selection_mode="single-row",
    column_config={"verdict": st.column_config.TextColumn(width=VERDICT_PX)},
)  # fmt: skip
rows = [row for row in event.selection.rows if row < len(shown)]
readable = (claim for claim in shown if measurable(claim))
claim = shown[rows[0]] if rows else next(iter((*readable, *shown)), None)
run = None
if claim is not None:
    for line in (*ledger.details(claim), *reproduced.details(claim, seen.get(claim.id))):
        st.markdown(line)
    if measurable(claim):
        st.markdown("**Measure the same quantity here:**")
        run = reproduce(claim)
    elif claim.experiment in EXPERIMENTS:
        st.markdown(reproduced.by_hand(spec_of(claim)))
    elif claim.experiment is not None:
        st.caption(f"The experiment that measures it, {claim.experiment}, cannot be run from here yet.")

skeleton.formula(
    r"\text{holds} \iff [\text{low},\ \text{high}]_\text{recomputed} \cap [x - \delta,\ x + \delta]_\text{printed} "
    r"\ne \varnothing",
    [] if claim is None else ledger.compared(claim),
)
st.caption(
    "A printed figure x stands for everything that rounds to it: δ is half a unit of its last digit, or "
    "a whole one where the source marks it as approximate. What a recomputation starts from is rounded too."
)
measured = [claim for claim in every if claim.category == "measured"]
derived = [claim for claim in measured if claim.formula is not None]
skeleton.gap(
    [
        f"Of {whole(len(measured))} measured figures, {whole(len(derived))} can be recomputed from other "
        f"printed figures or from the cost model; {whole(count(measured, 'needs a run'))} need a run on the same "
        "device. A run on another machine shows whether the same law holds there, not whether the figure was "
        "read right.",
        reproduced.summary(seen, sum(map(measurable, every))),
    ]
)
skeleton.misconception(
    "A measured figure cannot be checked without the machine it came from.",
    f"Figures of one document must fit each other: {whole(count(derived, *FAILS))} of the "
    f"{whole(len(derived))} measured ones that can be recomputed do not follow, or only in part, from the tables "
    "beside them.",
)
drawn = [(run, "this machine")] if run else []
skeleton.limits(
    f"{caveats(drawn, EXPERIMENTS)} A verdict is about the printed digits; the claims are told in our words, "
    "and what a source argues without a figure is not in the ledger."
)
skeleton.closing(PAGE)
