"""Every test works in a data folder of its own; hypothesis has no deadline, the machine may be busy."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("lab", deadline=None)
settings.load_profile("lab")


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "lab-home"))
    return tmp_path / "lab-home"


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give each process whole files, and all browser tests to one: two browsers at once wait for each other."""
    from xdist.scheduler import LoadFileScheduling

    class OneBrowser(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "tests/browser" if nodeid.startswith("tests/browser/") else super()._split_scope(nodeid)

    return OneBrowser(config, log)
