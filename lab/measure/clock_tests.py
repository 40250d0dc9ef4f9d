"""Tests of the clock that run in a measuring child, by the name of their part."""

from __future__ import annotations

from lab.measure.competitor import DISTURBED_PARTS
from lab.measure.cross_check import cross_check_part
from lab.measure.null_ab import null_beside, null_part

CLOCK_TESTS = {
    "null": null_part,
    **{part: null_beside(kind) for kind, part in DISTURBED_PARTS.items()},
    "cross_check": cross_check_part,
}
