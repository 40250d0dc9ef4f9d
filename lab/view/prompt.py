"""One layer's attention over a whole prompt: its shape, its bounds and its measured points.

The pages of the prefill section draw the same four lines: naive attention and SDPA, on the device that a
run was recorded on and on this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.cost import prediction_terms
from lab.cost.predict import Bound, Ceilings, Term, attention_bound
from lab.cost.prediction import Prediction
from lab.cost.shapes import ModelShape
from lab.runs import Point, Run
from lab.view import ceilings, charts, forecasts, here, points
from lab.view.forecasts import Forecast
from lab.view.frames import Mark
from lab.view.palette import FUSED, NAIVE, Palette, role_of
from lab.view.scenario import Scenario

LABELS = {
    "naive_reference": "naive",
    "fused_reference": "SDPA",
    "naive_here": "naive, here",
    "fused_here": "SDPA, here",
}
IMPLEMENTATION = {NAIVE: "naive", FUSED: "flash"}


@dataclass(frozen=True)
class Prompt:
    """What the charts of a page share.

    Args:
        scene: the scenario.
        causal: whether the mask applies.
        dtype_here: the number type measured on this machine.
    """

    scene: Scenario
    causal: bool
    dtype_here: str

    def shape(self, tokens: int, dtype: str) -> dict[str, Any]:
        """The call of one layer over `tokens` positions."""
        model = self.scene.model
        return {
            "batch": self.scene.batch, "heads": model.heads, "kv_heads": model.kv_heads, "q_len": tokens,
            "kv_len": tokens, "head_dim": model.head_dim, "dtype": dtype, "causal": self.causal,
        }  # fmt: skip

    def sides(self, run: Run | None) -> dict[str, tuple[Ceilings | None, str, str]]:
        """Ceilings, number type and kind of device of both sides: "reference" and "here"."""
        dtype = self.scene.dtype
        return {
            "reference": (ceilings.reference(self.scene.recorded, dtype), dtype, "cuda"),
            "here": (
                ceilings.of_run(run, self.dtype_here), self.dtype_here, here.cost_device(self.scene.device),
            ),
        }  # fmt: skip

    def forecast(self, run: Run | None) -> Forecast:
        """What this machine's lines are drawn from."""
        return forecasts.of_scene(self.scene, run, self.dtype_here)

    def bound(self, key: str, tokens: int, run: Run | None) -> float | None:
        """The time of a line of LABELS, in seconds: a bound, of a calibrated machine its prediction.

        None where its device has no ceilings yet.
        """
        found = self._estimate(key, tokens, run)
        return None if found is None else found.seconds

    def terms(self, key: str, tokens: int, run: Run | None) -> tuple[Term | prediction_terms.Term, ...]:
        """The passes that `bound` adds up; none where its device has no ceilings yet."""
        found = self._estimate(key, tokens, run)
        return () if found is None else tuple(found.terms)

    def notes(self, key: str, tokens: int, run: Run | None) -> tuple[str, ...]:
        """What the calibration behind a line did not measure for this call, in words; none of a bound."""
        found = self._estimate(key, tokens, run)
        return found.notes if isinstance(found, Prediction) else ()

    def growth(self, key: str, tokens: int) -> float:
        """How many times its time a line of the device compared with takes at twice the context.

        Args:
            key: of LABELS, ending in "reference", whose ceilings are always known.
            tokens: the shorter context.
        """
        once, twice = (
            sum(term.seconds for term in self.terms(key, length, None)) for length in (tokens, 2 * tokens)
        )
        return twice / once

    def _estimate(self, key: str, tokens: int, run: Run | None) -> Bound | Prediction | None:
        role, _, side = key.partition("_")
        if side == "here":
            shape = {name: value for name, value in self.shape(tokens, "").items() if name != "dtype"}
            return self.forecast(run).estimate(fused=role == FUSED, **shape)
        limits, dtype, device = self.sides(run)[side]
        if limits is None:
            return None
        return attention_bound(IMPLEMENTATION[role], limits, device=device, **self.shape(tokens, dtype))

    def bounds(self, run: Run | None, grid: list[int]) -> dict[str, list[tuple[float, float]]]:
        """The bounds as lines by key, in seconds."""
        found: dict[str, list[tuple[float, float]]] = {}
        for key in LABELS:
            line = [(float(tokens), self.bound(key, tokens, run)) for tokens in grid]
            found[key] = [(tokens, seconds) for tokens, seconds in line if seconds is not None]
        return found

    def marks(
        self,
        run: Run | None,
        mark: Callable[..., Mark | None],
        *,
        recorded: bool,
        experiments: tuple[str, ...] = ("scaling",),
    ) -> list[Mark]:
        """The points of a run at this shape, naive attention and fused kernels.

        Args:
            run: measured here, or recorded; None for none.
            mark: makes a mark of a point, see lab.view.points.
            recorded: whether the run came from another machine.
            experiments: whose points to take.
        """
        wanted = self.shape(1, self.scene.dtype if recorded else self.dtype_here)
        wanted = {name: value for name, value in wanted.items() if name not in ("q_len", "kv_len")}

        def series_of(point: Point) -> str | None:
            role = fused_or_naive(point.implementation)
            belongs = point.experiment in experiments and role is not None and point.q_len == point.kv_len
            return f"{role}_{'reference' if recorded else 'here'}" if belongs else None

        return points.marks(run, wanted, series_of, mark, recorded=recorded, same_type=True)


def both_widths(model: ModelShape) -> list[str]:
    """A badge where keys and values differ in width: kernels, and the lines and points of them, have one for both.

    Args:
        model: of the scenario.
    """
    if model.head_dim == model.head_dim_v:
        return []
    return [f"K and V: {model.head_dim} wide, both; the model's V: {model.head_dim_v}"]


def fused_or_naive(implementation: str) -> str | None:
    """The role of an implementation where it is naive attention or a fused kernel; None of any other."""
    known = ("naive", "sdpa", "flash", "efficient", "cudnn")
    return role_of(implementation) if implementation in known else None


def series(palette: Palette) -> list[charts.Series]:
    """The four lines in the colours of their roles; this machine's are the thicker ones."""
    return [
        charts.role_series(key, key.partition("_")[0], label, palette, 3 if key.endswith("here") else 1.6)
        for key, label in LABELS.items()
    ]
