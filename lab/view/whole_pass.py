"""Whole passes of GPT-2 against their length: recorded, predicted and measured, eager and SDPA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.cost import catalog
from lab.cost.budget import budget
from lab.cost.calibration import Calibration
from lab.cost.prediction_model import predict_gpt2
from lab.cost.shapes import Workload
from lab.runs import Point, Run
from lab.runs.reference import CHAPTER_RUN_ID
from lab.view import calibrations, charts, modules, points, skeleton
from lab.view.axes import counts_axis, seconds_axis
from lab.view.ceilings import short_name
from lab.view.format import seconds_text, times, whole
from lab.view.frames import Extras, Mark
from lab.view.modules import EAGER, SDPA
from lab.view.palette import FUSED, NAIVE, Palette
from lab.view.scenario import Scenario

TICKS = (128, 256, 512, 1024)
ROLES = {EAGER: NAIVE, SDPA: FUSED}
# Of the recorded table; its columns say milliseconds.
TABLE, RECORDED_TYPE, RECORDED_MODEL, RECORDED_BATCH = "gpt2_fp32_batch1", "fp32", "gpt2", 1
MEASURED_MODEL = catalog.model(RECORDED_MODEL).name
"""What the button measures, whichever model is chosen."""
# Holds a card at a short prompt and a CPU at a long one, so that points arriving seldom move anything.
SECONDS = (1e-3, 1e1)
MIB = 2**20
# As lab.measure.gpt2 calls the pass that computes the logits of every position.
ALL_LOGITS = "all logits"


@dataclass(frozen=True)
class WholePass:
    """What the views of a whole pass share.

    Args:
        scene: the scenario.
        dtype_here: the number type measured on this machine.
    """

    scene: Scenario
    dtype_here: str

    @property
    def tokens(self) -> int:
        """The scenario's context, as far as the model takes it."""
        longest = self.scene.model.max_context
        return min(self.scene.context, longest or self.scene.context)

    @property
    def card(self) -> str:
        """The device that was recorded."""
        return short_name(self.scene.recorded) if self.scene.recorded else "another device"

    def calibration(self, *, recorded: bool) -> Calibration | None:
        """A device's rates, where this model's modules are priced. The card's are in the recorded type."""
        if self.scene.model.family != modules.FAMILY:
            return None
        if recorded:
            return calibrations.of_recorded(self.scene.recorded, RECORDED_TYPE)
        return calibrations.of_this_machine(self.scene.device, self.dtype_here)

    @property
    def timed(self) -> bool:
        """Whether some device's rates price this model's modules."""
        return any(self.calibration(recorded=recorded) is not None for recorded in (True, False))

    @property
    def only_counted(self) -> str | None:
        """What is said of a model whose modules nothing prices; None of the others."""
        if self.timed:
            return None
        if self.scene.model.family == modules.FAMILY:
            return "No device's rates are known yet: FLOPs."
        return f"Modules are timed for GPT-2; of {self.scene.model.name} FLOPs are counted."

    def rows(self) -> list[Mapping[str, Any]]:
        """The recorded table, where it is of this model and batch."""
        run = self.scene.recorded
        fits = self.scene.model.id == RECORDED_MODEL and self.scene.batch == RECORDED_BATCH
        return list(run.tables[TABLE]) if run and run.run_id == CHAPTER_RUN_ID and fits else []

    def recorded(self) -> dict[tuple[str, int], float]:
        """The recorded seconds by attention and tokens."""
        return {(name, row["tokens"]): row[f"{name}_ms"] / 1e3 for row in self.rows() for name in ROLES}

    def line(self, attention: str, *, recorded: bool) -> list[tuple[float, float]]:
        """The predicted time of a pass against its length."""
        found = self.calibration(recorded=recorded)
        if found is None:
            return []
        kernel = EAGER if attention == EAGER else modules.fused_kernel(found)
        model, batch = self.scene.model, self.scene.batch
        lengths = [T for T in TICKS if (model.max_context or T) >= T]
        return [
            (float(T), predict_gpt2(model, found, batch=batch, tokens=T, attention=kernel).seconds)
            for T in lengths
        ]

    def measured(self, run: Run | None) -> list[Point]:
        """Whole passes of a run, of the model that the button measures, whichever model is chosen."""
        return [
            one for one in (run.points if run else ())
            if one.experiment == "model" and one.implementation in ROLES and one.variant == ALL_LOGITS
        ]  # fmt: skip

    def other_model(self, run: Run | None) -> list[str]:
        """A badge where the points measured are not of the model and batch that the lines are of."""
        batches = sorted({point.batch for point in self.measured(run)})
        if not batches or (self.scene.model.id == RECORDED_MODEL and batches == [self.scene.batch]):
            return []
        return [f"Points here: {MEASURED_MODEL}, batch {', '.join(map(whole, batches))}"]

    def own_marks(self, run: Run | None) -> list[Mark]:
        """This machine's points."""
        found = (
            points.time_mark(point, f"{point.implementation}_here", recorded=False)
            for point in self.measured(run)
        )
        return [mark for mark in found if mark is not None]

    def takeaway(self) -> str:
        """What SDPA saves of the whole pass at the longest recorded length."""
        found = self.recorded()
        if not found:
            return self._predicted()
        longest = max(tokens for _, tokens in found)
        eager, sdpa = found[EAGER, longest], found[SDPA, longest]
        return (
            f"On {self.card} {whole(longest)} tokens took {seconds_text(eager)} eager, {seconds_text(sdpa)} "
            f"with SDPA: {times(eager / sdpa)} faster, no more, because the rest of the model is the same"
        )

    def _predicted(self) -> str:
        """What the lines say of the longest prompt, where no pass was recorded."""
        model, batch = self.scene.model, self.scene.batch
        for recorded, where in ((True, self.card), (False, "this machine")):
            ends = {name: self.line(name, recorded=recorded)[-1:] for name in ROLES}
            if all(ends.values()):
                (tokens, eager), (_, sdpa) = ends[EAGER][0], ends[SDPA][0]
                return (
                    f"{model.name}, batch {whole(batch)}, predicted on {where}: {whole(int(tokens))} tokens take "
                    f"{seconds_text(eager)} eager, {seconds_text(sdpa)} with SDPA; no such pass was recorded"
                )
        return f"No whole pass of {model.name} at batch {whole(batch)} was recorded"

    def peaks(self, text: Callable[[float], str]) -> str | None:
        """The recorded peaks, which eager and SDPA share, and how far their logits are apart; None without any.

        Args:
            text: writes a number of bytes.
        """
        if not self.rows():
            return None
        peaks = [f"{whole(row['tokens'])} tokens: {text(row['peak_extra_mib'] * MIB)}" for row in self.rows()]
        longest = max(row["tokens"] for row in self.rows())
        work = Workload(RECORDED_BATCH, longest, longest, RECORDED_TYPE, True)
        logits = budget(self.scene.model, work).logits_bytes
        apart = max(row["max_logit_diff"] for row in self.rows())
        return (
            f"Recorded peaks beside the weights in {RECORDED_TYPE}, **the same for eager and SDPA**: "
            f"{'; '.join(peaks)}. With the logits of all positions these set the peak, not the scores that SDPA "
            f"does without: at {whole(longest)} tokens they are {text(logits)} in {RECORDED_TYPE}. The logits of "
            f"the two differ by {apart:.1e} at most."
        )

    def measured_words(self, run: Run | None) -> str:
        """How many whole passes this machine measured, and of what.

        Args:
            run: measured here; None for none.
        """
        count = len(self.measured(run))
        if not count:
            return f"No whole pass of {MEASURED_MODEL} has been measured on this machine yet."
        passes = f"{whole(count)} whole pass{'' if count == 1 else 'es'}"
        said = f"{passes} of {MEASURED_MODEL} measured on this machine, drawn under *time by length*."
        if self.scene.model.id == RECORDED_MODEL:
            return said
        return f"{said} {self.scene.model.name} itself is not measured."

    def gap(self) -> str:
        """How the recorded passes compare with the predicted ones."""
        found = {}
        for name in ROLES:
            predicted = dict(self.line(name, recorded=True))
            for (attention, tokens), seconds in self.recorded().items():
                if attention == name and tokens in predicted:
                    found[f"{name} at {whole(tokens)} tokens"] = seconds / predicted[tokens]
        if not found:
            return "No whole pass recorded elsewhere fits this scenario."
        worst = max(found, key=lambda key: abs(found[key] - 1))
        return (
            f"**{self.card[:1].upper()}{self.card[1:]}:** of {len(found)} recorded passes the farthest from "
            f"the prediction is {worst}, {times(found[worst])} the predicted time. Nothing was fitted to a "
            "whole pass: the matmul rate in this type is the data sheet's, elementwise passes are priced by bytes."
        )

    def marks(self, run: Run | None) -> list[Mark]:
        """Recorded and own points."""
        recorded = [
            Mark(f"{name}_card", "recorded", float(tokens), seconds, seconds, seconds)
            for (name, tokens), seconds in self.recorded().items()
        ]
        return [*recorded, *self.own_marks(run)]


