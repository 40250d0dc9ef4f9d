"""Recomputations from the chapter's own measured tables: ratios, rates, bandwidths, fitted exponents.

The cells carry the rounding they were printed with, and so do the results. The first line of each docstring
is the formula in words; results are in base units (bytes, FLOPs, seconds, pure numbers).
"""

from fractions import Fraction
from itertools import pairwise
from typing import Any

from lab.cost.claims.attention import (
    Values,
    layer_attention_flops,
    layer_cache_bytes,
    logits_bytes_of,
    score_bytes_of,
)
from lab.cost.claims.facts import cell, column, device, tables
from lab.cost.claims.printed import UNITS, Interval, corners, exactly
from lab.cost.formulas import fit_exponent, mask_bytes

MEMORY = "peak_extra_memory_mib_fp16"
DECODE = "decode_fp16_one_layer_12_heads_of_64"
WHOLE_MODEL = "gpt2_fp32_batch1"
MODEL = "gpt2"  # the shape of every one of these tables


def _seconds(tokens: int, name: str) -> Interval:
    return cell("time_ms", {"T": tokens}, name).scaled(UNITS["ms"])


def _peak_bytes(tokens: int, implementation: str) -> Interval:
    return cell(MEMORY, {"T": tokens}, implementation).scaled(UNITS["MiB"])


def peak(implementation: str, tokens: int) -> Values:
    """The measured peak, in another unit."""
    return [_peak_bytes(tokens, implementation)]


def peak_multiples(implementation: str, tokens: list[int]) -> Values:
    """Measured peak over one score tensor."""
    return [
        _peak_bytes(count, implementation).scaled(Fraction(1, score_bytes_of(MODEL, count, "fp16")))
        for count in tokens
    ]


def peak_ratio(tokens: int, larger: str, smaller: str) -> Values:
    """One measured peak over another at the same length."""
    return [corners(lambda a, b: a / b, _peak_bytes(tokens, larger), _peak_bytes(tokens, smaller))]


def peak_over_card(implementation: str, tokens: int) -> Values:
    """Measured peak over the card's memory."""
    memory = device("memory_gib").scaled(UNITS["GiB"])
    return [corners(lambda a, b: a / b, _peak_bytes(tokens, implementation), memory)]


def error_ratio(dtype: str, larger: str, smaller: str) -> Values:
    """Error of one implementation over another's, at each measured length of the dtype."""
    lengths = [row["T"] for row in tables()["max_abs_error_vs_float64"] if row["dtype"] == dtype]
    keys = [{"dtype": dtype, "T": length} for length in lengths]
    table = "max_abs_error_vs_float64"
    return [corners(lambda a, b: a / b, cell(table, key, larger), cell(table, key, smaller)) for key in keys]


def time_ratio(tokens: int, slower: str, faster: str) -> Values:
    """One measured time over another at the same length."""
    return [corners(lambda a, b: a / b, _seconds(tokens, slower), _seconds(tokens, faster))]


def fitted_exponents(columns: list[str], first: int) -> Values:
    """Least-squares slope of log time over log length, from the first length named."""
    lengths = [int(row["T"]) for row in tables()["time_ms"] if row["T"] >= first]
    return [
        corners(
            lambda *times: fit_exponent(lengths, [float(time) for time in times]),
            *(_seconds(length, name) for length in lengths),
        )
        for name in columns
    ]


def throughput(tokens: list[int], name: str) -> Values:
    """Causal attention FLOPs over measured time."""
    return [
        corners(lambda t, count=count: layer_attention_flops(MODEL, count, True) / t, _seconds(count, name))
        for count in tokens
    ]


def throughput_steps(tokens: list[int], name: str) -> Values:
    """Causal attention FLOPs over measured time, at each length over the same at the length before."""
    return [
        Interval(longer.value / shorter.value, longer.low / shorter.high, longer.high / shorter.low)
        for shorter, longer in pairwise(throughput(tokens, name))
    ]


def share_of_matmul_rate(tokens: int, name: str, reference: str, reference_share: float) -> Values:
    """The share printed for one kernel, scaled by the ratio of the two measured times."""
    ratio = corners(lambda a, b: a / b, _seconds(tokens, reference), _seconds(tokens, name))
    return [ratio.scaled(Fraction(str(reference_share)))]


def copy_seconds(passes: int, tokens: int) -> Values:
    """Passes over the score tensor, in bytes, over the card's copy bandwidth."""
    return [exactly(passes * score_bytes_of(MODEL, tokens, "fp16") / _copy_rate())]


def _copy_rate() -> Fraction:
    return device("copy_bandwidth_bytes_per_s").value


def moved_by_passes(passes: int, tokens: int) -> Values:
    """Passes over the score tensor, in bytes."""
    return [exactly(passes * score_bytes_of(MODEL, tokens, "fp16"))]


def time_over_copying(passes: int, tokens: int, name: str) -> Values:
    """Measured time over the time to copy that many passes of the score tensor."""
    copying = copy_seconds(passes, tokens)[0].value
    return [_seconds(tokens, name).scaled(1 / copying)]


