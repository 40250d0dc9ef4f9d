"""Which kernel ran: backends with their reasons, errors against float64, online softmax step by step."""

import streamlit as st

from lab.runs import JobSpec, Run, default_spec
from lab.view import (
    accuracy_marks,
    backend_table,
    ceilings,
    controls,
    here,
    navigation,
    plain_axes,
    prompt,
    scenario,
    skeleton,
    softmax_steps,
)
from lab.view.accuracy_marks import error_text
from lab.view.caveats import caveats
from lab.view.format import digits
from lab.view.frames import Extras, Mark
from lab.view.measure_panel import Panel
from lab.view.shown_runs import shown_run

navigation.guard()

PAGE = "which_kernel_ran"
# Holds fp32 and bf16 on any device; fixed, so that points arriving move nothing.
ERRORS = (1e-8, 1e-1)

BACKENDS = "backends"
VIEWS = {BACKENDS: "backends", "accuracy": "errors by type", "mask": "explicit masks"}

scene, palette = scenario.current(), scenario.theme()
model = scene.model
measured_dtype, dtype_reason = here.measured_type(scene.dtype, scene.device)
view = prompt.Prompt(scene, True, measured_dtype)
card = ceilings.short_name(scene.recorded) if scene.recorded else "another machine"


def verdicts(run: Run | None) -> tuple[list[str], list[str], str] | None:
    """Backends that ran and that refused in the number type shown; here if known, else recorded."""
    points = [point for point in backend_table.plain_points(run) if point.dtype == measured_dtype]
    points = [point for point in points if point.implementation not in ("sdpa", "flex")]
    if points:
        said = {point.implementation: point.status in ("ok", "noisy") for point in points}
        where = "On this machine"
    else:
        stated = backend_table.stated(scene.recorded)
        types = {name: types.get(scene.dtype) for name, types in stated.items()}
        said = {name: text == backend_table.RUNS for name, text in types.items() if text}
        where = f"On {card}"
    if not said:
        return None
    names = {name: backend_table.NAMES.get(name, name) for name in said}
    return (
        [names[n] for n, ran in said.items() if ran],
        [names[n] for n, ran in said.items() if not ran],
        where,
    )


def listed(names: list[str]) -> str:
    """Names with "and" before the last."""
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def takeaway(run: Run | None, marks: list[Mark]) -> str:
    """Which backends ran, which refused, and how far their answers are from float64."""
    found = verdicts(run)
    here_said = accuracy_marks.largest(marks, "measured", measured_dtype)
    if here_said and (found is None or found[2] != "On this machine"):
        return f"On this machine {here_said}: no implementation approximates"
    if found is None:
        return "PyTorch chooses among several kernels for the same call: measure to see which one ran here"
    ran, refused, where = found
    said = [f"{listed(names)} {verb}" for names, verb in ((ran, "ran"), (refused, "refused")) if names]
    text = f"{where} {'; '.join(said)}"
    errors = (
        here_said if where == "On this machine" else accuracy_marks.largest(marks, "recorded", scene.dtype)
    )
    return f"{text}; {errors}" if errors else text


def draw(run: Run | None) -> None:
    """The heading, the errors, and the tables of backends."""
    recorded, own = accuracy_marks.recorded(scene.recorded, view), accuracy_marks.measured(run)
    skeleton.takeaway(takeaway(run, [*recorded, *own]))
    skeleton.badges(measured=bool(own), recorded_on=card if recorded else None, extra=skeleton.beyond(scene))
    marks = [*recorded, *own]
    skeleton.chart(
        PAGE, accuracy_marks.label_places(marks) | accuracy_marks.roundings(), marks,
        accuracy_marks.series(palette), Extras(), x=accuracy_marks.types_axis(),
        y=plain_axes.errors("largest error against float64", [*ERRORS, *(mark.y for mark in marks)]),
        at=accuracy_marks.type_at, value=error_text, palette=palette,
        description="Largest error against float64 by number type, above one rounding of that type.",
    )  # fmt: skip
    found = run if shown == BACKENDS else shown_run(spec_of(BACKENDS))
    tables = {
        f"Backends on {card}": backend_table.recorded_table(scene.recorded),
        "Backends on this machine": backend_table.measured_table(found),
        "Masks on this machine": backend_table.masks_table(run),
    }
    for title, table in tables.items():
        if len(table):
            st.markdown(f"**{title}**")
            st.table(table.set_index(table.columns[0]))
    variants = backend_table.variants_table(found)
    if len(variants):
        with st.expander("What PyTorch chose here, by kind of call"):
            st.table(variants.set_index("call"))


def spec_of(experiment: str) -> JobSpec:
    """The job that measures one of VIEWS at this model's heads; errors in every type of the device."""
    short = experiment != BACKENDS
    return default_spec(
        experiment, device=scene.device, dtype="auto" if experiment == "accuracy" else measured_dtype,
        heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_dim, threads=here.threads(), quick=short,
    )  # fmt: skip


