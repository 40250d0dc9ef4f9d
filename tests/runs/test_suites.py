"""Suites are made of jobs that are themselves allowed, and pass on what was asked for."""

import pytest

from lab.runs import EXPERIMENTS, JobSpec, default_spec
from lab.runs.suites import ALL, CPU, QUICK, SUITES, THOROUGH, members


@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize("quick", [True, False])
def test_members_take_over_what_was_asked_of_the_suite(name: str, quick: bool) -> None:
    spec = default_spec(name, device="cpu", dtype="bf16", threads=3, seed=7, warm_heap=False, quick=quick)
    found = members(spec)
    assert [member.experiment for member in found] == list(SUITES[name])
    for member in found:
        assert (member.device, member.dtype, member.threads, member.seed) == ("cpu", "bf16", 3, 7)
        assert (member.warm_heap, member.quick) == (False, quick)
        assert JobSpec.from_dict(member.to_dict()) == member


def test_quick_is_less_work() -> None:
    for quick, thorough in zip(
        members(default_spec("all", quick=True)), members(default_spec("all")), strict=True
    ):
        assert max(quick.lengths) <= max(thorough.lengths)
        assert len(quick.lengths) * len(quick.batches) <= len(thorough.lengths) * len(thorough.batches)
        assert quick.rounds <= thorough.rounds


def test_everything_is_everything_but_what_is_made_of_others() -> None:
    assert set(ALL) == set(EXPERIMENTS) - {"selftest", *SUITES}
    assert set(CPU) <= set(ALL)
    assert set(QUICK) == set(ALL) - {"calibrate"}  # it has no sizes of its own
    assert set(THOROUGH) <= set(ALL)
    for name, sizes in THOROUGH.items():
        assert all(getattr(default_spec(name), field) != size for field, size in sizes.items())


def test_an_experiment_alone_is_no_suite() -> None:
    with pytest.raises(ValueError, match="experiment must be one of cpu, all, got 'memory'"):
        members(default_spec("memory"))
