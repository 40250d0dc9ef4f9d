"""Specifications, points and runs: what is allowed, how parts of a point join, what goes to JSON and back."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.runs import (
    DTYPES,
    EXPERIMENTS,
    IMPLEMENTATIONS,
    STATUSES,
    JobSpec,
    Point,
    Run,
    Timing,
    default_spec,
    from_text,
    new_run,
    to_text,
)


def cell(**changes: object) -> Point:
    fields = {
        "experiment": "scaling", "implementation": "flash", "kernel": "seen", "status": "ok", "batch": 1,
        "heads": 12, "kv_heads": 12, "q_len": 512, "kv_len": 512, "head_dim": 64, "dtype": "fp32",
        "causal": True, "timing": Timing(1e-3), "peak_extra_bytes": 100, "max_abs_error": 1e-7, "tolerance": 1e-5,
    }  # fmt: skip
    return Point(**{**fields, **changes})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("experiment", "guess", "experiment is 'guess'; it must be one of memory, scaling"),
        ("device", "tpu", "it must be auto, cpu, mps, cuda, xpu"),
        ("dtype", "fp8", "dtype is 'fp8'; it must be one of auto"),
        ("lengths", (), "lengths has 0 values"),
        ("lengths", (0,), r"lengths\[0\] is 0; it must be between 1"),
        ("lengths", (512, 512), "each value may stand there once"),
        ("batches", (1.5,), r"batches\[0\] is 1.5; it must be a whole number"),
        ("heads", True, "heads is True; it must be a whole number"),
        ("kv_heads", 5, "kv_heads is 5; it must divide heads, which is 12"),
        ("rounds", 0, "rounds is 0; it must be between 1"),
        ("implementations", ("magic",), "it must be one of naive"),
        ("causal", 1, "causal is 1; it must be true or false"),
    ],
)
def test_a_specification_refuses_in_one_sentence(field: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        JobSpec.from_dict({**JobSpec("memory").to_dict(), field: value})
    assert "\n" not in str(refusal.value)


@given(
    lengths=st.lists(st.integers(1, 2**24), min_size=1, max_size=8, unique=True),
    batches=st.lists(st.integers(1, 65_536), min_size=1, max_size=8, unique=True),
    group=st.integers(1, 16),
    kv_heads=st.integers(1, 64),
    causal=st.booleans(),
)
def test_a_specification_survives_json(
    lengths: list[int], batches: list[int], group: int, kv_heads: int, causal: bool
) -> None:
    spec = default_spec(
        "decode", lengths=lengths, batches=batches, heads=group * kv_heads, kv_heads=kv_heads, causal=causal
    )
    assert JobSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_a_point_is_accepted_only_when_complete_and_right() -> None:
    assert cell().accepted
    assert cell(status="noisy").accepted
    for missing in ("kernel", "peak_extra_bytes", "max_abs_error", "tolerance", "timing"):
        assert not cell(**{missing: None}).accepted, missing
    assert not cell(max_abs_error=1e-3).accepted
    for status in ("refused", "out_of_memory", "wrong", "cancelled", "crashed"):
        assert not cell(status=status).accepted, status
    assert cell(experiment="memory", timing=None).accepted


def test_parts_of_a_point_join_and_the_worse_status_stands() -> None:
    timed = cell(peak_extra_bytes=None, warnings=("a",))
    weighed = cell(timing=None, peak_extra_bytes=77, warnings=("a", "b"))
    both = timed.merge(weighed)
    assert (both.timing, both.peak_extra_bytes, both.warnings) == (timed.timing, 77, ("a", "b"))
    assert both.accepted
    refused = timed.merge(cell(status="refused", reason="too big", timing=None, peak_extra_bytes=None))
    assert (refused.status, refused.reason, refused.timing) == ("refused", "too big", timed.timing)
    assert cell(status="wrong", reason="inverted").merge(cell()).status == "wrong"
    with pytest.raises(ValueError, match="different cells"):
        cell().merge(cell(q_len=1))


@pytest.mark.parametrize(
    "times", [(-1.0, None, None), (math.nan, None, None), (math.inf, None, None), (1.0, 1.1, 1.2)]
)
def test_a_time_must_be_finite_and_lie_between_its_quartiles(times: tuple) -> None:
    with pytest.raises(ValueError, match="median_s"):
        Timing(*times)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"created_utc": "9999-99-99T99:99:99Z"},
            "created_utc is '9999-99-99T99:99:99Z'; it must be a UTC time",
        ),
        ({"finished_utc": "\u0662\u0660\u0662\u0666-01-01T00:00:00Z"}, "finished_utc is"),
        ({"environment": {"threads": -1}}, "environment.threads is -1; it must be between 1 and 4,096"),
        ({"environment": {"torch": {}}}, "environment.torch is {}; it must be a text"),
        ({"environment": {"device_name": "\x1b[2J"}}, r"environment.*'\\x1b\[2J'; it must hold no control"),
        ({"message": "half \udfff"}, r"message is 'half \\udfff'; it must hold no control"),
        ({"tables": {"rows": 5}}, "tables.rows is 5; it must be a list"),
        ({"tables": {"rows": [5]}}, r"tables.rows\[0\] is 5; it must be a list"),
        ({"tables": {"columns": 5}}, "tables.columns is 5; it must be a list"),
        ({"ceilings": {"flops_per_s": "x"}}, "ceilings.flops_per_s is 'x'; it must be a number"),
        ({"ceilings": {"copy_bytes_per_s": 1e308}}, r"must be finite and between 1 and 1e\+30"),
    ],
)
def test_a_run_refuses_what_no_machine_says(changes: dict, words: str) -> None:
    fields = {"run_id": "x", "spec": JobSpec("memory"), "created_utc": None, **changes}
    with pytest.raises(ValueError, match=words):
        Run(**fields)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": "\ud800"}, r"kernel is '\\ud800'; it must hold no control character"),
        ({"q_len": 513}, "kv_len is 512; with a causal mask it must be at least q_len, which is 513"),
        ({"kv_heads": 5}, "kv_heads is 5; it must divide heads, which is 12"),
        ({"batch": 2**63 - 1}, "batch is 9223372036854775807; it must be between 1 and 65,536"),
        ({"peak_extra_bytes": 0}, "peak_extra_bytes is 0; it must be between 1"),
        ({"max_abs_error": 1e308}, r"max_abs_error is 1e\+308; it must be finite and between 0 and 1e\+40"),
        ({"measures": {"cache_bytes": -1e300}}, r"measures.cache_bytes is -1e\+300; it must be finite"),
        ({"timing": {"median_s": 1e308}}, r"median_s is 1e\+308; it must be finite and between 1e-12 and 1e\+07"),
        ({"timing": {"median_s": 0.0}}, "median_s is 0.0; it must be finite and between"),
        ({"timing": {"median_s": 1.0, "samples_s": [0.0]}}, r"samples_s\[0\] is 0.0; it must be finite"),
        ({"timing": {"median_s": 1.0, "samples_s": [2.0, 3.0]}}, "median_s is 1.0; it must be the median of samples_s"),
    ],
)  # fmt: skip
def test_a_point_refuses_what_no_call_shows(changes: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cell(**changes)


def test_a_run_replaces_and_merges_points_by_cell() -> None:
    run = new_run(JobSpec("scaling")).with_point(cell(peak_extra_bytes=None)).with_point(cell(q_len=1))
    run = run.with_point(cell(timing=None))
    assert [point.q_len for point in run.points] == [512, 1]
    assert run.points[0].accepted


def test_a_run_survives_json_bit_for_bit() -> None:
    run = new_run(JobSpec("scaling")).with_point(
        cell(timing=Timing(0.1, 0.1, 0.3, 3, (0.1, 0.1, 1 / 3), 0.5, 2))
    )
    run = run.with_warning("noisy").ended("finished")
    again = from_text(to_text(run))
    assert again == run
    assert isinstance(again, Run)
    assert to_text(again) == to_text(run)


SECONDS = st.floats(1e-9, 1e6)
ERRORS = st.floats(0, 1e30)
SIZES = st.none() | st.integers(1, 2**63 - 1)
WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\~"), max_size=30)


@st.composite
def timings(draw: st.DrawFn) -> Timing:
    low, middle, high = sorted(draw(st.tuples(SECONDS, SECONDS, SECONDS)))
    samples = draw(st.just(()) | st.just((high, low, middle)))
    return Timing(
        middle, low, high, draw(st.none() | st.integers(1, 99)), tuple(samples), draw(st.none() | SECONDS)
    )


@st.composite
def runs_of_any_kind(draw: st.DrawFn) -> Run:
    points = st.builds(
        cell,
        q_len=st.integers(1, 512), implementation=st.sampled_from(IMPLEMENTATIONS),
        dtype=st.sampled_from(DTYPES), causal=st.booleans(), status=st.sampled_from(STATUSES),
        timing=st.none() | timings(), peak_extra_bytes=SIZES, predicted_peak_bytes=SIZES, need_bytes=SIZES,
        max_abs_error=st.none() | ERRORS, reason=st.none() | st.just("needs 7 GiB"), kernel=st.none() | WORDS,
    )  # fmt: skip
    run = new_run(JobSpec(draw(st.sampled_from(EXPERIMENTS)), lengths=(draw(st.integers(1, 2**24)),)))
    for point in draw(st.lists(points, max_size=4, unique_by=lambda point: point.key)):
        run = run.with_point(point)
    values = (
        WORDS | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False) | st.none()
    )
    environment = draw(st.dictionaries(WORDS, values | st.lists(values, max_size=3), max_size=4))
    return replace(
        run,
        environment=environment,
        ceilings=draw(st.none() | st.just({"flops_per_s": 1.5, "how": "copied"})),
    )


@given(runs_of_any_kind())
def test_any_run_survives_json_and_the_text_is_strict(run: Run) -> None:
    text = to_text(run)
    assert from_text(text) == run
    assert to_text(from_text(text)) == text
    json.loads(text, parse_constant=lambda word: pytest.fail(word))
