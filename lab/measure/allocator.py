"""The C library's heap and the limits of this process: how a child keeps, returns and bounds memory.

glibc hands big blocks back to the system after every call, and each call then pays page faults: naive
attention at T = 4,096 takes over twice as long. A timing child keeps freed blocks in the heap, as a caching
GPU allocator does; the cost with page faults is a switch. Elsewhere (macOS, Windows, musl) the allocator
stays as it is.
"""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path

from lab.measure import host

# From malloc.h of glibc
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4

SHARE_OF_FREE_MEMORY = 0.8
"""What a measuring child may take of the free memory; the rest is left to everyone else."""


def _glibc() -> ctypes.CDLL | None:
    """Give the C library where it is glibc, whose heap can be tuned."""
    if platform.libc_ver()[0] != "glibc":
        return None
    return ctypes.CDLL("libc.so.6")


def keep_heap() -> bool:
    """Keep freed blocks in the heap from now on, whatever their size.

    Returns:
        Whether it took effect; False on a C library that cannot.

    Source: mallopt(3): M_MMAP_MAX = 0 allocates from the heap alone, M_TRIM_THRESHOLD = -1 never shrinks it.
    """
    libc = _glibc()
    if libc is None:
        return False
    return bool(libc.mallopt(M_MMAP_MAX, 0)) and bool(libc.mallopt(M_TRIM_THRESHOLD, -1))


def trim() -> bool:
    """Hand the heap's free pages back to the system, as between two shapes.

    A warm heap fragments to 1.4-3.6 times the peak otherwise.

    Returns:
        Whether anything was handed back.
    """
    libc = _glibc()
    return libc is not None and bool(libc.malloc_trim(0))


def describe(warm_heap: bool) -> str:
    """Say what the allocator of this process does with freed blocks, for the record."""
    if not warm_heap:
        return "default: big blocks go back to the system, each call pays page faults"
    if _glibc() is None:
        return "default: this C library's heap cannot be kept warm"
    return "warm heap: freed blocks are kept (glibc, M_MMAP_MAX=0), trimmed between shapes"


def usable_bytes(free_bytes: int | None) -> int | None:
    """Give what a child on the CPU may take.

    Args:
        free_bytes: free memory, or None where not known.

    Returns:
        Bytes, or None where not known.
    """
    return None if free_bytes is None else int(SHARE_OF_FREE_MEMORY * free_bytes)


def limit_memory(free_bytes: int | None) -> bool:
    """Make running out of memory an exception in this process rather than a kill of some other.

    Call it after PyTorch's threads exist: a limit set before that kills the process as they start.

    Args:
        free_bytes: free memory, of which the process may take a share beyond what it holds.

    Returns:
        Whether a limit is in force; False where the system has none that works (macOS, Windows).
    """
    held, usable = host.process_data_bytes(), usable_bytes(free_bytes)
    if held is None or usable is None:
        return False
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = held + usable
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    _volunteer_for_the_kernel()
    return True


def _volunteer_for_the_kernel() -> None:
    """Ask the system to end this process first should memory run out all the same."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    except OSError:
        return  # without the right to say so, the limit alone must do
