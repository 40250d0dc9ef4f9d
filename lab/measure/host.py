"""What the operating system says about this machine: processor, caches, free memory. No torch.

Linux is read from /proc and /sys; elsewhere what Python knows, and None where it does not.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

PROC = Path("/proc")
SYS = Path("/sys")


def cpu_name() -> str:
    """Give the processor's model name.

    Returns:
        The name the processor reports, or what Python knows of it, or "CPU".
    """
    for line in _lines(PROC / "cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model Name"):
            return value.strip()
    return _apple_chip() or platform.processor() or platform.machine() or "CPU"


def _apple_chip() -> str | None:
    """Give the chip of a Mac, whose Python only knows "arm"."""
    if platform.system() != "Darwin":
        return None
    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    return done.stdout.strip() or None


def cpu_flags() -> frozenset[str]:
    """Give the instruction-set flags of the processor.

    Returns:
        Names such as "avx512_bf16"; empty where the system does not list them.
    """
    for line in _lines(PROC / "cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def cores() -> int:
    """Give the number of CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def system() -> str:
    """Give the operating system and its version, without what a builder added to it.

    Returns:
        Text such as "Linux 6.1.0".
    """
    version = re.match(r"\d+(\.\d+)*", platform.release())
    return f"{platform.system()} {version.group()}" if version else platform.system()


def last_cache_bytes() -> int | None:
    """Give the size of the last-level cache that one CPU sees.

    Returns:
        Bytes, or None where the system does not say.
    """
    sizes = []
    for path in (SYS / "devices/system/cpu/cpu0/cache").glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KMG])", "".join(_lines(path)).strip())
        if found:
            sizes.append(int(found[1]) << {"K": 10, "M": 20, "G": 30}[found[2]])
    return max(sizes, default=None)


def memory_bytes() -> int | None:
    """Give the machine's memory.

    Returns:
        Bytes, or None where the system does not say.
    """
    return _meminfo("MemTotal")


def free_memory_bytes() -> int | None:
    """Give the memory that can still be taken: of the machine, or of this process's control group if less.

    Returns:
        Bytes, or None where the system does not say.
    """
    known = [size for size in (_meminfo("MemAvailable"), _group_free_bytes()) if size is not None]
    return min(known, default=None)


def process_data_bytes() -> int | None:
    """Give the private data of this process, as RLIMIT_DATA counts it.

    Returns:
        Bytes, or None where the system does not say.
    """
    return _kilobytes(PROC / "self/status", "VmData")


def _meminfo(name: str) -> int | None:
    return _kilobytes(PROC / "meminfo", name)


def _kilobytes(path: Path, name: str) -> int | None:
    """Read one "Name:  123 kB" line."""
    for line in _lines(path):
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None


def _group_free_bytes() -> int | None:
    """Give what the control group of this process (a container, a service) may still take."""
    found = []
    for line in _lines(PROC / "self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root = SYS / "fs/cgroup" / controllers
        own = root / path.lstrip("/")
        # A group above may hold the limit; inside a container only the root is visible: the group itself.
        for folder in (own, *(parent for parent in own.parents if parent.is_relative_to(root))):
            limit = _number(folder / "memory.max", folder / "memory.limit_in_bytes")
            used = _number(folder / "memory.current", folder / "memory.usage_in_bytes")
            if limit is not None and used is not None:
                found.append(max(0, limit - used + _reclaimable_bytes(folder)))
    return min(found, default=None)


def _reclaimable_bytes(folder: Path) -> int:
    """Give the group's file cache that the system drops under pressure."""
    for line in _lines(folder / "memory.stat"):
        if line.startswith(("inactive_file ", "total_inactive_file ")):
            return int(line.split()[1])
    return 0


def _number(*paths: Path) -> int | None:
    """Read the first of the files that holds a number ("max" means none)."""
    for path in paths:
        text = "".join(_lines(path)).strip()
        if text.isdigit():
            return int(text)
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
