"""The measure buttons: points over the curve, cancel, a killed worker, a queue of two readers, downloads."""

import io
import time

import pandas as pd
import psutil
import pytest

from lab import runs
from tests.browser.reader import forget_runs, points, press, settle, text, wait_for_chart, wait_until

pytestmark = pytest.mark.browser

ENDED = ("Finished in", "finished before that")


def ended(page) -> bool:
    return any(words in text(page) for words in ENDED)


def wait_for_end(page, timeout_s: float = 300) -> None:
    wait_until(page, lambda: ended(page), timeout_s, "the measurement has ended")
    cancel = page.get_by_role("button", name="Cancel", exact=True)
    wait_until(page, lambda: cancel.count() == 0, 60, "the page was drawn anew after the end")
    settle(page)


def start(page, file: str) -> float:
    """Press Measure; gives the seconds until the page says that something happens."""
    press(page, "Measure")
    return wait_until(
        page, lambda: page.locator("[data-testid=stProgress]").count() > 0, 60, f"{file} started"
    )


def wait_for_points(page, count: int, timeout_s: float = 180) -> float:
    def arrived() -> bool:
        return points(page, "measured") >= count

    return wait_until(page, arrived, timeout_s, f"{count} measured points on the chart")


def test_pressing_measure_puts_points_over_the_curve(new_page, server) -> None:
    forget_runs(server)
    page = new_page("/")
    wait_for_chart(page, "start_here")
    assert points(page, "measured") == 0
    assert points(page, "recorded") > 0
    start(page, "start_here")
    wait_for_end(page)
    assert "Finished in" in text(page)
    assert points(page, "measured") == 8  # naive and SDPA at four lengths
    assert "Measured here" in text(page)
    latest = max((server.home / "runs").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    found = runs.load(latest).points
    noisy = [point.kv_len for point in found if point.status == "noisy"]
    assert points(page, "noisy") == len(noisy)
    quiet = {point.kv_len for point in found} - set(noisy)  # lengths that both kernels were timed at in quiet
    said = "on this machine" if quiet else "this machine was too busy to say"
    assert said in page.locator("h3").first.inner_text()


def test_the_last_run_is_shown_on_return(new_page) -> None:
    page = new_page("/")
    wait_for_chart(page, "start_here")
    if points(page, "measured") == 0:
        start(page, "start_here")
        wait_for_end(page)
    page.reload()
    wait_for_chart(page, "start_here")
    assert points(page, "measured") == 8


def test_downloads_open(new_page, tmp_path) -> None:
    page = new_page("/")
    wait_for_chart(page, "start_here")
    if points(page, "measured") == 0:
        start(page, "start_here")
        wait_for_end(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Run (JSON)").click()
    download.value.save_as(tmp_path / "run.json")
    run = runs.load(tmp_path / "run.json")
    assert run.spec.experiment == "selftest"
    assert len(run.points) == 8
    with page.expect_download() as download:
        page.get_by_role("button", name="Points (CSV)").click()
    download.value.save_as(tmp_path / "points.csv")
    table = pd.read_csv(io.BytesIO((tmp_path / "points.csv").read_bytes()))
    assert sorted(table["median_s"]) == sorted(point.timing.median_s for point in run.points)


def test_decode_steps_are_measured_on_the_kv_cache_page(new_page) -> None:
    page = new_page("/kv_cache")
    wait_for_chart(page, "kv_cache")
    start(page, "kv_cache")
    wait_for_end(page)
    assert "Finished in" in text(page)
    assert points(page, "measured") == 6  # batches 1 and 16 at three lengths


def test_cancelling_keeps_what_was_finished(new_page, server) -> None:
    forget_runs(server)
    page = new_page("/score_tensor")
    wait_for_chart(page, "score_tensor")
    start(page, "score_tensor")
    wait_for_points(page, 2)
    press(page, "Cancel")
    wait_for_end(page, 60)
    assert "Cancelled." in text(page)
    kept = points(page, "measured")
    assert 2 <= kept < 12
    assert f"The {kept} points finished before that are kept" in text(page)
    page.reload()
    wait_for_chart(page, "score_tensor")
    assert points(page, "measured") == kept


def test_a_worker_killed_from_outside_is_said_and_its_points_stay(new_page, server) -> None:
    forget_runs(server)
    page = new_page("/score_tensor?batch=2")
    wait_for_chart(page, "score_tensor")
    start(page, "score_tensor")
    wait_for_points(page, 1)
    for worker in server.workers():
        worker.kill()
    wait_for_end(page, 60)
    assert "The measuring process was ended from outside (SIGKILL)" in text(page)
    assert points(page, "measured") >= 1
    assert server.process.poll() is None


def test_of_two_readers_the_second_queues_and_then_runs(new_page, server) -> None:
    first, second = new_page("/"), new_page("/?batch=2")
    for page in (first, second):
        wait_for_chart(page, "start_here")
    start(first, "start_here")
    start(second, "start_here")
    wait_until(second, lambda: "In the queue, next" in text(second), 60, "the second reader waits")
    assert len(server.workers()) <= 1
    wait_for_end(first)
    wait_for_end(second)
    assert "Finished in" in text(first)
    assert "Finished in" in text(second)
    assert points(second, "measured") == 8


def test_a_cancelled_place_in_the_queue_is_given_up(new_page) -> None:
    first, second = new_page("/score_tensor?batch=3"), new_page("/kv_cache")
    wait_for_chart(first, "score_tensor")
    wait_for_chart(second, "kv_cache")
    start(first, "score_tensor")
    start(second, "kv_cache")
    press(second, "Cancel")
    wait_until(second, lambda: "Cancelled." in text(second), 60, "the second reader gave up")
    press(first, "Cancel")
    wait_for_end(first, 60)


def test_nothing_is_left_running(server) -> None:
    deadline = time.monotonic() + 60
    while server.workers() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert server.workers() == []
    assert psutil.Process(server.process.pid).is_running()
