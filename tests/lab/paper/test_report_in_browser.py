"""The report in a real browser: filter, contents, large figures, colour schemes, and values that are not trusted."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.image import imread

from ghrr_lab import paper
from ghrr_lab.paper.report import render
from tests.browser import chromium, new_page
from tests.lab.paper.conftest import NAMES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Finished = tuple[Path, list[paper.Outcome]]
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


class Report:
    """Opens the report in pages that must cause no errors and no external requests."""

    def __init__(self, browser: Browser, path: Path) -> None:
        self.browser, self.path = browser, path
        self.problems: list[list[str]] = []

    def open(self, **options: Any) -> Page:
        page, problems = new_page(self.browser, **options)
        self.problems.append(problems)
        page.goto(self.path.as_uri())
        return page


@pytest.fixture
def report(browser: Browser, finished: Finished) -> Iterator[Report]:
    opened = Report(browser, finished[0] / "index.html")
    yield opened
    assert not any(opened.problems)


def visible(page: Page, selector: str) -> list[str]:
    """Return the ids of the visible elements."""
    return [str(item.get_attribute("id")) for item in page.locator(selector).all() if item.is_visible()]


def test_filter_shows_only_selected_verdicts(report: Report) -> None:
    page = report.open(viewport=DESKTOP)
    everything = visible(page, "section, article")
    assert everything == [NAMES[0], *(f"{NAMES[0]}-{i}" for i in (1, 2, 3)), NAMES[1], f"{NAMES[1]}-1"]
    page.get_by_label("partly 1").check()
    assert visible(page, "section, article") == [NAMES[0], f"{NAMES[0]}-3"]
    assert page.locator(".summary tr:visible").count() == 3  # heading, experiment, claim
    assert page.get_by_role("status").inner_text() == "1 of 4 claims"
    page.get_by_label("reproduced 3").check()
    assert visible(page, "section, article") == everything
    page.get_by_label("partly 1").uncheck()
    assert visible(page, "article") == [f"{NAMES[0]}-1", f"{NAMES[0]}-2", f"{NAMES[1]}-1"]
    page.get_by_label("reproduced 3").uncheck()
    assert visible(page, "section, article") == everything


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_contents_lead_to_sections(report: Report, viewport: Any) -> None:
    page, is_phone = report.open(viewport=viewport), viewport is PHONE
    contents = page.get_by_role("navigation").get_by_role("list")
    assert contents.is_visible() is not is_phone
    if is_phone:
        page.get_by_text("Contents and filter").click()
    title = page.locator(f"#{NAMES[1]} h2").inner_text()
    contents.get_by_role("link", name=title).click()
    assert page.evaluate("location.hash") == f"#{NAMES[1]}"
    bar = page.get_by_role("navigation").bounding_box()
    heading = page.locator(f"#{NAMES[1]} h2").bounding_box()
    assert bar
    assert heading
    assert bar["y"] == 0  # it stays on the screen
    assert (bar["y"] + bar["height"] if is_phone else 0) <= heading["y"] < viewport["height"]
    assert contents.is_visible() is not is_phone


def test_figure_opens_large_and_escape_closes_it(report: Report) -> None:
    page = report.open(viewport=DESKTOP)
    dialog, figure = page.get_by_role("dialog"), page.locator("figure").first
    assert not dialog.is_visible()
    figure.get_by_role("button", name="Enlarge").press("Enter")
    assert dialog.is_visible()
    small, large = (place.get_by_role("img") for place in (figure, dialog))
    assert large.get_attribute("alt") == small.get_attribute("alt")
    assert large.evaluate("(image) => image.width") > 1.2 * small.evaluate("(image) => image.width")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    figure.get_by_role("img").click()
    assert dialog.is_visible()
    page.mouse.click(2, 2)  # outside the dialog
    assert not dialog.is_visible()
    figure.get_by_role("img").click()
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()


def test_claims_show_command_and_code(report: Report) -> None:
    claim = report.open().locator(f"#{NAMES[1]}-1")
    assert claim.get_by_text(f"ghrr paper run {NAMES[1]} --quick --seed 0").is_visible()
    code = claim.get_by_text("def _varying_is_narrower(")
    assert not code.is_visible()
    claim.get_by_text("src/ghrr_lab/paper/experiments/fixed_vs_varying.py").click()
    assert code.is_visible()


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_page_does_not_scroll_sideways(report: Report, width: int) -> None:
    page = report.open(viewport={"width": width, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    ("scheme", "media", "is_dark"), [("light", "screen", 0), ("dark", "screen", 1), ("dark", "print", 0)]
)
def test_figures_follow_colour_scheme(report: Report, scheme: Any, media: Any, is_dark: bool) -> None:
    page = report.open(color_scheme=scheme)
    page.emulate_media(media=media)
    pixels = imread(io.BytesIO(page.locator("figure img").first.screenshot()))[..., :3]
    assert pixels.mean() < 0.2 if is_dark else pixels.mean() > 0.9


def test_page_without_javascript_shows_everything(report: Report) -> None:
    page = report.open(viewport=PHONE, java_script_enabled=False)
    assert len(visible(page, "article")) == 4
    assert page.get_by_role("navigation").get_by_role("list").is_visible()
    assert visible(page, "fieldset, button, dialog") == []


def test_values_and_figures_from_files_run_no_script(browser: Browser, finished: Finished, tmp_path: Path) -> None:
    attack = "</title></script><script>document.title = 'changed'</script><img src='https://example.org/x.png'>"
    manifest = json.loads((finished[0] / "manifest.json").read_text(encoding="utf-8"))
    manifest |= {"command": attack, "made": attack}
    for entry in manifest["experiments"]:
        entry |= {"title": f'"{attack}', "caption": f'"{attack}', "settings": {attack: attack}}
        for claim in entry["claims"]:
            claim |= {"says": attack, "where": attack, "comment": attack}
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' onload='top.document.title = \"changed\"'>{attack}</svg>"
    path = tmp_path / "index.html"
    path.write_text(render(manifest, dict.fromkeys(NAMES, svg.encode())), encoding="utf-8")
    page, problems = new_page(browser)
    page.goto(path.as_uri())
    assert page.title() == "GHRR: the paper reproduced"
    assert page.locator("article strong").first.inner_text() == attack
    assert problems == []


def test_errors_and_external_requests_of_a_page_are_found(browser: Browser) -> None:
    """The control for the tests above."""
    page, problems = new_page(browser)
    page.set_content("<img src='https://example.org/x.png'><script>console.error('wrong'); missing()</script>")
    assert {line.partition(":")[0] for line in problems} == {"external request", "error", "uncaught"}
    assert "error: wrong" in problems
