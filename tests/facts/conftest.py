"""Prints, after a run of the facts tests, how many rows truly test and how many only agree."""

from collections import Counter

import pytest

COUNTS: dict[str, Counter] = {}


@pytest.fixture
def record_facts():
    """Record how many rows of a file are in each class."""
    return COUNTS.__setitem__


def pytest_terminal_summary(terminalreporter):
    for name, counts in sorted(COUNTS.items()):
        parts = ", ".join(f"{number} {what}" for what, number in counts.items())
        terminalreporter.write_line(f"{name}: {sum(counts.values())} rows: {parts}")
