"""The sentences about runs: status of a job, what numbers leave open, how far prediction and measurement are apart."""

from types import SimpleNamespace
from typing import Any

import pytest

from lab import runs
from lab.view.caveats import UNTESTED, caveats
from lab.view.frames import Mark
from lab.view.gaps import peaks_text, ratios, times_text
from lab.view.job_status import ended_text, finished_text
from tests.view.points_of import point, run


def job(state: str, **changes: Any) -> Any:
    found = run(point(), point(implementation="math", peak_extra_bytes=None))
    return SimpleNamespace(
        **{"state": state, "run": found, "message": None, "seconds_running": 12.3, **changes}
    )


def test_a_finished_job_says_what_it_brought() -> None:
    text = finished_text(job("finished"))
    assert text == "Finished in 12.3 s: 2 points, 1 accepted. The table says why the others are not."
    loud = run(*(point(implementation=name, status="noisy") for name in ("naive", "math")))
    assert finished_text(job("finished", run=loud)) == (
        "Finished in 12.3 s: 2 points, 2 accepted, all of them noisy: the machine was busy."
    )


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("cancelled", "Cancelled."),
        ("crashed", "ended unexpectedly"),
        ("out_of_memory", "ran out of memory"),
        ("refused", "Not measured."),
    ],
)
def test_a_job_that_ended_early_says_why_and_what_stays(state: str, words: str) -> None:
    text = ended_text(job(state))
    assert words in text
    assert "The 2 points finished before that are kept." in text
    assert "No point was finished" in ended_text(job(state, run=None))


def test_the_measuring_sides_own_reason_goes_before_a_general_one() -> None:
    text = ended_text(job("crashed", message="The measuring process was ended from outside (SIGKILL)."))
    assert text.startswith("The measuring process was ended from outside (SIGKILL). The 2 points")


def mark(series: str, y: float, x: float = 512, predicted: float | None = None) -> Mark:
    return Mark(series, "measured", x, y, y, y, predicted)


LABELS = {"naive": "naive", "fused": "flash"}


def test_close_peaks_are_said_to_be_close() -> None:
    found = ratios([mark("naive", 100.5), mark("fused", 100)], "measured", LABELS, lambda _: 100)
    assert peaks_text(found, "this machine") == (
        "**This machine:** all 2 measured peaks are within 0.5 % of the prediction."
    )


@pytest.mark.parametrize(
    ("height", "words"), [(100, "exactly as predicted"), (100.01, "in every digit shown")]
)
def test_peaks_that_differ_by_nothing_to_be_seen_are_not_told_in_percent(height: float, words: str) -> None:
    found = ratios([mark("naive", height)], "measured", LABELS, lambda _: 100)
    assert words in peaks_text(found, "this machine")
    assert "%" not in peaks_text(found, "this machine")


def test_the_farthest_peak_is_named() -> None:
    found = ratios([mark("naive", 100), mark("fused", 160, 1024)], "measured", LABELS, lambda _: 100)
    assert "1 of 2" in peaks_text(found, "this machine")
    assert "flash at T = 1k: 1.6 times" in peaks_text(found, "this machine")


def test_a_points_own_prediction_goes_before_the_line() -> None:
    (found,) = ratios([mark("naive", 100, predicted=50)], "measured", LABELS, lambda _: 100)
    assert found.value == 2


def test_times_are_given_as_multiples_of_the_bound() -> None:
    found = ratios([mark("naive", 3), mark("naive", 2), mark("fused", 0.5)], "measured", LABELS, lambda _: 1)
    text = times_text(found, "this machine", "Reasons.")
    assert "naive: 2 to 3; flash: 0.5" in text
    assert "stayed in a cache" in text
    assert "stayed in a cache" not in times_text(found[:2], "this machine", "Reasons.")


def test_nothing_measured_is_said_so() -> None:
    assert peaks_text([], "this machine") == "Nothing measured on this machine fits this scenario."
    assert times_text([], "this machine", "") == "Nothing measured on this machine fits this scenario."


def test_the_limits_follow_the_run_that_is_shown() -> None:
    plain = caveats([(run(point()), "this machine")], ("scaling",))
    assert "other than those measured (this machine, 12 heads of 64);" in plain
    twice = caveats([(run(point()), "this machine"), (run(point(heads=24)), "this machine")], ("scaling",))
    assert "(this machine, 12 heads of 64, 24 heads of 64 on 12 KV heads)" in twice
    assert "No FlashAttention kernel ran on this machine." in plain
    flash = run(point(implementation="flash", kernel="flash_fwd_kernel", heads=32, kv_heads=8, head_dim=128))
    with_flash = caveats([(flash, "this machine")], ("scaling",))
    assert "32 heads of 128 on 8 KV heads" in with_flash
    assert "No FlashAttention" not in with_flash
    assert caveats([], ("scaling",)).startswith("Predictions only")


def test_what_a_run_shows_is_not_called_open() -> None:
    model, window = point(experiment="model"), point(experiment="windowed", variant="window 256")
    outliers = point(experiment="accuracy", variant="outlier channels")
    opened = {
        "model": (model, "the kernel inside a model"), "windowed": (window, "a mask beyond the causal one"),
        "accuracy": (outliers, "inputs that are not random"),
    }  # fmt: skip
    for experiment, (found, phrase) in opened.items():
        assert phrase not in caveats([(run(found), "this machine")], (experiment,))
        assert phrase in caveats([(run(point()), "this machine")], ("scaling",))
    table = caveats([(runs.reference_runs()[0], "the chapter's card")], ("model",))
    assert "any device" not in table
    assert "the kernel inside a model" not in table
    assert "(the chapter's card, a table without samples)" in table


def test_a_hypothesis_is_called_untested_until_it_was_tested() -> None:
    assert UNTESTED in caveats([(run(point(experiment="decode")), "this machine")], ("decode", "split_kv"))
    assert UNTESTED not in caveats([(run(point(experiment="split_kv")), "here")], ("decode", "split_kv"))
    assert UNTESTED not in caveats([(run(point()), "this machine")], ("scaling",))


def test_many_shapes_are_told_by_their_ranges() -> None:
    found = caveats(
        [(run(*(point(head_dim=width) for width in (8, 64, 65, 512))), "this machine")], ("scaling",)
    )
    assert "(this machine, 4 shapes (12 heads, 12 KV heads, 8 to 512 wide))" in found
