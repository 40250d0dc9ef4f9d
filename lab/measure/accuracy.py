"""Whether an implementation computes attention: its error against float64, and the largest error accepted.

An output row is a weighted mean of values, so its errors are rounding errors relative to the row's own size:

- rounding: 16 units of roundoff of the dtype. A score of size s carries an error of s roundings into the
  softmax, and scores of random inputs reach 6; naive attention rounds scores twice (12), then probabilities
  and the output (2 more). The worst seen is 7.
- adding up: 4 sqrt(kv_len) units of roundoff of the type sums are kept in (fp64 for fp64, else fp32), as
  kv_len roundings of random sign add up. The worst seen is 2.2 sqrt(kv_len).

That is the limit of the worst element. Errors of rounding have random signs, so their root mean square over a
whole output is far below it: in 16 bit at most 1.7 units of roundoff of the output's own were seen, whatever the
length. 4 are accepted there, of one attention call of enough numbers.

What is caught: a missing scale, mask or head, zeros, or rows exchanged are off by about the size of a row, over
ten times what is accepted of an element in bf16, a hundred times in fp16, ten thousand times in fp32. A scale of
the scores that is off by 1 % moves the output by about as much: caught in fp16, fp32 and fp64, and in bf16 from
3 % on. In bf16 1 % is 2 to 3 units of roundoff, which is not told from rounding; nor is a fault in few elements
that stays below the limit of one. Where rows are sampled, a fault in other rows is not seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.measure.attention import reference
from lab.measure.device import DTYPES

ROUNDINGS = 16
ROUNDINGS_PER_ROOT_KEY = 4
MEAN_ROUNDINGS = 4
SIXTEEN_BIT = 2  # bytes
FEWEST_FOR_MEAN = 1024  # numbers: fewer may cancel by chance, and then the errors are no share of them
ALL_ROWS_UP_TO = (
    2**24
)  # query-key pairs over batch and heads: the reference then takes a fraction of a second
SAMPLED_ROWS = 64
SCORE_SIZE = 6.0  # of random inputs; what the roundings above allow for


@dataclass(frozen=True)
class Form:
    """What kind of tensor an output must be: a kernel of less precision, or elsewhere, is another kernel.

    Args:
        shape: of the whole output, also where rows are sampled.
        dtype: of the inputs, and so of the output.
        device: where the inputs lie, and so the output.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: Tensor, *, last: int | None = None) -> Form:
        """Take the form of a tensor.

        Args:
            tensor: such as Q, whose form the output of attention has.
            last: size of the last dimension, where it differs.
        """
        shape = tuple(tensor.shape) if last is None else (*tensor.shape[:-1], last)
        return cls(shape, tensor.dtype, tensor.device)

    def fault(self, output: object) -> str | None:
        """Say in words what keeps an output from being of this form; None when nothing does."""
        if not isinstance(output, Tensor):
            return f"the output is no tensor but of the type {type(output).__name__}"
        if output.dtype != self.dtype:
            return f"the output is {_name(output.dtype)}, the inputs are {_name(self.dtype)}"
        if output.device != self.device:
            return f"the output lies on {output.device}, the inputs on {self.device}"
        if tuple(output.shape) != self.shape:
            return f"the output has the shape {tuple(output.shape)} instead of {self.shape}"
        return None if output.layout == torch.strided else f"the output is {output.layout}, no plain tensor"


def _name(dtype: torch.dtype) -> str:
    known = {found: name for name, found in DTYPES.items()}
    return known.get(dtype, str(dtype).removeprefix("torch."))


@dataclass(frozen=True)
class Truth:
    """The float64 result of one call: which query rows, and their values.

    Args:
        rows: indices of the rows, or None for all.
        values: (batch, heads, number of rows, head_dim) in float64.
        kv_len: keys that were summed over.
        form: what kind of tensor the output must be.
    """

    rows: Tensor | None
    values: Tensor
    kv_len: int
    form: Form

    @property
    def rows_text(self) -> str:
        """Which rows are compared, in words."""
        return "all" if self.rows is None else f"{len(self.rows)} sampled rows"


@dataclass(frozen=True)
class Accuracy:
    """How far an output is from the truth.

    Args:
        max_abs_error: largest absolute error, or None when the output is not finite.
        tolerance: largest error accepted anywhere.
        rows: which rows were compared, in words.
        fault: what is wrong with the output, or None.
    """

    max_abs_error: float | None
    tolerance: float
    rows: str
    fault: str | None