def show(page: str, view: WholePass, run: Run | None, palette: Palette, *, linear: bool) -> None:
    """Draw time against length.

    Args:
        page: the page's file name.
        view: what the views share.
        run: measured here; None for none.
        palette: of the theme in use.
        linear: axes from zero.
    """
    series, curves = [], {}
    for place, recorded in (("card", True), ("here", False)):
        for name, role in ROLES.items():
            label = f"{'SDPA' if name == SDPA else name}{'' if recorded else ', here'}"
            series.append(charts.role_series(f"{name}_{place}", role, label, palette, 1.8 if recorded else 3))
            curves[f"{name}_{place}"] = view.line(name, recorded=recorded)
    marks = view.marks(run)
    skeleton.takeaway(view.takeaway())
    skeleton.badges(
        measured=any(mark.kind != "recorded" for mark in marks),
        recorded_on=view.card if view.rows() else None,
        extra=[
            *skeleton.beyond(view.scene),
            f"Card: {RECORDED_TYPE}; here: {view.dtype_here}",
            *view.other_model(run),
            *points.looks(marks),
        ],
    )
    values = [*(y for curve in curves.values() for _, y in curve), *(mark.y for mark in marks)]
    values += [] if linear and values else SECONDS
    skeleton.chart(
        page, curves, marks, series, Extras(marker_x=view.tokens),
        x=counts_axis("tokens of the prompt", TICKS, linear_up_to=TICKS[-1] if linear else None, room=0.2),
        y=seconds_axis("one whole pass", values, linear=linear),
        at=lambda T: whole(int(T)), value=seconds_text, palette=palette,
        description="Time of a whole pass against its length, eager and SDPA.",
    )  # fmt: skip
