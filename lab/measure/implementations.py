"""Everything that can be measured as attention, by the name a job asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from lab.measure.attention import naive_attention, naive_inplace, sdpa
from lab.measure.blockwise import blockwise
from lab.measure.flex import flex
from lab.measure.fp32_intermediates import naive_fp32
from lab.measure.split_kv import split_kv
from lab.measure.windowed import windowed


@dataclass(frozen=True)
class Implementation:
    """One way to compute attention: `function(q, k, v, causal=...)`, and the backend it asks PyTorch for.

    `role` groups implementations that behave alike: "naive", "math" or "fused". `cost_name` is what lab.cost
    calls it, or None where no closed form exists.
    """

    name: str
    function: Callable[..., Tensor]
    role: str
    backend: str | None = None
    cost_name: str | None = None


def _with_backend(name: str) -> Callable[..., Tensor]:
    def call(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
        return sdpa(q, k, v, backend=name, causal=causal)

    return call


IMPLEMENTATIONS = {
    entry.name: entry
    for entry in (
        Implementation("naive", naive_attention, "naive", cost_name="naive"),
        Implementation("naive_inplace", naive_inplace, "naive", cost_name="naive_inplace"),
        Implementation("math", _with_backend("math"), "math", "math", "math"),
        Implementation("flash", _with_backend("flash"), "fused", "flash", "flash"),
        Implementation("efficient", _with_backend("efficient"), "fused", "efficient", "efficient"),
        Implementation("cudnn", _with_backend("cudnn"), "fused", "cudnn"),
        Implementation("sdpa", sdpa, "fused"),
        Implementation("naive_fp32", naive_fp32, "naive"),
        Implementation("blockwise", blockwise, "fused"),
        Implementation("split_kv", split_kv, "fused"),
        Implementation("windowed", windowed, "fused"),
        Implementation("flex", flex, "fused"),
    )
}
"""Everything that can be measured, by the name a job asks for; "sdpa" is PyTorch's default dispatch."""
