"""What the numbers on a page do not show, in one line that follows the runs shown."""

from __future__ import annotations

from collections.abc import Iterable

from lab.runs import Point, Run


def caveats(drawn: Iterable[tuple[Run, str]], experiments: Iterable[str]) -> str:
    """Say what the runs on a chart leave open.

    Args:
        drawn: the runs whose points are drawn, each with what to call its device.
        experiments: only points of these experiments count.

    Returns:
        One line of short sentences.
    """
    sentences, kinds = [], set(experiments)
    for run, device in drawn:
        found = [point for point in run.points if point.experiment in kinds]
        sentences.append(_scope(found, device))
        if not any(_is_flash(point) for point in found):
            sentences.append(f"No FlashAttention kernel ran on {device}.")
    if not sentences:
        return "Predictions only: nothing measured is drawn for this scenario."
    sentences.append("Random inputs; the kernel alone, not inside a model; no mask beyond causal.")
    return "What this does not show: " + " ".join(sentences)


def _scope(found: list[Point], device: str) -> str:
    shapes = sorted({(point.heads, point.kv_heads, point.head_dim) for point in found})
    words = ", ".join(
        f"{heads} heads of {dim}" + ("" if kv_heads == heads else f" on {kv_heads} KV heads")
        for heads, kv_heads, dim in shapes
    )
    return f"One device ({device}), one shape ({words})." if len(shapes) == 1 else f"{device}: {words}."


def _is_flash(point: Point) -> bool:
    names = f"{point.implementation} {point.kernel or ''}".lower()
    return point.status in ("ok", "noisy") and "flash" in names
