"""The whole suite as one job and one run: every experiment in its short form, one after the other."""

from __future__ import annotations

from lab.runs import EXPERIMENTS, JobSpec, default_spec
from lab.runs.suites import SUITES
from lab.view import here
from lab.view.format import whole

NAMES = {"all": "everything, in short", "cpu": "what a CPU can show, in short"}
FIRST = "selftest"


def offered(device: str) -> dict[str, str]:
    """What can be measured: the self-test, both suites, then every experiment; names by id.

    Args:
        device: the scenario's choice; the suite of CPUs is offered where one is measured.
    """
    suites = {name: text for name, text in NAMES.items() if name != "cpu" or here.kind(device) == "cpu"}
    single = [name for name in EXPERIMENTS if name not in (*SUITES, FIRST)]
    return {FIRST: FIRST} | suites | dict(zip(single, single, strict=True))


def spec_of(experiment: str, device: str, dtype: str) -> JobSpec:
    """The job of one experiment, or of a suite in its short form.

    Args:
        experiment: one of `offered`.
        device: the scenario's choice.
        dtype: that a single experiment is measured in; a suite takes its own.
    """
    if experiment in SUITES:
        where = "cpu" if experiment == "cpu" else device
        return default_spec(experiment, device=where, threads=here.threads(), quick=True)
    return default_spec(experiment, device=device, dtype=dtype, threads=here.threads())


def words(suite: str) -> str:
    """The experiments of a suite in words."""
    return f"Short forms of {whole(len(SUITES[suite]))} experiments: {', '.join(SUITES[suite])}."
