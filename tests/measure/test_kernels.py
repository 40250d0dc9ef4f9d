"""What ran is named from the trace, on the CPU by operator and elsewhere by kernel; refusals keep their words."""

from dataclasses import replace

import pytest
import torch
from measured_shapes import SHAPES, draw
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from lab.cost.calls import AttentionCall
from lab.measure import kernels
from lab.measure.attention import sdpa
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.kernels import (
    attempt,
    backend_of,
    is_out_of_memory,
    kernel_name,
    mismatch,
    observe,
    reason_text,
    shorten,
)
from lab.measure.trace import Trace, record

FLASH = "_scaled_dot_product_flash_attention_for_cpu"
MATH = "_scaled_dot_product_attention_math"


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    ("name", "kernel", "backend"),
    [
        ("flash", FLASH, "flash"),
        ("math", MATH, "math"),
        ("sdpa", FLASH, "flash"),
        ("naive", "bmm + mul + masked_fill + masked_fill_ + _softmax", None),
        ("naive_inplace", "bmm + mul_ + masked_fill_ + _softmax", None),
    ],
)
def test_the_kernel_that_ran_is_named(name: str, kernel: str, backend: str | None, dtype: str) -> None:
    q, k, v = draw(SHAPES["square"], dtype)
    seen = observe(lambda: IMPLEMENTATIONS[name].function(q, k, v, causal=True), "cpu")
    assert seen == (kernel, backend)


@pytest.mark.parametrize("shape", SHAPES)
def test_default_dispatch_is_seen_to_be_flash_on_a_cpu(shape: str) -> None:
    q, k, v = draw(SHAPES[shape], "fp32")
    assert observe(lambda: sdpa(q, k, v, causal=True), "cpu") == (FLASH, "flash")


def test_a_silent_fall_back_to_math_is_seen() -> None:
    """Values wider than queries: the default dispatch gives no error, another kernel runs."""
    q, k, _ = draw(SHAPES["square"], "fp32")
    v = torch.randn(*k.shape[:3], 96)
    assert observe(lambda: sdpa(q, k, v, causal=True), "cpu") == (MATH, "math")


def test_a_backend_that_does_not_exist_here_is_refused_in_pytorchs_words() -> None:
    q, k, v = draw(SHAPES["square"], "fp32")
    for backend in ("efficient", "cudnn"):
        output, reason = attempt(lambda backend=backend: sdpa(q, k, v, backend=backend, causal=True))
        assert output is None
        assert reason.startswith("No viable backend for scaled_dot_product_attention was found")


def test_a_refusal_keeps_the_reason_and_drops_the_place_in_the_source() -> None:
    q, k, v = (tensor[0] for tensor in draw(SHAPES["square"], "fp32"))  # 3-D: flash takes 4-D alone

    def flash() -> torch.Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(q, k, v)

    _, reason = attempt(flash)
    assert "requires query, key and value to be 4 dimensional, but got Query dim: 3" in reason
    assert reason.startswith("Flash attention kernel not used because:")
    assert reason.endswith("No available kernel. Aborting execution.")
    assert "Triggered internally" not in reason


def test_what_works_has_no_reason() -> None:
    output, reason = attempt(lambda: 7)
    assert (output, reason) == (7, None)


def test_reasons_as_cuda_gives_them() -> None:
    said = [
        "Memory efficient kernel not used because: (Triggered internally at /w/sdp_utils.cpp:775.)",
        "Memory Efficient attention has been runtime disabled. (Triggered internally at /w/x.cpp:550.)",
        "Flash attention kernel not used because: (Triggered internally at /w/sdp_utils.cpp:777.)",
        "Flash attention only supports gpu architectures in the range [sm80, sm121]. (Triggered internally at x.)",
        "CuDNN attention kernel not used because: (Triggered internally at /w/sdp_utils.cpp:779.)",
    ]
    assert reason_text(said, RuntimeError("No available kernel.  Aborting execution.")) == (
        "Memory efficient kernel not used because: Memory Efficient attention has been runtime disabled. "
        "Flash attention kernel not used because: "
        "Flash attention only supports gpu architectures in the range [sm80, sm121]. "
        "No available kernel. Aborting execution."
    )


