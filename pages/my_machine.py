"""My machine: everything measured here beside what was predicted, other machines' runs, and the way out."""

import streamlit as st

from lab.runs import EXPERIMENTS, Run, reference_runs, unreadable
from lab.runs.suites import SUITES
from lab.view import (
    agreement,
    calibrations,
    charts,
    controls,
    here,
    latex,
    navigation,
    points,
    run_files,
    scenario,
    skeleton,
    suite,
)
from lab.view.axes import bytes_axis, seconds_axis
from lab.view.caveats import caveats
from lab.view.ceilings import short_name
from lab.view.counted import counted, verb
from lab.view.format import bytes_text, seconds_text, share, times, whole
from lab.view.frames import Extras, Mark
from lab.view.measure_panel import Panel
from lab.view.palette import LIMIT

navigation.guard()

PAGE = "my_machine"
MOST_RUNS = 5
CLOSE = 0.2
# Fixed, so that points arriving move nothing.
SECONDS, BYTES = (1e-5, 1e2), (2.0**10, 2.0**35)
DIAGONAL = "as_predicted"
GLYPHS = {"circle": "●", "square": "■", "diamond": "◆", "triangle-up": "▲", "cross": "✚"}

scene, palette = scenario.current(), scenario.theme()


def text(amount: float) -> str:
    """A time or a number of bytes."""
    return seconds_text(amount) if quantity == agreement.TIME else bytes_text(amount, scene.binary)


def axis(title: str):
    """Both axes have the same ends, so that the diagonal is where measurement meets prediction."""
    if quantity == agreement.TIME:
        return seconds_axis(title, SECONDS)
    return bytes_axis(title, BYTES, binary=scene.binary)


def takeaway(pairs: list[agreement.Pair]) -> str:
    """How close the predictions come, over all runs shown."""
    found = agreement.scored(pairs, CLOSE)
    what = "times" if quantity == agreement.TIME else "peaks"
    if found is None:
        return f"No point of the runs shown has both a measured and a predicted {what[:-1]} yet"
    close = found.cells - len(found.misses)
    return (
        f"{whole(close)} of {whole(found.cells)} predicted {what} {verb(close, 'is', 'are')} within {share(CLOSE)} "
        f"of the measured ones; on average they miss by {share(found.mean_absolute_error)}"
    )


def marks_of(pairs: list[agreement.Pair]) -> list[Mark]:
    """Each pair at its prediction; the quartiles where a time has them."""
    found = []
    for pair in pairs:
        timing = pair.point.timing if quantity == agreement.TIME else None
        low = timing.q1_s if timing and timing.q1_s is not None else pair.cell.measured
        high = timing.q3_s if timing and timing.q3_s is not None else pair.cell.measured
        kind = "measured" if pair.run.run_id in own else "recorded"
        found.append(
            Mark(
                f"run_{order[pair.run.run_id]}",
                kind,
                pair.cell.predicted,
                pair.cell.measured,
                low,
                high,
                noisy=quantity == agreement.TIME and pair.point.status == "noisy",
            )
        )
    return found


def series() -> list[charts.Series]:
    """The diagonal, and a colour for each run."""
    diagonal = charts.role_series(DIAGONAL, LIMIT, "as predicted", palette, 1.5)
    colours = palette.family(len(chosen)) if chosen else []
    return [diagonal] + [
        charts.Series(f"run_{order[run.run_id]}", labels[run.run_id], colour, shape=shape)
        for run, colour, shape in zip(chosen, colours, GLYPHS, strict=False)
    ]


def draw(run: Run | None) -> None:
    """The heading, the badges and the chart; a run that is being measured joins when it has ended."""
    pairs = agreement.pairs(chosen, quantity)
    marks = marks_of(pairs)
    skeleton.takeaway(takeaway(pairs))
    kinds = {mark.kind for mark in marks}
    foreign = [run for run in chosen if run.run_id not in own]
    skeleton.badges(
        measured="measured" in kinds,
        recorded_on=short_name(foreign[0]) if len(foreign) == 1 and "recorded" in kinds else None,
        extra=[*([f"{len(foreign)} runs from elsewhere"] if len(foreign) > 1 else []), *points.looks(marks)],
    )
    drawn = {mark.series for mark in marks}
    drawn_runs = [item for item in series()[1:] if item.key in drawn]
    st.html(run_files.legend((item.colour, GLYPHS[item.shape], item.label) for item in drawn_runs))
    x, y = axis("predicted"), axis("measured")
    diagonal = [(value, value) for value in (x.low, x.value(0.88))]
    skeleton.chart(
        PAGE, {DIAGONAL: diagonal}, marks, series(), Extras(), x=x, y=y, at=text, value=text, palette=palette,
        description="Measured against predicted, one point a cell; on the dashed diagonal both are equal.",
    )  # fmt: skip