def copying_over_time(passes: int, tokens: int, name: str) -> Values:
    """Time to copy that many passes of the score tensor over the measured time."""
    copying = copy_seconds(passes, tokens)[0].value
    return [corners(lambda t: copying / t, _seconds(tokens, name))]


def rest_explained(passes: int, tokens: int, name: str) -> Values:
    """Dense products at the best matmul rate plus five copies of the mask, over the time copying leaves."""
    copying = copy_seconds(passes, tokens)[0].value
    products = layer_attention_flops(MODEL, tokens, False) / device("best_fp16_matmul_flops_per_s").value
    mask = 5 * int(mask_bytes(tokens, tokens, 1)) / _copy_rate()
    return [corners(lambda t: (products + mask) / (t - copying), _seconds(tokens, name))]


def mask_surcharge(implementation: str) -> Values:
    """Causal time over full time, less 1, at each measured length."""
    return [
        Interval(ratio.value - 1, ratio.low - 1, ratio.high - 1)
        for ratio in column("causal_over_full_time", implementation)
    ]


def mask_surcharge_range(implementations: list[str]) -> Values:
    """Least and greatest of causal time over full time, less 1, over lengths and implementations."""
    found = [extra for name in implementations for extra in mask_surcharge(name)]
    return [min(found), max(found)]


def causal_ratios(implementation: str) -> Values:
    """Causal time over full time at each length, over the same at the length before."""
    ratios = column("causal_over_full_time", implementation)
    return [corners(lambda a, b: b / a, shorter, longer) for shorter, longer in pairwise(ratios)]


def speed_up(tokens: list[int]) -> Values:
    """Eager time over SDPA time, less 1: how much faster."""
    return [corners(lambda eager, sdpa: eager / sdpa - 1, *_model_times(count)) for count in tokens]


def time_saved(tokens: list[int]) -> Values:
    """1 less SDPA time over eager time: the share of the time saved."""
    return [corners(lambda eager, sdpa: 1 - sdpa / eager, *_model_times(count)) for count in tokens]


def _model_times(tokens: int) -> tuple[Interval, Interval]:
    where = {"tokens": tokens}
    return cell(WHOLE_MODEL, where, "eager_ms"), cell(WHOLE_MODEL, where, "sdpa_ms")


def logits_share_of_peak(tokens: int) -> Values:
    """Logits of every position in fp32 over the whole model's measured peak."""
    logits = logits_bytes_of(MODEL, tokens, "fp32")
    measured = cell(WHOLE_MODEL, {"tokens": tokens}, "peak_extra_mib").scaled(UNITS["MiB"])
    return [corners(lambda p: logits / p, measured)]


def _bandwidth(batch: int, tokens: int) -> Interval:
    seconds = cell(DECODE, {"batch": batch, "T": tokens}, "us").scaled(UNITS["µs"])
    return corners(lambda time: layer_cache_bytes(MODEL, batch, tokens, "fp16") / time, seconds)


def decode_row_bandwidth(batch: int, tokens: int) -> Values:
    """Cache bytes of one layer over measured time."""
    return [_bandwidth(batch, tokens)]


def decode_bandwidth(batches: list[int]) -> Values:
    """Cache bytes of one layer over measured time, for every context measured at these batches."""
    rows = [row for row in tables()[DECODE] if row["batch"] in batches]
    return [_bandwidth(int(row["batch"]), int(row["T"])) for row in rows]


def bandwidth_range(batches: list[int]) -> Values:
    """Least and greatest of cache bytes over measured time at these batches."""
    found = decode_bandwidth(batches)
    return [min(found), max(found)]


def bandwidth_over_copy(batches: list[int]) -> Values:
    """Cache bytes over measured time, over the card's copy bandwidth, for every context at these batches."""
    return [found.scaled(1 / _copy_rate()) for found in decode_bandwidth(batches)]


def decode_exponents() -> Values:
    """Slope of log time over log context between neighbouring contexts of the same batch."""
    return [
        _slope(shorter, longer)
        for shorter, longer in pairwise(tables()[DECODE])
        if shorter["batch"] == longer["batch"]
    ]


def _slope(*rows: dict[str, Any]) -> Interval:
    lengths = [int(row["T"]) for row in rows]
    times = [cell(DECODE, {"batch": row["batch"], "T": row["T"]}, "us") for row in rows]
    return corners(lambda *each: fit_exponent(lengths, [float(time) for time in each]), *times)


def implementations_measured() -> Values:
    """Implementations with a peak in the memory table."""
    return [exactly(len(tables()[MEMORY][0].keys() - {"T"}))]


def backends_unavailable() -> Values:
    """Backends that ran in neither precision."""
    answers = tables()["backends"].values()
    return [exactly(sum("runs" not in by_dtype.values() for by_dtype in answers))]


def backends_asked() -> Values:
    """Backends asked for."""
    return [exactly(len(tables()["backends"]))]