@pytest.mark.parametrize(
    ("kernel", "short"),
    [
        (
            "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>, true>(Flash_fwd_params)",
            "flash_fwd_kernel",
        ),
        (
            "fmha_cutlassF_f16_aligned_64x64_rf_sm75(PyTorchMemEffAttention::AttentionKernel<>::Params)",
            "fmha_cutlassF_f16_aligned_64x64_rf_sm75",
        ),
        (
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7",
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7",
        ),
        ("void at::native::vectorized_elementwise_kernel<4, Mul>(int, Mul)", "elementwise"),
        (
            "void at::native::(anonymous namespace)::softmax_warp_forward<float>(float*)",
            "softmax_warp_forward",
        ),
        (
            "ampere_fp16_s16816gemm_fp16_128x64_ldg8_stages_64x4_nn",
            "ampere_fp16_s16816gemm_fp16_128x64_ldg8_stages_64x4_nn",
        ),
    ],
)
def test_an_accelerators_kernel_keeps_what_tells(kernel: str, short: str) -> None:
    assert shorten(kernel) == short


def test_an_accelerators_kernels_outrank_the_operators() -> None:
    trace = Trace(
        ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_efficient_attention"),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm75(Params)",),
        0,
    )
    assert kernel_name(trace) == "fmha_cutlassF_f16_aligned_64x64_rf_sm75"
    assert backend_of(trace) == "efficient"


SDPA = ("aten::scaled_dot_product_attention",)


@pytest.mark.parametrize(
    ("operators", "launched", "backend"),
    [
        (SDPA, ("void pytorch_flash::flash_fwd_kernel<T, true>(Flash_fwd_params)",), "flash"),
        (SDPA, ("void pytorch_flash::flash_fwd_splitkv_kernel<T>(Flash_fwd_params)",), "flash"),
        (SDPA, ("void flash::FlashAttnFwdSm90<T>(Params)",), "flash"),
        (SDPA, ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(Params)",), "efficient"),
        (SDPA, ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7",), "cudnn"),
        (SDPA, ("ampere_fp16_s16816gemm_fp16_128x64", "softmax_warp_forward<float>(float*)"), "math"),
        ((), ("ampere_fp16_s16816gemm_fp16_128x64", "softmax_warp_forward<float>(float*)"), None),
        ((*SDPA, "aten::_scaled_dot_product_efficient_attention"), ("attn_fwd.kd",), "efficient"),
        # what ran outranks what the operator is called
        (
            (*SDPA, "aten::_scaled_dot_product_cudnn_attention"),
            ("void pytorch_flash::flash_fwd_kernel<T>(P)",),
            "flash",
        ),
    ],
)
def test_a_cards_kernels_tell_the_backend(operators, launched, backend) -> None:
    assert backend_of(Trace(operators, launched, 0)) == backend


def test_another_backend_than_the_one_asked_for_is_said() -> None:
    assert mismatch("flash", "math") == "flash was asked for, math ran"
    assert mismatch("flash", "flash") is None
    assert mismatch("sdpa", "math") is None
    assert mismatch("naive", None) is None


def test_running_out_of_memory_is_no_refusal() -> None:
    def too_much() -> torch.Tensor:
        return torch.empty(2**60)

    with pytest.raises(RuntimeError) as caught:
        attempt(too_much)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
    assert not is_out_of_memory(ValueError("can't allocate memory"))


def test_recording_prints_nothing(capfd) -> None:
    record(lambda: torch.ones(4) + 1)
    assert capfd.readouterr() == ("", "")


def test_names_are_known_to_torch() -> None:
    """A renamed operator would leave points without a kernel: every CPU name must exist in this torch."""
    for name in (FLASH, MATH):
        assert f"aten::{name}" in kernels.SDPA_OPERATORS
        assert hasattr(torch.ops.aten, name)


@pytest.mark.parametrize(
    ("backend", "length", "device", "refused"),
    [("efficient", 65_537, "cuda", True), ("efficient", 65_536, "cuda", False), ("flash", 131_072, "cuda", False),
     (None, 131_072, "cuda", False), ("efficient", 131_072, "cpu", False)],
)  # fmt: skip
def test_what_is_silently_wrong_is_refused_whoever_dispatched_to_it(
    backend: str | None, length: int, device: str, refused: bool
) -> None:
    call = AttentionCall(
        batch=1, heads=1, kv_heads=1, q_len=length, kv_len=length, head_dim=8, dtype="fp16", causal=True
    )
    said = kernels.beyond_limit(backend, call, device)
    assert (said is not None) is refused
    assert kernels.beyond_limit(backend, replace(call, causal=False), device) is None
