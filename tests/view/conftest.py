"""What holds for every test of a page: it is about the page."""

import pytest

from lab.measure import jobs
from lab.view import measure_panel
from tests.view.stub_queue import StubQueue


@pytest.fixture(autouse=True)
def _no_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured, no child describes the machine, and no job of another test is left."""
    monkeypatch.setattr(jobs, "machine", lambda: None)
    measure_panel.registry.clear()


@pytest.fixture
def queue(_no_child_process: None, monkeypatch: pytest.MonkeyPatch) -> StubQueue:
    """A queue in which the test sets what becomes of a job."""
    stub = StubQueue()
    monkeypatch.setattr(measure_panel, "registry", lambda: stub)
    return stub
