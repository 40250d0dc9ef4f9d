"""How accurate each implementation is, in 16 bit and in 32, with fp32 intermediates and without (exercise 7).

Three kinds of inputs, since noise flatters everyone. The errors are the subject: beside the largest there are
the root mean square and the share of the output's size. The tolerance grows with the largest score, as the
rounding of a score does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from lab.measure.accuracy import SCORE_SIZE, Truth, check, truth
from lab.measure.attention_cases import draw, named
from lab.measure.case import Case, Plan
from lab.measure.cases import CaseExperiment
from lab.measure.distributions import KINDS, largest_score, shaped
from lab.measure.job import Job

NAMES = ("naive", "naive_fp32", "math", "flash", "blockwise")
ON_ACCELERATOR = ("naive", "naive_fp32", "math", "flash", "efficient", "cudnn", "blockwise")
DTYPES = ("fp32", "bf16", "fp16")


class Accuracy(CaseExperiment):
    """Errors, time and peak memory by dtype and kind of input."""

    name: ClassVar[str] = "accuracy"

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List a group for each length, dtype and kind of input."""
        every = NAMES if job.device.kind == "cpu" else ON_ACCELERATOR
        names = job.spec.implementations or every
        wanted = DTYPES if job.spec.dtype == "auto" else (job.dtype,)
        dtypes = [dtype for dtype in wanted if dtype in job.device.dtypes()]
        return [
            [Plan(name, replace(call, dtype=dtype), kind) for name in names]
            for call in self.calls(job)
            for dtype in dtypes
            for kind in KINDS
        ]

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Draw inputs of one kind; the truth is that of the rounded inputs."""
        call, kind = plans[0].call, str(plans[0].variant)
        inputs = shaped(draw(job, call)[0], kind)
        expected = truth(*inputs, causal=call.causal, seed=job.spec.seed)
        score = largest_score(inputs)
        judge = partial(check, expected=expected, slack=max(1.0, score / SCORE_SIZE))
        return [
            Case(
                plan,
                _calling(named(plan.implementation, call.causal), inputs),
                judge,
                inputs,
                {"largest_score": score},
                inspect=partial(errors, expected),
            )
            for plan in plans
        ]


def _calling(function: Callable[..., Any], inputs: tuple[Tensor, Tensor, Tensor]) -> Callable[[], Any]:
    return lambda: function(*inputs)


def errors(expected: Truth, output: Tensor) -> dict[str, float]:
    """Measure how far an output is from the truth, relative to the size of the truth.

    Args:
        expected: in float64.
        output: (batch, heads, q_len, head_dim).

    Returns:
        Root-mean-square error over root-mean-square value, and largest error over largest value; nothing for
        an output that is not finite.
    """
    chosen = output if expected.rows is None else output[:, :, expected.rows.to(output.device)]
    found = chosen.to(expected.values.device).double()
    if not bool(found.isfinite().all()):
        return {}
    difference, true = found - expected.values, expected.values
    return {
        "rms_relative_error": float(difference.square().mean().sqrt() / true.square().mean().sqrt()),
        "max_relative_error": float(difference.abs().max() / true.abs().max()),
    }
