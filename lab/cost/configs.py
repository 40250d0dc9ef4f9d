"""From a Hugging Face config.json to a shape, read from the dict itself: no weights, no code, no torch.

What a config states is used; what it leaves out is a documented default of its family or a refusal that
names the field. Anything that would change the count and is not modelled is refused, never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.cost import layer_attention, layer_feed_forwards
from lab.cost.families import FAMILIES
from lab.cost.family import FULL, Family, Sizes, Span
from lab.cost.fields import MAX_LAYERS, ConfigError, Fields, shown
from lab.cost.layers import Attention, FeedForward
from lab.cost.shapes import LayerKind, ModelShape

__all__ = ["ConfigError", "from_config"]

_TEXT_TYPES = {family.text_of: name for name, family in FAMILIES.items() if family.text_of}
_SHAPING = (
    *("num_experts", "num_local_experts", "n_routed_experts", "n_shared_experts"),
    *("shared_expert_intermediate_size", "kv_lora_rank", "q_lora_rank", "index_topk", "block_configs"),
    *("cross_attention_layers", "add_cross_attention", "attn_layer_indices", "attention_chunk_size"),
    *("linear_num_value_heads", "mamba_d_state", "ssm_state_size", "hidden_size_per_layer_input"),
    *("sliding_window", "layer_types", "word_embed_proj_dim", "num_kv_heads", "multi_query"),
)
"""Fields that change the layers. A family that was built without reading one cannot have understood it."""
_HEADS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


def from_config(
    config: Mapping[str, Any],
    *,
    model_id: str = "config",
    name: str | None = None,
    sources: Sequence[str] = (),
    **described: Any,
) -> ModelShape:
    """Build a model's shape from the fields of its config.json.

    Args:
        config: the parsed file; of a multimodal model, the text part (`text_config`) is taken.
        model_id: identifier of the shape.
        name: name to show; the id by default.
        sources: where the config comes from.
        described: notes, agreement and published_parameters of the shape.

    Returns:
        The shape. `assumed` lists what came from the family's defaults.

    Raises:
        ConfigError: a field missing, impossible or contradictory, or an architecture that is not modelled.
    """
    try:
        fields, family, model_type = _open(config)
        notes = " ".join(filter(None, (described.pop("notes", ""), *_remarks(config, fields))))
        return _Reader(fields, family).shape(
            id=model_id,
            name=name or model_id,
            family=model_type,
            sources=tuple(sources),
            notes=notes,
            **described,
        )
    except RecursionError:
        raise ConfigError("The config is nested too deeply to be a model's config.") from None


def _open(config: Mapping[str, Any]) -> tuple[Fields, Family, str]:
    if not isinstance(config, Mapping):
        raise ConfigError(f"The config must be a JSON object, got {shown(config)}.")
    top = Fields(config)
    values, prefix, parent = config, "", top.raw("model_type", None)
    if top.raw("text_config", None) is not None:
        values, prefix = config["text_config"], "text_config."
        if not isinstance(values, Mapping):
            raise top.refuse("text_config", f"must be an object, got {shown(values)}")
        values = _inherit(config, values)
    inside = Fields(values, prefix=prefix)
    model_type = inside.raw("model_type", None)
    if model_type is None and prefix and isinstance(parent, str):
        model_type = _TEXT_TYPES.get(parent)
    if model_type is None:
        raise inside.refuse("model_type", "missing, and the architecture cannot be known without it")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise inside.refuse("model_type", f"{shown(model_type)} is not modelled; modelled are {known}")
    family = FAMILIES[model_type]
    fields = Fields(
        values, prefix=prefix, names=family.names, renamed=family.renamed, defaults=family.defaults
    )
    _refuse_unmodelled(top)
    _refuse_unmodelled(fields)
    return fields, family, model_type


def _inherit(config: Mapping[str, Any], text: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take tie_word_embeddings from the outer config, and refuse sizes that contradict it."""
    for name in ("hidden_size", "num_hidden_layers", "vocab_size", "tie_word_embeddings"):
        if name in config and name in text and config[name] != text[name]:
            raise ConfigError(
                f"text_config.{name}: {shown(text[name])} contradicts {name} = {shown(config[name])}."
            )
    if "tie_word_embeddings" in config:
        return {**text, "tie_word_embeddings": config["tie_word_embeddings"]}
    return text


