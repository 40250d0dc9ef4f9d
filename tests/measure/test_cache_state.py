"""Cold and warm cache: which experiments rotate their inputs, that a job may ask otherwise, and what points record."""

import pytest
from measured_shapes import SMALL, job, points_of

from lab.measure.device import Device
from lab.runs import JobSpec

pytestmark = pytest.mark.usefixtures("sooner")
LENGTHS = {"lengths": (64,), "implementations": ("naive",)}


class Cached(Device):
    """A CPU with a last cache of 64 KiB: one set of inputs of these shapes fits into it several times."""

    def last_cache_bytes(self) -> int:
        return 2**16


@pytest.mark.parametrize(
    ("experiment", "asked", "seen"),
    [
        ("decode", "auto", "cold"),
        ("decode", "warm", "warm"),
        ("scaling", "auto", "warm"),
        ("scaling", "cold", "cold"),
        ("windowed", "cold", "cold"),
        ("split_kv", "auto", "cold"),
    ],
)
def test_timed_points_record_whether_a_cache_could_hold_their_inputs(
    experiment: str, asked: str, seen: str
) -> None:
    shape = LENGTHS if experiment in ("decode", "scaling") else {"lengths": (64,)}
    opened = job(experiment, Cached(), cache=asked, batches=(1,), **shape, **SMALL)
    timed = points_of(experiment, "time", opened)
    assert timed
    assert {point.cache for point in timed if point.timing} == {seen}
    assert {point.cache for point in points_of(experiment, "memory", opened)} == {None}


def test_inputs_larger_than_the_cache_are_cold_without_taking_turns() -> None:
    opened = job("scaling", Cached(), lengths=(1024,), implementations=("flash",), **SMALL)
    (point,) = points_of("scaling", "time", opened)
    assert point.cache == "cold"  # three tensors of 512 KiB against 64 KiB


def test_an_unknown_wish_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="cache is 'hot'; it must be one of auto, cold, warm"):
        JobSpec("decode", cache="hot")
