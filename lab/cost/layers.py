"""The parts of one transformer layer: attention here, with the feed-forward block and the recurrent mixer.

Every part lists its weight matrices (`matrices`), and everything else follows from that list: a matrix of
`inputs` by `outputs` holds inputs * outputs weights (plus `outputs` biases) and costs 2 * inputs * outputs
FLOPs a token. What is cached for a later token is stated apart for K and V, because they may differ in
width and in storage type.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lab.cost.feed_forward import FeedForward
from lab.cost.matrix import Matrix, require_count
from lab.cost.recurrent import Recurrent

__all__ = ["Attention", "FeedForward", "Latent", "Matrix", "Recurrent", "require_count"]


@dataclass(frozen=True, kw_only=True)
class Latent:
    """The compressed K and V of multi-head latent attention (MLA).

    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1; names of the config in brackets.
    """

    kv_rank: int  # [kv_lora_rank] width of the vector that K and V are expanded from
    rope_dim: int  # [qk_rope_head_dim] rotary part of a key, shared by all heads
    nope_dim: int  # [qk_nope_head_dim] part of a key without position, one per head
    q_rank: int | None = None  # [q_lora_rank] None: queries are not compressed

    def __post_init__(self) -> None:
        require_count("Latent", "kv_rank", self.kv_rank)
        require_count("Latent", "rope_dim", self.rope_dim, minimum=0)
        require_count("Latent", "nope_dim", self.nope_dim)
        if self.q_rank is not None:
            require_count("Latent", "q_rank", self.q_rank)

    @property
    def cached_elements_per_token(self) -> int:
        """Elements kept for one token of one layer: the latent vector and the shared rotary key."""
        return self.kv_rank + self.rope_dim


@dataclass(frozen=True, kw_only=True)
class Attention:
    """One attention block: MHA, GQA, MQA or MLA; full, sliding-window, chunked-local or cross.

    `window` w: a token sees itself and the w - 1 tokens before it. `chunk` c: it sees the tokens of its own
    chunk of c up to itself. `source_hidden`: K and V come from other states of that width (cross-attention).
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    head_dim_v: int
    window: int | None = None
    chunk: int | None = None
    latent: Latent | None = None
    source_hidden: int | None = None
    q_bias: bool = False
    k_bias: bool = False
    v_bias: bool = False
    out_bias: bool = False
    output_gate: bool = False  # the query projection is twice as wide and half of it gates the output
    shares_cache: bool = False  # K and V of an earlier layer are used: nothing projected, nothing cached
    norm_parameters: int = 0  # norms inside the block: on Q and K, on the latent vectors
    sinks: bool = False  # one learned logit per head beside the scores

    def __post_init__(self) -> None:
        for name in ("hidden", "heads", "kv_heads", "head_dim", "head_dim_v"):
            require_count("Attention", name, getattr(self, name))
        for name in ("window", "chunk", "source_hidden"):
            if getattr(self, name) is not None:
                require_count("Attention", name, getattr(self, name))
        require_count("Attention", "norm_parameters", self.norm_parameters, minimum=0)
        if self.heads % self.kv_heads:
            raise ValueError(
                f"Attention: kv_heads must divide heads, got kv_heads={self.kv_heads} for heads={self.heads}."
            )
        if (self.window is not None) + (self.chunk is not None) + (self.source_hidden is not None) > 1:
            raise ValueError("Attention: only one of window, chunk and source_hidden can be set.")
        if self.latent is not None:
            self._check_latent(self.latent)

    def _check_latent(self, latent: Latent) -> None:
        if self.kv_heads != self.heads:
            raise ValueError(
                f"Attention: latent attention expands one K and V per head, so kv_heads must equal heads, "
                f"got kv_heads={self.kv_heads} for heads={self.heads}."
            )
        if self.head_dim != latent.nope_dim + latent.rope_dim:
            raise ValueError(
                f"Attention: head_dim must be nope_dim + rope_dim = {latent.nope_dim + latent.rope_dim}, "
                f"got {self.head_dim}."
            )

    @property
    def kind(self) -> str:
        """MHA, GQA, MQA or MLA."""
        if self.latent is not None:
            return "MLA"
        if self.kv_heads == self.heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"

    @property
    def span(self) -> str:
        """Which keys a query sees, in words."""
        if self.source_hidden is not None:
            return "cross"
        if self.window is not None:
            return f"window {self.window}"
        return "full" if self.chunk is None else f"chunks of {self.chunk}"

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        """The projections, as stored (MLA: the expanded form, with kv_b as its own matrix)."""
        out = Matrix("out", self.heads * self.head_dim_v, self.hidden, self.out_bias)
        if self.latent is not None:
            return (*self._latent_matrices(self.latent), out)
        q_width = self.heads * self.head_dim * (2 if self.output_gate else 1)
        q = Matrix("q", self.hidden, q_width, self.q_bias)
        if self.shares_cache:
            return (q, out)
        source = self.source_hidden or self.hidden
        k = Matrix("k", source, self.kv_heads * self.head_dim, self.k_bias)
        v = Matrix("v", source, self.kv_heads * self.head_dim_v, self.v_bias)
        return (q, k, v, out)

    def _latent_matrices(self, latent: Latent) -> tuple[Matrix, ...]:
        q_width = self.heads * self.head_dim
        if latent.q_rank is None:
            queries: tuple[Matrix, ...] = (Matrix("q", self.hidden, q_width),)
        else:
            queries = (
                Matrix("q_a", self.hidden, latent.q_rank, self.q_bias),
                Matrix("q_b", latent.q_rank, q_width),
            )
        kv_width = self.heads * (latent.nope_dim + self.head_dim_v)
        return (
            *queries,
            Matrix("kv_a", self.hidden, latent.kv_rank + latent.rope_dim, self.k_bias),
            Matrix("kv_b", latent.kv_rank, kv_width),
        )

    @property
    def parameters(self) -> int:
        """Weights, biases, inner norms and sinks."""
        stored = sum(matrix.parameters for matrix in self.matrices)
        return stored + self.norm_parameters + (self.heads if self.sinks else 0)

    def cached_elements_per_token(self, form: str = "native") -> tuple[int, int]:
        """Elements that one token adds to this layer's cache, K and V apart.

        Args:
            form: "native" (MLA: the latent vector; else K and V), "latent" or "expanded".

        Returns:
            (K elements, V elements). The latent form is counted as K: V is read from the same vector.

        Raises:
            ValueError: an unknown form, or "latent" for attention that has no latent vector.
        """
        if form not in ("native", "latent", "expanded"):
            raise ValueError(f"form must be 'native', 'latent' or 'expanded', got {form!r}.")
        if form == "latent" and self.latent is None:
            raise ValueError(f"form 'latent' needs MLA, this attention is {self.kind}.")
        if self.shares_cache:
            return (0, 0)
        if self.latent is not None and form != "expanded":
            return (self.latent.cached_elements_per_token, 0)
        return (self.kv_heads * self.head_dim, self.kv_heads * self.head_dim_v)

    def cells(self, context: int, source_tokens: int = 0) -> int:
        """Tokens whose K and V this layer must hold when `context` tokens have been seen.

        Args:
            context: tokens seen, the newest included.
            source_tokens: length of the other sequence, for cross-attention.

        Returns:
            Tokens held: `context`, at most the window or chunk; the source length for cross-attention.
        """
        if self.source_hidden is not None:
            return source_tokens
        limit = self.window or self.chunk
        return context if limit is None else min(context, limit)