def says_little(run_id: str) -> tuple[bool, bool]:
    """Sorts runs that measured nothing of what is compared behind others, then those that did not finish."""
    run = known[run_id]
    nothing = not any(agreement.measured_of(point, quantity) for point in run.points)
    return nothing, run.status != "finished"


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    quantity = controls.choice(PAGE, "quantity", "Compare", {agreement.TIME: "Time", agreement.PEAK: "Peak"})
    files = st.file_uploader(
        "Add run files", type="json", accept_multiple_files=True, key=f"{PAGE}_files",
        help="Runs exported on this page or saved by the command line, on any machine.",
    )  # fmt: skip
    uploaded, refusals = run_files.read(files or ())
    kept = calibrations.kept()
    own = {run.run_id for run in kept}
    known = {run.run_id: run for run in (*kept, *reference_runs(), *uploaded)}
    labels = run_files.names((*kept, *reference_runs()), uploaded)
    with_points = [run_id for run_id, run in known.items() if run.points]
    first = sorted((run_id for run_id in with_points if run_id in own), key=says_little)[: MOST_RUNS - 2]
    first += [run.run_id for run in (*uploaded, reference_runs()[0]) if run.points and run.run_id not in own]
    picked = st.multiselect(
        "Runs side by side", with_points, default=first[:MOST_RUNS], format_func=labels.__getitem__,
        max_selections=MOST_RUNS, key=f"{PAGE}_runs_{len(with_points)}",  # a new run is shown
    )  # fmt: skip
    chosen = [known[run_id] for run_id in picked]
    order = {run.run_id: place for place, run in enumerate(chosen)}
    experiment = controls.pick(PAGE, "experiment", "Measure which", suite.offered(scene.device))
    measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
    spec = suite.spec_of(experiment, scene.device, measured_dtype)
    note = suite.words(experiment) if experiment in SUITES else dtype_reason
    panel = Panel(PAGE, spec, scene.binary, note=note)
    panel.controls()
with right:
    for sentence in (*refusals, *unreadable()):
        st.warning(sentence, icon=":material/broken_image:")
    panel.live(draw)

pairs = agreement.pairs(chosen, quantity)
st.subheader("Run by run", anchor=False)
table = []
for run in chosen:
    mine = [pair for pair in pairs if pair.run is run]
    found = agreement.scored(mine, CLOSE)
    table.append(
        {
            "run": labels[run.run_id], "points": whole(len(run.points)),
            "with a prediction": whole(len(mine)),
            "mean miss": share(found.mean_absolute_error) if found else "",
            "bias": f"{'+' if found.bias > 0 else ''}{share(found.bias)}" if found else "",
            "farthest": f"{found.worst.family}, {found.worst.label}" if found else "",
        }
    )  # fmt: skip
if table:
    st.dataframe(table, hide_index=True, height="content", key=f"{PAGE}_runs_table")
with st.expander("Every point, the farthest from its prediction first"):
    rows = agreement.rows(pairs, labels, text)
    if rows:
        st.dataframe(rows, hide_index=True, height=360, key=f"{PAGE}_points_table")
    else:
        st.caption("Nothing to compare yet.")
with st.expander("Published tables of other cards"):
    st.dataframe(run_files.published(), hide_index=True, height="content", key=f"{PAGE}_published")
st.download_button(
    "Export the runs shown (zip)", run_files.archive(chosen), "attention-cost-runs.zip", "application/zip",
    key=f"{PAGE}_export", on_click="ignore", disabled=not chosen, icon=":material/archive:",
)  # fmt: skip

held = agreement.scored(pairs, CLOSE)
skeleton.formula(
    r"\text{error} = \frac{\text{predicted}}{\text{measured}} - 1 \qquad "
    r"\text{mean miss} = \frac{1}{N} \sum |\text{error}|",
    [
        rf"\text{{farthest}} = \frac{{{latex.quantity(text(held.worst.predicted))}}}"
        rf"{{{latex.quantity(text(held.worst.measured))}}} - 1 = {held.worst.error:+.2f}, \qquad "
        rf"N = {held.cells}"
    ]
    if held
    else [],
)
without = sum(len(run.points) for run in chosen) - len(pairs)
said = [
    f"{counted(without, 'point')} of the runs shown {verb(without, 'has', 'have')} no pair here: refused, of a "
    "kernel that is not modelled, without this measurement, or on a device that was not calibrated in their type "
    "and thread count (Roofline calibrates this one)."
]
if held:
    ratio = held.worst.predicted / held.worst.measured
    said.insert(
        0,
        f"The farthest is {held.worst.family} at {held.worst.label}: predicted "
        f"{times(ratio)} what was measured.",
    )
fitted = sum(pair.cell.role == agreement.FITTED for pair in pairs)
if fitted:
    gave = "its own prediction and is" if fitted == 1 else "their own prediction and are"
    said.append(f"{counted(fitted, 'point')} gave a constant of {gave} not scored.")
skeleton.gap(said)
skeleton.misconception(
    "A prediction that fits every point must be right.",
    "It may have been fitted to them. Here the constants come from micro-benchmarks, data sheets or a few "
    f"named cells; cells that gave a constant are marked, and {whole(held.cells if held else 0)} that gave none "
    "are scored.",
)
drawn = [(run, "this machine" if run.run_id in own else short_name(run)) for run in chosen]
skeleton.limits(caveats(drawn, EXPERIMENTS))
skeleton.closing(PAGE)
