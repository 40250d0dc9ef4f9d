"""The whole suite: every experiment queued one after the other, and what became of each."""

from __future__ import annotations

import streamlit as st

from lab.runs import EXPERIMENTS, default_spec
from lab.view import here
from lab.view.format import whole
from lab.view.job_status import ACTIVE
from lab.view.measure_panel import registry

REFRESH_S = 2.0


def queue_all(device: str) -> None:
    """Submit every experiment in its short form; one runs at a time on a device.

    Args:
        device: the scenario's choice.
    """
    refused = []
    for experiment in EXPERIMENTS:
        try:
            registry().submit(default_spec(experiment, device=device, threads=here.threads(), quick=True))
        except ValueError as error:
            refused.append(f"{experiment}: {error}")
    st.session_state["suite_refused"] = refused


def show(device: str) -> None:
    """The button, and the queue of this server while it holds jobs."""
    active = any(view.state in ACTIVE for view in registry().views())
    st.button(
        f"Queue all {whole(len(EXPERIMENTS))} experiments", key="suite_queue", on_click=queue_all,
        args=(device,), disabled=active, icon=":material/playlist_add:",
    )  # fmt: skip
    for sentence in st.session_state.get("suite_refused", ()):
        st.warning(f"Not queued: {sentence}", icon=":material/hourglass_disabled:")

    @st.fragment(run_every=REFRESH_S if active else None)
    def queue() -> None:
        views = registry().views()
        if views:
            st.dataframe(
                [
                    {
                        "experiment": view.spec.experiment, "state": view.state.replace("_", " "),
                        "done": f"{view.done} of {view.total}" if view.total else "",
                        "what": view.message or view.what or "",
                    }
                    for view in views
                ],
                hide_index=True, height="content", key="suite_jobs",
            )  # fmt: skip
        if active and not any(view.state in ACTIVE for view in views):
            st.rerun()

    queue()
