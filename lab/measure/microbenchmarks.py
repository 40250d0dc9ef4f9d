"""The few seconds of small calls that a calibration is made of.

None of them is an attention call of a size that a validation measures: elementwise passes and products run
one at a time on tensors of other lengths, fused kernels on other numbers of queries and keys. Every function
returns calls by name; nothing is timed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import torch
from torch import Tensor

from lab.measure.attention import sdpa
from lab.measure.implementations import IMPLEMENTATIONS

Call = Callable[[], object]

LENGTHS = (192, 384, 768, 1536)
LENGTHS_16_BIT = (*LENGTHS, 2304)  # a tensor that no cache holds takes more elements
DECODE_LENGTHS = (96, 768, 6144, 24576)
STREAMED = (
    4,
    DECODE_LENGTHS[2],
)  # batch and keys: the most that a decode step of a fused kernel streams here
COPY_BYTES = tuple(2**power for power in (20, 22, 24, 26, 28))  # read plus written
SQUARE = {"cpu": 1536, "cuda": 6144}

# Query and key lengths whose tiles PyTorch's CPU flash kernel cuts exactly: 32x128, 64x256, 64x512, 256x512.
CPU_FUSED = ((128, 128), (320, 256), (384, 1536), (1280, 2048))
CUDA_FUSED = ((3072, 3072),)

MODEL_TOKENS = (96, 384, 768)
MODEL_WIDTH, MODEL_INNER = 768, 3072  # of GPT-2
MODEL_KINDS = ("layer_norm", "gelu_new")


@dataclass(frozen=True)
class Setting:
    """Where and in which type the calls run, and the heads they have.

    Args:
        device: where the tensors lie.
        dtype: of the inputs.
        heads: query and key/value heads.
        head_dim: width of a head.
    """

    device: torch.device
    dtype: torch.dtype
    heads: int = 12
    head_dim: int = 64

    @property
    def wide(self) -> torch.dtype:
        """The type that kernels accumulate in."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    @property
    def narrow(self) -> bool:
        """Whether inputs are narrower than the accumulator."""
        return self.dtype.itemsize < self.wide.itemsize

    def random(self, *shape: int) -> Tensor:
        """Draw a tensor from the standard normal distribution in the setting's type."""
        return torch.randn(*shape, device=self.device).to(self.dtype)


def lengths(setting: Setting) -> tuple[int, ...]:
    """Give the lengths of the score tensors to calibrate on."""
    return LENGTHS_16_BIT if setting.narrow else LENGTHS


def product_calls(setting: Setting, queries: int, keys: int) -> dict[str, Call]:
    """Give attention's two products: names "qk" and "pv", each of heads·queries·keys scores."""
    query = setting.random(1, setting.heads, queries, setting.head_dim)
    key, value = (setting.random(1, setting.heads, keys, setting.head_dim) for _ in "kv")
    weights = torch.softmax(setting.random(1, setting.heads, queries, keys), dim=-1)
    return {"qk": lambda: query @ key.transpose(-2, -1), "pv": lambda: weights @ value}


def step_calls(setting: Setting, keys: int) -> dict[str, Call]:
    """Give the two products of a decode step, each over two caches in turn.

    A step reads K and then V: what it finds in a cache is what both leave there, not what one does.

    Args:
        setting: where they run.
        keys: of each head.

    Returns:
        Names "qk" and "pv", each of heads·keys scores a call.
    """
    turns = [product_calls(setting, 1, keys) for _ in range(2)]

    def in_turn(form: str) -> Call:
        order = cycle([calls[form] for calls in turns])
        return lambda: next(order)()

    return {form: in_turn(form) for form in turns[0]}


