"""A real browser for tests of web pages. Tests that use it are skipped where chromium or playwright is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Route

_LOCAL = {"127.0.0.1", "localhost", None}  # None: file, data and blob addresses


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start chromium without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="not tested in a browser: playwright is not installed")
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("not tested in a browser: chromium is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


def new_page(browser: Browser, **options: Any) -> tuple[Page, list[str]]:
    """Open an empty page, in a context of its own.

    Returns
    -------
    The page, and a list that grows with each error that the page reports and each external address that it requests.
    Such requests are blocked. ``options`` are passed to ``browser.new_page``, such as ``viewport``.
    """
    page, problems = browser.new_page(**options), list[str]()

    def record_message(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(f"{message.type}: {message.text}")

    def block(route: Route) -> None:
        problems.append(f"external request: {route.request.url}")
        route.abort()

    page.on("console", record_message)
    page.on("pageerror", lambda error: problems.append(f"uncaught: {error}"))
    page.route(lambda url: urlsplit(url).hostname not in _LOCAL, block)
    return page, problems