def step_control(blocks: int) -> int:
    """The block after which the state is shown; all of them at first, and when the block size has changed."""
    key, numbers = f"{PAGE}_step", tuple(str(number) for number in range(1, blocks + 1))
    if st.session_state.get(key) not in numbers:
        st.session_state[key] = numbers[-1]
    return int(
        st.select_slider(
            "After block", numbers, key=key, help="Step through the blocks.", persist_state="session"
        )
    )


skeleton.opening(PAGE)
left, right = skeleton.columns()
with left:
    st.metric(
        f"One rounding in {scene.dtype}", error_text(accuracy_marks.roundoff(scene.dtype)),
        help="The largest relative error of rounding one number: two to the minus significand bits, "
        f"of which {scene.dtype} has {accuracy_marks.SIGNIFICAND_BITS[scene.dtype]}.",
    )  # fmt: skip
    shown = controls.pick(
        PAGE, "shown", "Measure", VIEWS, "Which backends run, how accurate they are, and masks."
    )
    panel = Panel(
        PAGE if shown == BACKENDS else f"{PAGE}_{shown}", spec_of(shown), scene.binary, note=dtype_reason
    )
    panel.controls()
with right:
    panel.live(draw)


def softmax_formula(walk: softmax_steps.Walk, step: int) -> None:
    """The recurrence with the numbers of the block shown, beside the direct result."""
    state = walk.steps[step - 1]
    skeleton.formula(
        r"\begin{gathered} m' = \max(m, \max_j s_j) \qquad l' = l\,e^{m - m'} + \sum_j e^{s_j - m'} \\ "
        r"o' = o\,e^{m - m'} + \sum_j e^{s_j - m'} v_j \qquad \text{out} = o / l \end{gathered}",
        [
            rf"m' = {digits(state.maximum, 4)}, \quad e^{{m - m'}} = {digits(state.rescale, 4)}, \quad "
            rf"l' = {digits(state.total, 5)}, \quad "
            rf"\text{{out}}_1 = {digits(float(state.output[0]), 5)} \quad "
            rf"\text{{(keys {state.first_key} to {state.last_key - 1})}}",
            rf"\text{{direct: out}}_1 = {digits(float(walk.direct[0]), 5)}, \quad "
            rf"\text{{one rounding in {scene.dtype}}} = 2^{{-{accuracy_marks.SIGNIFICAND_BITS[scene.dtype]}}} = "
            rf"\text{{{error_text(accuracy_marks.roundoff(scene.dtype))}}}",
        ],
    )


@st.fragment
def stepper() -> None:
    """Online softmax, block by block; its controls redraw nothing else."""
    softmax_heading = st.container()
    controls_column, softmax_column = skeleton.columns()
    with controls_column:
        block = int(
            controls.choice(
                PAGE, "block", "Keys a block", softmax_steps.BLOCKS, "Keys that are looked at together."
            )
        )
        walk = softmax_steps.walk(model.head_dim, block)
        step = step_control(len(walk.steps))
        state = walk.steps[step - 1]
        st.metric(
            "Running sum l", digits(state.total, 5),
            help=f"Running maximum {digits(state.maximum, 5)}; the earlier sums were multiplied by "
            f"{digits(state.rescale, 5)} in this block",
        )  # fmt: skip
    with softmax_heading:
        off = error_text(walk.difference(step))
        st.subheader(
            f"Online softmax: after block {step} of {len(walk.steps)} the output is {off} off the direct one"
            + (", which is rounding: no score was kept" if step == len(walk.steps) else ""),
            anchor=False,
        )
    with softmax_column:
        skeleton.show(softmax_steps.figure(walk, step, palette), f"{PAGE}_softmax_{block}")
        st.caption(
            f"One query with {softmax_steps.KEYS} keys and values of {model.head_dim} numbers, drawn at random, "
            f"in float64. At the size of the output float64 numbers lie {error_text(walk.rounding)} apart."
        )

    skeleton.table(softmax_steps.table(walk, step))
    softmax_formula(walk, step)


stepper()
run = panel.run()
skeleton.gap([accuracy_marks.sentences(run, "this machine"), accuracy_marks.sentences(scene.recorded, card)])
most = accuracy_marks.most_roundings(run, scene.recorded)
skeleton.misconception(
    "A fused kernel approximates attention.",
    "It computes the same function in another order. Stepped to the end, the output above is at most "
    f"{error_text(softmax_steps.most_off(model.head_dim))} from the direct one; in the number types that models "
    "use every implementation, naive attention too, errs by what its roundings add up to"
    + (f": at most {most} of its type in what is shown here." if most else "."),
)
drawn = [(run, "this machine")] if run else []
drawn += [(scene.recorded, card)] if scene.recorded else []
skeleton.limits(caveats(drawn, (shown, "memory")))
skeleton.closing(PAGE)
