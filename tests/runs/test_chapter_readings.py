"""A run beside the chapter's: the same figures are said to be so, and what differs is found among the terms."""

from dataclasses import replace

import pytest

from lab.cost.peaks import peak_extra_bytes
from lab.cost.prediction import predict_attention
from lab.measure.gpt2 import OUTPUTS
from lab.runs import Point, Run, Timing, default_spec, new_run, reference_runs
from lab.runs import store as runs_store
from lab.runs.readings import reading
from lab.runs.readings.chapter_memory import LAST_ROW
from lab.runs.readings.sides import chapter_side, counterpart, side_of
from lab.runs.readings.terms import most_different, nearest, peak_terms
from tests.cost.calibrations import cpu
from tests.runs.test_records import cell

CHAPTER = reference_runs()[0]
THREADS = 2


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


def run_of(*points: Point, **changes) -> Run:
    run = replace(
        new_run(default_spec(points[0].experiment)),
        environment={"device_kind": "cpu", "device_name": "test processor", "threads": THREADS},
        points=points,
    )
    return replace(run, **changes)


def peak(name: str, length: int, dtype: str) -> Point:
    shape = {"batch": 1, "heads": 12, "kv_heads": 12, "q_len": length, "kv_len": length, "head_dim": 64}
    size = peak_extra_bytes(name, **shape, dtype=dtype, causal=True, threads=THREADS)
    return cell(experiment="memory", implementation=name, dtype=dtype, timing=None, peak_extra_bytes=size,
                **shape)  # fmt: skip


def said(run: Run, experiment: str) -> list[str]:
    return reading(run)[experiment]


def test_a_peak_that_is_the_chapters_needs_no_explanation() -> None:
    sentences = said(run_of(peak("math", 16384, "bf16")), "memory")
    assert sentences[-1] == (
        "math at T = 16,384, bf16: 4.7 score tensors here, where its tensors add up to 4.7; the chapter's card, math "
        "at T = 16,384, fp16: 4.7."
    )


def test_a_peak_that_differs_names_the_tensor_that_makes_the_difference() -> None:
    wide = said(run_of(peak("math", 4096, "fp32")), "memory")[-1]
    # in fp32 nothing is promoted: scores and probabilities are one tensor each, not two; the first of the two is named
    assert wide.startswith("What differs most is “scores”: 1 score tensors here (768 MiB), 2 there (12 GiB).")
    fused = said(run_of(peak("flash", 4096, "bf16")), "memory")[-1]
    tile = 4 * 256 * (512 + 2 + 64) * THREADS
    assert f"“tiles”: {tile / (12 * 4096 * 64 * 2):.2g} outputs here" in fused


def test_where_the_tensors_are_the_same_the_rest_is_held_against_them() -> None:
    sentence = said(run_of(peak("naive", 4096, "bf16")), "memory")[-1]
    call = chapter_side().call(
        next(p for p in CHAPTER.points if p.implementation == "naive" and p.kv_len == 16384)
    )
    terms = peak_terms("naive", call)
    rest = sum(terms.values()) - 12568 * 2**20
    assert f"the chapter's figure is {rest / 2**20:.0f} MiB less" in sentence
    assert sentence.endswith("is: mask or inverted mask.")


def scaled(name: str, exponent: float) -> tuple[Point, ...]:
    return tuple(
        cell(experiment="scaling", implementation=name, dtype="fp32", q_len=T, kv_len=T,
             timing=Timing(1e-8 * T**exponent))
        for T in (1024, 2048, 4096)
    )  # fmt: skip


def test_an_exponent_is_held_against_the_chapters_with_its_range_and_the_heap() -> None:
    run = run_of(*scaled("naive", 2.31))
    sentence = said(run, "scaling")[-1]
    assert sentence.startswith(
        "naive, fp32, from 1,024 to 4,096 with a warm heap: exponent 2.31; the chapter's naive in fp32: 2.04. "
    )
    assert "lab calibrate" in sentence
    cold = replace(run, spec=replace(run.spec, warm_heap=False))
    assert "with page faults in every call: exponent 2.31" in said(cold, "scaling")[-1]