def _refuse_unmodelled(fields: Fields) -> None:
    """Refuse what would change the counts: encoders, other heads, bidirectional attention."""
    for name in ("is_encoder_decoder", "use_bidirectional_attention", "num_kv_shared_layers", "pruned_heads"):
        if fields.raw(name, None):
            raise fields.refuse(name, f"{shown(fields.values[name])} is not modelled")
    named = fields.raw("architectures", None)
    if not named:
        return
    if not isinstance(named, list | tuple) or not all(isinstance(one, str) for one in named):
        raise fields.refuse("architectures", f"must be a list of names, got {shown(named)}")
    if not any(one.endswith(_HEADS) for one in named):
        raise fields.refuse(
            "architectures", f"{shown(named[0])} has no LM head; causal language models are modelled"
        )


def _remarks(config: Mapping[str, Any], fields: Fields) -> list[str]:
    remarks = []
    if fields.prefix:
        remarks.append("Text part only.")
    quantised = config.get("quantization_config")
    if isinstance(quantised, Mapping):
        method = shown(quantised.get("quant_method"))
        remarks.append(f"The checkpoint's weights are quantised ({method}); the counts are of the model.")
    if fields.optional_count("num_nextn_predict_layers", minimum=0):
        remarks.append("Multi-token-prediction layers of the checkpoint are not part of the model.")
    return remarks


def _all_full(stated: Any) -> bool:
    return isinstance(stated, list) and all(kind == "full_attention" for kind in stated)


