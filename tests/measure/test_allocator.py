"""The heap keeps freed blocks when told to, and gives them back when trimmed. Counted, not timed."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from lab.measure import allocator

ROOT = Path(__file__).parents[2]

COUNT_FAULTS = """
import resource, torch
from lab.measure import allocator, host
{before}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
for _ in range(12):  # holes of the right size have to form first
    torch.ones(64 * 2**20, dtype=torch.uint8)
start = faults()
for _ in range(5):
    torch.ones(64 * 2**20, dtype=torch.uint8)
taken = faults() - start
high = resident()
allocator.trim()
print(taken, high - resident())
"""

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap of glibc is tuned")


def count_faults(before: str) -> tuple[int, int]:
    """Page faults of 5 allocations of 64 MiB, and the KiB handed back by a trim."""
    program = COUNT_FAULTS.format(before=before)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    faults, trimmed = done.stdout.split()
    return int(faults), int(trimmed)


@needs_glibc
def test_a_warm_heap_pays_no_page_faults_and_a_trim_gives_it_back() -> None:
    cold, _ = count_faults("")
    warm, trimmed_kib = count_faults("assert allocator.keep_heap()")
    assert cold > 5 * 64 * 2**20 / 2**21  # at least one fault per huge page, each time anew
    assert warm < cold / 4
    assert trimmed_kib > 60 * 1024


@needs_glibc
def test_the_policy_is_described_as_it_is() -> None:
    assert "M_MMAP_MAX=0" in allocator.describe(warm_heap=True)
    assert "page faults" in allocator.describe(warm_heap=False)


def test_a_c_library_that_cannot_is_left_alone(monkeypatch) -> None:
    monkeypatch.setattr(allocator.platform, "libc_ver", lambda: ("", ""))
    assert allocator.keep_heap() is False
    assert allocator.trim() is False
    assert "cannot be kept warm" in allocator.describe(warm_heap=True)


def test_a_system_without_limits_is_left_alone(monkeypatch) -> None:
    monkeypatch.setattr(allocator.host, "process_data_bytes", lambda: None)
    assert allocator.limit_memory(2**30) is False
    assert allocator.limit_memory(None) is False


def test_a_fifth_of_free_memory_is_left_to_others() -> None:
    assert allocator.usable_bytes(1000) == 800
    assert allocator.usable_bytes(None) is None
