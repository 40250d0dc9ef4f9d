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
