"""The tensors of one pass over a prompt, by size: logits, scores, the cache, what a layer holds meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.cost.activations import stored_activations
from lab.cost.budget import budget
from lab.cost.cache import cache_bytes
from lab.cost.shapes import ModelShape, Workload
from lab.view.bars import Bars, Part, Segment
from lab.view.palette import NAIVE, Palette

LOGITS, SCORES, CACHE, LAYER = "logits", "scores, if written down", "KV cache", "one layer's activations"
ALL_LOGITS, LAST_LOGITS, SCORE_TENSOR = (
    "logits, all positions",
    "logits, last position",
    "scores of one layer",
)
# What lab.cost.activations calls them, and what they are outside training.
_ACTIVATIONS = {
    "down's input": "inside the FFN",
    "q": "queries of a layer",
    "projections' input": "hidden states",
}


@dataclass(frozen=True)
class Tensor:
    """One tensor: its name, what kind it is, its bytes."""

    name: str
    part: str
    bytes: int


def ranked(model: ModelShape, work: Workload) -> list[Tensor]:
    """The tensors of a pass, the largest first.

    Args:
        model: any shape; where activations are not modelled (recurrent layers), theirs are left out.
        work: a pass over whole prompts.
    """
    every, last = budget(model, work), budget(model, work, logits="last")
    found = [
        Tensor(ALL_LOGITS, LOGITS, every.logits_bytes),
        Tensor(LAST_LOGITS, LOGITS, last.logits_bytes),
        Tensor(
            "KV cache, all layers",
            CACHE,
            int(cache_bytes(model, work.batch, work.context, work.dtype).total_bytes),
        ),
    ]
    if any(kind.attention is not None for kind in model.kinds):
        found.append(Tensor(SCORE_TENSOR, SCORES, every.score_bytes))
    try:
        layers = stored_activations(model, work).layers
    except ValueError:  # of a family whose activations lab.cost does not list
        layers = ()
    for layer in layers[:1]:
        sizes = {kept.name: kept.token_bytes * layer.tokens for kept in layer.kept}
        found += [Tensor(name, LAYER, sizes[key]) for key, name in _ACTIVATIONS.items() if key in sizes]
    return sorted(found, key=lambda tensor: -tensor.bytes)


def size_of(tensors: list[Tensor], name: str) -> int:
    """The bytes of one of the tensors; 0 where the model has none of that name."""
    return next((tensor.bytes for tensor in tensors if tensor.name == name), 0)


def bars(tensors: list[Tensor], palette: Palette, text: Callable[[float], str]) -> Bars:
    """One row a tensor.

    Args:
        tensors: the largest first.
        palette: of the theme in use.
        text: writes a number of bytes.
    """
    colours = {
        LOGITS: palette.text, SCORES: palette.roles[NAIVE], CACHE: palette.ramp[3], LAYER: palette.ramp[0],
    }  # fmt: skip
    used = [part for part in colours if any(tensor.part == part for tensor in tensors)]
    return Bars(
        rows=[tensor.name for tensor in tensors],
        parts=[Part(part, colours[part]) for part in used],
        segments=[
            Segment(tensor.name, tensor.part, 0, float(tensor.bytes), text(tensor.bytes))
            for tensor in tensors
        ],
        ends=[(tensor.name, float(tensor.bytes), text(tensor.bytes)) for tensor in tensors],
    )
