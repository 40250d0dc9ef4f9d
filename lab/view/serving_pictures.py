"""Paged caches and continuous batching as pictures of eight example requests; what is shared, what grows."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from lab.cost.allocation import vllm
from lab.cost.cache import cache_bytes, cache_layers, states_of
from lab.cost.decode_layer import widest_attention
from lab.cost.deployment import Deployment
from lab.cost.guide import MIXED_ANSWERS
from lab.cost.paging import BLOCK_TOKENS
from lab.cost.recurrent import gated_delta_net
from lab.cost.shapes import ModelShape
from lab.cost.terms import answer_steps
from lab.view import bars, skeleton, tricks
from lab.view.axes import counts_axis
from lab.view.counted import counted
from lab.view.format import bytes_text, share, tokens_label, whole
from lab.view.palette import Palette
from lab.view.scenario import Scenario

PLACES = 4
ANSWERS = 4
"""Answers to one prompt that share its blocks: an example."""


def show_paging(page: str, scene: Scenario, palette: Palette) -> None:
    """Draw what eight requests hold and reserve, as one tensor each and in blocks.

    Args:
        page: the page's file name.
        scene: the scenario.
        palette: of the theme in use.
    """
    pages = tricks.paging(scene.model, scene.dtype)
    st.subheader(
        f"Blocks of {BLOCK_TOKENS} tokens waste {share(pages.blocks_waste)} of what they reserve; one tensor of "
        f"{whole(pages.longest)} tokens for every request wastes {share(pages.contiguous_waste)}",
        anchor=False,
    )
    for column, blocks in zip(st.columns(2), (False, True), strict=True):
        with column:
            reserved = pages.blocks_bytes if blocks else pages.contiguous_bytes
            name = "Paged" if blocks else "Contiguous"
            st.markdown(f"**{name}**: {bytes_text(reserved, scene.binary)} reserved")
            skeleton.show(
                bars.draw(
                    tricks.paging_bars(palette, blocks=blocks), palette=palette, height_px=300,
                    x=counts_axis("tokens", (), linear_up_to=pages.longest),
                    description="Tokens that each of eight requests holds and reserves.",
                ),
                f"{page}_paging_{blocks}",
            )  # fmt: skip
    st.caption(
        f"Eight example requests that hold {', '.join(map(whole, tricks.CACHED_TOKENS))} tokens; "
        f"{bytes_text(pages.needed_bytes, scene.binary)} of {scene.model.name}'s {scene.dtype} cache are needed. "
        "The picture shows a layer with full attention; the bytes are those of all layers, as vLLM counts them."
    )
    st.markdown(sharing_text(scene))


def shared_bytes(model: ModelShape, dtype: str, prompt: int, answers: int) -> tuple[int, int]:
    """Reserve the blocks of one prompt for several answers to it: for each apart, and shared.

    Args:
        model: any shape.
        dtype: of the cache.
        prompt: tokens of the prompt, at least one block of them.
        answers: sequences that continue it.

    Returns:
        (bytes apart, bytes shared): full blocks are kept once, the last one is copied when it is written to.

    Source: Kwon et al., arXiv 2309.06180, section 4.4.
    """
    layers, full = cache_layers(model, dtype), prompt // BLOCK_TOKENS * BLOCK_TOKENS
    one, common = (vllm(layers, 1, tokens).reserved_bytes for tokens in (prompt, full))
    return answers * one, common + answers * (one - common)


def sharing_text(scene: Scenario) -> str:
    """What PagedAttention's sharing of blocks saves."""
    prompt = max(tricks.CACHED_TOKENS)
    apart, shared = shared_bytes(scene.model, scene.dtype, prompt, ANSWERS)
    return (
        f"**Sharing.** Sequences that begin alike can point to the same blocks: {whole(ANSWERS)} answers to one "
        f"prompt of {whole(prompt)} tokens keep its {whole(prompt // BLOCK_TOKENS)} full blocks once, "
        f"{bytes_text(shared, scene.binary)} in place of {bytes_text(apart, scene.binary)}. A block that one of "
        "them writes to is copied first. One tensor for every request cannot be shared."
    )


def show_batching(page: str, model: ModelShape, palette: Palette) -> None:
    """Draw which request each place of a batch answers, batch after batch and continuously.

    Args:
        page: the page's file name.
        model: any shape; the steps do not depend on it.
        palette: of the theme in use.
    """
    waiting = Deployment(model=model, batch=PLACES, context=1, max_context=1, answers=MIXED_ANSWERS)
    steps = {
        continuous: answer_steps(replace(waiting, continuous=continuous)) for continuous in (False, True)
    }
    st.subheader(
        f"Continuous batching answers {whole(len(MIXED_ANSWERS))} requests in {whole(steps[True])} steps, batches "
        f"that wait in {whole(steps[False])}",
        anchor=False,
    )
    for column, continuous in zip(st.columns(2), (False, True), strict=True):
        with column:
            name = "Continuous" if continuous else "Batch after batch"
            st.markdown(f"**{name}**: {whole(steps[continuous])} steps")
            turns = tricks.schedule(MIXED_ANSWERS, PLACES, continuous=continuous)
            skeleton.show(
                bars.draw(
                    tricks.schedule_bars(turns, palette), palette=palette, height_px=230,
                    x=counts_axis("steps", (), linear_up_to=max(steps.values())),
                    description="Which request each place of the batch answers at each step.",
                ),
                f"{page}_batching_{continuous}",
            )  # fmt: skip
    st.caption(
        f"Answers of {', '.join(map(whole, MIXED_ANSWERS))} tokens on {whole(PLACES)} places: an example, one "
        "long answer among short ones."
    )


def state_bytes(model: ModelShape, dtype: str) -> int:
    """Weigh what linear attention would keep of one sequence: a matrix for every head in every layer.

    Args:
        model: any shape; its layers, heads and widths are taken.
        dtype: of the state.
    """
    attention, _ = widest_attention(model)
    mixer = gated_delta_net(
        attention.hidden, key_heads=attention.heads, value_heads=attention.heads, key_dim=attention.head_dim,
        value_dim=attention.head_dim_v, conv_kernel=1,
    )  # fmt: skip
    return int(states_of(mixer, model.layers, dtype, dtype).bytes(1, 1))


def linear_text(scene: Scenario) -> str:
    """What linear attention would keep, beside the cache."""
    state, T = state_bytes(scene.model, scene.dtype), scene.context
    cached = int(cache_bytes(scene.model, 1, T, scene.dtype).total_bytes)
    return (
        "**Linear attention** is no technique of this list, for it is another model: it drops the softmax and sums "
        "keys and values up in a matrix for each head, so that neither scores nor a cache grow with T. With "
        f"{scene.model.name}'s {counted(scene.model.layers, 'layer')}, heads and widths that state would be "
        f"{bytes_text(state, scene.binary)} a sequence at every length; the cache is "
        f"{bytes_text(cached, scene.binary)} at T = {tokens_label(T)}. What a sum has forgotten cannot be looked "
        "up again, which costs quality."
    )
