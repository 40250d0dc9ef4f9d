"""Each row of tensor_size_cases.json as a call of lab.cost.

`recompute(row)` gives the figure in the row's own unit.
"""

from fractions import Fraction

from lab.cost import formulas, limits

UNITS = {"bytes": 1, "GB": 10**9, "MB": 10**6, "GiB": 2**30, "MiB": 2**20}


def score_tensor(row):
    given = row["inputs"]
    total = formulas.score_bytes(
        given["B"], given["heads"], given["Tq"], given["Tk"], given["bytes_per_element"]
    )
    return Fraction(total, UNITS[row["unit"]])


def masks(row):
    given = row["inputs"]
    one = formulas.mask_bytes(given["T"], given["T"], given["bytes_per_element"])
    return Fraction(given.get("layers", 1) * one, UNITS[row["unit"]])


def logits(row):
    given = row["inputs"]
    total = formulas.logits_bytes(given["B"], given["T"], given["vocab"], given["bytes_per_element"])
    return Fraction(total + given["extra_bytes"], UNITS[row["unit"]])


def largest_right_length(row):
    """The longest of the two lengths tried for which no limit of the efficient kernel is known."""
    fine = [
        length
        for length in row["inputs"]["T"]
        if limits.kernel_limit("efficient", heads=1, q_len=length, kv_len=length, causal=True) is None
    ]
    return max(fine, default=0)


def first_refused_bias(row):
    """Elements of the smallest bias that is refused, among lengths that are powers of two."""
    heads = row["inputs"]["heads"]
    length = 1
    while not limits.kernel_limit(
        "efficient", heads=heads, q_len=length, kv_len=length, causal=False, bias=True
    ):
        length *= 2
    return formulas.score_bytes(row["inputs"]["B"], heads, length, length, 1)


_BY_KIND = {"score tensor": score_tensor, "mask buffer": masks, "logits tensor": logits}


def recompute(row):
    """The row's figure by lab.cost; None for the observation, which states no figure."""
    if row["kind"] == "correctness limit":
        return largest_right_length(row)
    if row["kind"] == "kernel limit":
        return first_refused_bias(row)
    return _BY_KIND[row["kind"]](row) if row["kind"] in _BY_KIND else None
