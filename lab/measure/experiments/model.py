"""A whole GPT-2 with eager attention and with SDPA: time, peak memory and how far their logits differ.

Three kinds of output, since the largest tensor hides the others: all logits (what a forward pass computes
unless told otherwise), the last row alone (what generation needs), and the body without the LM head. With all
logits both attentions have the same peak; without, the scores show.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from lab.cost.calls import AttentionCall
from lab.cost.catalog import model as known_model
from lab.cost.formulas import logits_bytes, score_bytes
from lab.measure import allocator
from lab.measure.accuracy import Accuracy, Truth, check
from lab.measure.case import Case, Plan
from lab.measure.cases import CaseExperiment
from lab.measure.events import Events
from lab.measure.gpt2 import ALL, EAGER, OUTPUTS, SDPA, Gpt2, draw_tokens, load, true_outputs
from lab.measure.job import Job
from lab.measure.memory import Need
from lab.measure.need import WARM_HEAP_FACTOR

GPT2 = known_model("gpt2")
DEPTH_SLACK = 4.0
"""A whole model rounds more often than one attention call: its residual stream twice a layer."""
REFERENCE_BYTES = 8
LIVE_SCORES, LIVE_HIDDEN = 3, 12  # tensors alive at a time: scores of a layer; feed-forward activations
NO_TRANSFORMERS = "the model experiment needs the transformers package, which is not installed"


class Model(CaseExperiment):
    """Time, kernel, peak memory and logit difference of GPT-2 small with both of its attentions."""

    name: ClassVar[str] = "model"

    def __init__(self) -> None:
        """Start without a model; it is loaded once a process."""
        self._loaded: Gpt2 | None = None

    def run(self, job: Job, part: str, events: Events) -> None:
        """Run one part, and let go of the model."""
        super().run(job, part, events)
        if self._loaded is not None and self._loaded.warning:
            events.warning(f"Measured with {self._loaded.warning}.")
        self._loaded = None

    def shape(self, job: Job, batch: int, length: int) -> AttentionCall:
        """Make the attention call of one layer of GPT-2, whatever heads the job names."""
        return AttentionCall(
            batch=batch,
            heads=GPT2.heads,
            kv_heads=GPT2.kv_heads,
            q_len=length,
            kv_len=length,
            head_dim=GPT2.head_dim,
            dtype=job.dtype,
            causal=True,
            threads=job.threads,
            device="cpu" if job.device.kind == "cpu" else "cuda",
        )

    def plans(self, job: Job) -> Sequence[Sequence[Plan]]:
        """List a group for each shape: both attentions with every kind of output."""
        return [
            [Plan(attention, call, wanted) for wanted in OUTPUTS for attention in (EAGER, SDPA)]
            for call in self.calls(job)
        ]

    def refusal(self, job: Job, plan: Plan) -> str | None:
        """Refuse lengths past the model's learned positions, and a machine without transformers."""
        if importlib.util.find_spec("transformers") is None:
            return NO_TRANSFORMERS
        if GPT2.max_context is not None and plan.call.kv_len > GPT2.max_context:
            return (
                f"GPT-2 has learned positions for {GPT2.max_context:,} tokens; T = {plan.call.kv_len:,} is "
                f"past what it can run"
            )
        return None

    def need(self, job: Job, plan: Plan, part: str) -> Need:
        """Count the weights, the float64 model beside them, and the largest activations of a pass."""
        call = plan.call
        passing = LIVE_SCORES * score_bytes(call.batch, call.heads, call.q_len, call.kv_len, call.element)
        passing += LIVE_HIDDEN * call.batch * call.q_len * GPT2.hidden * call.element
        passing += logits_bytes(call.batch, call.q_len, GPT2.vocab, call.element)
        warm = WARM_HEAP_FACTOR if part == "time" and job.warm_heap else 1
        need = GPT2.parameters * (call.element + REFERENCE_BYTES) + warm * passing
        free = job.device.free_bytes()
        return Need(int(need), allocator.usable_bytes(free) if job.device.kind == "cpu" else free)

    def cases(self, job: Job, plans: Sequence[Plan]) -> Sequence[Case]:
        """Load the model once, draw a prompt, and compute its outputs in float64."""
        if self._loaded is None:
            self._loaded = load(job.device.torch_device, job.torch_dtype, job.spec.seed)
        gpt2, call = self._loaded, plans[0].call
        device = job.device.torch_device
        tokens = draw_tokens(gpt2.config.vocab_size, call.batch, call.q_len, job.spec.seed, device)
        truths = true_outputs(gpt2, tokens)
        comparisons = {wanted: Comparison(expected) for wanted, expected in truths.items()}
        cases = []
        for plan in plans:
            wanted = str(plan.variant)
            run = partial(gpt2.run, plan.implementation, tokens, wanted)
            judged = partial(judge, truths[wanted])
            cases.append(Case(plan, run, judged, (tokens,), sizes(plan), inspect=comparisons[wanted]))
        return cases


def sizes(plan: Plan) -> dict[str, float]:
    """Give the two largest tensors of a pass: the scores of a layer, and the logits where all are wanted.

    Args:
        plan: the case.

    Returns:
        Bytes, by name.
    """
    call = plan.call
    found = {"score_bytes": float(call.scores * call.element)}
    if plan.variant == ALL:
        logits = logits_bytes(call.batch, call.q_len, GPT2.vocab, call.element)
        found["logits_bytes"] = float(logits)
    return found


def judge(expected: Truth, output: Tensor) -> Accuracy:
    """Compare an output of the model with float64.

    Args:
        expected: its truth.
        output: (batch, rows, columns).

    Returns:
        The verdict.
    """
    return check(output[:, None], expected, slack=DEPTH_SLACK, one_call=False)


class Comparison:
    """How far the outputs of two attentions are apart, on the rows that are compared with float64."""

    def __init__(self, expected: Truth) -> None:
        """Compare the rows of this truth."""
        self._rows = expected.rows
        self._first: Any = None

    def __call__(self, output: Tensor) -> dict[str, float]:
        """Keep the first output; tell of the second how far it is from it."""
        rows = output if self._rows is None else output[:, self._rows.to(output.device)]
        if self._first is None:
            self._first = rows.clone()
            return {}
        return {"difference_from_eager": float((rows.double() - self._first.double()).abs().max())}
