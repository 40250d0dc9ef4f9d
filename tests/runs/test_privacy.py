"""What is personal stays out of run files, and what only looks like a path stays in."""

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.runs import JobSpec, Timing, from_text, new_run, privacy, to_text
from tests.runs.test_records import cell


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('File "/home/jane doe/lab/worker.py", line 3', 'File "worker.py", line 3'),
        ("No such file: '/usr/lib/libtorch.so'", "No such file: 'libtorch.so'"),
        (r"C:\Users\Jane Doe\AppData\x.py broke", "x.py broke"),
        ("C:/Users/Jane/x.py", "x.py"),
        (r"\\server\share\jane\x.txt", "x.txt"),
        ("file:///home/jane/x", "x"),
        ("path=/a/b/c", "path=c"),
        (f"{Path.home()}/x and {Path.home()}", "x and ~"),
    ],
)
def test_of_a_path_only_its_last_part_stays(text: str, kept: str) -> None:
    assert privacy.without_paths(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "278 GB/s and 1/2 and/or T/2, QKᵀ/√d",
        "https://example.org/a/b/c?d=/e",
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "void pytorch_flash::flash_fwd_kernel<T, 64>(params)",
        "a // b / c",
        "Intel(R) Xeon(R) CPU @ 2.20GHz",
    ],
)
def test_what_is_no_path_stays(text: str) -> None:
    assert privacy.without_paths(text) == text


WORD = st.text("abcdefghij._-0123456789", min_size=2, max_size=8)


@given(folders=st.lists(WORD, min_size=1, max_size=4), name=WORD, drive=st.sampled_from(["", "C:", "d:"]))
def test_no_folder_of_a_path_survives_whatever_it_is_called(
    folders: list[str], name: str, drive: str
) -> None:
    for separator in "/" if not drive else "/\\":
        path = drive + separator + separator.join([*folders, name])
        assert privacy.without_paths(f"cannot open {path}") == f"cannot open {name}"


def test_host_and_user_names_leave_error_texts_but_not_the_names_of_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "flash.example.org")
    monkeypatch.setattr(privacy.getpass, "getuser", lambda: "xeon")
    privacy._names.cache_clear()
    point = cell(status="refused", reason="xeon may not read on flash", kernel="flash", timing=Timing(1.0))
    run = new_run(JobSpec("scaling")).with_point(point).with_warning("Xeon@flash.example.org: /tmp/a/b")
    run = run.ended("crashed", "xeons are not XEON")
    environment = {"device_name": "Xeon", "driver": "/opt/xeon/driver.so"}
    try:
        again = from_text(to_text(type(run)(**{**vars(run), "environment": environment})))
    finally:
        monkeypatch.undo()
        privacy._names.cache_clear()
    assert again.points[0].reason == "… may not read on …"
    assert again.points[0].kernel == "flash"
    assert again.points[0].implementation == "flash"
    assert again.warnings == ("…@…: b",)
    assert again.message == "xeons are not …"
    assert again.environment == {"device_name": "Xeon", "driver": "driver.so"}


def test_what_a_library_says_steers_no_terminal_and_can_be_written() -> None:
    assert privacy.impersonal("\x1b[31mno kernel\udc80\x07\tfor\nthis") == "?[31mno kernel??\tfor\nthis"
