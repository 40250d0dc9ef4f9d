"""Causal over full: what the mask saves or costs, by tiles and traffic, recorded and measured."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from lab.cost import attention_pairs, catalog
from lab.cost.chapter_card import SHEET_ID
from lab.cost.predict import Ceilings, attention_bound
from lab.cost.tiles import causal_share, cpu_tile, cuda_tile
from lab.runs import Point, Run
from lab.view import here, points
from lab.view.format import digits, share, tokens_label
from lab.view.frames import Mark
from lab.view.palette import FUSED, MATH, NAIVE, role_of
from lab.view.prompt import Prompt

NAMES = {NAIVE: "naive", MATH: "math", FUSED: "SDPA"}
IMPLEMENTATION = {NAIVE: "naive", MATH: "math", FUSED: "flash"}
MOST_BLOCKS = 100_000
"""Blocks of query rows that a page hands out one by one; a longer context gets no line there."""


def of_tiles(view: Prompt, tokens: int, *, device: str, threads: int) -> float | None:
    """The causal work of the busiest thread or multiprocessor over the full one, whole tiles counted.

    Args:
        view: what the charts of the page share.
        tokens: context.
        device: "cpu" for PyTorch's CPU kernel on `threads`, "cuda" for the recorded card's.
        threads: CPU threads.

    Returns:
        The ratio; None where there are too many blocks to hand out one by one.
    """
    model, card = view.scene.model, catalog.card(SHEET_ID)
    if device == "cpu":
        tile, slots = cpu_tile(tokens, tokens), threads
    elif card.sm_count and card.compute_capability:
        tile, slots = cuda_tile("efficient", model.head_dim, card.compute_capability), card.sm_count
    else:
        return None
    heads = view.scene.batch * model.heads
    if heads * -(-tokens // tile.q_rows) > MOST_BLOCKS:
        return None
    return _share(heads, tokens, tokens, tile, slots, device)


_share = cache(causal_share)
"""Kept, because handing out the blocks of a long prompt takes a while."""


def of_traffic(view: Prompt, role: str, tokens: int, limits: Ceilings, *, device: str) -> float:
    """The causal bound over the full one of an implementation that writes the scores down.

    Args:
        view: what the charts of the page share.
        role: NAIVE or MATH.
        tokens: context.
        limits: the device's ceilings.
        device: "cpu" or "cuda".
    """
    causal, full = (
        attention_bound(
            IMPLEMENTATION[role], limits, device=device,
            **replace(view, causal=mask).shape(tokens, view.scene.dtype),
        ).seconds
        for mask in (True, False)
    )  # fmt: skip
    return causal / full


def recorded_marks(view: Prompt, run: Run | None) -> list[Mark]:
    """The ratios that a recorded run states, where its shape is the scenario's."""
    stated = run.tables.get("causal_over_full_time") if run else None
    if not run or not stated:
        return []
    wanted = view.shape(1, "")
    names = ("heads", "kv_heads", "head_dim")
    if view.scene.batch != 1 or any(getattr(run.spec, name) != wanted[name] for name in names):
        return []
    return [
        Mark(f"{role_of(name)}_reference", "recorded", float(length), ratio, ratio, ratio)
        for name, ratios in stated.items()
        if name != "T"
        for length, ratio in zip(stated["T"], ratios, strict=True)
    ]


def measured_marks(view: Prompt, run: Run | None) -> list[Mark]:
    """The ratios of a run of the experiment "causal": each causal point over its full one.

    The spread is the widest that the two points' quartiles allow.
    """
    wanted = view.shape(1, view.dtype_here)
    wanted = {name: value for name, value in wanted.items() if name not in ("q_len", "kv_len", "causal")}
    timed: dict[tuple[str, int], dict[bool, Point]] = {}
    for point in run.points if run else ():
        if point.experiment == "causal" and point.timing and points.fits(point, wanted, same_type=True):
            timed.setdefault((point.implementation, point.kv_len), {})[point.causal] = point
    found = []
    for (implementation, length), pair in timed.items():
        if len(pair) < 2 or role_of(implementation) not in IMPLEMENTATION:
            continue
        series = f"{role_of(implementation)}_here"
        causal, full = (points.time_mark(pair[mask], series, recorded=False) for mask in (True, False))
        if causal and full and full.low:
            kind = causal.kind if full.kind == "measured" else full.kind
            spread = (causal.low / full.high, causal.high / full.low)
            found.append(
                Mark(
                    series, kind, float(length), causal.y / full.y, *spread, noisy=causal.noisy or full.noisy
                )
            )
    return found


def curves(view: Prompt, grid: list[int], limits: Ceilings) -> dict[str, list[tuple[float, float]]]:
    """Predicted ratios: tiles for the fused kernels, traffic for those that write the scores down.

    Args:
        view: what the charts of the page share.
        grid: contexts.
        limits: the ceilings of the device compared with.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for role in (NAIVE, MATH):
        found[f"{role}_reference"] = [
            (float(tokens), of_traffic(view, role, tokens, limits, device="cuda")) for tokens in grid
        ]
    sides = {"reference": "cuda"}
    if here.cost_device(view.scene.device) == "cpu":
        sides["here"] = "cpu"
    for side, device in sides.items():
        tiled = [(tokens, of_tiles(view, tokens, device=device, threads=here.threads())) for tokens in grid]
        found[f"{FUSED}_{side}"] = [(float(tokens), ratio) for tokens, ratio in tiled if ratio is not None]
    return found


def landmarks(tokens: int) -> list[tuple[float, str]]:
    """What would be saved if time followed the pairs, and where nothing is saved."""
    kept = float(attention_pairs(tokens, tokens, True) / attention_pairs(tokens, tokens, False))
    return [(kept, "the pairs that the mask keeps"), (1.0, "as long as without a mask")]


def takeaway(view: Prompt, recorded: list[Mark], own: list[Mark], card: str) -> str:
    """What the mask does to each implementation at the longest context that was measured.

    Args:
        view: what the charts of the page share.
        recorded: marks of the recorded run.
        own: marks of this machine's run.
        card: the recorded device, in words.
    """
    quiet = points.clean(own)
    marks, where = (quiet, "on this machine") if quiet else (recorded, f"on {card}")
    if not marks:
        tokens = view.scene.context
        ratio = of_tiles(view, tokens, device="cuda", threads=here.threads())
        saved = f"{share(1 - ratio)} of the tiles" if ratio is not None else "whole tiles only"
        return f"A causal mask hides half of the pairs; at T = {tokens_label(tokens)} SDPA skips {saved}"
    last = max(mark.x for mark in marks)
    at_last = (mark for mark in marks if mark.x == last)
    said = ", ".join(f"{NAMES[mark.series.partition('_')[0]]} {digits(mark.y, 2)}" for mark in at_last)
    return (
        f"Half of the pairs, not half of the time: causal over full is {said} at "
        f"T = {tokens_label(int(last))} {where}"
    )
