"""The modes that make operators of the CPU those of a card: SDPA's choice of a backend, and kernels with names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from cuda_double import Card

GEMM = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_stages_64x4_nn"
SOFTMAX = "void at::native::(anonymous namespace)::softmax_warp_forward<c10::Half, float>(c10::Half*)"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>(int)"
FUSED = {
    "flash": "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>(Flash_fwd_params)",
    "efficient": "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)",
    "cudnn": "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64",
}
HEADLINES = {
    "efficient": "Memory efficient kernel not used because:",
    "flash": "Flash attention kernel not used because:",
    "cudnn": "CuDNN attention kernel not used because:",
}
TURING = "Flash attention only supports gpu architectures in the range [sm80, sm121]. Attempting on sm 7.5."
NO_MASK = "Flash Attention does not support non-null attn_mask."


def attention(card: Card, function: Callable, q: torch.Tensor, *others: Any, **options: Any) -> torch.Tensor:
    """Choose a backend as PyTorch does on a card, or refuse in its words."""
    flags = torch.backends.cuda
    allowed = {
        "flash": flags.flash_sdp_enabled(),
        "efficient": flags.mem_efficient_sdp_enabled(),
        "math": flags.math_sdp_enabled(),
        "cudnn": flags.cudnn_sdp_enabled(),
    }
    refused = dict(card.refuses)
    if options.get("attn_mask") is not None:
        refused["flash"] = NO_MASK
    chosen = next((name for name, on in allowed.items() if on and name not in refused), None)
    if chosen is None:
        for name, headline in HEADLINES.items():
            warnings.warn(f"{headline} (Triggered internally at /w/sdp.cpp:1.)", stacklevel=2)
            if allowed[name]:
                warnings.warn(f"{refused[name]} (Triggered internally at /w/sdp.cpp:2.)", stacklevel=2)
        raise RuntimeError("No available kernel. Aborting execution.")
    card.running = chosen
    with sdpa_kernel(SDPBackend.MATH if chosen == "math" else SDPBackend.FLASH_ATTENTION):
        return function(q, *others, **options)


class Dispatch(TorchFunctionMode):
    """Sends scaled_dot_product_attention to the card's choice of a backend."""

    def __init__(self, card: Card) -> None:
        super().__init__()
        self._card = card

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            return attention(self._card, func, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


class Launches(TorchDispatchMode):
    """Counts each operator that makes or changes a tensor as a kernel of the card."""

    def __init__(self, card: Card) -> None:
        super().__init__()
        self._card = card

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if "scaled_dot_product" in name and self._card.running == "math":
            with self:  # the math backend is a row of kernels
                return func.decompose(*args, **(kwargs or {}))
        output = func(*args, **(kwargs or {}))
        if not func.is_view:
            for tensor in tree_leaves(output):
                if isinstance(tensor, torch.Tensor):
                    self._card.take(tensor)
            self._card.launch(self._kernel(name))
        return output

    def _kernel(self, name: str) -> str:
        if "scaled_dot_product" in name:
            return FUSED[self._card.running or "flash"]
        if name in ("matmul", "bmm", "mm", "baddbmm"):
            return GEMM
        return SOFTMAX if "softmax" in name else ELEMENTWISE
