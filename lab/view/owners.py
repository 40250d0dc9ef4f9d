"""Who may cancel a measurement: the window that started it, and anybody once that window is gone."""

from __future__ import annotations

import time
from collections.abc import Callable

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

GONE_S = 5.0
"""A window that lost its connection for less than this may only be reconnecting."""


def window() -> str:
    """The session of the window that runs this script; empty where a script runs without a server."""
    context = get_script_run_ctx()
    return context.session_id if context else ""


def is_open(session: str) -> bool:
    """Whether a window is connected; without a server nobody can tell, and it counts as open."""
    return not runtime.exists() or runtime.get_instance().is_active_session(session)


class Owners:
    """The window that started each job, shared by all readers of a server.

    Args:
        connected: tells whether a session's window is open.
        now_s: a clock that never goes back.
    """

    def __init__(  # noqa: D107
        self, connected: Callable[[str], bool] = is_open, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._connected, self._now_s = connected, now_s
        self._sessions: dict[str, str] = {}
        self._missed_s: dict[str, float] = {}

    def own(self, job_id: str) -> None:
        """The window of this script started a job."""
        self._sessions[job_id] = window()

    def gone(self, job_id: str) -> bool:
        """Whether the window that started a job has been closed, or loaded anew, for a while."""
        session = self._sessions.get(job_id)
        if session is None or self._connected(session):
            self._missed_s.pop(job_id, None)
            return False
        return self._now_s() - self._missed_s.setdefault(job_id, self._now_s()) >= GONE_S


@st.cache_resource
def owners() -> Owners:
    """The owners of the jobs of this server."""
    return Owners()
