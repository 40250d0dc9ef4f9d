"""What one decode step reads, weights and cache against the batch, and where both are equal."""

from __future__ import annotations

import math

from lab.cost import serving
from lab.cost.step_weights import step_weights
from lab.view import charts, skeleton
from lab.view.axes import TOKENS, bytes_axis, counts_axis
from lab.view.format import bytes_text, digits, other_bytes, share, tokens_label, whole
from lab.view.frames import Extras
from lab.view.palette import WEIGHTS, Palette
from lab.view.scenario import Scenario

BATCH_TICKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
COMPARED = 16
"""Sequences that a lone one is compared with where the scenario's batch is one."""


def cache(scene: Scenario, batch: int, context: int) -> int:
    """The cache that is kept, and read once in every step, in bytes."""
    return int(_traffic(scene, batch, context).cache_bytes)


def weights(scene: Scenario, batch: int) -> float:
    """The weights that one step reads, in bytes; of a mixture, the experts that the batch probably uses."""
    return float(_traffic(scene, batch, scene.context).weight_bytes)


def crossing(scene: Scenario) -> float:
    """The batch at which a step reads as much cache as weights; infinity where none does."""
    return float(
        serving.crossover_batch(scene.model, scene.context, weight_type=scene.dtype, k_type=scene.dtype)
    )


def _traffic(scene: Scenario, batch: int, context: int) -> serving.DecodeTraffic:
    return serving.decode_traffic(scene.model, batch, context, weight_type=scene.dtype, k_type=scene.dtype)


def takeaway(scene: Scenario) -> str:
    """Cache against weights at the scenario, and where they cross."""
    T, equal = scene.context, crossing(scene)
    kept = bytes_text(cache(scene, 1, T), scene.binary)
    one = f"{scene.model.name} at T = {tokens_label(T)}: one sequence keeps {kept}"
    if not math.isfinite(equal):
        return f"{one}; at no batch does a step read more cache than weights"
    if equal < 1:
        return (
            f"{one}, more than the weights that a step reads ({bytes_text(weights(scene, 1), scene.binary)})"
        )
    first = math.floor(equal) + 1
    return f"{one}; from batch {whole(first)} on, a step reads more cache than weights"


def show(page: str, scene: Scenario, palette: Palette, *, linear: bool) -> None:
    """Draw the bytes of a step against the batch: the weights, and the cache at three contexts.

    Args:
        page: the page's file name.
        scene: the scenario.
        palette: of the theme in use.
        linear: axes from zero to twice the scenario's batch.
    """
    B, T, binary = scene.batch, scene.context, scene.binary
    contexts = [context for context in (T // 4, T, 4 * T) if TOKENS[0] <= context <= TOKENS[-1]]
    batches = list(BATCH_TICKS)
    if linear:
        batches = sorted({1, *range(0, 2 * max(B, 8) + 1, max(B, 8) // 8)} - {0})
    series = [
        charts.Series(
            f"cache_{context}", f"cache, T = {tokens_label(context)}", colour, width=4 if context == T else 2
        )
        for context, colour in zip(contexts, palette.family(len(contexts)), strict=True)
    ]
    series.append(charts.role_series(WEIGHTS, WEIGHTS, "weights", palette))
    curves = {
        f"cache_{context}": [(b, float(cache(scene, b, context))) for b in batches] for context in contexts
    }
    curves[WEIGHTS] = [(b, weights(scene, b)) for b in batches]
    skeleton.takeaway(takeaway(scene))
    skeleton.badges(measured=False, recorded_on=None, extra=skeleton.beyond(scene))
    values = [y for curve in curves.values() for _, y in curve]
    equal = crossing(scene)
    notes = (
        [(equal, equal * cache(scene, 1, T), f"equal at batch {digits(equal, 2)}")]
        if math.isfinite(equal)
        else []
    )
    skeleton.chart(
        page, curves, [], series, Extras(marker_x=B, notes=notes),
        x=counts_axis("batch (sequences)", BATCH_TICKS, linear_up_to=batches[-1] if linear else None, room=0.24),
        y=bytes_axis("bytes read in one decode step", values, binary=binary, linear=linear),
        at=lambda b: whole(int(b)), value=lambda v: f"{bytes_text(v, binary)} ({other_bytes(v, binary)})",
        palette=palette,
        description="Bytes read in one decode step against batch: cache lines rise; the weights stay level, or "
        "rise to all experts of a mixture.",
    )  # fmt: skip


def batching_text(scene: Scenario) -> str:
    """What holds of the saying that a batch reads the weights for nothing."""
    B, T, binary = scene.batch, scene.context, scene.binary
    kept, read = cache(scene, B, T), weights(scene, B)
    if step_weights(scene.model).mixtures:
        many = B if B > 1 else COMPARED
        one, together = (bytes_text(weights(scene, batch), binary) for batch in (1, many))
        free = (
            f"Not even for the weights of a mixture: one sequence reads {one} of them, {whole(many)} sequences "
            f"{together}, for their tokens choose different experts. Once a batch uses all, the weights cost no "
            "more."
        )
    else:
        free = "For the weights, yes."
    more = "sequence" if B == 1 else f"{whole(B)} sequences"
    return (
        f"{free} The cache is read once for every sequence: at T = {tokens_label(T)} one step of batch {whole(B)} "
        f"reads {bytes_text(kept, binary)} of cache beside {bytes_text(read, binary)} of weights: "
        f"{share(kept / read)} of them, and as much cache again for every further {more}."
    )
