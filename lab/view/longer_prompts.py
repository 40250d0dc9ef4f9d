"""What a longer prompt costs: the same question with more and more retrieved text in front of it."""

from __future__ import annotations

import pandas as pd

from lab.cost.budget import Budget, budget
from lab.cost.cache import cache_bytes
from lab.cost.shapes import ModelShape, Workload, prefill
from lab.view import decode_device
from lab.view.format import bytes_text, flops_text, share, times, tokens_label, whole
from lab.view.scenario import Scenario

ADDED = (1024, 4096, 16_384, 65_536)
"""Tokens of retrieved text: from one passage to a small book."""


def prompt_budget(scene: Scenario, tokens: int, causal: bool) -> Budget:
    """The pass over a prompt, with the LM head at its last position as in serving."""
    work = prefill(scene.batch, tokens, scene.dtype, causal=causal)
    return budget(scene.model, work, logits="last")


def step_budget(scene: Scenario, tokens: int, causal: bool) -> Budget:
    """The pass that makes one further token."""
    return budget(scene.model, Workload(scene.batch, tokens, 1, scene.dtype, causal))


def core_words(once: Budget, twice: Budget) -> str:
    """Which part of a prompt grows with the square of its length; windows and chunks hold some layers' cores back.

    Args:
        once: the pass over a prompt.
        twice: that over one twice as long.
    """
    if 2 * twice.core_flops > 7 * once.core_flops:  # nearer to four times than to three
        return "Only the core grows so."
    return "Only the core of layers that see the whole context grows so; windows and chunks hold that of others back."


def latent_words(model: ModelShape) -> str:
    """In which form the counts take a latent; nothing for other models."""
    if not decode_device.is_latent(model):
        return ""
    return (
        " A prompt expands K and V of every head from the latent; a new token works on the latent rows that are "
        "kept (absorbed), wider ones but read once for all heads."
    )


def table(scene: Scenario, causal: bool) -> pd.DataFrame:
    """One row for each amount of retrieved text, none first.

    Args:
        scene: the scenario; its context is the prompt without retrieved text.
        causal: count what the masks keep.

    Returns:
        Text for people: prompt length, its FLOPs, how many times the plain prompt's, attention's share, KV
        cache, FLOPs of each token that is then generated, whether the model goes so far.
    """
    plain = prompt_budget(scene, scene.context, causal)
    rows = []
    for added in (0, *ADDED):
        tokens = scene.context + added
        found = prompt_budget(scene, tokens, causal)
        cached = int(cache_bytes(scene.model, scene.batch, tokens, scene.dtype).total_bytes)
        limit = scene.model.max_context
        rows.append(
            {
                "retrieved": tokens_label(added) if added else "nothing",
                "prompt": whole(tokens),
                "its FLOPs": flops_text(found.matmul_flops),
                "against none": times(found.matmul_flops / plain.matmul_flops),
                "core": share(float(found.attention_share)),
                "KV cache": bytes_text(cached, scene.binary),
                "each new token": flops_text(step_budget(scene, tokens, causal).matmul_flops),
                "model's limit": "beyond" if limit is not None and tokens > limit else "within",
            }
        )
    return pd.DataFrame(rows)
