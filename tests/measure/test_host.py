"""What is read from the system: memory within control groups, caches, flags; nothing that names the machine."""

from pathlib import Path

import pytest

from lab.measure import host

MEMINFO = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n"


@pytest.fixture
def system(monkeypatch, tmp_path: Path):
    """Empty /proc and /sys trees, and a way to write into them."""
    monkeypatch.setattr(host, "PROC", tmp_path / "proc")
    monkeypatch.setattr(host, "SYS", tmp_path / "sys")

    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    return write


def test_free_memory_is_what_the_system_calls_available(system) -> None:
    system("proc/meminfo", MEMINFO)
    assert host.free_memory_bytes() == 600 * 1024
    assert host.memory_bytes() == 1000 * 1024


def test_a_control_group_of_version_2_bounds_free_memory(system) -> None:
    system("proc/meminfo", MEMINFO)
    system("proc/self/cgroup", "0::/user/lab\n")
    system("sys/fs/cgroup/user/lab/memory.max", "max\n")
    system("sys/fs/cgroup/user/memory.max", "200000\n")  # the limit of a group above
    system("sys/fs/cgroup/user/memory.current", "150000\n")
    system("sys/fs/cgroup/user/memory.stat", "anon 100000\ninactive_file 30000\n")
    assert host.free_memory_bytes() == 200000 - 150000 + 30000


def test_a_control_group_of_version_1_bounds_free_memory(system) -> None:
    system("proc/meminfo", MEMINFO)
    system("proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/abc\n0::/\n")
    system("sys/fs/cgroup/memory/memory.limit_in_bytes", "100000\n")  # inside a container: at the root
    system("sys/fs/cgroup/memory/memory.usage_in_bytes", "60000\n")
    assert host.free_memory_bytes() == 40000


def test_a_group_without_a_limit_bounds_nothing(system) -> None:
    system("proc/meminfo", MEMINFO)
    system("proc/self/cgroup", "0::/\n")
    system("sys/fs/cgroup/memory.max", "max\n")
    assert host.free_memory_bytes() == 600 * 1024


def test_where_the_system_says_nothing_nothing_is_known(system) -> None:
    assert host.free_memory_bytes() is None
    assert host.memory_bytes() is None
    assert host.process_data_bytes() is None
    assert host.last_cache_bytes() is None
    assert host.cpu_flags() == frozenset()
    assert host.cpu_name()


def test_the_last_cache_is_the_largest(system) -> None:
    cache = "sys/devices/system/cpu/cpu0/cache"
    for index, size in enumerate(("48K", "32K", "1024K", "32M")):
        system(f"{cache}/index{index}/size", size + "\n")
    assert host.last_cache_bytes() == 32 * 2**20


def test_processors_of_two_makers_are_named_with_their_flags(system) -> None:
    system("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t\t: fpu avx512_bf16\n")
    assert host.cpu_name() == "Some CPU @ 3 GHz"
    assert host.cpu_flags() == {"fpu", "avx512_bf16"}
    system("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimdhp bf16\n")
    assert "asimdhp" in host.cpu_flags()


def test_the_system_is_named_without_what_a_builder_added(monkeypatch) -> None:
    monkeypatch.setattr(host.platform, "system", lambda: "Linux")
    monkeypatch.setattr(host.platform, "release", lambda: "6.1.0-alice-workstation+")
    assert host.system() == "Linux 6.1.0"
