"""Training: FLOPs against PyTorch's counter, stored activations against what autograd really keeps."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from lab.cost.activations import stored_activations
from lab.cost.budget import budget
from lab.cost.catalog import model
from lab.cost.layers import Attention, FeedForward
from lab.cost.recurrent import short_convolution
from lab.cost.shapes import LayerKind, decode, prefill
from lab.cost.training import backward_bytes, training_budget
from tests.cost import tiny_models

BATCH, LENGTH = 2, 24
WORK = prefill(BATCH, LENGTH, "fp32", causal=False)
SQUARE = tiny_models.shape([tiny_models.layer(tiny_models.attention(4), tiny_models.dense())], (0, 0, 0))


class PlainBlock(nn.Module):
    """One layer as plain PyTorch modules write it."""

    def __init__(self, attention: Attention, block: FeedForward, *, fused: bool, dropout: float) -> None:
        super().__init__()
        self.attention, self.fused, self.dropout, self.gated = attention, fused, dropout, block.gated
        hidden, heads = attention.hidden, attention.heads
        self.norms = nn.ModuleList([nn.LayerNorm(hidden), nn.LayerNorm(hidden)])
        self.q = nn.Linear(hidden, heads * attention.head_dim)
        self.k = nn.Linear(hidden, attention.kv_heads * attention.head_dim)
        self.v = nn.Linear(hidden, attention.kv_heads * attention.head_dim_v)
        self.out = nn.Linear(heads * attention.head_dim_v, hidden)
        self.gate = nn.Linear(hidden, block.intermediate)
        self.up = nn.Linear(hidden, block.intermediate)
        self.down = nn.Linear(block.intermediate, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop(self.out(self.attend(self.norms[0](x))))
        y = self.norms[1](x)
        inner = functional.silu(self.gate(y)) * self.up(y) if self.gated else functional.gelu(self.up(y))
        return x + self.drop(self.down(inner))

    def drop(self, x: torch.Tensor) -> torch.Tensor:
        """Drop out with a mask of a byte an element, as on CUDA (functional.dropout on a CPU keeps floats)."""
        return torch.native_dropout(x, self.dropout, True)[0] if self.dropout else x

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        shape = (*x.shape[:2], -1, self.attention.head_dim)
        q, k, v = (projection(x).view(shape).transpose(1, 2) for projection in (self.q, self.k, self.v))
        if self.fused:
            heads = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        else:
            scores = q @ k.transpose(-2, -1) * self.attention.head_dim**-0.5
            heads = self.drop(scores.softmax(-1)) @ v
        return heads.transpose(1, 2).flatten(2)


def kept_bytes(block: PlainBlock) -> int:
    """Sum the distinct tensors that autograd keeps, parameters and row statistics of norms apart."""
    owned = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in owned:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(torch.randn(BATCH, LENGTH, 64, requires_grad=True))
    row_statistics = 2 * 2 * BATCH * LENGTH * 4  # mean and deviation of two norms
    del output
    return sum(kept.values()) - row_statistics


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("kv_heads", [2, 4])
def test_fused_activations_equal_what_autograd_keeps(gated: bool, kv_heads: int) -> None:
    attention, block = tiny_models.attention(kv_heads), tiny_models.dense(gated=gated)
    shape = tiny_models.shape([tiny_models.layer(attention, block)], (0,))
    plain = PlainBlock(attention, block, fused=True, dropout=0.0)
    assert stored_activations(shape, WORK).layer_bytes == kept_bytes(plain)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_materialised_activations_equal_what_autograd_keeps(gated: bool, dropout: float) -> None:
    attention, block = tiny_models.attention(4), tiny_models.dense(gated=gated)
    shape = tiny_models.shape([tiny_models.layer(attention, block)], (0,))
    plain = PlainBlock(attention, block, fused=False, dropout=dropout)
    stored = stored_activations(shape, WORK, attention="materialised", dropout=dropout > 0)
    assert stored.layer_bytes == kept_bytes(plain)


@pytest.mark.parametrize(("length", "heads", "head_dim"), [(128, 12, 64), (2048, 96, 128)])
def test_gpt_in_16_bits_keeps_34_sbh_plus_5_as2b(length: int, heads: int, head_dim: int) -> None:
    """Korthikanti et al., arXiv:2205.05198, equations 1 and 6."""
    hidden = heads * head_dim
    kind = LayerKind(
        attention=Attention(
            hidden=hidden, heads=heads, kv_heads=heads, head_dim=head_dim, head_dim_v=head_dim
        ),
        feed_forward=FeedForward(hidden=hidden, intermediate=4 * hidden, gated=False),
        norm_parameters=0,
    )
    shape = replace(
        tiny_models.shape([tiny_models.layer(tiny_models.attention(4), tiny_models.dense())], (0,))
    )
    shape = replace(shape, hidden=hidden, kinds=(kind,))
    options = {"attention": "materialised", "dropout": True}
    work = prefill(3, length, "fp16")
    whole = stored_activations(shape, work, **options).layer_bytes
    assert whole == 34 * length * 3 * hidden + 5 * heads * length**2 * 3
    selective = stored_activations(shape, work, checkpointing="attention", **options).layer_bytes
    assert selective == 34 * length * 3 * hidden
    full = stored_activations(shape, work, checkpointing="full", **options)
    assert full.layer_bytes == 2 * length * 3 * hidden
    assert full.recomputing_bytes == whole


@pytest.mark.parametrize("name", ["GQA", "GPT-2", "mixture", "MLA"])
def test_forward_and_backward_equal_the_flop_counter(name: str) -> None:
    shape, module = tiny_models.MODELS[name]()
    ids = torch.randint(0, tiny_models.VOCAB, (BATCH, LENGTH))
    with FlopCounterMode(display=False) as counter:
        module(ids, use_cache=False).logits.sum().backward()
    step = training_budget(shape, WORK, attention="materialised")
    assert step.total_flops == 3 * step.forward_flops == counter.get_total_flops()


@pytest.mark.parametrize("name", ["GQA", "GPT-2"])
def test_full_checkpointing_runs_every_layer_forward_once_more(name: str) -> None:
    """PyTorch can stop a recomputation early, when all that was kept is back: that saves the last product."""
    shape, module = tiny_models.MODELS[name]()
    module.gradient_checkpointing_enable({"use_reentrant": False})
    ids = torch.randint(0, tiny_models.VOCAB, (BATCH, LENGTH))
    with set_checkpoint_early_stop(False), FlopCounterMode(display=False) as counter:
        module.train()(ids, use_cache=False).logits.sum().backward()
    step = training_budget(shape, WORK, attention="materialised", checkpointing="full")
    assert step.recomputed_flops == step.forward_flops - step.forward.lm_head_flops
    assert step.total_flops == counter.get_total_flops()


def test_fused_attention_computes_five_products_backward_for_two_forward() -> None:
    materialised = training_budget(SQUARE, WORK, attention="materialised")
    fused = training_budget(SQUARE, WORK, attention="fused")
    core = budget(SQUARE, WORK).core_flops
    assert 2 * (fused.backward_flops - materialised.backward_flops) == core
    again = training_budget(SQUARE, WORK, attention="materialised", checkpointing="attention")
    assert again.recomputed_flops == core


@pytest.mark.parametrize(
    ("widths", "fused"), [((64, 64), Fraction(7, 2)), ((192, 128), 3 + Fraction(192, 320))]
)
def test_attention_of_both_passes_over_forward_is_3_and_a_fused_kernel_forms_scores_again(
    widths: tuple[int, int], fused: Fraction
) -> None:
    heads = replace(tiny_models.attention(4), head_dim=widths[0], head_dim_v=widths[1])
    shape = tiny_models.shape([tiny_models.layer(heads, tiny_models.dense())], (0, 0))
    assert training_budget(shape, WORK, attention="materialised").core_factor == 3
    assert training_budget(shape, WORK, attention="fused", checkpointing="full").core_factor == fused


@pytest.mark.parametrize("kv_heads", [1, 4])
def test_output_and_gradients_weigh_what_autograd_writes(kv_heads: int) -> None:
    q = torch.randn(BATCH, 4, LENGTH, 16, requires_grad=True)
    k, v = (torch.randn(BATCH, kv_heads, LENGTH, 16, requires_grad=True) for _ in range(2))
    output = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    written = (output, *torch.autograd.grad(output.sum(), (q, k, v)))
    counted = backward_bytes(BATCH, 4, kv_heads, LENGTH, 16, 4)
    assert counted == sum(tensor.nbytes for tensor in written)
    assert counted == 2 * BATCH * (4 + kv_heads) * LENGTH * 16 * 4


def test_kept_activations_of_gpt2_are_mostly_probabilities_until_they_are_fused() -> None:
    gpt2, work = model("gpt2"), prefill(1, 1024, "fp16")
    materialised = stored_activations(gpt2, work, attention="materialised")
    fused = stored_activations(gpt2, work)
    assert materialised.layer_bytes - fused.layer_bytes == 12 * (12 * 1024 * 1024 * 2 - 12 * 1024 * 4)
    assert fused.layer_bytes < materialised.layer_bytes / 1.5
    assert fused.peak_bytes == fused.layer_bytes + 1024 * (2 * 768 * 2 + 4 * 50257)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: training_budget(SQUARE, WORK, attention="flash"),
            "attention must be one of materialised, fused",
        ),
        (
            lambda: training_budget(SQUARE, WORK, checkpointing="some"),
            "checkpointing must be one of none, attention",
        ),
        (lambda: training_budget(SQUARE, decode(1, 8, "fp32")), "q_len must be the context in training"),
        (lambda: stored_activations(SQUARE, decode(1, 8, "fp32")), "q_len must be the context in training"),
    ],
)
def test_no_training_step_is_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_layers_whose_activations_are_not_modelled_are_refused() -> None:
    mixer = short_convolution(64, kernel=3, bias=False)
    kind = LayerKind(attention=None, recurrent=mixer, feed_forward=tiny_models.dense(), norm_parameters=0)
    hybrid = tiny_models.shape([*SQUARE.kinds, kind], (0, 1))
    with pytest.raises(ValueError, match="model 'tiny' has layers whose stored activations are not modelled"):
        stored_activations(hybrid, WORK)
