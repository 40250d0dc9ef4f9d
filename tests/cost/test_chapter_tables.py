"""The attention-cost chapter's arithmetic: every printed figure equals lab.cost at printed precision.

Only what the chapter computed is here. What it measured is reference data, loaded from files elsewhere.
"""

from decimal import ROUND_HALF_UP, Decimal

import pytest

from lab.cost import attention_flops, kv_bytes, logits_bytes, score_bytes
from lab.cost.budget import budget
from lab.cost.catalog import model
from lab.cost.crossings import crossing_context
from lab.cost.serving import crossover_batch
from lab.cost.shapes import prefill, weight_bytes

MIB, GIB = 2**20, 2**30
CHAPTER_WEIGHTS_BYTES = 249e6  # "the weights of the model in fp16 are 249 MB"


def printed_size(size_bytes: int) -> str:
    """Write bytes as the chapter does: whole MiB, or GiB to one decimal, halves rounded up (2.25 is 2.3)."""
    if size_bytes < GIB:
        return f"{size_bytes / MIB:g} MiB"
    return f"{(Decimal(size_bytes) / GIB).quantize(Decimal('0.1'), ROUND_HALF_UP)} GiB"


def gpt2_cache_bytes(batch: int, context: int) -> int:
    return kv_bytes(batch, 12, 12, context, 64, 2)


@pytest.mark.parametrize(
    ("length", "printed"),
    [
        (512, "6 MiB"),
        (1024, "24 MiB"),
        (2048, "96 MiB"),
        (4096, "384 MiB"),
        (8192, "1.5 GiB"),
        (16384, "6.0 GiB"),
    ],
)
def test_score_tensor_sizes(length: int, printed: str) -> None:
    size = score_bytes(1, 12, length, length, 2)
    assert printed_size(size) == printed


@pytest.mark.parametrize(("context", "mib"), [(1024, 36), (4096, 144)])
def test_cache_of_one_sequence(context: int, mib: int) -> None:
    assert gpt2_cache_bytes(1, context) == mib * MIB


@pytest.mark.parametrize(
    ("batch", "context", "printed", "share"),
    [
        (1, 1024, "36 MiB", "15%"),
        (7, 1024, "252 MiB", "106%"),
        (16, 1024, "576 MiB", "243%"),
        (16, 4096, "2.3 GiB", "970%"),
    ],
)
def test_cache_read_per_step_and_its_share_of_the_weights(
    batch: int, context: int, printed: str, share: str
) -> None:
    size = gpt2_cache_bytes(batch, context)
    assert printed_size(size) == printed
    assert share == f"{size / CHAPTER_WEIGHTS_BYTES:.0%}"


@pytest.mark.parametrize(
    ("batch", "context", "mib"),
    [
        (1, 128, "0.4"),
        (1, 1024, "3"),
        (1, 16384, "48"),
        (16, 1024, "48"),
        (16, 16384, "768"),
        (64, 1024, "192"),
        (64, 16384, "3072"),
    ],
)
def test_cache_read_of_one_layer(batch: int, context: int, mib: str) -> None:
    size = kv_bytes(batch, 1, 12, context, 64, 2) / MIB
    assert mib == (f"{size:.1f}" if size < 1 else f"{size:g}")


@pytest.mark.parametrize("length", [1024, 2048, 4096])
def test_causal_work_ratio(length: int) -> None:
    causal, dense = (attention_flops(1, 12, length, length, 64, mask) for mask in (True, False))
    assert f"{causal / dense:.2f}" == "0.50"


def test_logits_at_1024_tokens() -> None:
    size = logits_bytes(1, 1024, 50257, 4)
    assert f"{size / 1e6:.0f} MB" == "206 MB"
    assert size / (272 * MIB) == pytest.approx(0.75, abs=0.05)  # "almost three quarters of the peak", 272 MiB


def test_transient_score_tensor_in_fp32() -> None:
    assert f"{score_bytes(1, 12, 1024, 1024, 4) / 1e6:.0f} MB" == "50 MB"


def test_decode_step_takes_about_three_million_flops() -> None:
    flops = attention_flops(1, 12, 1, 1024, 64, True)
    assert flops == 4 * 12 * 1024 * 64
    assert f"{flops / 1e6:.0f} million" == "3 million"


def test_output_of_the_fused_kernel_is_24_mib() -> None:
    output_bytes = 12 * 16384 * 64 * 2
    assert output_bytes == 24 * MIB
    assert score_bytes(1, 12, 16384, 16384, 2) * 2.05 / output_bytes == pytest.approx(500, rel=0.05)


def test_hand_count_of_the_naive_traffic() -> None:
    """Three writes and reads of the scores at 8,192: 805 million elements, 9.7 GB, 35 ms at 278 GB/s."""
    elements = score_bytes(1, 12, 8192, 8192, 1)
    six_passes = 6 * score_bytes(1, 12, 8192, 8192, 2)
    assert f"{elements / 1e6:.0f}" == "805"
    assert f"{six_passes / 1e9:.1f} GB" == "9.7 GB"
    assert f"{six_passes / 278e9 * 1e3:.0f} ms" == "35 ms"


@pytest.mark.parametrize(("length", "milliseconds", "tflops"), [(1024, 0.14, 11.7), (8192, 5.97, 17.3)])
def test_throughput_follows_from_the_causal_count(length: int, milliseconds: float, tflops: float) -> None:
    """0.14 ms is printed to two digits, so 11.7 is only pinned within that rounding."""
    flops = attention_flops(1, 12, length, length, 64, True)
    rounding = 0.005 / milliseconds
    assert flops / (milliseconds * 1e-3) / 1e12 == pytest.approx(tflops, rel=rounding + 0.05 / tflops)


def test_attention_share_of_gpt2_at_1024() -> None:
    """ "13 per cent of the matmul arithmetic of a forward pass": every pair counted, LM head included."""
    share = budget(model("gpt2"), prefill(1, 1024, "fp32", causal=False)).attention_share
    assert f"{float(share):.0%}" == "13%"


def test_cache_passes_the_weights_at_a_batch_of_about_seven() -> None:
    batch = crossover_batch(model("gpt2"), 1024, weight_bytes=CHAPTER_WEIGHTS_BYTES)
    assert 6 < batch <= 7
    assert f"{weight_bytes(model('gpt2'), 2) / 1e6:.0f} MB" == "249 MB"


def test_exercise_8_attention_reaches_half_of_gpt2() -> None:
    assert crossing_context(model("gpt2"), causal=False) == 6_703


def test_exercise_1_cache_against_seven_billion_weights() -> None:
    """Four GiB a sequence; the fourth sequence passes 14 GB of fp16 weights."""
    size = kv_bytes(1, 32, 32, 8192, 128, 2)
    assert size == 4 * GIB
    assert 3 * size < 7e9 * 2 < 4 * size
