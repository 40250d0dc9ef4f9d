"""The decision guide, problem to technique, with every row computed.

The five problems and the techniques named for each are the second source's. Each becomes a deployment that
shows the problem; each technique is applied to it, and the terms that decide are compared before and after,
beside techniques the source does not name for it. Where memory is the problem, what fits decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.cost.deployment import Deployment
from lab.cost.shapes import ModelShape
from lab.cost.techniques import TECHNIQUES, Effect, effects
from lab.cost.terms import TERMS, memory_bytes, sequences_that_fit

FIT = "sequences that fit"

LONG, LONGER = 8192, 32_768
"""Tokens: the two contexts the second source works with."""

MIXED_ANSWERS = (1024, 32, 64, 16, 256, 32, 128, 64)
"""Tokens that eight requests ask for, one long answer among short ones: an example, not a measurement."""


@dataclass(frozen=True)
class Problem:
    """A row of the guide: the source's words, a deployment with the problem, the terms that decide."""

    id: str
    text: str
    named: tuple[str, ...]  # techniques the source names for it
    others: tuple[str, ...]  # techniques worth comparing
    decides: tuple[str, ...]
    deployment: Deployment
    memory_decides: bool = False


@dataclass(frozen=True)
class Option:
    """One technique tried on a problem: its effects on the deciding terms, and whether it then fits."""

    technique: str
    named: bool
    effects: tuple[Effect, ...]
    memory_bytes: int | None
    fits: bool | None  # None where memory does not decide, or is not modelled
    unknown: tuple[str, ...] = ()  # deciding terms that are not modelled before or after

    @property
    def helps(self) -> bool:
        """Whether a deciding term gets better: less of it, or more sequences that fit."""
        return any(
            effect.after > effect.before if effect.term == FIT else effect.after < effect.before
            for effect in self.effects
        )


@dataclass(frozen=True)
class Advice:
    """A row of the guide with its numbers; memory_bytes is the problem's own need."""

    problem: Problem
    device_bytes: int
    memory_bytes: int | None
    options: tuple[Option, ...]

    @property
    def fits(self) -> bool | None:
        """Whether the deployment fits the device before any technique."""
        return None if self.memory_bytes is None else self.memory_bytes <= self.device_bytes

    @property
    def solved_by(self) -> tuple[str, ...]:
        """Techniques that solve it: those that then fit, or that make a deciding term better."""
        return tuple(
            option.technique
            for option in self.options
            if (option.fits if self.problem.memory_decides else option.helps)
        )


def problems(model: ModelShape) -> tuple[Problem, ...]:
    """State the source's five problems for a model.

    Args:
        model: a shape; the source's is LLaMA-2-7B.

    Returns:
        The problems in the source's order.
    """
    naive = Deployment(model=model, batch=1, context=LONG, max_context=LONG)
    return (*_prefill_problems(naive), *_serving_problems(replace(naive, implementation="flash", batch=16)))


def _prefill_problems(naive: Deployment) -> tuple[Problem, ...]:
    return (
        Problem(
            "training-slow",
            "Training too slow",
            ("flash", "fusion"),
            (),
            ("attention traffic", "attention passes"),
            naive,
        ),
        Problem(
            "prompt-memory",
            "Long context OOM (compute)",
            ("window",),
            ("flash", "fusion"),
            ("attention peak", "attention FLOPs"),
            replace(naive, context=LONGER, max_context=LONGER),
            memory_decides=True,
        ),
    )


def _serving_problems(serving: Deployment) -> tuple[Problem, ...]:
    return (
        Problem(
            "cache-memory",
            "Long context OOM (KV cache)",
            ("gqa", "mqa", "kv-quantisation"),
            ("window", "mla"),
            ("cache reserved", FIT),
            replace(serving, batch=20),
            memory_decides=True,
        ),
        Problem(
            "decode-slow",
            "Decode latency high",
            ("kv-cache", "continuous-batching"),
            ("gqa", "kv-quantisation", "window"),
            ("step FLOPs", "step bytes", "answer steps"),
            replace(serving, batch=4, answers=MIXED_ANSWERS),
        ),
        Problem(
            "many-requests",
            "Many concurrent long requests",
            ("paging",),
            ("gqa", "kv-quantisation"),
            ("cache reserved", FIT),
            replace(serving, batch=12, max_context=LONGER),
            memory_decides=True,
        ),
    )


def resized(problem: Problem, batch: int, context: int, dtype: str) -> Problem:
    """State a problem for other sizes and another number type.

    Args:
        problem: from `problems`.
        batch: sequences.
        context: tokens of each.
        dtype: of weights, activations and cache.

    Returns:
        The problem; what a sequence may grow to stays, unless the context is longer.
    """
    case = problem.deployment
    longest = max(context, case.max_context) if case.max_context > case.context else context
    sized = replace(case, batch=batch, context=context, max_context=longest)
    return replace(problem, deployment=replace(sized, dtype=dtype, k_type=dtype, v_type=dtype))


def advise(problem: Problem, device_bytes: int) -> Advice:
    """Try every technique of a problem.

    Args:
        problem: from `problems`, or your own.
        device_bytes: memory of the device.

    Returns:
        The row with its numbers. Techniques that do not apply to the model are left out.
    """
    options = []
    for technique in (*problem.named, *problem.others):
        try:
            options.append(_try(problem, technique, device_bytes))
        except ValueError:
            continue  # such as sharing heads of a model that has no heads to share
    need = memory_bytes(problem.deployment)
    return Advice(problem, device_bytes, need, tuple(options))


def guide(model: ModelShape, device_bytes: int) -> tuple[Advice, ...]:
    """Compute the whole decision guide.

    Args:
        model: a shape; the source's is LLaMA-2-7B.
        device_bytes: memory of the device; the source's is 80e9.

    Returns:
        One row a problem.
    """
    return tuple(advise(problem, device_bytes) for problem in problems(model))


def _try(problem: Problem, technique_id: str, device_bytes: int) -> Option:
    technique = TECHNIQUES[technique_id]
    base = problem.deployment
    if technique_id == "kv-cache":
        base = replace(base, cached=False)
    changed = technique.apply(base)
    found = [effect for effect in effects(technique, base) if effect.term in problem.decides]
    if FIT in problem.decides:
        before, after = (sequences_that_fit(one, device_bytes) for one in (base, changed))
        if before != after:
            found.append(Effect(FIT, "sequences", before, after))
    need = memory_bytes(changed)
    fits = None if need is None or not problem.memory_decides else need <= device_bytes
    known = [name for name in problem.decides if name in TERMS]
    unknown = tuple(name for name in known if None in (TERMS[name].value(base), TERMS[name].value(changed)))
    return Option(technique_id, technique_id in problem.named, tuple(found), need, fits, unknown)
