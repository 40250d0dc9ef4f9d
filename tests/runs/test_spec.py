"""A job names what its experiment can run, or is refused in one sentence."""

import pytest

from lab.runs import EXPERIMENTS, default_spec
from lab.runs.spec import IMPLEMENTATIONS, runnable


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_name_is_run_or_refused_with_what_is_allowed(experiment: str) -> None:
    able = runnable(experiment)
    for name in IMPLEMENTATIONS:
        if name in able:
            assert default_spec(experiment, implementations=(name,)).implementations == (name,)
            continue
        allowed = "must be of " + ", ".join(able) if able else "must be left out"
        with pytest.raises(ValueError, match=f"implementations is {name}; for {experiment} it {allowed}$"):
            default_spec(experiment, implementations=(name,))


def test_its_own_names_are_among_them() -> None:
    for experiment in EXPERIMENTS:
        assert set(default_spec(experiment).implementations) <= set(runnable(experiment))
        assert set(runnable(experiment)) <= set(IMPLEMENTATIONS)
