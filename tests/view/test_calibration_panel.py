"""The panel of a calibration: how far its rates can be trusted stands above its constants."""

from dataclasses import replace

from lab import runs
from lab.cost.calibration import Calibration
from lab.cost.confidence import left_out_cells
from lab.cost.score import score
from lab.view import here
from tests.cost.test_confidence import calibrated
from tests.view.pages import faults, open_page, words
from tests.view.points_of import run as run_of


def keep(calibration: Calibration) -> None:
    """Keep a run that found this calibration."""
    environment = {"device_kind": "cpu", "device_name": "a CPU", "threads": calibration.threads}
    found = {"calibrations": {calibration.dtype: calibration.to_dict()}}
    run = run_of(experiment="calibrate", environment=environment, status="finished", ceilings=found)
    runs.save(run)


def of_this_machine(rate_of_length) -> Calibration:
    wide = replace(calibrated(rate_of_length), threads=here.threads())
    return replace(wide, dtype="bf16", wide=wide)


def test_the_leave_one_out_error_is_told_mean_and_worst() -> None:
    bent = of_this_machine(lambda n: 2e6 if n == 200 else 1e6)
    expected = score(left_out_cells(bent))
    keep(bent)
    at = open_page("roofline")
    assert faults(at) == []
    (said,) = (caption.value for caption in at.main.caption if caption.value.startswith("Confidence"))
    assert f"{expected.mean_absolute_error:.1%} on average" in said
    assert f"{expected.worst.error:+.1%} at worst" in said


def test_without_a_calibration_there_is_no_confidence() -> None:
    assert "Confidence" not in words(open_page("roofline"))