def memory_pool(setting: Setting, cached_bytes: int) -> Tensor:
    """Draw numbers that no cache holds, from which keys and values of any length are cut.

    Args:
        setting: where they lie.
        cached_bytes: what the caches hold, several times over.

    Returns:
        One row of numbers: as many as that, and at least the keys and values of what `fused_call` streams at most.
    """
    largest = 2 * STREAMED[0] * setting.heads * STREAMED[1] * setting.head_dim
    return setting.random(max(cached_bytes // setting.dtype.itemsize, largest))


def from_memory(setting: Setting, pool: Tensor, keys: int, batch: int = 1) -> list[Tensor]:
    """Cut keys or values out of a pool: sets that, taken in turn, no cache holds.

    Args:
        setting: heads and width.
        pool: from `memory_pool`.
        keys: of each head.
        batch: sequences.
    """
    shape = (batch, setting.heads, keys, setting.head_dim)
    size = math.prod(shape)
    return [pool[first : first + size].view(shape) for first in range(0, pool.numel() - size + 1, size)]


def cold_calls(setting: Setting, pool: Tensor, keys: int) -> dict[str, Call]:
    """Give what first touches the cache of a decode step, each call on keys or values that no cache holds.

    Args:
        setting: where they run.
        pool: from `memory_pool`.
        keys: of each head.

    Returns:
        The products "qk" and "pv", and the passes that the math kernel begins with: "promote" in a narrow type, else
        "mul".
    """
    stored = cycle(from_memory(setting, pool, keys))
    query = setting.random(1, setting.heads, 1, setting.head_dim)
    weights = torch.softmax(setting.random(1, setting.heads, 1, keys), dim=-1)
    calls: dict[str, Call] = {
        "qk": lambda: query @ next(stored).transpose(-2, -1),
        "pv": lambda: weights @ next(stored),
    }
    if setting.narrow:
        return calls | {"promote": lambda: next(stored).to(setting.wide)}
    return calls | {"mul": lambda: next(stored) * 0.125}


def stream_call(setting: Setting, backend: str, pool: Tensor, batch: int, keys: int) -> Call:
    """Give a decode step of one of PyTorch's kernels that takes its keys and values from memory."""
    query = setting.random(batch, setting.heads, 1, setting.head_dim)
    stored = cycle(from_memory(setting, pool, keys, batch))
    return lambda: sdpa(query, next(stored), next(stored), backend=backend, causal=False)


def score_calls(setting: Setting, length: int) -> dict[str, Call]:
    """Give the elementwise passes over a score tensor of heads·length² elements, by kind."""
    scores = setting.random(1, setting.heads, length, length)
    work = scores.clone()
    hidden = torch.ones(length, length, dtype=torch.bool, device=setting.device).triu(1)
    calls: dict[str, Call] = {
        "mul": lambda: scores * 0.125,
        "mul_": lambda: work.mul_(1.0),
        "clone": lambda: scores.clone(),
        "masked_fill_": lambda: work.masked_fill_(hidden, -1e4),
        "softmax": lambda: torch.softmax(scores, dim=-1),
    }
    if setting.narrow:
        wide = scores.to(setting.wide)
        calls["promote"] = lambda: scores.to(setting.wide)
        calls["narrow"] = lambda: wide.to(setting.dtype)
        return calls
    infinite = torch.isneginf(scores)
    rows = infinite.all(dim=-1, keepdim=True)
    zero = torch.zeros((), dtype=setting.dtype, device=setting.device)
    mask = torch.zeros(length, length, dtype=setting.dtype, device=setting.device)
    calls["add_"] = lambda: work.add_(mask)
    calls["isneginf"] = lambda: torch.isneginf(scores)
    calls["all"] = lambda: infinite.all(dim=-1, keepdim=True)
    calls["where"] = lambda: torch.where(rows, zero, scores)
    return calls


def mask_calls(setting: Setting, length: int) -> dict[str, Call]:
    """Give the passes over a mask of length² elements, by kind."""
    device = setting.device
    mask = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    zero = torch.zeros((), dtype=setting.wide, device=device)
    infinite = torch.full((), -math.inf, dtype=setting.wide, device=device)
    return {
        "ones": lambda: torch.ones(length, length, dtype=torch.bool, device=device),
        "tril": lambda: mask.tril(),
        "not": lambda: ~mask,
        "where_mask": lambda: torch.where(mask, zero, infinite),
    }


def model_calls(setting: Setting, tokens: int) -> dict[str, Call]:
    """Give what a GPT-2 layer does beside attention: "linear", and the passes `MODEL_KINDS`.

    Args:
        setting: where they run.
        tokens: rows.

    Returns:
        A product of tokens by 768 by 3,072 with bias; a norm of tokens·768 elements; the GELU of tokens·3,072
        elements as Hugging Face writes it, eight passes.
    """
    rows, inner = setting.random(tokens, MODEL_WIDTH), setting.random(tokens, MODEL_INNER)
    weight, bias = setting.random(MODEL_WIDTH, MODEL_INNER), setting.random(MODEL_INNER)
    scale, shift = setting.random(MODEL_WIDTH), setting.random(MODEL_WIDTH)

    def gelu_new() -> Tensor:
        cubed = inner + 0.044715 * torch.pow(inner, 3.0)
        return 0.5 * inner * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * cubed))

    return {
        "linear": lambda: torch.addmm(bias, rows, weight),
        "layer_norm": lambda: torch.nn.functional.layer_norm(rows, (MODEL_WIDTH,), scale, shift),
        "gelu_new": gelu_new,
    }


def copy_call(setting: Setting, touched_bytes: int) -> Call:
    """Give a copy that reads half of the bytes and writes the other half."""
    source = torch.ones(touched_bytes // 2, dtype=torch.uint8, device=setting.device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def square_call(setting: Setting, size: int) -> Call:
    """Give the product of two square matrices: 2·size³ FLOPs."""
    left, right = setting.random(size, size), setting.random(size, size)
    return lambda: left @ right


def start_call(setting: Setting) -> Call:
    """Give an operation on so little that only starting it takes time."""
    small = setting.random(16)
    return lambda: small * 0.5


def fused_call(setting: Setting, backend: str, batch: int, queries: int, keys: int) -> Call:
    """Give a full attention call of one of PyTorch's kernels."""
    query = setting.random(batch, setting.heads, queries, setting.head_dim)
    key, value = (setting.random(batch, setting.heads, keys, setting.head_dim) for _ in "kv")
    return lambda: sdpa(query, key, value, backend=backend, causal=False)


def tiny_calls(setting: Setting, kernels: Iterable[str]) -> dict[str, Call]:
    """Give whole attention calls on so little that only starting them takes time, by implementation.

    Args:
        setting: where they run.
        kernels: fused kernels that exist there.

    Returns:
        Calls with one query and, named "naive masked" and so on, with two queries under a causal mask.
    """
    key, value = (setting.random(1, setting.heads, 2, setting.head_dim) for _ in "kv")
    calls: dict[str, Call] = {}
    for name in ("naive", "naive_inplace", "math", *kernels):
        function = IMPLEMENTATIONS[name].function
        calls[name] = partial(function, key[:, :, :1].contiguous(), key, value, causal=False)
        calls[f"{name} masked"] = partial(function, key, key, value, causal=True)
    return calls


def backends(setting: Setting) -> Iterator[str]:
    """Yield the fused kernels that run in this setting: the CPU's flash; flash and efficient on CUDA."""
    for backend in ("flash",) if setting.device.type == "cpu" else ("flash", "efficient"):
        try:
            fused_call(setting, backend, 1, 64, 64)()
        except RuntimeError:  # PyTorch has no such kernel here, for this type
            continue
        yield backend
