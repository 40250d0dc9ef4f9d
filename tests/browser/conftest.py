"""A real Chromium against the running app: one server and one browser for the session, a fresh page for each test."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
START_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Server:
    """The app under test: its address, its process, the folder where it keeps runs."""

    url: str
    process: subprocess.Popen
    home: Path

    def workers(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if any("lab.measure.worker" in word for word in child.cmdline())]


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium() -> str:
    found = find_chromium()
    if found is None:
        reason = f"no Chromium on this machine (looked for {', '.join(NAMES)})"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; under CI the browser tests must run")
        pytest.skip(reason)
    return found


@contextlib.contextmanager
def running(home: Path, script: Path = ROOT / "app.py") -> Iterator[Server]:
    """The app, started with an empty data folder on a port of its own; ended with all its children."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(script)]
    with (home / f"{script.stem}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--server.port", str(port), "--server.headless", "true"],
            cwd=ROOT,
            env=os.environ | {"LAB_HOME": str(home), "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            url = f"http://localhost:{port}"
            wait_until_up(url, process)
            yield Server(url, process, home)
        finally:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.terminate()
            process.wait(timeout=30)


@pytest.fixture(scope="session")
def server(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("browser-lab-home")) as started:
        yield started


@pytest.fixture
def new_server(chromium: str, tmp_path: Path) -> Iterator[Callable[[], Server]]:
    """A cold server: nobody has opened a page of it yet."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(running(tmp_path))


def wait_until_up(url: str, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"the app ended with code {process.returncode} before it was up")
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the app was not up after {START_TIMEOUT_S:.0f} s")


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def new_page(browser, server: Server) -> Iterator[object]:
    contexts = []

    def open_page(address: str = "/", server: Server = server, **options: object):
        context = browser.new_context(
            viewport={"width": 1024, "height": 768}, accept_downloads=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(90_000)
        page.goto(server.url + address)
        return page

    yield open_page
    for context in contexts:
        context.close()
