"""The sections of a cost report: every total is a row that opens into its terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.cli.cost_rows import Row, Section, summed
from lab.cost.allocation import allocate
from lab.cost.budget import Budget, LayerBudget, budget
from lab.cost.cache import CacheLayers, cache_layers
from lab.cost.crossings import crossing_context
from lab.cost.flops import core_widths, usual_form
from lab.cost.serving import crossover_batch, crossover_tokens, decode_traffic
from lab.cost.shapes import LayerKind, ModelShape, Workload
from lab.cost.step_weights import step_weights
from lab.cost.weights import stored_weights


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked: a model and its use. `k_type` and `v_type` are storage types of the cache."""

    model: ModelShape
    batch: int
    context: int
    dtype: str
    k_type: str
    v_type: str | None
    engine: str
    causal: bool
    logits: str
    source_tokens: int | None

    def work(self, q_len: int) -> Workload:
        """Describe the pass over q_len new tokens of each sequence."""
        return Workload(self.batch, self.context, q_len, self.dtype, self.causal)

    def budget(self, q_len: int) -> Budget:
        """Count that pass; MLA is expanded in a prefill and absorbed in a step."""
        return budget(
            self.model,
            self.work(q_len),
            logits=self.logits,
            source_tokens=self.source_tokens,
        )

    @property
    def longest(self) -> int:
        """Tokens a sequence may grow to: the model's own limit, or the context where that is longer."""
        return max(self.context, self.model.max_context or 0)

    @property
    def reads(self) -> dict[str, Any]:
        """The types and the other sequence, as lab.cost.serving takes them."""
        return {
            "weight_type": self.dtype,
            "k_type": self.k_type,
            "v_type": self.v_type,
            "source_tokens": self.source_tokens,
        }

    def cache(self) -> tuple[CacheLayers, ...]:
        """Say what each kind of layer keeps."""
        return cache_layers(self.model, self.k_type, self.v_type, source_tokens=self.source_tokens)


def model_section(asked: Question) -> Section:
    """Count parameters by part."""
    model, unit = asked.model, "parameters"
    layers = [
        Row(
            f"{count} layers, {layer_name(kind)}",
            count * kind.parameters,
            unit,
            f"{count} · {kind.parameters:,}",
        )
        for kind, count in model.layer_groups
    ]
    rows = f"{model.vocab + model.extra_rows:,} rows · {model.hidden:,}"
    ends = [
        Row(
            "token embedding",
            model.embedding_parameters,
            unit,
            rows + (", also the LM head" if model.tied_embeddings else ""),
        ),
        Row("positions", model.position_parameters, unit),
        Row("final norm", model.final_norm_parameters, unit),
        Row("LM head", model.lm_head_parameters, unit, rows),
    ]
    heads = f"{model.heads} heads of {model.head_dim}, {model.kv_heads} KV heads"
    size = stored_weights(model.parameters, asked.dtype)
    return Section(
        f"{model.name}: {model.layers} layers, {model.attention_kind}, {heads}",
        (
            summed("parameters", unit, [*layers, *ends]),
            Row("active for one token", model.active_parameters, unit),
            Row(f"weights in {asked.dtype}", size, "bytes", "parameters · bytes of one"),
        ),
    )


def layer_name(kind: LayerKind) -> str:
    """Name a kind of layer: its attention and span, its mixer, its experts."""
    words = [f"{one.kind} {one.span}" for one in kind.attentions]
    if kind.recurrent is not None:
        words.append(kind.recurrent.name)
    if kind.feed_forward is not None and kind.feed_forward.is_moe:
        words.append(f"{kind.feed_forward.active_experts} of {kind.feed_forward.experts} experts")
    return ", ".join(words) or "feed-forward"


def prefill_section(asked: Question) -> Section:
    """Count a prefill of the whole context, and weigh its largest tensors."""
    counted = asked.budget(asked.context)
    sequences = f"{asked.batch} × {asked.context:,} tokens"
    work = counted.work
    tensors = (
        Row(
            "score tensor of one layer, if written",
            counted.score_bytes,
            "bytes",
            "batch · heads · T · T · bytes",
        ),
        Row("boolean mask, if written", counted.mask_bytes, "bytes", "T · T"),
        Row(
            "logits",
            counted.logits_bytes,
            "bytes",
            f"batch · {counted.logits_positions:,} positions · vocabulary · bytes",
        ),
    )
    form = f", latent {usual_form(counted.work)}" if asked.model.attention_kind == "MLA" else ""
    return Section(f"Prefill of {sequences}, {_counting(work)}{form}", (*_flop_rows(counted), *tensors))


def decode_section(asked: Question) -> Section:
    """Count one decode step at this context, and what it reads."""
    counted = asked.budget(1)
    traffic = decode_traffic(asked.model, asked.batch, asked.context, **asked.reads)
    read = step_weights(asked.model)
    formula = f"{read.fixed:,} parameters once, {read.per_sequence:,} a sequence"
    if traffic.weights_are_expected:
        formula += ", experts as expected for the batch"
    total = summed(
        "bytes read",
        "bytes",
        (
            Row("weights", _whole(traffic.weight_bytes), "bytes", formula),
            Row("cache", int(traffic.cache_bytes), "bytes", "the cache of every sequence, once"),
        ),
    )
    ratio = counted.matmul_flops / int(total.value or 1)
    form = f", latent {usual_form(counted.work)}" if asked.model.attention_kind == "MLA" else ""
    return Section(
        f"One decode step of batch {asked.batch} at {asked.context:,} tokens{form}",
        (
            *_flop_rows(counted),
            total,
            Row("cache over weights", float(traffic.cache_over_weights), "share"),
            Row("FLOPs a byte read", ratio, "", "products / bytes read"),
        ),
    )


