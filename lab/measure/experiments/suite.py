"""Several experiments in one go: one run, whose points name the experiment they belong to.

Each part of all experiments runs in one child process: all times first, then all memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from lab.measure.events import Events
from lab.measure.experiments.base import Experiment
from lab.measure.job import Job
from lab.measure.plan import parts_of
from lab.runs.suites import members

STEPS = 100  # of progress, for each experiment


class SuiteEvents(Events):
    """Events of a suite: the progress of an experiment becomes that of its share of the suite."""

    def __init__(self, events: Events, experiments: int) -> None:
        """Tell through these events; so many experiments will follow."""
        self._outer = events
        self._experiments = experiments
        self._place = -1
        self._name = ""
        self._done = self._total = 0
        self.ceilings_told = False
        self._outer.plan(experiments * STEPS)

    def begin(self, name: str) -> None:
        """Count what follows as the next experiment."""
        self._place += 1
        self._name = name
        self._done = self._total = 0

    def plan(self, total: int) -> None:
        """Hear how many points an experiment will have."""
        self._total = total

    def _write(self, event: dict[str, Any]) -> None:
        """Pass an event on; progress is counted over the whole suite."""
        if event["event"] == "progress":
            share = min(1.0, self._done / self._total) if self._total else 0.0
            done = STEPS * self._place + round(STEPS * share)
            what = f"{self._name}: {event['what']}"
            event = {"event": "progress", "done": done, "total": self._experiments * STEPS, "what": what}
        self._outer.pass_on(event)


class Suite(Experiment):
    """The experiments of lab.runs.suites, one after the other."""

    def __init__(self, experiments: Mapping[str, Experiment]) -> None:
        """Take the experiments there are, by name."""
        self._experiments = experiments

    def run(self, job: Job, part: str, events: Events) -> None:
        """Run one part of every experiment that has it.

        Args:
            job: of the suite.
            part: "time" or "memory".
            events: where points are told.
        """
        jobs = [spec for spec in members(job.spec) if part in parts_of(spec.experiment)]
        told = SuiteEvents(events, len(jobs))
        for spec in jobs:
            told.begin(spec.experiment)
            self._experiments[spec.experiment].run(replace(job, spec=spec), part, told)


class Cpu(Suite):
    """What a machine without an accelerator can show of the chapter."""

    name: ClassVar[str] = "cpu"


class Everything(Suite):
    """Every experiment there is."""

    name: ClassVar[str] = "all"
