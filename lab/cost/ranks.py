"""What one device of a group holds and sends in one pass: the common shape of every parallel plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Message(NamedTuple):
    """One kind of communication: its name, bytes a rank sends in one, how many there are in a pass."""

    name: str
    sent_bytes: int
    times: int

    @property
    def total_bytes(self) -> int:
        """Bytes a rank sends in one pass."""
        return self.sent_bytes * self.times


@dataclass(frozen=True)
class Rank:
    """One device of the group: what it holds and what it sends in one pass.

    `parameters` are held in weights of the model, `kv_bytes` of cache, `buffer_bytes` of others' K and V for
    a while; `core_flops` is its share of the attention core.
    """

    parameters: int
    weight_bytes: int
    kv_bytes: int
    core_flops: int
    messages: tuple[Message, ...]
    buffer_bytes: int = 0

    @property
    def sent_bytes(self) -> int:
        """Bytes sent in one pass."""
        return sum(message.total_bytes for message in self.messages)


@dataclass(frozen=True)
class Plan:
    """A model spread over ranks. `replicated` says which parameters are held again, and how many extra.

    The ranks' parameters sum to the model's plus `replicated_parameters`; likewise for the cache.
    """

    scheme: str
    ranks: tuple[Rank, ...]
    replicated: dict[str, int]
    replicated_kv_bytes: int
    notes: tuple[str, ...]

    @property
    def replicated_parameters(self) -> int:
        """Parameters held beyond one copy of each, over all ranks."""
        return sum(self.replicated.values())

    @property
    def largest(self) -> Rank:
        """The rank that holds most weights and cache."""
        return max(self.ranks, key=lambda rank: rank.weight_bytes + rank.kv_bytes)

    @property
    def sent_bytes(self) -> int:
        """Bytes that all ranks together send in one pass."""
        return sum(rank.sent_bytes for rank in self.ranks)


def all_reduce_bytes(message_bytes: int, ranks: int) -> int:
    """Count what each rank sends in a ring all-reduce.

    Args:
        message_bytes: bytes of the tensor that is summed.
        ranks: devices in the ring.

    Returns:
        2 · (ranks - 1) / ranks · message_bytes, rounded up.

    Source: NCCL tests, doc/PERFORMANCE.md (a reduce-scatter and an all-gather).
    """
    return -(-2 * (ranks - 1) * message_bytes // ranks)


def all_gather_bytes(message_bytes: int, ranks: int) -> int:
    """Count what each rank sends in a ring all-gather.

    Args:
        message_bytes: bytes of the whole tensor that every rank ends up with.
        ranks: devices in the ring.

    Returns:
        (ranks - 1) / ranks · message_bytes, rounded up.

    Source: NCCL tests, doc/PERFORMANCE.md.
    """
    return -(-(ranks - 1) * message_bytes // ranks)
