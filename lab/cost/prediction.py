"""How long an attention call should take on a calibrated device, as a sum that can be opened.

No number here is fitted to the cell it predicts: counts come from lab.cost.traffic and lab.cost.tiles, rates
from a `Calibration` whose every figure names its source.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from lab.cost.calibration import Calibration
from lab.cost.calls import AttentionCall, check_implementation
from lab.cost.prediction_fused import decode_term, fused_term, merge_term
from lab.cost.prediction_terms import (
    Term,
    calibrated_head_dims,
    has_cold_rates,
    operation_term,
    start_term,
)
from lab.cost.traffic import operations

FUSED = ("flash", "efficient")


@dataclass(frozen=True)
class Prediction:
    """A predicted time in seconds with its terms.

    Args:
        seconds: the sum of the terms.
        terms: the operations in order.
        calibration: what the rates are of, in words.
        notes: what was assumed beyond the calibration, in words.
    """

    seconds: float
    terms: tuple[Term, ...]
    calibration: str
    notes: tuple[str, ...] = ()

    @property
    def limited_by(self) -> str:
        """What most of the time is spent on."""
        spent = self.seconds_by_limit
        return max(spent, key=lambda name: spent[name])

    @property
    def seconds_by_limit(self) -> dict[str, float]:
        """Seconds spent under each limit."""
        spent: dict[str, float] = defaultdict(float)
        for term in self.terms:
            spent[term.limited_by] += term.seconds
        return dict(spent)


def predict_attention(
    implementation: str,
    calibration: Calibration,
    *,
    batch: int,
    heads: int,
    kv_heads: int,
    q_len: int,
    kv_len: int,
    head_dim: int,
    causal: bool,
    splits: int = 1,
    cold: bool = False,
) -> Prediction:
    """Predict the time of one inference call, inputs in the calibration's dtype.

    Args:
        implementation: "naive", "naive_inplace", "math", "flash" or "efficient".
        calibration: of the device, the dtype and the thread count.
        batch: sequences.
        heads: query heads.
        kv_heads: key/value heads; must divide heads.
        q_len: queries; the last q_len positions when causal. 1 is a decode step.
        kv_len: keys.
        head_dim: width of a head.
        causal: whether a causal mask is applied.
        splits: parts that a fused decode step cuts each head's cache into.
        cold: whether one query's K and V come from memory, not from a cache that kept them since the last call.

    Returns:
        The prediction with one term an operation.

    Raises:
        ValueError: a bad shape, a call the implementation does not compute, splits without a fused decode,
            or figures that the calibration does not have.
    """
    call = AttentionCall(
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        q_len=q_len,
        kv_len=kv_len,
        head_dim=head_dim,
        dtype=calibration.dtype,
        causal=causal,
        threads=calibration.threads or 1,
        device=calibration.device_kind,
        cold=cold,
    )
    check_implementation(implementation, call)
    decode = implementation in FUSED and q_len == 1
    start = calibration.starts.get(f"{implementation} masked" if call.masked else implementation)
    used = calibration if start is None else calibration.without_overhead()
    if splits != 1 and (not decode or splits < 1 or splits > kv_len):
        raise ValueError(
            f"splits must be 1, or 2 to kv_len for a fused kernel with q_len = 1, got splits={splits} for "
            f"{implementation!r} with q_len={q_len} and kv_len={kv_len}"
        )
    if decode:
        terms = [decode_term(implementation, call, used, splits)]
        terms += [merge_term(call, calibration, splits)] if splits > 1 else []
    else:
        terms = _operation_terms(implementation, call, used)
    if start is not None:
        terms.append(start_term(start, terms, calibration))
    seconds = math.fsum(term.seconds for term in terms)
    notes = _notes(implementation, call, calibration, decode)
    return Prediction(seconds, tuple(terms), _label(calibration), notes)


def _operation_terms(implementation: str, call: AttentionCall, calibration: Calibration) -> list[Term]:
    names = ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "dtype", "causal", "device")
    steps = operations(implementation, **{name: getattr(call, name) for name in names})
    if implementation in FUSED:
        return [fused_term(implementation, steps[0], call, calibration)]
    return [operation_term(implementation, step, call, calibration) for step in steps]


def _label(calibration: Calibration) -> str:
    threads = f", {calibration.threads} threads" if calibration.threads else ""
    return f"{calibration.device}, {calibration.dtype}{threads}: {calibration.source}"


def _notes(
    implementation: str, call: AttentionCall, calibration: Calibration, decode: bool
) -> tuple[str, ...]:
    """Say what the calibration did not measure for this call."""
    notes = []
    if call.cold and call.q_len == 1 and calibration.elements and not has_cold_rates(calibration):
        notes.append("what one query reads was calibrated in a warm cache alone: calibrate again")
    if implementation in FUSED:
        if decode and implementation not in calibration.decode:
            notes.append("no streaming rate is known: the bandwidth alone, a lower bound")
        if not decode and not any(name.startswith(f"{implementation}/") for name in calibration.fused):
            notes.append("no share of the matmul rate is known: full rate plus every tile's keys and values")
    elif widths := calibrated_head_dims(calibration):
        if call.head_dim not in widths:
            nearest = min(widths, key=lambda width: abs(math.log(width / call.head_dim)))
            notes.append(f"head_dim {call.head_dim} was not calibrated: the rates of {nearest} are used")
        if 1 < call.q_len < 32:
            notes.append("products with 2 to 31 queries are priced at the rate of many queries")
    return tuple(notes)
