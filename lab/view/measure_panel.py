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

import streamlit as st

from lab import runs
from lab.measure import jobs
from lab.view import here, points
from lab.view.command import command_line
from lab.view.format import bytes_text, digits, seconds_text, tokens_label

ACTIVE = ("queued", "running")
REFRESH_S = 0.5
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

    def job(self) -> jobs.JobView | None:
        """The job this reader started on this page last; None when there is none on this server."""
        job_id = st.session_state.get(self._key)
        known = {view.id for view in registry().views()} if job_id is not None else set()
        return registry().view(job_id) if job_id in known else None

    def run(self) -> runs.Run | None:
        """The run to draw: this reader's own, else the last one of this device."""
        job = self.job()
        if job is not None and job.run is not None:
            return job.run
        return last_run(self.spec.experiment, self.spec.device)

    def controls(self, on_press: Callable[[], None] | None = None) -> None:
        """The estimate, Measure and Cancel. Drawn outside the fragment.

        Args:
            on_press: further work when Measure is pressed, such as switching the chart.
        """
        job = self.job()
        active = job is not None and job.state in ACTIVE
        st.button(
            "Measure", key=f"measure_{self.page}", type="primary", disabled=active, width="stretch",
            on_click=self._press, args=(on_press,),
        )  # fmt: skip
        if active:
            st.button("Cancel", key=f"cancel_{self.page}", width="stretch", on_click=self._cancel)
        st.caption(self._estimate())

    def _press(self, on_press: Callable[[], None] | None) -> None:
        st.session_state[self._key] = registry().submit(self.spec)
        if on_press is not None:
            on_press()

    def _cancel(self) -> None:
        job = self.job()
        if job is not None:
            registry().cancel(job.id)

    def _estimate(self) -> str:
        expected = jobs.estimate(self.spec, last_run(self.spec.experiment, self.spec.device))
        time = "" if expected.seconds is None else f"About {seconds_text(expected.seconds)}. "
        memory = bytes_text(expected.peak_bytes, self.binary)
        free = bytes_text(expected.free_bytes, self.binary) if expected.free_bytes else "an unknown amount"
        text = f"{time}Up to {memory} of {free} free. {expected.basis}"
        if expected.refused_lengths:
            lengths = ", ".join(tokens_label(length) for length in expected.refused_lengths)
            text += f" Will be refused for lack of memory, in part or whole: T = {lengths}."
        return f"{text} {self.note}" if self.note else text

    def live(self, draw: Draw) -> None:
        """The chart, the status line and the table of points; redrawn while a job is active.

        Args:
            draw: draws the heading and the chart for a run, or for None. Its chart's spec must not depend
                on the run.
        """
        job = self.job()
        active = job is not None and job.state in ACTIVE

        @st.fragment(run_every=REFRESH_S if active else None)
        def body() -> None:
            now = self.job()
            shown = self.run()
            draw(shown)
            with st.container(key=f"status_{self.page}"):
                show_status(now)
            show_points(shown, self.spec.experiment, binary=self.binary)
            if active and (now is None or now.state not in ACTIVE):
                st.rerun()

        body()
        self.downloads()

    def downloads(self) -> None:
        """The run as a file, the points as a table, and the command that measures the same."""
        shown = self.run()
        with st.container(horizontal=True):
            if shown is not None:
                name = f"attention-cost-{shown.spec.experiment}-{shown.run_id}"
                st.download_button(
                    "Run (JSON)", json.dumps(shown.to_dict(), indent=1), f"{name}.json", "application/json",
                    key=f"json_{self.page}", on_click="ignore", icon=":material/download:",
                )  # fmt: skip
                st.download_button(
                    "Points (CSV)", points.csv_bytes(shown), f"{name}.csv", "text/csv",
                    key=f"csv_{self.page}", on_click="ignore", icon=":material/download:",
                )  # fmt: skip
            with st.popover("The same from a terminal", icon=":material/terminal:"):
                st.code(command_line(self.spec), language="shell")


def last_run(experiment: str, device: str) -> runs.Run | None:
    """The latest run of an experiment on a kind of device of this machine.

    Args:
        experiment: one of lab.runs.EXPERIMENTS.
        device: the scenario's choice.

    Returns:
        The run, with the points it has so far; None when there is none.
    """
    return runs.latest(experiment, here.kind(device))


def show_status(job: jobs.JobView | None) -> None:
    """Progress while a job is active; afterwards what became of it, in plain words."""
    if job is None:
        return
    if job.state == "queued":
        waiting = "next" if job.place <= 1 else f"number {job.place}"
        st.progress(0.0, text=f"In the queue, {waiting}: one measurement at a time runs on a device.")
    elif job.state == "running":
        done = job.done / job.total if job.total else 0.0
        elapsed = seconds_text(job.seconds_running)
        st.progress(min(done, 1.0), text=f"{job.what or 'starting the measuring process'} · {elapsed}")
    elif job.state == "finished":
        st.success(finished_text(job), icon=":material/check_circle:")
    else:
        st.warning(ended_text(job), icon=":material/info:")


def finished_text(job: jobs.JobView) -> str:
    """What a finished job brought."""
    found = job.run.points if job.run else ()
    accepted = sum(point.accepted for point in found)
    text = (
        f"Finished in {seconds_text(job.seconds_running)}: {digits(len(found))} points, {accepted} accepted."
    )
    return text if accepted == len(found) else f"{text} The table says why the others are not."


def ended_text(job: jobs.JobView) -> str:
    """Why a job ended early, and what stays."""
    kept = len(job.run.points) if job.run else 0
    stays = (
        f"The {kept} points finished before that are kept." if kept else "No point was finished before that."
    )
    reasons = {
        "cancelled": "Cancelled.",
        "crashed": "The measuring process ended unexpectedly. The page and the queue are not affected.",
        "out_of_memory": "The machine ran out of memory and ended the measuring process.",
        "refused": "Not measured.",
    }
    details = f" {job.message}" if job.message and job.state != "cancelled" else ""
    return f"{reasons[job.state]}{details} {stays}"


def show_points(run: runs.Run | None, experiment: str, *, binary: bool) -> None:
    """The table of points of a run."""
    found = [point for point in run.points if point.experiment == experiment] if run else []
    if not found:
        st.caption("Nothing of this kind has been measured on this machine yet.")
        return
    st.dataframe(
        points.table(found, binary=binary), hide_index=True, height="content", key=f"points_{experiment}"
    )