def cache_section(asked: Question) -> Section:
    """Weigh the cache, and what an engine reserves for it."""
    layers = asked.cache()
    needed = summed("needed", "bytes", (_kept(kind, asked) for kind in layers))
    options = {"max_context": asked.longest} if asked.engine == "contiguous" else {}
    allocation = allocate(asked.engine, layers, asked.batch, asked.context, **options)
    reserved = summed(
        f"reserved ({asked.engine})",
        "bytes",
        (
            Row(f"{part.layers} layers, {part.kind}", part.bytes, "bytes", f"{part.cells:,} cells a layer")
            for part in allocation.parts
        ),
        allocation.rule,
    )
    one_more = sum(kind.layers * kind.token_bytes for kind in layers if kind.span != "cross")
    types = asked.k_type if asked.v_type is None else f"K {asked.k_type}, V {asked.v_type}"
    return Section(
        f"Cache of {asked.batch} × {asked.context:,} tokens in {types}",
        (needed, reserved, Row("one more token, windows not full", one_more, "bytes")),
    )


def crossing_section(asked: Question) -> Section:
    """Find where attention leads, and where the cache outweighs the weights."""
    model, causal = asked.model, asked.causal
    batch = crossover_batch(model, asked.context, **asked.reads)
    tokens = crossover_tokens(model, asked.batch, **asked.reads)
    rows = [
        Row(
            f"cache = weights at {asked.context:,} tokens",
            _finite(batch),
            "sequences",
            "weights read / cache of one",
        ),
        Row(
            f"cache = weights at batch {asked.batch}",
            _finite(tokens),
            "tokens",
            "weights read / (batch · bytes a token)",
        ),
    ]
    if not any(kind.cross_attention for kind in model.kinds):
        feed_forward = crossing_context(model, against="feed-forward", causal=causal)
        half = crossing_context(model, causal=causal, logits=asked.logits)
        rows += [
            Row(
                "attention core passes the feed-forward blocks",
                feed_forward,
                "tokens",
                "prefill, shortest such T",
            ),
            Row("attention core is half of all products", half, "tokens", "prefill, shortest such T"),
        ]
    return Section(f"Crossings, {_counting(asked.work(1))}", tuple(rows))


def _flop_rows(counted: Budget) -> tuple[Row, ...]:
    parts = [summed(name, "FLOPs", _products(counted, name)) for name in _PARTS]
    total = summed("products", "FLOPs", parts, "a multiply-add is 2 FLOPs", spread=True)
    share = float(counted.attention_share)
    softmax = Row(
        "softmax (not in the products)", counted.softmax_operations, "operations", "5 for each score"
    )
    return (total, Row("share of the attention core", share, "share"), softmax)


_PARTS = ("projections", "attention core", "recurrent state", "feed-forward", "LM head")


def _products(counted: Budget, part: str) -> Iterator[Row]:
    """Yield the matrix products of one part, by kind of layer, each with its formula."""
    for layer in counted.layers:
        widths = _widths(layer, counted)
        products = {
            "projections": layer.projections,
            "attention core": layer.core,
            "recurrent state": layer.state,
            "feed-forward": layer.feed_forward,
        }.get(part, {})
        for name, flops in products.items():
            formula = f"{layer.layers} layers · {flops:,}"
            if name in widths:
                formula = f"{layer.layers} layers · {widths[name]}"
            which = f" ({layer_name(layer.kind)})" if len(counted.layers) > 1 else ""
            yield Row(name + which, layer.layers * flops, "FLOPs", formula)
    if part == "LM head":
        tokens = counted.work.batch * counted.logits_positions
        formula = f"2 · {counted.model.hidden:,} · {counted.model.vocab:,} · {tokens:,} positions"
        yield Row("lm_head", counted.lm_head_flops, "FLOPs", formula)


def _widths(layer: LayerBudget, counted: Budget) -> dict[str, str]:
    """Write the formula of each product of one layer."""
    kind, new = layer.kind, counted.work.batch * counted.work.q_len
    found: dict[str, str] = {}
    for part in (kind.attention, kind.recurrent, kind.feed_forward):
        for matrix in part.matrices if part is not None else ():
            active = f" · {matrix.active} experts" if matrix.active > 1 else ""
            formula = f"2 · {matrix.inputs:,} · {matrix.outputs:,}{active} · {new:,} tokens"
            found[matrix.name] = f"{found[matrix.name]} + {formula}" if matrix.name in found else formula
    if kind.attention is not None and kind.cross_attention is None:
        widths = core_widths(kind.attention, usual_form(counted.work))
        names = zip(("QKᵀ", "PV"), widths, strict=True)
        found |= {name: f"2 · {layer.scores:,} scores · {width}" for name, width in names}
    return found


def _kept(kind: CacheLayers, asked: Question) -> Row:
    if kind.span == "state":
        formula = f"{kind.layers} layers · {kind.sequence_bytes:,} bytes · {asked.batch} sequences"
    else:
        tokens = int(kind.tokens(asked.context))
        formula = (
            f"{kind.layers} layers · {tokens:,} tokens · {kind.token_bytes:,} bytes · {asked.batch} sequences"
        )
    return Row(
        f"{kind.layers} layers, {kind.kind}", int(kind.bytes(asked.batch, asked.context)), "bytes", formula
    )


def _counting(work: Workload) -> str:
    return "masks and windows counted exactly" if work.causal else "every pair counted"


def _finite(value: float) -> float | None:
    return None if value == float("inf") else value


def _whole(value: float) -> int:
    return value if isinstance(value, int) else round(value)
