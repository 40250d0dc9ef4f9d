"""What a measuring job is doing, or what became of it, in plain words."""

from __future__ import annotations

import streamlit as st

from lab.measure import jobs
from lab.runs.calibrations import noise_of
from lab.view.format import digits, seconds_text

ACTIVE = ("queued", "running")


def show_status(job: jobs.JobView | None, *, own: bool, orphan: bool = False) -> None:
    """Progress while a job is active; afterwards what became of it, in plain words.

    Args:
        job: this reader's, or one that measures the same; None for none.
        own: whether this reader started it.
        orphan: whether the window that started it is gone.
    """
    if job is None:
        return
    if orphan:
        st.caption("The window that started this is closed; whoever sees it can cancel it.")
    elif not own:
        st.caption("Started from another window of this lab; it can be cancelled there while that is open.")
    if job.state == "queued":
        waiting = "next" if job.place <= 1 else f"number {job.place}"
        st.progress(0.0, text=f"In the queue, {waiting}: one measurement at a time runs on a device.")
    elif job.state == "running":
        done = job.done / job.total if job.total else 0.0
        elapsed = seconds_text(job.seconds_running)
        st.progress(min(done, 1.0), text=f"{job.what or 'starting the measuring process'} · {elapsed}")
    elif job.state == "finished":
        if noisy(job):
            st.warning(finished_text(job), icon=":material/graphic_eq:")
        else:
            st.success(finished_text(job), icon=":material/check_circle:")
    else:
        st.warning(ended_text(job), icon=":material/info:")


def noisy(job: jobs.JobView) -> int:
    """How many accepted points of a job are noisy; of a calibration, how many of its micro-benchmarks."""
    if job.run is None:
        return 0
    noise = noise_of(job.run)
    if noise is not None:
        return noise.never_quiet if noise.noisy else 0
    return sum(point.status == "noisy" and point.accepted for point in job.run.points)


def finished_text(job: jobs.JobView) -> str:
    """What a finished job brought."""
    noise = noise_of(job.run) if job.run else None
    if noise is not None:
        text = f"Finished in {seconds_text(job.seconds_running)}: {noise.timed} micro-benchmarks"
        return (
            f"{text}. {noise.sentence}"
            if noise.noisy
            else f"{text}, {noise.never_quiet} of them never quiet."
        )
    found = job.run.points if job.run else ()
    accepted, loud = sum(point.accepted for point in found), noisy(job)
    text = (
        f"Finished in {seconds_text(job.seconds_running)}: {digits(len(found))} points, {accepted} accepted"
    )
    if loud:
        text += f", {'all' if loud == accepted else loud} of them noisy: the machine was busy"
    return f"{text}." if accepted == len(found) else f"{text}. The table says why the others are not."


def ended_text(job: jobs.JobView) -> str:
    """Why a job ended early, and what stays."""
    kept = len(job.run.points) if job.run else 0
    stays = {
        0: "No point was finished before that.",
        1: "The 1 point finished before that is kept.",
    }.get(kept, f"The {kept} points finished before that are kept.")
    reasons = {
        "cancelled": "Cancelled.",
        "crashed": "The measuring process ended unexpectedly.",
        "out_of_memory": "The machine ran out of memory and ended the measuring process.",
        "refused": "Not measured.",
    }
    reason = job.message if job.message and job.state != "cancelled" else reasons[job.state]
    return f"{reason} {stays}"
