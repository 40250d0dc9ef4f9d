"""Layers that mix tokens through a state of fixed size instead of a growing cache: linear attention, SSMs.

Their state does not grow with the context, so it is counted apart from K and V.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.cost.matrix import Matrix, require_count


@dataclass(frozen=True, kw_only=True)
class Recurrent:
    """A recurrent mixer: projections, a short convolution over the last tokens, a state that is updated.

    A token makes `state_passes` passes of one multiply-add an element over the state: writing into it and
    reading out of it are one each, the delta rule reads it once more. Decays and gates are elementwise and
    not counted, as the softmax is not.
    """

    name: str
    hidden: int
    matrices: tuple[Matrix, ...]
    conv_channels: int
    conv_kernel: int
    conv_bias: bool = False
    state_elements: int = 0  # of one sequence, usually kept in fp32
    state_passes: int = 0
    other_parameters: int = 0  # decays, time steps, skips, inner norms

    def __post_init__(self) -> None:
        for name in ("hidden", "conv_channels", "conv_kernel"):
            require_count("Recurrent", name, getattr(self, name))
        for name in ("state_elements", "state_passes", "other_parameters"):
            require_count("Recurrent", name, getattr(self, name), minimum=0)

    @property
    def conv_elements(self) -> int:
        """Inputs of earlier tokens that the convolution still needs, of one sequence."""
        return self.conv_channels * (self.conv_kernel - 1)

    @property
    def parameters(self) -> int:
        """Weights, biases, convolution and the rest."""
        convolution = self.conv_channels * (self.conv_kernel + self.conv_bias)
        return sum(matrix.parameters for matrix in self.matrices) + convolution + self.other_parameters

    @property
    def core_flops_per_token(self) -> int:
        """FLOPs of state and convolution for one token, whatever the context; projections not included."""
        return 2 * (self.state_passes * self.state_elements + self.conv_channels * self.conv_kernel)


def gated_delta_net(
    hidden: int, *, key_heads: int, value_heads: int, key_dim: int, value_dim: int, conv_kernel: int
) -> Recurrent:
    """Build the gated delta rule of Qwen3-Next.

    Args:
        hidden: width of the model.
        key_heads: heads of Q and K.
        value_heads: heads of V, of the state and of the output gate.
        key_dim: width of a Q and K head.
        value_dim: width of a V head.
        conv_kernel: tokens the convolution spans.

    Returns:
        The mixer; its state is a key_dim by value_dim matrix per value head.

    Source: Gated DeltaNet, arXiv:2412.06464; Qwen3NextGatedDeltaNet in transformers 5.24.
    """
    keys, values = key_heads * key_dim, value_heads * value_dim
    return Recurrent(
        name="gated delta net",
        hidden=hidden,
        matrices=(
            Matrix("qkvz", hidden, 2 * keys + 2 * values),
            Matrix("ba", hidden, 2 * value_heads),
            Matrix("out", values, hidden),
        ),
        conv_channels=2 * keys + values,
        conv_kernel=conv_kernel,
        state_elements=value_heads * key_dim * value_dim,
        state_passes=3,
        other_parameters=2 * value_heads + value_dim,
    )


def mamba(
    hidden: int, *, inner: int, state: int, rank: int, conv_kernel: int, conv_bias: bool, bias: bool
) -> Recurrent:
    """Build the selective state space of Jamba (Mamba 1 with norms on its time step, B and C).

    Args:
        hidden: width of the model.
        inner: channels of the state space.
        state: state elements of a channel.
        rank: width the time steps are projected from.
        conv_kernel: tokens the convolution spans.
        conv_bias: whether the convolution has a bias.
        bias: whether the outer projections have one.

    Returns:
        The mixer.

    Source: Mamba, arXiv:2312.00752; JambaMambaMixer in transformers 5.24.
    """
    return Recurrent(
        name="Mamba",
        hidden=hidden,
        matrices=(
            Matrix("in", hidden, 2 * inner, bias),
            Matrix("x", inner, rank + 2 * state),
            Matrix("dt", rank, inner, bias=True),
            Matrix("out", inner, hidden, bias),
        ),
        conv_channels=inner,
        conv_kernel=conv_kernel,
        conv_bias=conv_bias,
        state_elements=inner * state,
        state_passes=2,
        other_parameters=inner * state + inner + rank + 2 * state,
    )


def mamba2(
    hidden: int,
    *,
    heads: int,
    head_dim: int,
    groups: int,
    state: int,
    conv_kernel: int,
    conv_bias: bool,
    bias: bool,
) -> Recurrent:
    """Build the mixer of Mamba 2, a state space, as in Bamba.

    Args:
        hidden: width of the model.
        heads: heads of the state space.
        head_dim: channels of a head.
        groups: groups that share B and C.
        state: state elements of a channel.
        conv_kernel: tokens the convolution spans.
        conv_bias: whether the convolution has a bias.
        bias: whether the projections have one.

    Returns: the mixer.

    Source: Mamba 2, arXiv:2405.21060; BambaMixer in transformers 5.24.
    """
    inner = heads * head_dim
    channels = inner + 2 * groups * state
    return Recurrent(
        name="Mamba 2",
        hidden=hidden,
        matrices=(Matrix("in", hidden, inner + channels + heads, bias), Matrix("out", inner, hidden, bias)),
        conv_channels=channels,
        conv_kernel=conv_kernel,
        conv_bias=conv_bias,
        state_elements=inner * state,
        state_passes=2,
        other_parameters=3 * heads + inner,
    )


def short_convolution(hidden: int, *, kernel: int, bias: bool) -> Recurrent:
    """Build the gated short convolution of LFM2.

    Args:
        hidden: width of the model.
        kernel: tokens it spans.
        bias: whether its projections and the convolution have a bias.

    Returns:
        The mixer; it keeps the last inputs and no other state.

    Source: Lfm2ShortConv in transformers 5.24.
    """
    return Recurrent(
        name="short convolution",
        hidden=hidden,
        matrices=(Matrix("in", hidden, 3 * hidden, bias), Matrix("out", hidden, hidden, bias)),
        conv_channels=hidden,
        conv_kernel=kernel,
        conv_bias=bias,
    )
