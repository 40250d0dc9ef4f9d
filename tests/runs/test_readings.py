"""Readings: each sentence follows from the points, and none is said without them."""

from dataclasses import replace

import pytest

from lab.runs import IMPLEMENTATIONS, Point, Timing, default_spec, new_run
from lab.runs.readings import OF_DEVICE, READERS, read_points, reading
from lab.runs.suites import ALL
from tests.runs.test_records import cell


def timed(median_s: float, **changes) -> Point:
    changes = {"implementation": "naive", **changes}
    samples = tuple(median_s * (1 + 0.001 * (i - 4)) for i in range(9))
    first = changes.pop("first_call_s", None)
    return cell(timing=Timing(median_s, samples[2], samples[6], 9, samples, first), **changes)


def read(*points: Point) -> list[str]:
    run = new_run(default_spec(points[0].experiment))
    for point in points:
        run = run.with_point(point)
    return read_points(points[0].experiment, run.points, "cuda")


def at(length: int) -> dict[str, int]:
    return {"q_len": length, "kv_len": length}


def test_every_experiment_of_the_suites_is_read() -> None:
    assert set(ALL) - {"calibrate"} <= {*READERS, *OF_DEVICE}  # which has rates instead of points


@pytest.mark.parametrize("experiment", [*READERS, *OF_DEVICE])
def test_refused_points_say_nothing_but_why(experiment: str) -> None:
    points = [
        cell(experiment=experiment, implementation=name, kernel=None, status="refused", reason="no memory",
             timing=None, peak_extra_bytes=None, max_abs_error=None, tolerance=None)
        for name in IMPLEMENTATIONS
    ]  # fmt: skip
    said = read(*points)
    assert said == [] or experiment in ("backends", "mask")
    assert all("no memory" in sentence or "never ran" in sentence for sentence in said)


def test_the_exponent_is_fitted_above_the_floor_and_its_range_is_named() -> None:
    points = [timed(1e-9 * length**2, experiment="scaling", **at(length)) for length in (1024, 2048, 4096)]
    points += [timed(5e-4, experiment="scaling", **at(length)) for length in (128, 256)]
    assert read(*points) == ["naive, fp32, causal: time grows as T to the 2.00 from 1,024 to 4,096."]
    assert read(*points[:2]) == []


def test_a_noisy_fit_says_so() -> None:
    points = [timed(1e-9 * n**2, experiment="scaling", status="noisy", **at(n)) for n in (1024, 2048, 4096)]
    assert read(*points)[0].endswith("; 3 of 3 points are noisy.")


def test_causal_is_told_with_its_verdict_and_what_tiles_predict() -> None:
    seen = {"predicted_causal_over_full": 0.5625}
    points = (
        timed(0.56e-3, experiment="causal", implementation="flash", measures=seen),
        timed(1e-3, experiment="causal", implementation="flash", causal=False),
    )
    (sentence,) = read(*points)
    assert sentence.startswith("flash at T = 512, fp32: causal over full 0.56 (")
    assert sentence.endswith("), faster; its tiles predict 0.562.")


def test_a_benchmark_of_one_call_is_told_to_mislead() -> None:
    points = (
        timed(1e-3, experiment="first_call", first_call_s=6.1e-3),
        timed(2e-3, experiment="first_call", implementation="sdpa", first_call_s=1e-3),
    )
    said = read(*points)
    assert "the first call of a process takes 6.1 ms, a warm one 1 ms: 6.1 times as long." in said[0]
    assert said[-1] == "By one call each, naive over sdpa is 6.1; warm it is 0.5 (at T = 512, fp32)."


def test_a_split_is_held_against_one_part_of_the_same_code() -> None:
    common = {"experiment": "split_kv", "q_len": 1, "kv_len": 4096}
    points = [timed(9e-4, implementation="naive", **common)]
    for seconds, variant in ((8e-4, "1 part, compiled"), (7e-4, "4 parts, compiled")):
        figures = {"work_items": 12.0}
        points.append(timed(seconds, implementation="split_kv", variant=variant, measures=figures, **common))
    said = read(*points)
    assert said[0].startswith(
        "T = 4,096, fp32, compiled: 4 parts over one, 36 against 31.5 GB/s, time 0.875 ("
    )
    assert "faster; one part offers 12 pieces of work." in said[0]
    assert said[1] == "T = 4,096, fp32: the fastest of all is split_kv, 4 parts, compiled, at 36 GB/s."


def test_a_mask_that_changes_the_kernel_is_told() -> None:
    points = (
        timed(1e-3, experiment="mask", implementation="sdpa", variant="is_causal", kernel="fast"),
        timed(2e-3, experiment="mask", implementation="sdpa", variant="boolean mask", kernel="slow"),
        timed(1e-3, experiment="mask", implementation="sdpa", variant="float mask", kernel="fast"),
    )
    boolean, added = read(*points)
    assert "with a boolean mask changes to slow; time over that with is_causal 2 (" in boolean
    assert "with a float mask keeps its kernel" in added
    assert added.endswith("too close to call.")


