"""The measure panel: what it will cost, the button, progress, points as they arrive, what went wrong.

Measure and Cancel stand outside the fragment, because `run_every` is read in a full run of the page; the
fragment redraws the chart, the status line and the table twice a second while a job is active, and starts
a full run when it ends. The page process starts nothing heavy itself: `lab.measure.jobs` keeps the queue
and the child process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import streamlit as st

from lab import runs
from lab.measure import jobs
from lab.runs.point import COUNTED
from lab.runs.readings import reading
from lab.runs.suites import SUITES
from lab.view import downloads, here, points, run_shape, scenario
from lab.view.command import command_line
from lab.view.format import bytes_text, seconds_text, tokens_label, whole
from lab.view.job_status import ACTIVE, show_status
from lab.view.owners import owners
from lab.view.shown_runs import kept_runs, points_of, shown_run, whole_run
from lab.view.stamp import Stamp, stamp

REFRESH_S = 0.5
FRESH_S = 10.0  # free memory changes, whatever is measured
ROWS_SHOWN = 12
SCROLLED_PX = 458  # the header and ROWS_SHOWN rows; more of them scroll inside the table
Draw = Callable[[runs.Run | None], None]


@st.cache_resource
def registry() -> jobs.Jobs:
    """The one queue of this server, shared by all its pages and readers."""
    return jobs.Jobs()


@dataclass(frozen=True)
class Panel:
    """The measuring part of one page.

    Args:
        page: the page's file name; one job of each reader is remembered for it.
        spec: what the button measures, from the scenario and the page's controls.
        binary: write bytes in KiB, MiB, GiB.
        note: a sentence on what the button measures instead of the scenario, if it does.
    """

    page: str
    spec: runs.JobSpec
    binary: bool
    note: str | None = None

    @property
    def _key(self) -> str:
        return f"job_{self.page}"

    @property
    def _offered(self) -> str:
        return f"offered_{self.page}"  # whether Cancel stands on the page

    def job(self) -> jobs.JobView | None:
        """This reader's job on this page; else an active one that measures the same; else None.

        The second case is a reader who reloaded the page, or a class that watches its teacher's measurement.
        """
        views = {view.id: view for view in registry().views()}
        own = views.get(st.session_state.get(self._key, ""))
        if own is not None:
            return own
        same = (view for view in views.values() if view.state in ACTIVE and view.spec == self.spec)
        return next(same, None)

    @property
    def active(self) -> bool:
        """Whether a job of this panel waits or runs."""
        job = self.job()
        return job is not None and job.state in ACTIVE

    def _is_own(self, job: jobs.JobView | None) -> bool:
        return job is not None and job.id == st.session_state.get(self._key)

    def orphan(self, job: jobs.JobView | None) -> bool:
        """Whether a job of another window is active that nobody else can cancel any more."""
        watched = job is not None and job.state in ACTIVE and not self._is_own(job)
        return watched and job is not None and owners().gone(job.id)

    def run(self) -> runs.Run | None:
        """The run to draw: that of the job from its start on, else the last one of this device.

        A job that ended early gives way to an earlier run that is whole and holds all that this one has.
        """
        job = self.job()
        if job is None or job.run is None or not (job.run.points or job.state in ACTIVE):
            return shown_run(self.spec)
        if job.state in (*ACTIVE, "finished"):
            return job.run
        return whole_run(job.run, kept_runs(self.spec), self.spec)

    def controls(self, on_press: Callable[[], None] | None = None) -> None:
        """The estimate, Measure and Cancel. Drawn outside the fragment.

        Args:
            on_press: further work when Measure is pressed, such as switching the chart.
        """
        job = self.job()
        own = self._is_own(job) and job is not None and job.state in ACTIVE
        offered = own or self.orphan(job)
        st.session_state[self._offered] = offered
        st.button(
            "Measure", key=f"measure_{self.page}", type="primary", disabled=own, width="stretch",
            on_click=self._press, args=(on_press,),
        )  # fmt: skip
        if offered:
            st.button("Cancel", key=f"cancel_{self.page}", width="stretch", on_click=self._cancel)
        st.caption(self._estimate())
        refusal = st.session_state.pop(f"refusal_{self.page}", None)
        if refusal:
            st.warning(refusal, icon=":material/hourglass_disabled:")

    def _press(self, on_press: Callable[[], None] | None) -> None:
        try:
            job_id = registry().submit(self.spec)
        except ValueError as error:
            st.session_state[f"refusal_{self.page}"] = f"Not measured: {error}."
            return
        st.session_state[self._key] = job_id
        owners().own(job_id)
        if on_press is not None:
            on_press()

    def _cancel(self) -> None:
        job = self.job()
        if job is not None and (self._is_own(job) or self.orphan(job)):
            st.session_state[self._key] = job.id  # who ends another's sees what became of it
            registry().cancel(job.id)

    def _estimate(self) -> str:
        if self.spec.experiment in COUNTED:  # nothing is computed, so nothing is held
            return self.note or ""
        expected = _expected(self.spec, here.kind(self.spec.device), stamp())
        time = "" if expected.seconds is None else f"About {seconds_text(expected.seconds)}. "
        memory = bytes_text(expected.peak_bytes, self.binary)
        free = bytes_text(expected.free_bytes, self.binary) if expected.free_bytes else "an unknown amount"
        room = f"Up to {memory} beside the inputs; {free} free. " if expected.peak_bytes else ""
        text = f"{time}{room}{expected.basis}"
        if expected.refused_lengths:
            lengths = ", ".join(tokens_label(length) for length in expected.refused_lengths)
            text += f" Will be refused for lack of memory, in part or whole: T = {lengths}."
        return " ".join(filter(None, (text, self.note, _equal_widths(self.spec))))

    def live(self, draw: Draw) -> None:
        """The chart, the status line and what the run holds; redrawn while a job is active.

        Args:
            draw: draws the heading and the chart for a run, or for None. Its chart's spec must not depend
                on the run.
        """
        # A job that has ended since Cancel was drawn counts: else nothing would draw the page without it
        active = st.session_state.get(self._offered, False) or self.active
        orphan = self.orphan(self.job())

        @st.fragment(run_every=REFRESH_S if active else None)
        def body() -> None:
            now, shown = self.job(), self.run()
            downloads.hold(active)  # on every redrawing: another panel of the page says it for its own
            draw(shown)
            with st.container(key=f"status_{self.page}"):
                show_status(now, own=self._is_own(now), orphan=orphan)
            self.table(shown, active=active)
            if self.changed(now, active=active, orphan=orphan):
                st.rerun()

        body()
        self.downloads()

    def table(self, run: runs.Run | None, *, active: bool) -> None:
        """What the run shown holds: its points.

        Args:
            run: from `run`.
            active: whether a job is; what the points say in sentences is worked out once it has ended.
        """
        show_points(run, self.spec, binary=self.binary, read=not active)

    def changed(self, now: jobs.JobView | None, *, active: bool, orphan: bool) -> bool:
        """Whether the buttons must be drawn again: a job has ended, or nobody else can cancel it any more."""
        ended = active and (now is None or now.state not in ACTIVE)
        return ended or orphan != self.orphan(now)

    def downloads(self) -> None:
        """The run as a file, the points as a table, and the command that measures the same."""
        shown = self.run()
        with st.container(horizontal=True):
            if shown is not None:
                name = f"attention-cost-{shown.spec.experiment}-{shown.run_id}"
                st.download_button(
                    "Run (JSON)", partial(_json, shown), f"{name}.json", "application/json",
                    key=f"json_{self.page}", on_click="ignore", icon=":material/download:",
                )  # fmt: skip
                st.download_button(
                    "Points (CSV)", partial(points.csv_bytes, shown), f"{name}.csv", "text/csv",
                    key=f"csv_{self.page}", on_click="ignore", icon=":material/download:",
                )  # fmt: skip
            with st.popover("The same from a terminal", icon=":material/terminal:"):
                st.code(command_line(self.spec), language="shell")


def _json(run: runs.Run) -> str:
    return json.dumps(run.to_dict(), indent=1)


@st.cache_data(max_entries=64, ttl=FRESH_S, show_spinner=False)
def _expected(spec: runs.JobSpec, kind: str, written: Stamp) -> jobs.Estimate:
    """What a job will cost, as long as no run was written and free memory is not long known."""
    return jobs.estimate(spec, _latest(spec.experiment, kind, written))


def _equal_widths(spec: runs.JobSpec) -> str | None:
    """What is measured in place of latent attention, whose keys and values differ in width."""
    model = scenario.current().model
    same = (model.heads, model.head_dim) == (spec.heads, spec.head_dim)
    if not same or model.head_dim_v == model.head_dim or spec.experiment == "model":
        return None
    return (
        f"{model.name}'s keys are {model.head_dim} numbers wide and its values {model.head_dim_v}; attention is "
        f"measured, and its lines drawn, with {model.head_dim} for both."
    )


def last_run(experiment: str, device: str) -> runs.Run | None:
    """The latest run of an experiment on a kind of device of this machine.

    Args:
        experiment: one of lab.runs.EXPERIMENTS.
        device: the scenario's choice.

    Returns:
        The run, with the points it has so far; None when there is none.
    """
    return _latest(experiment, here.kind(device), stamp())


@st.cache_resource(max_entries=32, show_spinner=False)
def _latest(experiment: str, kind: str, written: Stamp) -> runs.Run | None:
    """Read the run files only when one was written."""
    return runs.latest(experiment, kind)


@st.cache_data(max_entries=32, show_spinner=False)
def _reading(run_id: str, written: Stamp, _run: runs.Run) -> dict[str, list[str]]:
    """What the points of a run say; a calibration that was written since may say it otherwise."""
    return reading(_run)


def show_points(run: runs.Run | None, spec: runs.JobSpec, *, binary: bool, read: bool) -> None:
    """What the points of a run belong to, and the table of them.

    Args:
        run: measured on this machine; None for none.
        spec: what the page's button would measure.
        binary: write bytes in KiB, MiB, GiB.
        read: whether to say in sentences what the points show.
    """
    experiment = spec.experiment
    found = points_of(run, experiment) if run else []
    if not found:
        st.caption("Nothing of this kind has been measured on this machine yet.")
        return
    if run is not None and experiment not in COUNTED:
        st.caption(run_shape.caption(run, found, spec))
    height: int | Literal["content"] = "content" if len(found) <= ROWS_SHOWN else SCROLLED_PX
    st.dataframe(
        points.table(found, binary=binary), hide_index=True, height=height, key=f"points_{experiment}"
    )
    every = _reading(run.run_id, stamp(), run) if run and read else {}
    said = [
        one for name, found in every.items() if name == experiment or experiment in SUITES for one in found
    ]
    if said:
        with st.expander(f"What this run says: {whole(len(said))} sentences computed from its points"):
            st.markdown("\n".join(f"- {sentence}" for sentence in said))
