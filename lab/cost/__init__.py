"""What attention should cost: exact counts of FLOPs and bytes. numpy and the standard library only.

Where each formula is:

exact.py           rules for whole numbers: validation, int64 without wrap-around, when a result is float64
formulas.py        one attention call: pairs, FLOPs, score, cache, logits and mask bytes, fitted exponents
spans.py           pairs of windows, chunks and cross-attention
layers.py          the parts of a layer (feed_forward.py, recurrent.py, matrix.py), shapes.py whole models
configs.py         a shape from a Hugging Face config; catalog.py named models and hardware
storage.py         how a cache is stored; cache.py its bytes; allocation.py, paging.py what engines reserve
calls.py           one attention call; peaks.py what it holds, traffic.py what it moves, tiles.py its tiles
predict.py         rooflines of named ceilings; prediction.py and its neighbours predict seconds
flops.py           FLOPs of a layer's parts; budget.py a whole pass; crossings.py where attention leads
serving.py         a decode step's traffic and its crossover; step_weights.py, experts.py what it reads
training.py        FLOPs of a training step; activations.py what it keeps
parallel.py        tensor, pipeline and context parallel plans
techniques.py      what each trick changes; guide.py problem to technique; evidence.py claims recomputed
"""

from lab.cost.cache import CacheBytes, cache_bytes
from lab.cost.catalog import card, hardware, model, models
from lab.cost.configs import from_config
from lab.cost.crossings import crossing_context
from lab.cost.exact import InexactResultWarning, is_exact
from lab.cost.fields import ConfigError
from lab.cost.formulas import (
    BYTES_PER_ELEMENT,
    SOFTMAX_OPERATIONS_PER_SCORE,
    attention_flops,
    attention_pairs,
    element_bytes,
    fit_exponent,
    kv_bytes,
    logits_bytes,
    mask_bytes,
    score_bytes,
    softmax_operations,
)
from lab.cost.predict import Bound, Ceilings, attention_bound, bound_seconds
from lab.cost.serving import DecodeTraffic, crossover_batch, crossover_tokens, decode_traffic
from lab.cost.shapes import LayerKind, ModelShape, Workload, decode, prefill, weight_bytes
from lab.cost.traffic import Operation, operations, peak_extra_bytes

__all__ = [
    "BYTES_PER_ELEMENT",
    "SOFTMAX_OPERATIONS_PER_SCORE",
    "Bound",
    "CacheBytes",
    "Ceilings",
    "ConfigError",
    "DecodeTraffic",
    "InexactResultWarning",
    "LayerKind",
    "ModelShape",
    "Operation",
    "Workload",
    "attention_bound",
    "attention_flops",
    "attention_pairs",
    "bound_seconds",
    "cache_bytes",
    "card",
    "crossing_context",
    "crossover_batch",
    "crossover_tokens",
    "decode",
    "decode_traffic",
    "element_bytes",
    "fit_exponent",
    "from_config",
    "hardware",
    "is_exact",
    "kv_bytes",
    "logits_bytes",
    "mask_bytes",
    "model",
    "models",
    "operations",
    "peak_extra_bytes",
    "prefill",
    "score_bytes",
    "softmax_operations",
    "weight_bytes",
]
