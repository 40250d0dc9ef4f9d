"""Hugging Face's GPT-2 with either of its attentions, and the float64 model it is held to.

The weights are those in this machine's Hugging Face cache where they are, else random ones of the same shape:
time and memory do not depend on their values, and nothing is downloaded while measuring.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lab.measure.accuracy import SAMPLED_ROWS, Form, Truth
from lab.measure.attention import float64_device

ALL, LAST, BODY = "all logits", "last row of logits", "body"
OUTPUTS = (ALL, LAST, BODY)
EAGER, SDPA = "eager", "sdpa"
RANDOM_WEIGHTS = "random weights of GPT-2's shape: they are not in this machine's Hugging Face cache"


@dataclass(frozen=True)
class Gpt2:
    """One set of weights with two attentions.

    Args:
        models: the model with each attention; they share their weights.
        warning: where the weights come from, if that is worth a word.
    """

    models: dict[str, Any]
    warning: str | None

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return self.models[EAGER].config

    def run(self, attention: str, tokens: Tensor, wanted: str) -> Tensor:
        """Compute one forward pass over a prompt.

        Args:
            attention: "eager" or "sdpa".
            tokens: (batch, length) of token numbers.
            wanted: one of `OUTPUTS`.

        Returns:
            Logits (batch, length or 1, vocab), or the body's last hidden state (batch, length, hidden).
        """
        model = self.models[attention]
        if wanted == BODY:
            hidden: Tensor = model.transformer(tokens, use_cache=False).last_hidden_state
            return hidden
        kept = 1 if wanted == LAST else 0  # 0 keeps them all
        logits: Tensor = model(tokens, use_cache=False, logits_to_keep=kept).logits
        return logits


def load(device: torch.device, dtype: torch.dtype, seed: int) -> Gpt2:
    """Load GPT-2 small, or make one of random weights.

    Args:
        device: where it runs.
        dtype: of weights and activations.
        seed: of random weights.

    Returns:
        The model with both attentions.

    Raises:
        ImportError: transformers is not installed.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    warning = None
    try:
        model = GPT2LMHeadModel.from_pretrained("gpt2", local_files_only=True, attn_implementation=EAGER)
    except OSError:
        torch.manual_seed(seed)
        model = GPT2LMHeadModel(GPT2Config())
        model.set_attn_implementation(EAGER)
        warning = RANDOM_WEIGHTS
    model = model.eval().to(device=device, dtype=dtype)
    other = sharing_weights(model)
    other.set_attn_implementation(SDPA)
    return Gpt2({EAGER: model, SDPA: other}, warning)


def sharing_weights(model: torch.nn.Module) -> Any:
    """Copy a model without its tensors: the copy's parameters are the model's own.

    Args:
        model: to copy.

    Returns:
        The copy.
    """
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def draw_tokens(vocab: int, batch: int, length: int, seed: int, device: torch.device) -> Tensor:
    """Draw a prompt.

    Args:
        vocab: token numbers there are.
        batch: sequences.
        length: tokens of each.
        seed: of the draw.
        device: where it lies.

    Returns:
        (batch, length) of token numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab, (batch, length), generator=generator).to(device)


def true_outputs(gpt2: Gpt2, tokens: Tensor) -> dict[str, Truth]:
    """Compute in float64 what each kind of output must be, logits of a sample of rows.

    Args:
        gpt2: the model; its rounded weights are promoted.
        tokens: (batch, length).

    Returns:
        The truth by kind of output, shaped (batch, 1, rows, columns).
    """
    here, where = tokens.device, float64_device(tokens.device)
    wide, tokens = copy.deepcopy(gpt2.models[EAGER]).to(where).double(), tokens.to(where)
    hidden = wide.transformer(tokens, use_cache=False).last_hidden_state
    length = tokens.shape[1]
    rows = torch.linspace(0, length - 1, min(length, SAMPLED_ROWS)).round().long()
    last = torch.tensor([length - 1])
    head = wide.lm_head.weight.T
    batch, vocab = tokens.shape[0], head.shape[1]
    shapes = {BODY: (batch, 1, *hidden.shape[1:]), ALL: (batch, 1, length, vocab), LAST: (batch, 1, 1, vocab)}
    dtype = next(gpt2.models[EAGER].parameters()).dtype
    forms = {wanted: Form(shape, dtype, here) for wanted, shape in shapes.items()}
    return {
        BODY: Truth(None, hidden[:, None], length, forms[BODY]),
        ALL: Truth(rows, (hidden[:, rows.to(hidden.device)] @ head)[:, None], length, forms[ALL]),
        LAST: Truth(None, (hidden[:, last.to(hidden.device)] @ head)[:, None], length, forms[LAST]),
    }