def test_with_rates_the_exponent_is_opened_into_terms() -> None:
    calibration = replace(cpu("fp32"), threads=THREADS)
    run = run_of(*scaled("naive", 2.31), ceilings={"calibrations": {"fp32": calibration.to_dict()}})
    sentence = said(run, "scaling")[-1]
    name = sentence.partition("“")[2].partition("”")[0]
    for side in (side_of(run), chapter_side()):
        for length in (1024, 4096):
            theirs = cell(experiment="scaling", implementation="naive", q_len=length, kv_len=length)
            found = side.predict(counterpart(theirs))
            assert found is not None
            share = sum(term.seconds for term in found.terms if term.name == name) / found.seconds
            assert f"{share:.1%}" in sentence


def test_rates_come_from_the_newest_calibration_kept_here() -> None:
    calibration = replace(cpu("fp32"), threads=THREADS)
    run = run_of(*scaled("naive", 2))
    runs_store.save(
        replace(run, run_id="0-calibrate", ceilings={"calibrations": {"fp32": calibration.to_dict()}})
    )
    assert "By its terms" in said(run, "scaling")[-1]
    other = replace(run, environment={**run.environment, "threads": THREADS + 1})
    assert "lab calibrate" in said(other, "scaling")[-1]


def test_a_fused_exponent_and_its_causal_ratio_follow_from_tiles() -> None:
    run = run_of(*scaled("flash", 1.7))
    assert "computes 75% and 56% of the pairs of full attention here" in said(run, "scaling")[-1]
    points = [
        cell(experiment="causal", implementation="flash", dtype="fp32", causal=mask, q_len=T, kv_len=T,
             timing=Timing(seconds))
        for T in (1024, 4096)
        for mask, seconds in ((True, 0.76), (False, 1.0))
    ]  # fmt: skip
    sentence = said(run_of(*points), "causal")[-1]
    assert "at T = 1,024, 4,096: 0.76, 0.76 here; 0.71, 0.58 for efficient on the chapter's card." in sentence
    assert "Whole tiles along the diagonal predict 0.75, 0.56 here and" in sentence
    many = {"device_kind": "cpu", "threads": 16}
    assert "predict 0.83, 0.69 here and" in said(run_of(*points, environment=many), "causal")[-1]


def test_tile_shares_are_said_only_where_every_one_is_known() -> None:
    lengths = (1024, 4096, 2**23)  # too many blocks to count in the last
    points = [
        cell(experiment="scaling", implementation="flash", q_len=T, kv_len=T, timing=Timing(1e-8 * T**1.7))
        for T in lengths
    ]
    run = run_of(*points)
    assert side_of(run).share_of_pairs(points[0]) is not None
    assert side_of(run).share_of_pairs(points[-1]) is None
    assert (
        "computes an unknown share of the pairs of full attention here, an unknown share there"
        in (said(run, "scaling")[-1])
    )


def test_the_launch_floor_is_the_devices_whatever_the_kernel_is_called() -> None:
    points = [
        cell(experiment="scaling", implementation="naive", q_len=T, kv_len=T, timing=Timing(1e-9 * T**2))
        for T in (512, 1024, 2048, 4096)  # 0.26 ms at the shortest: above a card's floor, below a CPU's
    ]
    card = run_of(*points, environment={"device_kind": "cuda"})
    for run, first in ((run_of(*points), "1,024"), (card, "512")):
        own, beside = said(run, "scaling")
        assert own == f"naive, fp32, causal: time grows as T to the 2.00 from {first} to 4,096."
        assert f"from {first} to 4,096" in beside


def test_what_a_mask_adds_is_opened_into_terms() -> None:
    calibration = replace(cpu("fp32"), threads=THREADS)
    points = [
        cell(experiment="causal", implementation="naive", dtype="fp32", causal=mask, q_len=1024, kv_len=1024,
             timing=Timing(seconds))
        for mask, seconds in ((True, 1.7), (False, 1.0))
    ]  # fmt: skip
    run = run_of(*points, ceilings={"calibrations": {"fp32": calibration.to_dict()}})
    sentence = said(run, "causal")[-1]
    shape = {"batch": 1, "heads": 12, "kv_heads": 12, "q_len": 1024, "kv_len": 1024, "head_dim": 64}
    times = [predict_attention("naive", calibration, **shape, causal=mask).seconds for mask in (True, False)]
    assert f"its terms predict {times[0] / times[1]:.2f} here" in sentence
    assert "“mask" in sentence


