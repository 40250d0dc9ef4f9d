"""The price of one operation under a calibration: its counts, its seconds, and what those seconds are.

Matrix products and elementwise passes of materialising implementations are priced one by one and add up: each
is a launch of its own. A product is priced at the rate measured for its form where there is one (its own
traffic is then in the rate), else as arithmetic at the square-matmul rate plus traffic at the bandwidth. An
elementwise pass is priced at its own element rate where there is one (on a CPU it is bound by instructions,
not by bandwidth), else by its bytes. Fused kernels are priced in prediction_fused.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.cost.calibration import Calibration
from lab.cost.calls import AttentionCall
from lab.cost.rates import Constant, Curve
from lab.cost.traffic import Operation

ARITHMETIC, BANDWIDTH, ELEMENTS, LAUNCH = "arithmetic", "bandwidth", "elements", "launch"
PARALLELISM = "parallelism"
COLD = " cold"
"""Ends the name of a rate at which one query's keys and values are read from memory."""

# The micro-benchmark that prices each elementwise pass of lab.cost.traffic.
KINDS = {
    "scale": "mul",
    "mask: ones": "ones",
    "mask: triangle": "tril",
    "mask: invert": "not",
    "masked_fill: clone": "clone",
    "masked_fill: fill": "masked_fill_",
    "masked_fill": "masked_fill_",
    "softmax": "softmax",
    "promote q, k, v": "promote",
    "scale q": "mul",
    "scale k": "mul",
    "mask as numbers": "where_mask",
    "repeat k, v": "clone",
    "promote mask": "promote",
    "add mask": "add_",
    "safe softmax: softmax": "softmax",
    "safe softmax: is -inf": "isneginf",
    "safe softmax: all -inf": "all",
    "safe softmax: where": "where",
    "narrow probabilities (unused)": "narrow",
    "narrow output": "narrow",
}


@dataclass(frozen=True)
class Term:
    """One priced operation.

    Args:
        name: the operation.
        flops: matmul FLOPs that it executes.
        bytes_moved: bytes read plus bytes written.
        elements: elements of an elementwise pass, 0 for a product.
        seconds: predicted time.
        limited_by: "arithmetic", "bandwidth", "elements" (instructions of an elementwise pass), "launch" or
            "parallelism" (too few work items to use the whole device).
    """

    name: str
    flops: int
    bytes_moved: int
    elements: int
    seconds: float
    limited_by: str


def operation_term(
    implementation: str, step: Operation, call: AttentionCall, calibration: Calibration
) -> Term:
    """Price one pass of a materialising implementation.

    Args:
        implementation: "naive", "naive_inplace" or "math".
        step: the pass, from `lab.cost.traffic.operations`.
        call: the shape.
        calibration: in the dtype of the call.

    Returns:
        The term.
    """
    used = _working_calibration(implementation, step.name, call, calibration)
    moved = step.read_bytes + step.written_bytes
    if step.flops:
        form = "qk" if step.name == "QKᵀ" else "pv"
        seconds, limited_by = _product(implementation, form, step.flops, moved, call, used)
        elements = 0
    else:
        kind = "mul_" if implementation == "naive_inplace" and step.name == "scale" else KINDS[step.name]
        elements = pass_elements(step.name, call)
        if _reads_memory(step.name, call) and f"{kind}{COLD}" in used.elements:
            kind += COLD
        seconds, limited_by = elementwise_seconds(kind, elements, moved, used)
    seconds, limited_by = with_overhead(seconds, limited_by, used)
    return Term(step.name, step.flops, moved, elements, seconds, limited_by)


def elementwise_seconds(kind: str, elements: int, moved: int, calibration: Calibration) -> tuple[float, str]:
    """Price an elementwise pass, without the overhead of starting it.

    Args:
        kind: a name among `KINDS` or another that the calibration measured.
        elements: elements of the pass.
        moved: bytes read and written.
        calibration: in the dtype of the pass.

    Returns:
        Seconds, and "elements" or "bandwidth".
    """
    traffic = moved / calibration.bandwidth.at(moved)
    curve = calibration.elements.get(kind)
    if curve is None:
        return traffic, BANDWIDTH
    seconds = elements / curve.at(elements)
    return seconds, BANDWIDTH if traffic > 0.8 * seconds else ELEMENTS


