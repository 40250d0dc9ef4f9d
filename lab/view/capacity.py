"""The memory of a card, by what is meant with it, and what of it may hold weights and cache."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.cost.catalog import Hardware
from lab.cost.layers import Attention
from lab.cost.shapes import ModelShape
from lab.cost.techniques import with_attention
from lab.view.format import whole

USABLE = 0.9
"""Part of a card's memory that an engine takes. Source: vLLM, gpu_memory_utilization, default 0.9."""

DRIVER, INSTALLED, SOLD = "driver", "installed", "sold"
MEANINGS = {DRIVER: "driver's MiB", INSTALLED: "GiB installed", SOLD: "GB as sold"}
_MIB, _GIB, _GB = 2**20, 2**30, 10**9


@dataclass(frozen=True)
class Capacity:
    """A card's memory under one meaning.

    Args:
        bytes: all of it.
        words: the figure as its source prints it.
    """

    bytes: int
    words: str

    @property
    def usable_bytes(self) -> int:
        """What an engine may fill with weights and cache."""
        return int(self.bytes * USABLE)


def capacity(card: Hardware, meaning: str) -> Capacity | None:
    """A card's memory.

    Args:
        card: of the catalogue, with its installed memory known.
        meaning: "driver" (the total nvidia-smi reports), "installed" (the number on the box, in GiB) or
            "sold" (the same number in 10^9 bytes).

    Returns:
        Bytes and words; None where that figure is not established.

    Raises:
        ValueError: an unknown meaning.
    """
    if meaning not in MEANINGS:
        raise ValueError(f"meaning must be one of {', '.join(MEANINGS)}, got {meaning!r}")
    if meaning == DRIVER:
        total = card.nvidia_smi_total_mib
        return None if total is None else Capacity(total * _MIB, f"the {whole(total)} MiB the driver reports")
    if card.memory_bytes is None:
        return None
    number = card.memory_bytes // _GIB
    if meaning == INSTALLED:
        return Capacity(card.memory_bytes, f"{whole(number)} GiB")
    return Capacity(number * _GB, f"{whole(number)}·10⁹ bytes")


def known(card: Hardware, meaning: str = DRIVER) -> Capacity | None:
    """A card's memory as asked for; where the driver's figure is not established, what is installed.

    Args:
        card: of the catalogue, with its installed memory known.
        meaning: as for `capacity`.
    """
    return capacity(card, meaning) or capacity(card, INSTALLED)


def as_multi_head(model: ModelShape) -> ModelShape | None:
    """The model with a K and V head of its own for every query head, the larger projections included.

    Args:
        model: any shape.

    Returns:
        The shape; None where it has them already, or keeps latent vectors.
    """

    def own_heads(attention: Attention) -> Attention:
        return replace(attention, kv_heads=attention.heads)

    if any(kind.attention is not None and kind.attention.latent is not None for kind in model.kinds):
        return None
    try:
        return with_attention(model, own_heads)
    except ValueError:
        return None
