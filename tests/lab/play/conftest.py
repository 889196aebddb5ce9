"""One server for all tests of the playground, and a real browser that reports errors and external requests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize, expect, sync_playwright

from tests.processes import HANG, start, wait_until

SIZES: dict[str, ViewportSize] = {
    "desktop": {"width": 1280, "height": 900},
    "phone": {"width": 390, "height": 844},
}
NO_BROWSER = "the playground was not tested in a browser: chromium is not installed (apt-get install chromium)"


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start ``ghrr play``; at the end stop it with Ctrl-C, and check what it printed."""
    log = tmp_path_factory.mktemp("play") / "log.txt"
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "ghrr", "play", "--no-browser", "--port", str(port)]
    temporary = tmp_path_factory.mktemp("temporary")
    settings = {**os.environ, "TMPDIR": str(temporary)}
    with log.open("w") as out, start(command, stdout=out, stderr=out, env=settings) as process:
        try:
            wait_until(lambda: "The playground is at" in log.read_text(), process)
            yield f"http://127.0.0.1:{port}/"
            process.send_signal(signal.SIGINT)
            assert process.wait(HANG) == 0, log.read_text()
        finally:
            process.kill()
    assert log.read_text().endswith("Stopped.\n")
    assert [path for path in temporary.rglob("*") if path.is_file()] == []
    # No warnings and stack traces. gradio logs malformed requests, which limits.py hands on to it.
    assert "/ghrr/play/" not in log.read_text().replace("/ghrr/play/limits.py", "")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip(NO_BROWSER)
    expect.set_options(timeout=1000 * HANG)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=Path(path), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a page for a new user; fail on console errors and on external requests."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def open_page(query: str = "", device: str = "desktop", colours: Literal["light", "dark"] = "light") -> Page:
        context = browser.new_context(viewport=SIZES[device], color_scheme=colours)
        contexts.append(context)
        context.set_default_timeout(1000 * HANG)
        context.route(lambda url: not url.startswith((address, "data:", "blob:")), lambda route: route.abort())
        page = context.new_page()
        page.on("request", lambda request: _note_external(request.url, address, faults))
        page.on("console", lambda message: _note_error(message, faults))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{address}?{query}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def _note_external(url: str, address: str, faults: list[str]) -> None:
    if not url.startswith((address, "data:", "blob:")):
        faults.append(url)


def _note_error(message: ConsoleMessage, faults: list[str]) -> None:
    if message.type == "error":
        faults.append(message.text)