def whole(variant: str, peaks: tuple[int, int], dtype: str, measures: dict[str, float]) -> list[Point]:
    return [
        cell(experiment="model", implementation=name, variant=variant, dtype=dtype, q_len=1024, kv_len=1024,
             peak_extra_bytes=size * 2**20, measures=measures)
        for name, size in zip(("eager", "sdpa"), peaks, strict=True)
    ]  # fmt: skip


def test_equal_peaks_of_a_model_are_the_logits_and_unequal_ones_the_scores() -> None:
    logits = 1024 * 50257 * 2
    points = whole("all logits", (110, 110), "bf16", {"logits_bytes": float(logits)})
    points += whole("body", (60, 20), "bf16", {})
    sentences = said(run_of(*points), "model")
    listed = (f"the logits {logits / 2**20:.3g} MiB", "a layer's scores and probabilities 48 MiB",
              "a layer's feed-forward activations 6 MiB")  # fmt: skip
    assert (
        f"both attentions peak at 110 MiB; of its tensors the largest is the logits ({', '.join(listed)})"
        in (sentences[-3])
    )
    assert sentences[-2] == (
        "The chapter's card held 272 MiB at as many tokens in fp32, against 110 MiB here; what differs most is the "
        f"logits: {logits / 2**20:.3g} MiB here, {logits / 2**19:.3g} MiB in fp32."
    )
    assert "eager peaks 40 MiB above SDPA; of its tensors the largest is a layer's scores" in sentences[-1]


def test_recorded_runs_are_not_held_against_themselves() -> None:
    assert not any("the chapter's card" in text for texts in reading(CHAPTER).values() for text in texts)


def test_terms() -> None:
    assert most_different({"a": 1.0, "b": 2.0}, {"a": 1.5, "c": 0.1}) == ("b", 2.0, 0.0)
    assert nearest({"a": 1.0, "b": 3.0, "c": 3.0}, 2.9) == "b or c"
    with pytest.raises(ValueError, match="one must have one"):
        most_different({}, {})


@pytest.mark.parametrize(
    "environment",
    [
        {"device_kind": "cuda", "multiprocessors": True, "compute_capability": "fast"},
        {"device_kind": None, "multiprocessors": [2], "compute_capability": {"major": 9}},
        {"device_kind": "mps"},
        {},
    ],
)
def test_a_run_of_an_unknown_device_is_read_without_its_tiles_or_rates(
    environment: dict[str, object],
) -> None:
    points = [
        *scaled("flash", 1.7),
        *scaled("naive", 2),
        peak("naive", 512, "fp32"),
        peak("flash", 512, "bf16"),
    ]
    points += [
        cell(experiment="causal", implementation="flash", batch=2**16, heads=4096, kv_heads=4096, dtype="fp32",
             causal=mask, q_len=4096, kv_len=4096, timing=Timing(1.0))
        for mask in (True, False)
    ]  # fmt: skip
    grouped = cell(experiment="memory", implementation="efficient", kv_heads=3, peak_extra_bytes=2**20)
    found = reading(run_of(*points, grouped, environment=environment))
    assert set(found) == {"scaling", "memory", "causal"}
    assert "Whole tiles along the diagonal predict nothing here" in found["causal"][-1]


def test_one_row_in_16_bit_on_a_cpu_copies_the_lm_head() -> None:
    """As found by profiling torch 2.13: aten::bmm allocates the weights anew; fp32 does not, nor do all rows."""
    assert LAST_ROW in OUTPUTS
    weights = 50257 * 768 * 2
    narrow = said(run_of(*whole(LAST_ROW, (76, 76), "bf16", {})), "model")[-1]
    assert (
        f"largest is a copy of the LM head's weights (a copy of the LM head's weights {weights / 2**20:.3g}"
        in narrow
    )
    assert "LM head" not in said(run_of(*whole(LAST_ROW, (100, 40), "fp32", {})), "model")[-1]
    card = {"device_kind": "cuda"}
    assert (
        "LM head" not in said(run_of(*whole(LAST_ROW, (60, 40), "bf16", {}), environment=card), "model")[-1]
    )
