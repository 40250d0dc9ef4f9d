"""Predictions: each term's price by hand, what they are made of, and what they refuse."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cost.calls import IMPLEMENTATIONS
from lab.cost.formulas import attention_flops
from lab.cost.prediction import predict_attention
from lab.cost.prediction_terms import (
    ARITHMETIC,
    BANDWIDTH,
    ELEMENTS,
    KINDS,
    LAUNCH,
    elementwise_seconds,
)
from lab.cost.traffic import operations
from tests.cost.calibrations import constant, cpu, plain, promoting

SHAPE = {"batch": 1, "heads": 12, "kv_heads": 12, "q_len": 512, "kv_len": 512, "head_dim": 64, "causal": True}
SCORES = 12 * 512 * 512
MATERIALISING = ("naive", "naive_inplace", "math")


def shape(**changes) -> dict:
    return {**SHAPE, **changes}


def terms_of(implementation: str, calibration, **changes) -> dict:
    return {
        term.name: term for term in predict_attention(implementation, calibration, **shape(**changes)).terms
    }


@pytest.mark.parametrize("implementation", MATERIALISING)
@pytest.mark.parametrize("causal", [False, True])
def test_materialising_implementations_have_one_term_per_operation(implementation: str, causal: bool) -> None:
    calibration = promoting()
    prediction = predict_attention(implementation, calibration, **shape(causal=causal))
    steps = operations(implementation, **shape(causal=causal), dtype="bf16")
    assert [term.name for term in prediction.terms] == [step.name for step in steps]
    assert [term.flops for term in prediction.terms] == [step.flops for step in steps]
    assert [term.bytes_moved for term in prediction.terms] == [s.read_bytes + s.written_bytes for s in steps]
    assert prediction.seconds == pytest.approx(sum(term.seconds for term in prediction.terms))


@pytest.mark.parametrize("implementation", MATERIALISING)
def test_every_elementwise_pass_has_a_micro_benchmark_and_elements(implementation: str) -> None:
    for dtype, kv_heads, q_len in itertools.product(("fp32", "bf16"), (12, 4), (1, 128, 512)):
        calibration = promoting() if dtype == "bf16" else cpu()
        sizes = {
            "kv_heads": kv_heads,
            "q_len": q_len,
        }  # with fewer queries than keys the math kernel gets a mask
        for step in operations(implementation, **shape(**sizes), dtype=dtype):
            assert step.flops or step.name in KINDS
        for term in terms_of(implementation, calibration, **sizes).values():
            assert (term.elements > 0) == (term.flops == 0)


def test_without_measured_rates_a_product_is_arithmetic_plus_traffic() -> None:
    term = terms_of("naive", plain())["QKᵀ"]
    moved = (2 * 12 * 512 * 64 + SCORES) * 4
    assert term.bytes_moved == moved
    assert term.seconds == pytest.approx(2 * SCORES * 64 / 1e12 + moved / 1e11)
    assert term.limited_by == ARITHMETIC


def test_without_measured_rates_a_pass_is_its_bytes() -> None:
    term = terms_of("naive", plain())["softmax"]
    assert term.seconds == pytest.approx(2 * 4 * SCORES / 1e11)
    assert term.limited_by == BANDWIDTH


def test_measured_products_and_passes_are_priced_at_their_own_rates_and_a_start() -> None:
    terms = terms_of("naive", cpu())
    assert terms["QKᵀ"].seconds == pytest.approx(2 * SCORES * 64 / 5e11 + 1e-6)
    assert terms["PV"].seconds == pytest.approx(2 * SCORES * 64 / 4e11 + 1e-6)
    assert terms["softmax"].seconds == pytest.approx(SCORES / 2e9 + 1e-6)
    assert terms["masked_fill: fill"].seconds == pytest.approx(SCORES / 1e9 + 1e-6)
    assert terms["masked_fill: fill"].limited_by == ELEMENTS


def test_a_pass_at_the_speed_of_memory_is_called_bandwidth() -> None:
    assert elementwise_seconds("mul", 10**6, 8 * 10**6, cpu()) == (pytest.approx(1.25e-4), ELEMENTS)
    assert elementwise_seconds("mul", 10**6, 20 * 10**6, cpu()) == (pytest.approx(1.25e-4), BANDWIDTH)


def test_a_product_takes_the_rate_of_the_nearest_head_dim_and_says_so() -> None:
    terms = terms_of("naive", cpu(), head_dim=128)
    assert terms["PV"].seconds == pytest.approx(2 * SCORES * 128 / 8e11 + 1e-6)
    prediction = predict_attention("naive", cpu(), **shape(head_dim=80))
    assert prediction.notes == ("head_dim 80 was not calibrated: the rates of 64 are used",)


def test_math_in_16_bit_is_priced_in_fp32_except_where_it_converts() -> None:
    calibration = promoting()
    calibration = replace(calibration, matmuls={}, wide=replace(calibration.wide, matmuls={}))
    term = terms_of("math", calibration)["QKᵀ"]
    assert term.seconds == pytest.approx(2 * SCORES * 64 / 5e11 + term.bytes_moved / 1e11 + 1e-6)
    with pytest.raises(ValueError, match="no calibration of test card for fp32, only for fp16"):
        predict_attention("math", plain("fp16"), **SHAPE)


def test_a_fused_kernel_is_its_tiles_on_the_busiest_slot_at_its_share() -> None:
    term = predict_attention("flash", cpu(), **SHAPE).terms[0]
    # T = 512: tiles of 64 rows by all 512 keys, six heads a thread, nothing skipped.
    work = 4 * 64 * 6 * 512 * 512
    assert term.seconds == pytest.approx(work * 2 / (0.5 * 1e12) + 1e-6)
    assert term.flops == 2 * work
    assert term.flops > attention_flops(1, 12, 512, 512, 64, True)
    assert term.name == "fused attention, tiles 64x512"


def test_a_fused_kernel_takes_the_share_of_the_nearest_tile() -> None:
    quarter = predict_attention("flash", cpu(), **shape(q_len=256, kv_len=256)).terms[0]
    assert quarter.seconds == pytest.approx(4 * 64 * 12 * 256 * 256 / (0.4 * 1e12) + 1e-6)
    long = predict_attention("flash", cpu(), **shape(q_len=1024, kv_len=1024, causal=False)).terms[0]
    assert long.seconds == pytest.approx(4 * 64 * 12 * 1024 * 1024 / (0.8 * 1e12) + 1e-6)


def test_a_fused_kernel_moves_no_score_tensor() -> None:
    for length in (512, 4096):
        term = predict_attention("efficient", plain("fp16"), **shape(q_len=length, kv_len=length)).terms[0]
        assert term.bytes_moved == 4 * 12 * length * 64 * 2  # Q, K, V and the output


def test_heads_that_do_not_fill_the_slots_cost_a_whole_round() -> None:
    calibration = plain("fp16", fused={"efficient/64x64": constant(0.5)})
    one, ten, eleven = (
        predict_attention("efficient", calibration, **shape(heads=n, kv_heads=n, q_len=64, kv_len=64)).seconds
        for n in (1, 10, 11)
    )
    assert one == pytest.approx(ten)
    assert eleven == pytest.approx(2 * one)


def test_a_data_sheet_prices_a_fused_tile_as_arithmetic_plus_its_keys_and_values() -> None:
    prediction = predict_attention("efficient", plain("fp16"), **shape(heads=10, kv_heads=10, causal=False))
    arithmetic = 4 * 64 * 10 * 512 * 512 / 1e12
    loads = 10 * (512 // 64) * 2 * 512 * 64 * 2 / 1e11
    assert prediction.seconds == pytest.approx(arithmetic + loads)
    assert prediction.notes == (
        "no share of the matmul rate is known: full rate plus every tile's keys and values",
    )


def test_a_measured_start_of_the_call_stands_for_the_starts_of_its_operations() -> None:
    without = predict_attention("naive", cpu(overhead=None), **SHAPE)
    calibration = cpu(starts={"naive masked": constant(5e-5, "s")})
    prediction = predict_attention("naive", calibration, **SHAPE)
    assert prediction.terms[-1].name == "start the call"
    assert prediction.seconds == pytest.approx(without.seconds + 5e-5)
    assert "start the call" not in terms_of("naive", calibration, causal=False)


def test_an_accelerators_start_hides_behind_the_work() -> None:
    work = predict_attention("naive", plain(), **SHAPE).seconds
    for start in (work / 2, work * 2):
        calibration = plain(starts={"naive masked": constant(start, "s")})
        assert predict_attention("naive", calibration, **SHAPE).seconds == pytest.approx(max(work, start))


def test_launches_of_an_accelerator_overlap_the_work_before() -> None:
    calibration = plain(overhead=constant(1.0, "s"))
    prediction = predict_attention("naive", calibration, **SHAPE)
    assert prediction.seconds == len(prediction.terms)
    assert prediction.limited_by == LAUNCH
    assert prediction.seconds_by_limit == {LAUNCH: pytest.approx(prediction.seconds)}


@given(
    st.sampled_from(MATERIALISING),
    st.integers(2, 600),
    st.integers(1, 600),
    st.booleans(),
    st.sampled_from([cpu(), promoting()]),
)
def test_predictions_grow_with_the_length(implementation, length, more, causal, calibration) -> None:
    short, long = (
        predict_attention(implementation, calibration, **shape(q_len=n, kv_len=n, causal=causal)).seconds
        for n in (length, length + more)
    )
    assert 0 < short < long


@pytest.mark.parametrize("implementation", [name for name in IMPLEMENTATIONS if name != "efficient"])
def test_batch_multiplies_the_work(implementation: str) -> None:
    calibration = cpu(overhead=None)
    one, four = (
        predict_attention(implementation, calibration, **shape(batch=n, causal=False)).seconds for n in (1, 4)
    )
    assert four == pytest.approx(4 * one)


@pytest.mark.parametrize(
    ("implementation", "calibration", "changes", "message"),
    [
        ("cudnn", cpu(), {}, "implementation must be one of"),
        ("efficient", cpu(), {}, "'efficient' exists only on device 'cuda'"),
        ("flash", plain(slots=None), {}, "states no slots"),
        ("flash", plain(compute_capability=None), {}, "compute_capability of test card is None: the tiles"),
        (
            "flash",
            plain(compute_capability="gfx942"),
            {},
            "is 'gfx942': the tiles of its kernels are not known",
        ),
        ("naive", cpu(), {"splits": 2}, "splits must be 1, or 2 to kv_len for a fused kernel with q_len = 1"),
        ("flash", cpu(), {"splits": 2}, "splits must be 1"),
        ("flash", cpu(), {"q_len": 1, "splits": 513}, "splits must be 1"),
        ("flash", cpu(), {"kv_heads": 5}, "kv_heads must divide heads"),
    ],
)
def test_what_cannot_be_predicted_is_refused_in_words(implementation, calibration, changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        predict_attention(implementation, calibration, **shape(**changes))
