"""A whole pass of a model whose modules nothing times: the least time that its matrix products take."""

from __future__ import annotations

from lab.cost.budget import Budget, budget
from lab.cost.predict import bound_seconds
from lab.cost.shapes import prefill
from lab.runs import Run
from lab.view import ceilings, charts, points, skeleton
from lab.view.axes import TOKENS, seconds_axis, tokens_axis
from lab.view.format import seconds_text, share, tokens_label, whole
from lab.view.frames import Extras
from lab.view.modules import EAGER, SDPA
from lab.view.palette import WEIGHTS, Palette
from lab.view.scenario import Scenario
from lab.view.whole_pass import MEASURED_MODEL, ROLES, WholePass

PASS, CORE = "pass", "core"
# Holds a small model on a card and GPT-2 on a slow CPU, so that points arriving move nothing.
SECONDS = (1e-4, 1e2)


def products(scene: Scenario, tokens: int) -> Budget:
    """The matrix products of a pass over a prompt, logits of all positions included."""
    return budget(scene.model, prefill(scene.batch, tokens, scene.dtype))


def least(scene: Scenario, flops: int) -> float:
    """The least time of so many FLOPs on the device compared with, in seconds."""
    limits = ceilings.reference(scene.recorded, scene.dtype)
    return bound_seconds(flops, 0, limits).seconds


def takeaway(view: WholePass, run: Run | None) -> str:
    """The least time of a pass at the scenario, attention's part of its products, and what was measured.

    Args:
        view: what the views of a whole pass share.
        run: measured here, of GPT-2 small; None for none.
    """
    scene, found = view.scene, products(view.scene, view.tokens)
    name = ceilings.reference(scene.recorded, scene.dtype).name
    said = (
        f"By their FLOPs {whole(view.tokens)} tokens of {scene.model.name} take at least "
        f"{seconds_text(least(scene, found.matmul_flops))} on {name}, {share(float(found.attention_share))} of "
        "it for the attention core"
    )
    quiet = points.clean(view.own_marks(run))
    if not quiet:
        return said
    last = max(quiet, key=lambda mark: mark.x)
    how = "eager" if last.series.startswith(EAGER) else "with SDPA"
    return f"{said}; here {MEASURED_MODEL} took {seconds_text(last.y)} for {whole(int(last.x))} tokens, {how}"


def show(page: str, view: WholePass, run: Run | None, palette: Palette, *, linear: bool) -> None:
    """Draw the least time of a pass and of its attention core, and what was measured of another model.

    Args:
        page: the page's file name.
        view: what the views of a whole pass share.
        run: measured here, of GPT-2 small; None for none.
        palette: of the theme in use.
        linear: axes from zero to the scenario's context.
    """
    scene = view.scene
    grid = [max(1, scene.context * place // 32) for place in range(1, 33)] if linear else list(TOKENS)
    found = {tokens: products(scene, tokens) for tokens in grid}
    curves = {
        PASS: [(float(T), least(scene, one.matmul_flops)) for T, one in found.items()],
        CORE: [(float(T), least(scene, one.core_flops)) for T, one in found.items() if one.core_flops],
    }
    lines = [
        charts.role_series(PASS, WEIGHTS, "whole pass", palette),
        charts.Series(CORE, "attention core", palette.text, width=2.5),
        *(
            charts.role_series(f"{name}_here", role, f"{MEASURED_MODEL}, {'SDPA' if name == SDPA else name}", palette)
            for name, role in ROLES.items()
        ),
    ]  # fmt: skip
    marks = view.own_marks(run)
    skeleton.takeaway(takeaway(view, run))
    skeleton.badges(
        measured=bool(marks), recorded_on=None,
        extra=[
            *skeleton.beyond(scene), "Lines: bounds", *ceilings.stand_in(scene.recorded, scene.dtype),
            *view.other_model(run), *points.looks(marks),
        ],
    )  # fmt: skip
    values = [*(y for curve in curves.values() for _, y in curve), *(mark.y for mark in marks)]
    skeleton.chart(
        page, curves, marks, lines,
        Extras(limits_x=skeleton.context_limit(scene), marker_x=scene.context),
        x=tokens_axis("tokens of the prompt", linear_up_to=scene.context if linear else None, room=0.22),
        y=seconds_axis("one whole pass, at least", values if linear else [*values, *SECONDS], linear=linear),
        at=lambda T: tokens_label(int(T)), value=seconds_text, palette=palette,
        description="Least time of a whole pass and of its attention core against the prompt's length.",
    )  # fmt: skip
