"""The headings and terms of the prefill pages follow the scenario: its number type, its context, its model."""

import pytest

from lab import runs
from lab.measure import jobs
from lab.view import accuracy_marks, measure_panel
from tests.view.pages import open_page, words


@pytest.fixture(autouse=True)
def _no_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "machine", lambda: None)
    measure_panel.registry.clear()


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_an_error_is_told_in_its_own_number_type(dtype: str) -> None:
    at = open_page("which_kernel_ran", dtype=dtype)
    rows = runs.reference_runs()[0].tables["max_abs_error_vs_float64"]
    own = [
        value
        for row in rows
        if row["dtype"] == dtype
        for name, value in row.items()
        if name not in ("T", "dtype")
    ]
    said = f"every {dtype} answer lies within {max(own):.1e}" if own else None
    heading = at.subheader[0].value
    assert said in heading if said else "within" not in heading
    roundings = accuracy_marks.most_roundings(runs.reference_runs()[0])
    assert f"at most {roundings} of its type" in words(at)
    assert "a few roundings" not in words(at)
