"""A double of PyTorch's profiler on a card: the CPU's own events, and beside them what a card would add."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from torch._C._autograd import DeviceType

if TYPE_CHECKING:
    from cuda_double import Card

CPU_FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"


class Profile:
    """A double of PyTorch's profiler on a card: the CPU's events, and beside them the card's."""

    def __init__(self, card: Card, real: Any, options: dict[str, Any]) -> None:
        self._card = card
        self._real = real(profile_memory=True)
        device = options.get("use_device")
        if device == "xpu" and not options.get("use_kineto"):
            raise AssertionError("Legacy XPU profiling is not supported. Requires use_kineto=True.")
        self._sees_kernels = device is not None and options.get("use_kineto", False)

    def __enter__(self) -> Profile:
        self._card.recording, self._card.running = [], None
        self._real.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._real.__exit__(*raised)
        launched = ["Memset (Device)", "[memory]", *(self._card.recording or ()), "Context Sync"]
        launched = launched if self._sees_kernels else []
        self._card.recording = None
        fused = f"aten::_scaled_dot_product_{self._card.running}_attention"
        events = [
            SimpleNamespace(
                name=lambda name=name: name,
                device_type=lambda: DeviceType.CUDA,
                start_ns=lambda place=place: place,
            )
            for place, name in enumerate(launched)
        ][::-1]  # kineto gives them in no order
        real = self._real.kineto_results
        self.kineto_results = SimpleNamespace(
            experimental_event_tree=lambda: [
                _renamed(event, fused) for event in real.experimental_event_tree()
            ],
            events=lambda: itertools.chain(real.events(), events),
        )


def _renamed(event: Any, fused: str) -> SimpleNamespace:
    """Give an event of the CPU with the card's name for its fused operator."""
    return SimpleNamespace(
        **{name: getattr(event, name) for name in ("tag", "start_time_ns", "extra_fields")},
        name=fused if event.name == CPU_FLASH else event.name,
        children=[_renamed(child, fused) for child in event.children],
    )
