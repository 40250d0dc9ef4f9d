"""What the numbers on a page do not show, in one line that follows the runs shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lab.runs import Point, Run
from lab.view.format import tokens_label

WHAT = {"memory": "peak memory", "scaling": "forward passes", "decode": "decode steps",
        "training": "forward and backward passes"}  # fmt: skip
"""What a recorded run's experiments measured, in words; others are called by their name."""
TABLES = {"model": "gpt2_fp32_batch1", "causal": "causal_over_full_time", "first_call": "first_call"}
"""The chapter's tables that stand for points of an experiment."""

HAND_COUNTED = "What fused kernels move and hold on a card is a hand-counted estimate."
"""For pages whose lines rest on the counts of lab.cost.traffic and lab.cost.peaks for a CUDA card."""

UNTESTED = "That a lone sequence offers a device too few pieces of work is a hypothesis, untested here."
"""Of what predicts decode steps; the experiment "split_kv" tests it."""

BEYOND: dict[str, Callable[[Point], bool]] = {
    "inputs that are not random": lambda point: (
        point.experiment in ("accuracy", "kv_int8") and "random" not in (point.variant or "random")
    ),
    "the kernel inside a model": lambda point: point.experiment == "model",
    "a mask beyond the causal one": lambda point: (
        point.experiment == "mask" or "window" in (point.variant or "")
    ),
}
"""What most runs leave open, each with the points that do show it."""

MOST_SHAPES = 3
"""More than these are told by their ranges."""


def caveats(drawn: Iterable[tuple[Run, str]], experiments: Iterable[str]) -> str:
    """Say what the runs behind a chart leave open; not which of their points fit it, which the badges say.

    Args:
        drawn: the runs that a page draws points of, each with what to call its device.
        experiments: only points of these experiments count.

    Returns:
        One line of short sentences.
    """
    sentences, kinds = list[str](), set(experiments)
    measured: dict[str, list[Point]] = {}
    printed: list[str] = []
    shown: set[str] = set()
    for run, device in drawn:
        found = [point for point in run.points if point.experiment in kinds]
        tables = [kind for kind in TABLES if kind in kinds and TABLES[kind] in run.tables]
        if found:
            measured.setdefault(device, []).extend(found)
        elif tables:
            printed.append(f"{device}, a table without samples")
            shown.update(tables)
        else:
            sentences.append(f"Nothing of this kind is known of {device}. {contents(run)}")
    for device, found in measured.items():
        if not any(_is_flash(point) for point in found):
            sentences.append(f"No FlashAttention kernel ran on {device}.")
    every = [point for found in measured.values() for point in found]
    nothing = not measured and not printed and not sentences
    if "split_kv" in kinds and not any(point.experiment == "split_kv" for point in every):
        sentences.append(UNTESTED)
    if nothing:
        return " ".join(("Predictions only: nothing measured is drawn for this scenario.", *sentences))
    known = "; ".join([*printed, *(f"{device}, {shapes_text(found)}" for device, found in measured.items())])
    others = f"devices and shapes other than those measured ({known})" if known else "any device measured"
    return " ".join(
        (f"What this does not show: {'; '.join([others, *_left_open(every, shown)])}.", *sentences)
    )


def _left_open(found: Sequence[Point], tables: set[str]) -> list[str]:
    """Those of BEYOND that neither a point nor a printed table shows."""
    printed = {"the kernel inside a model"} if "model" in tables else set[str]()
    return [what for what, shows in BEYOND.items() if what not in printed and not any(map(shows, found))]


def contents(run: Run) -> str:
    """Say what a run holds, for a reader whose page shows something else.

    Args:
        run: recorded, measured here or uploaded.

    Returns:
        One sentence.
    """
    if not run.points:
        return run.message or "This run holds no points."
    what = dict.fromkeys(WHAT.get(point.experiment, point.experiment) for point in run.points)
    shapes = dict.fromkeys(_shape(point) for point in run.points)
    lengths = [point.kv_len for point in run.points]
    names = dict.fromkeys(point.variant or point.implementation for point in run.points)
    span = " to ".join(dict.fromkeys(tokens_label(length) for length in (min(lengths), max(lengths))))
    return (
        f"This run holds {', '.join(what)} of {', '.join(shapes)}, T = {span} ({', '.join(names)}); a page draws "
        "those of its own shape, mask and batch."
    )


def _shape(point: Point) -> str:
    on = "" if point.heads == point.kv_heads else f" on {point.kv_heads} KV heads"
    return f"{point.heads} heads of {point.head_dim}{on}"


def shapes_text(found: Sequence[Point]) -> str:
    """The shapes of points in words: each of a few, the ranges of many."""
    ordered = sorted(found, key=lambda point: (point.heads, point.kv_heads, point.head_dim))
    shapes = dict.fromkeys(_shape(point) for point in ordered)
    if len(shapes) <= MOST_SHAPES:
        return ", ".join(shapes)
    return (
        f"{len(shapes)} shapes ("
        + ", ".join(
            f"{_range(getattr(point, name) for point in found)} {words}"
            for name, words in (("heads", "heads"), ("kv_heads", "KV heads"), ("head_dim", "wide"))
        )
        + ")"
    )


def _range(values: Iterable[int]) -> str:
    known = sorted(set(values))
    return str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _is_flash(point: Point) -> bool:
    names = f"{point.implementation} {point.kernel or ''}".lower()
    return point.status in ("ok", "noisy") and "flash" in names