def with_overhead(seconds: float, limited_by: str, calibration: Calibration) -> tuple[float, str]:
    """Add the cost of starting an operation: before it on a CPU, beside the one before on an accelerator."""
    if calibration.overhead is None:
        return seconds, limited_by
    start = calibration.overhead.value
    if calibration.device_kind == "cpu":
        return seconds + start, limited_by if seconds >= start else LAUNCH
    return max(seconds, start), limited_by if seconds >= start else LAUNCH


def start_term(start: Constant, terms: Sequence[Term], calibration: Calibration) -> Term:
    """Price starting a whole call: its checks, its views and the dispatch of all its operations.

    Args:
        start: seconds of such a call on next to nothing.
        terms: the work of the call, priced without starting it.
        calibration: of the device.

    Returns:
        The term: all of the start on a CPU; on an accelerator what does not hide behind the work.
    """
    seconds = start.value
    if calibration.device_kind != "cpu":
        seconds = max(0.0, seconds - math.fsum(term.seconds for term in terms))
    return Term("start the call", 0, 0, 0, seconds, LAUNCH)


def pass_elements(name: str, call: AttentionCall) -> int:
    """Count the elements of a pass of `lab.cost.traffic`."""
    if name.startswith("mask:") or name in ("mask as numbers", "promote mask"):
        return call.mask
    if name == "promote q, k, v":
        return call.queries + 2 * call.keys
    if name in ("scale q", "narrow output"):
        return call.queries
    if name == "scale k":
        return call.repeated_keys
    return 2 * call.repeated_keys if name == "repeat k, v" else call.scores


def _working_calibration(
    implementation: str, name: str, call: AttentionCall, calibration: Calibration
) -> Calibration:
    """Give the calibration in the type a pass computes in: the math kernel promotes 16-bit inputs."""
    if implementation != "math" or not call.promoted or name.startswith(("promote", "narrow")):
        return calibration
    return calibration.in_dtype("fp32")


def has_cold_rates(calibration: Calibration) -> bool:
    """Say whether the calibration measured what one query reads from memory."""
    return any(name.partition("/")[0].endswith(COLD) for name in calibration.matmuls)


def _reads_memory(name: str, call: AttentionCall) -> bool:
    """Whether a pass of the math kernel is the one that takes K and V from memory; later ones find its copies."""
    first = "promote q, k, v" if call.promoted else "repeat k, v" if call.grouped else "scale k"
    return call.cold and call.q_len == 1 and name == first


def _product(
    implementation: str, form: str, flops: int, moved: int, call: AttentionCall, calibration: Calibration
) -> tuple[float, str]:
    """Price a product; with one query by the rate of reading K or V once, however many heads share it.

    Naive attention folds the query heads of a group into the rows of one product; the math kernel repeats K and V.
    """
    arithmetic = flops / calibration.matmul.value
    traffic = moved / calibration.bandwidth.at(moved)
    limited_by = ARITHMETIC if arithmetic >= traffic else BANDWIDTH
    many = product_curve(form, call.head_dim, calibration)
    if call.q_len > 1:
        return (arithmetic + traffic if many is None else flops / many.at(call.scores)), limited_by
    copied = implementation == "math" and (call.promoted or call.grouped or form == "qk")
    one = product_curve(f"{form}1", call.head_dim, calibration)
    if call.cold and not copied:
        one = product_curve(f"{form}1{COLD}", call.head_dim, calibration) or one
    if one is None:
        return arithmetic + traffic, limited_by
    rows = 1 if implementation == "math" else call.heads // call.kv_heads
    reading = flops / rows / one.at(call.scores / rows)
    computing = flops / many.at(call.scores) if many is not None and rows > 1 else 0.0
    return max(reading, computing), BANDWIDTH if reading > computing and rows > 1 else limited_by


def calibrated_head_dims(calibration: Calibration, form: str = "qk") -> list[int]:
    """List the head_dims at which a product was measured: "qk", "pv", "qk1" or "pv1"."""
    names = (name.partition("/") for name in calibration.matmuls)
    return [int(width) for found, _, width in names if found == form]


def product_curve(form: str, head_dim: int, calibration: Calibration) -> Curve | None:
    """Find the measured rate of a product by its form, at the calibrated head_dim nearest to this one."""
    widths = calibrated_head_dims(calibration, form)
    if not widths:
        return None
    nearest = min(widths, key=lambda width: abs(math.log(width / head_dim)))
    return calibration.matmuls[f"{form}/{nearest}"]
