import pytest

from lab.cost.limits import BIAS_STRIDE, MASK_OFFSETS, kernel_limit


def efficient(q_len, kv_len, *, heads=1, causal=False, bias=False, device="cuda"):
    return kernel_limit(
        "efficient", heads=heads, q_len=q_len, kv_len=kv_len, causal=causal, bias=bias, device=device
    )


def test_the_efficient_kernel_is_right_up_to_65536_masked_tokens_and_wrong_past_them():
    assert efficient(65_536, 65_536, causal=True) is None
    assert efficient(65_537, 65_537, causal=True).effect == "wrong"
    assert efficient(65_537, 65_537, bias=True).effect == "wrong"
    assert MASK_OFFSETS == 65_536**2


def test_without_a_mask_length_is_no_limit():
    assert efficient(100_000, 100_000) is None


def test_a_decode_step_stays_far_below_the_offset_limit():
    assert efficient(1, 1_000_000, causal=True) is None


def test_a_bias_whose_stride_needs_more_than_32_bits_is_refused():
    assert BIAS_STRIDE == 32 * 8192 * 8192
    assert efficient(8192, 8192, heads=32, bias=True).effect == "refused"
    assert efficient(4096, 4096, heads=32, bias=True) is None
    assert efficient(8192, 8192, heads=32, causal=True) is None


@pytest.mark.parametrize("implementation", ["flash", "math", "naive", "cudnn"])
def test_other_implementations_have_no_such_limit(implementation):
    assert kernel_limit(implementation, heads=1, q_len=70_000, kv_len=70_000, causal=True) is None


def test_the_limit_is_of_the_cuda_kernel():
    assert efficient(70_000, 70_000, causal=True, device="cpu") is None
    assert efficient(70_000, 70_000, causal=True, device="cuda:1") is not None


def test_a_broken_limit_names_the_numbers_and_its_source():
    broken = efficient(70_000, 70_000, causal=True)
    assert "70,000 x 70,000" in broken.reason
    assert "162588" in broken.source


@pytest.mark.parametrize("name", ["heads", "q_len", "kv_len"])
def test_sizes_below_one_are_refused(name):
    sizes = {"heads": 1, "q_len": 1, "kv_len": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, got 0"):
        kernel_limit("efficient", **sizes, causal=True)
