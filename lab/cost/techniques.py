"""Techniques as transforms of a deployment, each naming the terms it changes.

What a technique changes is not stated but computed: all terms of the deployment before and after it. The
names in `changes` are a promise that a test holds against that computation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from lab.cost.deployment import Deployment
from lab.cost.layers import Attention, Latent
from lab.cost.shapes import ModelShape
from lab.cost.storage import storage_type, whole
from lab.cost.terms import TERMS

GROUPS = 8  # K and V heads of grouped-query attention as models use it (Ainslie et al., arXiv 2305.13245)


@dataclass(frozen=True)
class Effect:
    """One term before and after a technique, in the term's unit."""

    term: str
    unit: str
    before: int
    after: int

    @property
    def factor(self) -> Fraction | None:
        """After over before: 1/8 is eight times less. None where there was nothing before."""
        return Fraction(self.after, self.before) if self.before else None


@dataclass(frozen=True)
class Technique:
    """A named change of a deployment: what it does, the terms it changes, what it keeps, its source."""

    id: str
    name: str
    family: str
    what: str
    changes: tuple[str, ...]
    keeps: str
    source: str
    apply: Callable[[Deployment], Deployment]


def effects(technique: Technique, deployment: Deployment) -> tuple[Effect, ...]:
    """Compute every term that a technique changes.

    Args:
        technique: one of TECHNIQUES, or your own.
        deployment: the model at work before it.

    Returns:
        The terms that differ, in the order of TERMS; a term that is not modelled before or after is left out.

    Raises:
        ValueError: the technique does not apply to this deployment.
    """
    changed = technique.apply(deployment)
    found = []
    for name, term in TERMS.items():
        before, after = term.value(deployment), term.value(changed)
        if before is not None and after is not None and before != after:
            found.append(Effect(name, term.unit, before, after))
    return tuple(found)


def with_attention(model: ModelShape, change: Callable[[Attention], Attention]) -> ModelShape:
    """Change the attention of every layer that has one.

    Args:
        model: any shape.
        change: gives the new attention of a layer.

    Returns:
        The changed shape; its id and name are the model's.

    Raises:
        ValueError: nothing changed, or the new attention cannot be.
    """
    kinds = tuple(
        kind if kind.attention is None else replace(kind, attention=change(kind.attention))
        for kind in model.kinds
    )
    if kinds == model.kinds:
        raise ValueError(f"the technique changes nothing in {model.name}")
    return replace(model, kinds=kinds)


def windowed(deployment: Deployment, window: int = 4096) -> Deployment:
    """Limit every full-attention layer to a window.

    Args:
        deployment: a model at work.
        window: tokens a query sees, its own included.

    Raises:
        ValueError: no layer with full attention.
    """
    whole("window", window)

    def limit(attention: Attention) -> Attention:
        return replace(attention, window=window) if attention.span == "full" else attention

    return replace(deployment, model=with_attention(deployment.model, limit))


def grouped(deployment: Deployment, kv_heads: int = GROUPS) -> Deployment:
    """Share each K and V head among several query heads.

    Args:
        deployment: a model at work.
        kv_heads: K and V heads that remain at most, see `shared_heads`; 1 is multi-query attention.

    Raises:
        ValueError: no layer with more K and V heads than that, latent attention.
    """
    whole("kv_heads", kv_heads)

    def share(attention: Attention) -> Attention:
        if attention.latent is not None:
            raise ValueError("latent attention keeps no K and V heads that could be shared")
        return replace(attention, kv_heads=shared_heads(attention, kv_heads))

    return replace(deployment, model=with_attention(deployment.model, share))


def shared_heads(attention: Attention, most: int = GROUPS) -> int:
    """Count the K and V heads that remain when they are shared.

    Args:
        attention: of a layer that keeps K and V heads.
        most: heads that may remain.

    Returns:
        The largest number, at most that, that divides the layer's K and V heads.
    """
    return next(
        count for count in range(min(most, attention.kv_heads), 0, -1) if not attention.kv_heads % count
    )


