"""Which of a model's layers a page shows, where not all of them see the same tokens."""

from __future__ import annotations

from lab.cost.layers import Attention
from lab.cost.shapes import ModelShape
from lab.view.format import whole


def shown_layer(model: ModelShape) -> str | None:
    """Say what one layer on a page stands for.

    Args:
        model: of the scenario.

    Returns:
        One sentence; None where every layer sees the whole context.
    """
    full = sum(count for kind, count in model.layer_groups if kind.attention and _is_full(kind.attention))
    others = [
        f"{whole(count)} {_words(kind.attention)}"
        for kind, count in model.layer_groups
        if kind.attention is None or not _is_full(kind.attention)
    ]
    if not others:
        return None
    seen = (
        f"{model.name}: shown is one of the {whole(full)} layers of {whole(model.layers)} that see the whole context"
        if full
        else f"{model.name} has no layer that sees the whole context; shown is one as if it did"
    )
    return f"{seen}; {', '.join(others)}."


def _is_full(attention: Attention) -> bool:
    return attention.span == "full"


def _words(attention: Attention | None) -> str:
    if attention is None:
        return "have no attention"
    if attention.window is not None:
        return f"see the last {whole(attention.window)} tokens alone"
    if attention.chunk is not None:
        return f"see their chunk of {whole(attention.chunk)} tokens alone"
    return "look at another input"