@dataclass
class _Reader:
    """Builds the shape of one config of a known family."""

    fields: Fields
    family: Family

    def shape(self, **described: Any) -> ModelShape:
        """Build the shape; `described` is what the config does not decide."""
        fields, family = self.fields, self.family
        sizes = self._sizes()
        kinds, order = self._layers(sizes)
        self._refuse_unread()
        norm = sizes.hidden * (2 if fields.option(family.norm_bias) else 1)
        context = fields.optional_count("max_position_embeddings")
        positions = 0
        if family.learned_positions:
            positions = fields.count("max_position_embeddings") + family.extra_positions
        finals = family.final_norms if isinstance(family.final_norms, int) else family.final_norms(fields)
        tied = fields.flag("tie_word_embeddings")
        if tied and family.extra_rows:
            raise fields.refuse("tie_word_embeddings", "true is impossible, the tables differ in rows")
        return ModelShape(
            hidden=sizes.hidden,
            vocab=sizes.vocab,
            kinds=kinds,
            order=order,
            tied_embeddings=tied,
            final_norm_parameters=finals * norm,
            position_parameters=positions * sizes.hidden,
            extra_rows=family.extra_rows,
            lm_head_bias=family.head_bias,
            max_context=context,
            assumed=tuple(f"{name} = {json.dumps(value)}" for name, value in fields.assumed.items()),
            **described,
        )

    def _refuse_unread(self) -> None:
        """Refuse a stated field that changes the layers and that this family does not know."""
        values = self.fields.values
        for name in (*_SHAPING, *self.family.renamed):
            stated = values.get(name)
            harmless = not stated or (name == "layer_types" and _all_full(stated))
            unused = name == "sliding_window" and self._window_is_unused()
            if name not in self.fields.read and not harmless and not unused:
                raise ConfigError(
                    f"{self.fields.prefix}{name}: {shown(stated)} is stated, and no layer here uses it."
                )

    def _window_is_unused(self) -> bool:
        default = self.family.defaults.get("use_sliding_window")
        return self.fields.values.get("use_sliding_window", default) is False

    def _sizes(self) -> Sizes:
        fields = self.fields
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        layers = fields.count("num_hidden_layers", maximum=MAX_LAYERS)
        vocab = fields.count("vocab_size")
        kv_heads = self._kv_heads(heads)
        return Sizes(hidden, layers, heads, kv_heads, self._head_dim(hidden, heads), vocab)

    def _kv_heads(self, heads: int) -> int:
        """Read the KV heads; null means as many as heads, in every family."""
        fields, name = self.fields, "num_key_value_heads"
        if not self.family.grouped:
            return heads  # the family's attention may know better, see `_attention`
        value = fields.raw(name)
        kv_heads = heads if value is None else fields.count(name)
        if heads % kv_heads:
            raise fields.refuse(name, f"must divide num_attention_heads = {heads}, got {kv_heads}")
        return kv_heads

    def _head_dim(self, hidden: int, heads: int) -> int:
        """Read the head width; only a family that derives it from hidden_size may leave it out."""
        fields, rule = self.fields, self.family.head_dim
        if rule == "latent":
            return 1  # replaced: the latent sizes decide
        if rule == "required":
            return fields.count("head_dim")
        stated = fields.optional_count("head_dim")
        if stated is not None and (rule == "stated" or stated * heads == hidden):
            return stated
        if stated is not None:
            raise fields.refuse(
                "head_dim", f"this family uses {hidden} / {heads} heads, {stated} contradicts it"
            )
        if "head_dim" in fields.values and "head_dim" in fields.defaults:
            raise fields.refuse("head_dim", "null, and this family does not derive it")
        if hidden % heads:
            raise fields.refuse(
                "head_dim", f"missing, and {heads} heads do not divide hidden_size = {hidden}"
            )
        return hidden // heads

    def _layers(self, sizes: Sizes) -> tuple[tuple[LayerKind, ...], tuple[int, ...]]:
        """Build each distinct kind of layer once, and the order in which they come."""
        fields, family = self.fields, self.family
        spans = family.spans(fields, sizes) if family.spans else [FULL] * sizes.layers
        read = family.feed_forwards or layer_feed_forwards.dense
        blocks = read(fields, sizes, family)
        if not {span.kind for span in spans} & {"full", "window", "chunk"}:
            raise fields.refuse(
                "num_hidden_layers", "no layer attends to its own tokens, which is not modelled"
            )
        numbers: dict[tuple[Span, FeedForward | None], int] = {}
        order = tuple(numbers.setdefault(key, len(numbers)) for key in zip(spans, blocks, strict=True))
        attention = self._attention(sizes)
        return tuple(self._kind(span, block, attention, sizes) for span, block in numbers), order

    def _attention(self, sizes: Sizes) -> Attention:
        fields, family = self.fields, self.family
        attention = (family.attention or layer_attention.plain)(fields, sizes, family)
        for name, built in (("num_key_value_heads", attention.kv_heads), ("qk_head_dim", attention.head_dim)):
            if fields.raw(name, None) not in (None, built):
                raise fields.refuse(
                    name, f"{shown(fields.raw(name))} contradicts {built} of the other fields"
                )
        return attention

    def _kind(self, span: Span, block: FeedForward | None, attention: Attention, sizes: Sizes) -> LayerKind:
        fields, family = self.fields, self.family
        width = sizes.hidden * (2 if fields.option(family.norm_bias) else 1)
        norms = family.layer_norms if isinstance(family.layer_norms, int) else family.layer_norms(fields)
        cross = None
        if family.cross_attention and (span.kind == "cross" or self._crosses_everywhere()):
            cross = family.cross_attention(fields, sizes, family)
            norms += 1 if span.kind != "cross" else 0
        own: Attention | None = None
        if span.kind in ("full", "window", "chunk"):
            own = replace(
                attention,
                window=span.size if span.kind == "window" else None,
                chunk=span.size if span.kind == "chunk" else None,
            )
        recurrent = family.recurrent(fields, sizes) if span.kind == "recurrent" and family.recurrent else None
        return LayerKind(
            attention=own,
            feed_forward=block,
            norm_parameters=norms * width,
            cross_attention=cross,
            recurrent=recurrent,
            other_parameters=family.cross_layer_parameters if span.kind == "cross" else 0,
        )

    def _crosses_everywhere(self) -> bool:
        return "add_cross_attention" in self.family.defaults and self.fields.flag("add_cross_attention")
