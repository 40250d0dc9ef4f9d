"""What attention should cost: exact counts of FLOPs and bytes. numpy and the standard library only.

formulas.py holds the closed forms re-exported here; exact.py the rules for whole numbers that they share.
"""

from lab.cost.exact import InexactResultWarning, is_exact
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

__all__ = [
    "BYTES_PER_ELEMENT",
    "SOFTMAX_OPERATIONS_PER_SCORE",
    "InexactResultWarning",
    "attention_flops",
    "attention_pairs",
    "element_bytes",
    "fit_exponent",
    "is_exact",
    "kv_bytes",
    "logits_bytes",
    "mask_bytes",
    "score_bytes",
    "softmax_operations",
]
