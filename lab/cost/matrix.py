"""A weight matrix, from whose size both its parameters and its FLOPs follow."""

from __future__ import annotations

from typing import NamedTuple


def require_count(owner: str, name: str, value: object, minimum: int = 1) -> None:
    """Refuse anything but a whole number of at least `minimum`.

    Args:
        owner: what the value belongs to, for the sentence.
        name: the argument's name.
        value: what was given.
        minimum: the smallest value allowed.

    Raises:
        ValueError: one sentence with the argument, the value and what is allowed.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{owner}: {name} must be a whole number of at least {minimum}, got {value!r}.")


class Matrix(NamedTuple):
    """One kind of weight matrix: `copies` of them are stored, `active` of them are used for a token."""

    name: str
    inputs: int
    outputs: int
    bias: bool = False
    copies: int = 1
    active: int = 1

    @property
    def weights(self) -> int:
        """Weights of one copy, without its bias."""
        return self.inputs * self.outputs

    @property
    def parameters(self) -> int:
        """Weights and biases of all copies."""
        return self.copies * (self.weights + self.bias * self.outputs)

    @property
    def active_parameters(self) -> int:
        """Weights and biases of the copies that one token uses."""
        return self.active * (self.weights + self.bias * self.outputs)

    @property
    def flops_per_token(self) -> int:
        """FLOPs of the product for one token: a multiply-add is 2, the bias is not counted."""
        return 2 * self.active * self.weights