def latent(deployment: Deployment) -> Deployment:
    """Keep one latent vector a token in place of K and V, with DeepSeek-V2's proportions.

    Args:
        deployment: a model at work.

    Raises:
        ValueError: attention that is latent already.

    Source: DeepSeek-V2, arXiv 2405.04434: a latent of 4 head widths and a shared rotary key of half a width.
    """

    def compress(attention: Attention) -> Attention:
        if attention.latent is not None:
            return attention
        width = attention.head_dim
        parts = Latent(kv_rank=4 * width, rope_dim=width // 2, nope_dim=width)
        return replace(
            attention,
            kv_heads=attention.heads,
            head_dim=parts.nope_dim + parts.rope_dim,
            latent=parts,
            norm_parameters=attention.norm_parameters + parts.kv_rank,
        )

    return replace(deployment, model=with_attention(deployment.model, compress))


def quantised(deployment: Deployment, k_type: str = "q8_0", v_type: str | None = None) -> Deployment:
    """Store K and V in fewer bits.

    Args:
        deployment: a model at work.
        k_type: storage of K.
        v_type: storage of V; None for that of K.

    Raises:
        ValueError: an unknown type.
    """
    values = k_type if v_type is None else v_type
    storage_type(k_type)
    storage_type(values)
    return replace(deployment, k_type=k_type, v_type=values)


_ALL_CACHE = ("cache needed", "cache reserved", "step bytes")

TECHNIQUES: dict[str, Technique] = {
    technique.id: technique
    for technique in (
        Technique(
            "flash",
            "FlashAttention",
            "IO-aware",
            "works through K and V in blocks with a running softmax and never writes the scores down",
            ("attention traffic", "attention passes", "attention peak"),
            "the FLOPs, the result and the cache",
            "Dao et al., arXiv 2205.14135",
            lambda d: replace(d, implementation="flash", fused_elementwise=False),
        ),
        Technique(
            "fusion",
            "Kernel fusion",
            "Kernel",
            "does scale, mask and softmax in one pass over the scores instead of one pass each",
            ("attention traffic", "attention passes", "attention peak"),
            "the FLOPs, and two score tensors alive at once",
            "the passes of lab.cost.traffic, measured functions",
            lambda d: replace(d, fused_elementwise=True),
        ),
        Technique(
            "window",
            "Sliding window (sparse attention)",
            "Sparse",
            "lets a token see only the last w tokens",
            ("attention FLOPs", *_ALL_CACHE, "step FLOPs"),
            "the score tensor of a kernel that computes all pairs and masks them",
            "Beltagy et al., arXiv 2004.05150; Mistral 7B, arXiv 2310.06825",
            windowed,
        ),
        Technique(
            "gqa",
            "Grouped-query attention",
            "Shared",
            f"keeps at most {GROUPS} K and V heads, each read by equally many query heads",
            ("projection FLOPs", "attention traffic", "weights", *_ALL_CACHE, "step FLOPs"),
            "the FLOPs of QKᵀ and PV, and the scores",
            "Ainslie et al., arXiv 2305.13245",
            grouped,
        ),
        Technique(
            "mqa",
            "Multi-query attention",
            "Shared",
            "keeps one K and V head for all query heads",
            ("projection FLOPs", "attention traffic", "weights", *_ALL_CACHE, "step FLOPs"),
            "the FLOPs of QKᵀ and PV, and the scores",
            "Shazeer, arXiv 1911.02150",
            lambda d: grouped(d, 1),
        ),
        Technique(
            "mla",
            "Multi-head latent attention",
            "Shared",
            "keeps one latent vector a token, from which K and V of every head are expanded",
            ("attention FLOPs", "projection FLOPs", "weights", *_ALL_CACHE, "step FLOPs"),
            "a K and V of its own for every head; it costs FLOPs in exchange",
            "DeepSeek-V2, arXiv 2405.04434",
            latent,
        ),
        Technique(
            "kv-quantisation",
            "KV cache quantisation",
            "Cached",
            "stores K and V in 8 bits and a scale for 32 numbers (q8_0)",
            _ALL_CACHE,
            "the number of tokens kept and every FLOP",
            "llama.cpp's q8_0 cache type; Liu et al., KIVI, arXiv 2402.02750",
            quantised,
        ),
        Technique(
            "kv-cache",
            "KV cache",
            "Cached",
            "keeps K and V of earlier tokens instead of computing them again at every step",
            (*_ALL_CACHE, "step FLOPs"),
            "the cost of reading the prompt",
            "Pope et al., arXiv 2211.05102",
            lambda d: replace(d, cached=True),
        ),
        Technique(
            "paging",
            "Paged cache (PagedAttention)",
            "Managed",
            "reserves blocks of 16 tokens as they fill, not the longest sequence for each",
            ("cache reserved",),
            "the bytes that are needed and read",
            "Kwon et al., arXiv 2309.06180",
            lambda d: replace(d, reservation="blocks"),
        ),
        Technique(
            "continuous-batching",
            "Continuous batching",
            "Scheduled",
            "gives a finished request's place to the next one at once",
            ("answer steps",),
            "the bytes and FLOPs of one step: a lone sequence is no faster",
            "Yu et al., Orca, OSDI 2022",
            lambda d: replace(d, continuous=True),
        ),
    )
}
"""The techniques by id, with each one's usual size."""
