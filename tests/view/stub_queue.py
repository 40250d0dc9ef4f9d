"""A queue that measures nothing, and what stands on a page whose panel has it."""

from typing import Any

from streamlit.testing.v1 import AppTest

from lab import runs
from lab.measure.jobs import JobView
from lab.runs import JobSpec
from tests.view.pages import chart, faults, open_page
from tests.view.points_of import point, run

REFUSAL = "50 measurements are waiting already; try again when some have ended"


class StubQueue:
    """Stands in for the server's queue: keeps what was submitted, in the state that the test sets."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobView] = {}
        self.full = False

    def submit(self, spec: JobSpec) -> str:
        if self.full:
            raise ValueError(REFUSAL)
        return self.add(spec)

    def add(self, spec: JobSpec, **changes: Any) -> str:
        job_id = f"job-{len(self.jobs) + 1}"
        state: dict[str, Any] = {
            "state": "queued", "place": 2, "done": 0, "total": 0, "what": "", "run": None, "message": None,
            "seconds_running": 0.0, "worker_pid": None,
        }  # fmt: skip
        self.jobs[job_id] = JobView(id=job_id, spec=spec, **{**state, **changes})
        return job_id

    def set(self, job_id: str, **changes: Any) -> None:
        view = self.jobs[job_id]
        self.jobs[job_id] = JobView(
            **{name: getattr(view, name) for name in view.__dataclass_fields__} | changes
        )

    def view(self, job_id: str) -> JobView:
        return self.jobs[job_id]

    def views(self) -> tuple[JobView, ...]:
        return tuple(self.jobs.values())

    def cancel(self, job_id: str) -> None:
        self.set(job_id, state="cancelled", place=0)


def memory_run(*points: Any, **changes: Any) -> runs.Run:
    return run(*points, experiment="memory", **{"environment": {"device_kind": "cpu"}, **changes})


def memory_point(**changes: Any) -> runs.Point:
    return point(experiment="memory", timing=None, **changes)


def pressed(queue: StubQueue) -> AppTest:
    at = open_page("score_tensor")
    at.main.button(key="measure_score_tensor").click().run()
    assert faults(at) == []
    return at


def progress(at: AppTest) -> str:
    return at.main.get("progress")[0].proto.text


def kinds(at: AppTest) -> list[str]:
    return [row["kind"] for row in chart(at)[1]["points"] if row["kind"] != "recorded"]
