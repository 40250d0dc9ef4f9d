"""FLOPs of the parts of one layer: projections, attention core, feed-forward block; the softmax apart.

A weight matrix costs 2 · inputs · outputs FLOPs a token (`Matrix.flops_per_token`); the attention core costs
its two products over the pairs that its span scores. Biases, norms, rotary embeddings and activations are not
matrix products and are not counted.
"""

from __future__ import annotations

from lab.cost.formulas import SOFTMAX_OPERATIONS_PER_SCORE
from lab.cost.layers import Attention, FeedForward, Recurrent
from lab.cost.shapes import Workload
from lab.cost.spans import scored_pairs

LATENT_FORMS = ("expanded", "absorbed", "re-expanded")
"""Ways to compute MLA. Expanded: K and V of the new tokens are made per head, and kept. Absorbed: the latent
rows are kept, and the expansion is applied to Q and to the output instead. Re-expanded: the latent rows are
kept, and K and V of the whole context are made again in every pass (transformers 5)."""


def usual_form(work: Workload) -> str:
    """Name the form in which engines compute MLA in a pass: expanded over a prompt, absorbed for one token.

    Args:
        work: the pass.

    Returns:
        One of LATENT_FORMS. Absorbed, a step reads the latent rows that are cached and nothing wider.

    Source: vLLM, mla/common.py: the "compute friendly" way for prefill, the "data-movement friendly" one for
        decode.
    """
    return "absorbed" if work.q_len == 1 else "expanded"


def projection_flops(
    attention: Attention, work: Workload, source_tokens: int = 0, latent_form: str = "expanded"
) -> dict[str, int]:
    """Count the projections of one attention block, by matrix.

    Args:
        attention: the block.
        work: the pass.
        source_tokens: for cross-attention, tokens of the other sequence whose K and V this pass projects; 0
            when they are cached.
        latent_form: how MLA is computed.

    Returns:
        FLOPs by matrix name. Absorbed, kv_b costs what it does expanded: it is applied to Q and to the
        output.
    """
    new = work.batch * work.q_len
    if attention.latent is not None and latent_form == "re-expanded":
        seen = work.batch * work.context
        return {
            matrix.name: matrix.flops_per_token * (seen if matrix.name == "kv_b" else new)
            for matrix in attention.matrices
        }
    if attention.source_hidden is None:
        return {matrix.name: matrix.flops_per_token * new for matrix in attention.matrices}
    other = work.batch * source_tokens
    return {
        matrix.name: matrix.flops_per_token * (other if matrix.name in ("k", "v") else new)
        for matrix in attention.matrices
    }


def core_widths(attention: Attention, latent_form: str = "expanded") -> tuple[int, int]:
    """Give the widths of the two products of the attention core.

    Args:
        attention: the block.
        latent_form: one of LATENT_FORMS; matters for MLA only.

    Returns:
        Width of QKᵀ and width of PV, per head.

    Raises:
        ValueError: an unknown form.

    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.2 (W_UK absorbed into W_Q, W_UV into W_O).
    """
    if latent_form not in LATENT_FORMS:
        raise ValueError(f"latent_form must be one of {', '.join(LATENT_FORMS)}, got {latent_form!r}")
    if attention.latent is None or latent_form != "absorbed":
        return attention.head_dim, attention.head_dim_v
    return attention.latent.kv_rank + attention.latent.rope_dim, attention.latent.kv_rank


def layer_scores(attention: Attention, work: Workload, source_tokens: int | None = None) -> int:
    """Count the scores of one layer: batch · heads · pairs.

    Args:
        attention: the block.
        work: the pass; causal counts the pairs the layer's mask keeps, else all pairs.
        source_tokens: length of the other sequence; needed for cross-attention only.

    Returns:
        Scores.

    Raises:
        ValueError: cross-attention without source_tokens.
    """
    pairs = scored_pairs(attention, work.q_len, work.context, causal=work.causal, source_tokens=source_tokens)
    return work.batch * attention.heads * int(pairs)


def core_flops(attention: Attention, scores: int, latent_form: str = "expanded") -> dict[str, int]:
    """Count the two matrix products of the attention core.

    Args:
        attention: the block.
        scores: from `layer_scores`.
        latent_form: how MLA is computed.

    Returns:
        FLOPs of "QKᵀ" and of "PV".

    Raises:
        ValueError: an unknown latent form.
    """
    key_width, value_width = core_widths(attention, latent_form)
    return {"QKᵀ": 2 * scores * key_width, "PV": 2 * scores * value_width}


def softmax_of_scores(scores: int) -> int:
    """Count the elementwise operations of a softmax.

    Args:
        scores: from `layer_scores`.

    Returns:
        Operations, never to be added to matmul FLOPs.
    """
    return SOFTMAX_OPERATIONS_PER_SCORE * scores


def matrix_flops(part: FeedForward | Recurrent, work: Workload) -> dict[str, int]:
    """Count the matrices of a feed-forward block or of a recurrent mixer.

    Args:
        part: the block or mixer.
        work: the pass.

    Returns:
        FLOPs by matrix name; of a mixture of experts those that a token uses, and its "router".
    """
    new = work.batch * work.q_len
    flops: dict[str, int] = {}
    for matrix in part.matrices:  # two may share a name
        flops[matrix.name] = flops.get(matrix.name, 0) + matrix.flops_per_token * new
    return flops


def state_flops(recurrent: Recurrent, work: Workload) -> dict[str, int]:
    """Count what a recurrent mixer does with its state and its convolution, linear in the tokens.

    Args:
        recurrent: the mixer.
        work: the pass.

    Returns:
        FLOPs of "state and convolution", as a recurrence: chunked kernels trade more FLOPs for fewer steps.
    """
    return {"state and convolution": recurrent.core_flops_per_token * work.batch * work.q_len}