def test_equal_peaks_name_the_logits_and_unequal_ones_the_scores() -> None:
    def pair(variant: str, peaks: tuple[int, int], figures: dict[str, float]) -> list[Point]:
        return [
            timed(1e-3, experiment="model", implementation=name, variant=variant, peak_extra_bytes=peak,
                  measures=figures)
            for name, peak in zip(("eager", "sdpa"), peaks, strict=True)
        ]  # fmt: skip

    logits = {"logits_bytes": 150.0 * 2**20, "score_bytes": 48.0 * 2**20}
    points = pair("all logits", (200 * 2**20, 199 * 2**20), logits)
    points += pair("body", (120 * 2**20, 66 * 2**20), {"score_bytes": 48.0 * 2**20})
    points += pair("last row", (100 * 2**20, 110 * 2**20), {})
    same, different, more = read(*points)
    assert "the peak rises from 100 MiB to 110 MiB" in more
    assert "the peak is the same, 200 MiB, of which the logits are 150 MiB" in same
    assert "the peak falls from 120 MiB to 66 MiB, where a score tensor is 48 MiB" in different


def test_peaks_are_told_in_score_tensors() -> None:
    (sentence,) = read(
        cell(experiment="memory", implementation="naive", timing=None, peak_extra_bytes=2 * 12582912)
    )
    assert sentence.endswith("holds 24 MiB beside its inputs: 2 score tensors of 12 MiB.")


def test_what_a_backend_said_is_repeated_once() -> None:
    points = [
        cell(experiment="backends", implementation="efficient", variant=kind, status="refused", reason="No kernel.",
             kernel=None, timing=None)
        for kind in ("causal", "full")
    ]  # fmt: skip
    points.append(cell(experiment="backends", implementation="sdpa", variant="3-D inputs", timing=None,
                       kernel="_scaled_dot_product_attention_math"))  # fmt: skip
    said = read(*points)
    assert said[:2] == ["efficient never ran.", "efficient refused (every kind): No kernel."]
    assert said[-1].endswith("took the math backend, without a word, for: 3-D inputs.")


def test_saved_bytes_and_error_of_a_stored_cache() -> None:
    plain, stored = (
        {"cache_bytes": 100.0, "rms_relative_error": 1e-3},
        {"cache_bytes": 53.0, "rms_relative_error": 9e-3},
    )
    points = (
        timed(1e-3, experiment="kv_int8", implementation="sdpa", variant="random", measures=plain),
        timed(
            1e-3, experiment="kv_int8", implementation="quantised", variant="int8, random", measures=stored
        ),
    )
    (sentence,) = read(*points)
    assert "0.53 of the bytes, error 0.009 of the output's size (0.001 without quantising)" in sentence


def test_training_grouped_heads_windows_and_decode_are_read() -> None:
    flops = [{"matmul_flops": 3.5}, {"matmul_flops": 1.0}]
    variants = ("forward and backward", "forward")
    both = [
        timed(seconds, experiment="training", variant=variant, measures=figures)
        for seconds, variant, figures in zip((2.5e-3, 1e-3), variants, flops, strict=True)
    ]
    assert "over forward alone 2.5 (" in read(*both)[0]
    assert "for 3.5 times the matmul FLOPs" in read(*both)[0]
    grouped = [timed(s, experiment="gqa", variant="decode", kv_heads=n) for s, n in ((1e-3, 12), (2.5e-4, 3))]
    assert "3 instead of 12 KV heads is 0.25 of the cache; time over time 0.25" in read(*grouped)[0]
    windows = [
        timed(1e-3, experiment="windowed", implementation="sdpa", measures={"pairs_needed": 100.0}),
        timed(3e-4, experiment="windowed", implementation="windowed", variant="window 64",
              measures={"pairs_needed": 25.0}),
    ]  # fmt: skip
    assert "time over full causal attention 0.3 (" in read(*windows)[0]
    assert read(*windows)[0].endswith("faster, for 0.25 of its pairs.")
    (sentence,) = read(timed(1e-3, experiment="decode", q_len=1, kv_len=1024))
    assert sentence == "T = 1,024, fp32: the cache of 6 MiB is read at naive 6.29 GB/s."


def test_fp32_intermediates_are_told_where_inputs_are_16_bit() -> None:
    points = [
        timed(seconds, experiment="accuracy", implementation=name, dtype="bf16", variant="random",
              measures={"rms_relative_error": error}, peak_extra_bytes=peak)
        for name, seconds, error, peak in (("naive", 1e-3, 4e-3, 100), ("naive_fp32", 2e-3, 1e-3, 196))
    ]  # fmt: skip
    (sentence,) = read(*points)
    assert "from 0.004 to 0.001 of the output's size (4.0 times less); time over time 2 (" in sentence
    assert sentence.endswith("slower; peak over peak 1.96.")


@pytest.mark.parametrize("figure", [0.0, None])
@pytest.mark.parametrize("variant", [None, "forward"])
@pytest.mark.parametrize("experiment", [*READERS, *OF_DEVICE])
def test_points_without_what_a_sentence_needs_bring_no_error(
    experiment: str, variant: str | None, figure: float | None
) -> None:
    names = (
        "matmul_flops",
        "cache_bytes",
        "pairs_needed",
        "rms_relative_error",
        "counted_flops",
        "work_items",
    )
    points = [
        timed(1e-3, experiment=experiment, implementation=name, variant=kind, heads=heads, kv_heads=heads, dtype="bf16",
              measures={} if figure is None else dict.fromkeys(names, figure))
        for name in IMPLEMENTATIONS
        for kind in (variant, "forward and backward")
        for heads in (12, 6)
    ]  # fmt: skip
    run = replace(new_run(default_spec(experiment)), points=tuple(points))
    assert "None" not in " ".join(sentence for said in reading(run).values() for sentence in said)
