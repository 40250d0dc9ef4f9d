"""A model at work, with all that a technique can change: shape, storage, kernel, reservation, scheduling."""

from __future__ import annotations

from dataclasses import dataclass

from lab.cost.allocation import Allocation, contiguous, vllm
from lab.cost.cache import CacheLayers, Storage, cache_layers
from lab.cost.shapes import ModelShape
from lab.cost.storage import whole

RESERVATIONS = ("contiguous", "blocks")
"""How the cache is reserved: the longest sequence for each, as one tensor; or vLLM's blocks as they fill."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A model that reads prompts and generates answers: `batch` sequences of `context` tokens at a time.

    `answers` are the tokens that requests ask for, in the order they arrive; `batch` of them run at once.
    """

    model: ModelShape
    batch: int
    context: int
    max_context: int  # tokens a sequence may grow to
    answers: tuple[int, ...] = (1,)
    dtype: str = "fp16"
    k_type: Storage = "fp16"
    v_type: Storage = "fp16"
    implementation: str = "naive"  # of attention in prefill: a name of lab.cost.traffic
    fused_elementwise: bool = False  # scale, mask and softmax of a naive implementation in one pass
    cached: bool = True  # K and V of earlier tokens are kept, not computed again
    reservation: str = "contiguous"
    continuous: bool = False  # a finished request's place is given on at once, not when its batch ends

    def __post_init__(self) -> None:
        for name in ("batch", "context", "max_context"):
            whole(name, getattr(self, name))
        if self.context > self.max_context:
            raise ValueError(f"context must be at most max_context = {self.max_context}, got {self.context}")
        if self.reservation not in RESERVATIONS:
            raise ValueError(
                f"reservation must be one of {', '.join(RESERVATIONS)}, got {self.reservation!r}"
            )
        if self.fused_elementwise and not self.implementation.startswith("naive"):
            raise ValueError(f"fused_elementwise needs a naive implementation, got {self.implementation!r}")
        if not self.answers:
            raise ValueError("answers must hold at least one request, got none")
        for answer in self.answers:
            whole("answers", answer)


def kept_layers(deployment: Deployment) -> tuple[CacheLayers, ...]:
    """Say what each kind of layer keeps in the deployment's storage types.

    Args:
        deployment: a model at work.

    Returns:
        As `cache_layers`; nothing where no cache is kept.
    """
    if not deployment.cached:
        return ()
    return cache_layers(deployment.model, deployment.k_type, deployment.v_type)


def reserve(deployment: Deployment, batch: int | None = None) -> Allocation:
    """Reserve the cache as the deployment does.

    Args:
        deployment: a model at work, with a cache.
        batch: sequences; None for the deployment's.

    Returns:
        Needed and reserved bytes.
    """
    layers, sequences = kept_layers(deployment), batch or deployment.batch
    if deployment.reservation == "blocks":
        return vllm(layers, sequences, deployment.context)
    return contiguous(layers, sequences, deployment.context, max_context=deployment.max_context)


def needed_bytes(deployment: Deployment) -> int:
    """Weigh the cache of the tokens there are.

    Args:
        deployment: a model at work.

    Returns:
        Bytes; 0 without a cache.
    """
    return reserve(deployment).needed_bytes if deployment.cached else 0


def reserved_bytes(deployment: Deployment) -> int:
    """Weigh what is reserved for the cache.

    Args:
        deployment: a model at work.

    Returns:
        Bytes; 0 without a cache.
    """
    return reserve(deployment).reserved_bytes if deployment.cached else 0