def truth(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool, seed: int = 0, window: int | None = None
) -> Truth:
    """Compute what an implementation must give, of all rows or, at large sizes, of a sample.

    Args:
        q: (batch, heads, q_len, head_dim).
        k: (batch, kv_heads, kv_len, head_dim).
        v: (batch, kv_heads, kv_len, head_dim).
        causal: hide the keys after each query.
        seed: of the sample; the first and the last row are always in it.
        window: keys that a causal query sees at most, its own included; None for all.

    Returns:
        The truth.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    rows = None
    if q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] > ALL_ROWS_UP_TO and q.shape[2] > SAMPLED_ROWS:
        generator = torch.Generator().manual_seed(seed)
        inner = torch.randperm(q.shape[2] - 2, generator=generator)[: SAMPLED_ROWS - 2] + 1
        ends = torch.tensor([0, q.shape[2] - 1])
        rows = torch.cat([ends, inner]).sort().values
    values = reference(q, k, v, causal=causal, rows=rows, window=window)
    return Truth(rows, values, k.shape[2], Form.of(q, last=v.shape[-1]))


def allowed_error(dtype: torch.dtype, kv_len: int) -> float:
    """Give the largest error accepted, relative to the size of an output row.

    Args:
        dtype: of the inputs and the output.
        kv_len: keys.

    Returns:
        A fraction.
    """
    sums = torch.float64 if dtype == torch.float64 else torch.float32
    roundoff, roundoff_of_sums = torch.finfo(dtype).eps / 2, torch.finfo(sums).eps / 2
    return ROUNDINGS * roundoff + ROUNDINGS_PER_ROOT_KEY * math.sqrt(kv_len) * roundoff_of_sums


def check(output: object, expected: Truth, slack: float = 1.0, *, one_call: bool = True) -> Accuracy:
    """Compare an output with the truth, row by row.

    Args:
        output: (batch, heads, q_len, head_dim), as the implementation returned it, whatever that is.
        expected: what it must be; also in dtype, place and shape.
        slack: factor on what is accepted, for inputs whose scores are larger than SCORE_SIZE by it.
        one_call: whether the output is that of one attention call, whose mean error is known as well.

    Returns:
        The error, the tolerance and what is wrong, if anything.

    A row's size is the largest value at its position in any head, at least the median over positions: where
    values cancel by chance a row is not held to less than its neighbours.
    """
    unlike = expected.form.fault(output)
    if unlike is not None or not isinstance(output, Tensor):
        return Accuracy(None, 0.0, expected.rows_text, unlike)
    chosen = output if expected.rows is None else output[:, :, expected.rows.to(output.device)]
    found = chosen.detach().to(expected.values.device).double()
    errors = (found - expected.values).abs().amax(dim=(0, 1, 3))
    sizes = expected.values.abs().amax(dim=(0, 1, 3))
    accepted = slack * allowed_error(output.dtype, expected.kv_len) * sizes.clamp(min=sizes.median())
    tolerance = float(accepted.max())
    if not bool(torch.isfinite(found).all()):
        return Accuracy(None, tolerance, expected.rows_text, "the output holds NaN or infinity")
    wrong = errors > accepted
    fault = None
    if bool(wrong.any()):
        worst = int((errors / accepted).argmax())
        row = worst if expected.rows is None else int(expected.rows[worst])
        fault = (
            f"{int(wrong.sum())} of {len(errors)} rows differ from float64: row {row} by "
            f"{float(errors[worst]):.2g}, {float(accepted[worst]):.2g} is accepted there"
        )
    elif one_call and output.element_size() == SIXTEEN_BIT:
        fault = mean_fault(found, expected.values, slack * MEAN_ROUNDINGS * torch.finfo(output.dtype).eps / 2)
    return Accuracy(float(errors.max()), tolerance, expected.rows_text, fault)


def mean_fault(found: Tensor, true: Tensor, accepted: float) -> str | None:
    """Say that an output is wrong as a whole, where no element is far off.

    Args:
        found: the output, in float64.
        true: the truth, in float64.
        accepted: largest root mean square of the errors, over that of the truth.

    Returns:
        One sentence, or None; also where there are too few numbers to tell.
    """
    if true.numel() < FEWEST_FOR_MEAN:
        return None
    share = float((found - true).square().mean().sqrt() / true.square().mean().sqrt())
    if share <= accepted:
        return None
    return (
        f"the root mean square of the errors is {share:.2g} of the output's, {accepted:.2g} is accepted: too much "
        "for rounding"
    )
