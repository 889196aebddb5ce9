"""The playground in a real browser, at the width of a desktop and of a phone."""

from __future__ import annotations

import contextlib
import io
import json
import re
import warnings
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from ghrr.structures import CapacityWarning
from ghrr_lab.play.app import make_tabs

pytestmark = pytest.mark.slow
TABS = {tab.name: tab for tab in make_tabs()}
Visit = Callable[..., Page]


def figure_of(page: Page, name: str) -> Locator:
    return page.locator(f"#{name}-picture figure")


def description(page: Page, name: str) -> str:
    """Return the alternative text of a figure once it is there and the address is restored."""
    page.wait_for_function("window.ghrrRestored")
    expect(figure_of(page, name)).to_be_visible()
    return figure_of(page, name).get_attribute("aria-label") or ""


def number_box(page: Page, label: str) -> Locator:
    return page.get_by_label(f"number input for {label}").locator("visible=true")


def set_slider(page: Page, label: str, value: float) -> None:
    box = number_box(page, label)
    box.fill(str(value))
    box.press("Enter")


def wait_for_change(page: Page, name: str, before: str) -> str:
    expect(figure_of(page, name)).not_to_have_attribute("aria-label", before)
    return description(page, name)


def shown_code(page: Page, name: str) -> str:
    page.locator(f"#{name}-show-code button").first.click()
    lines = page.locator(f"#{name}-code .cm-line")
    expect(lines.first).to_be_visible()
    return "\n".join(lines.all_inner_texts()).replace("\u200b", "")


def run(code: str) -> str:
    """Run a program, and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)  # some settings show what is too much
        exec(compile(code, "<shown code>", "exec"), {"__name__": "__main__"})
    return out.getvalue()


@pytest.mark.parametrize("device", ["desktop", "phone"])
def test_sliders_change_the_picture_and_nothing_is_wider_than_the_screen(device: str, visit: Visit) -> None:
    for name, tab in TABS.items():
        page = visit(f"tab={name}", device, "dark" if device == "phone" else "light")
        before = description(page, name)
        expect(page.get_by_text(tab.notice)).to_be_visible()
        sliders = {
            "attention": ("layer", 2),
            "models": ("reals", 144),
            "cups": ("repeats", 5),
            "matrices": ("certainty", 60),
        }
        setting, value = sliders.get(name, ("dim", 20))
        [label] = [control.label for control in tab.controls if control.name == setting]
        set_slider(page, label, value)
        assert wait_for_change(page, name, before)
        assert re.search(rf"[?&]{setting}={value}(&|$)", page.url)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


# What the code prints, and the page shows too.
PRINTED = {
    "order": r"(measured [\d.-]+, theory [\d.-]+)",
    "records": r"Match\('(\w+)', score",
    "kernels": r"(root mean square error of [\d.]+)",
    "capacity": r"(measured [\d.]+, theory [\d.]+)",
    "trees": r"(\d+ of \d+ leaves are correct)",
    "models": r"(FHRR: [\d.]+; GHRR, m = 3: [\d.]+)",
    "search": r"(record \d+: score [\d.]+, probability [\d.]+%)",
    "learn": r"(class \d, probability [\d.]+%)",
    "family": r"m = 8: ([\w-]+, probability [\d.]+%)",
    "matrices": r"(none is right: [\d.]+%)",
    "cups": r"rope: ([ABC] [ABC] [ABC])",
    "attention": r"([\w ,.!?]+)\n$",
}


@pytest.mark.parametrize("name", list(TABS))
def test_failure_button_changes_the_picture_and_the_shown_code_computes_it(name: str, visit: Visit) -> None:
    page = visit(f"tab={name}")
    before = description(page, name)
    page.locator(f"#{name}-failure").click()
    wait_for_change(page, name, before)
    setting, value = next(iter(TABS[name].failure.values.items()))
    expect(page).to_have_url(re.compile(rf"tab={name}&.*{re.escape(urlencode({setting: value}))}"))
    printed = re.search(PRINTED[name], run(shown_code(page, name)))
    assert printed is not None
    expect(page.locator(f"#{name}-picture")).to_contain_text(printed[1].strip())


def test_tab_bar_selects_a_tab_and_writes_it_to_the_address(visit: Visit) -> None:
    page = visit()
    description(page, "records")
    page.get_by_role("tab", name="Trees").click()
    description(page, "trees")
    expect(page).to_have_url(re.compile(r"\?tab=trees&depth=4&"))
    expect(figure_of(page, "records")).to_be_hidden()


def test_address_restores_tab_and_values(visit: Visit) -> None:
    page = visit("tab=capacity&items=123&dim=50&m=2&rotation=shared")
    before = description(page, "capacity")
    assert "At 123 pairs" in before
    expect(number_box(page, "key-value pairs")).to_have_value("123")
    expect(page.get_by_label("shared")).to_be_checked()
    set_slider(page, "dim, number of slots", 40)
    drawn = wait_for_change(page, "capacity", before)
    shared = visit(page.url.partition("?")[2])
    expect(figure_of(shared, "capacity")).to_have_attribute("aria-label", drawn)
    expect(number_box(shared, "dim")).to_have_value("40")


def test_address_with_invalid_values_shows_the_defaults(visit: Visit) -> None:
    page = visit("tab=capacity&items=1e99&dim=<script>&rotation=other&unknown=1")
    assert "At 60 pairs" in description(page, "capacity")


def test_invalid_document_shows_a_message_and_a_valid_one_the_picture_again(visit: Visit) -> None:
    page = visit("tab=records")
    before = description(page, "records")
    box = page.get_by_label("a JSON document")
    box.fill('{"name": ')
    expect(page.get_by_role("alert").filter(has_text="play: the document")).to_be_visible()
    assert "Traceback" not in page.content()
    expect(page.get_by_label("friend → name")).to_have_count(0)  # a path of the old document
    expect(figure_of(page, "records")).to_have_count(0)
    box.fill('{"name": "Grace", "born": 1906}')
    assert wait_for_change(page, "records", before)
    page.get_by_label("born").click()
    expect(page.locator("#records-picture")).to_contain_text("born reads as ✓ 1906")


def test_names_of_a_document_are_not_run_as_code(visit: Visit) -> None:
    page = visit("tab=records")
    before = description(page, "records")
    key = "<img src=x onerror='window.hacked=1'>${window.hacked=1}{{hacked}}"
    page.get_by_label("a JSON document").fill(json.dumps({key: "<script>window.hacked=1</script>", r"$\frac{$": 1}))
    wait_for_change(page, "records", before)
    expect(page.locator("#records-picture")).to_contain_text(f"{key} reads as")
    assert page.evaluate("window.hacked") is None


def test_other_records_bring_their_example_and_an_edited_one_is_searched(visit: Visit) -> None:
    page = visit("tab=search")
    before = description(page, "search")
    page.get_by_label("people").click()
    before = wait_for_change(page, "search", before)
    box, hits = page.get_by_label("an example, JSON"), page.locator("#search-picture li")
    expect(box).to_have_value(re.compile("Lovelase"))
    expect(hits.first).to_contain_text(re.compile(r"home\.city 1\.00.*Lovelace"))
    box.fill('{"name": {"first": "Hedy"}, "home": {"city": "bath"}}')
    before = wait_for_change(page, "search", before)
    expect(hits.first).to_contain_text(re.compile("Hedy.*Bath"))
    page.get_by_label("must not agree, JSON").fill('{"name": {"first": "Hedy"}}')
    wait_for_change(page, "search", before)
    expect(page.locator("#search-picture")).not_to_contain_text("Hedy")
    expect(page).to_have_url(re.compile(r"tab=search&records=people&example=.*Hedy"))


PEOPLE = "".join(
    f'{{"name": "{name} {number}", "city": "{city}"}}\n'
    for number, (name, city) in enumerate([("Ada", "Rome"), ("Kurt", "Oslo")] * 10)
)


@pytest.mark.parametrize("device", ["desktop", "phone"])
def test_own_file_is_searched_until_it_is_removed(device: str, visit: Visit) -> None:
    page = visit("tab=search", device)
    before = description(page, "search")
    box = page.get_by_label("an example, JSON")
    file = {"name": "people.jsonl", "mimeType": "", "buffer": PEOPLE.encode()}
    page.locator("#file-documents input").set_input_files(file)  # type: ignore[arg-type]
    before = wait_for_change(page, "search", before)
    assert "of 20 records" in before
    expect(box).to_have_value('{"name": "Ada 0", "city": "Rome"}')
    expect(page.get_by_label("products")).to_be_hidden()
    box.fill('{"name": "kurd 7"}')
    before = wait_for_change(page, "search", before)
    expect(page.locator("#search-picture li").first).to_contain_text("Kurt 7")
    assert "documents" not in page.url  # nor the text of the file
    page.get_by_role("button", name="remove the file").click()
    wait_for_change(page, "search", before)
    expect(box).to_have_value(re.compile("sony camera"))
    expect(page.get_by_label("products")).to_be_visible()


def test_own_table_is_dropped_and_learned(visit: Visit) -> None:
    page = visit("tab=learn")
    before = description(page, "learn")
    rows = "".join(f"{n},{'high' if n > 20 else 'low'}\n" for n in range(40))
    page.locator("#file-table label").evaluate(
        """(label, text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], "levels.csv"));
            label.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
        }""",
        f"size,level\n{rows}",
    )
    before = wait_for_change(page, "learn", before)
    assert "Predictions of the column level" in before
    expect(page.locator("#sketch-drawing canvas")).to_be_hidden()
    page.get_by_label("size", exact=True).click()
    before = wait_for_change(page, "learn", before)
    assert "Predictions of the column size" in before
    page.get_by_role("button", name="remove the file").click()
    wait_for_change(page, "learn", before)
    page.get_by_role("button", name="8", exact=True).click()  # the sketch pad is there again, and works
    expect(page.locator("#learn-picture")).to_contain_text("Your drawing: class 8")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("people.csv", b"x" * 1_000_001, "people.csv has 1,000,001 bytes, and 1,000,000 fit here"),
        ("people.csv", b"\xff\xfe", "people.csv cannot be read as UTF-8 text"),
        ("people.xlsx", b"PK", "people.xlsx: choose a file that ends in .csv, .tsv"),
    ],
)
def test_file_that_cannot_be_read_is_refused_in_the_browser(
    name: str, content: bytes, message: str, visit: Visit
) -> None:
    page = visit("tab=search")
    before = description(page, "search")
    page.locator("#file-documents input").set_input_files({"name": name, "mimeType": "", "buffer": content})
    expect(page.locator("#file-documents").get_by_role("alert")).to_contain_text(message)
    assert description(page, "search") == before


@pytest.mark.parametrize("device", ["desktop", "phone"])
def test_drawing_a_seven_shows_a_seven_and_the_address_restores_it(device: str, visit: Visit) -> None:
    page = visit("tab=learn", device)
    before = description(page, "learn")
    page.get_by_role("button", name="clear", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="the drawing is empty")).to_be_visible()
    canvas = page.locator("#sketch-drawing canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    (x, y), *others = [(box["x"] + box["width"] * x, box["y"] + box["height"] * y) for x, y in SEVEN]
    page.mouse.move(x, y)
    page.mouse.down()
    for x, y in others:
        page.mouse.move(x, y, steps=10)
    page.mouse.up()
    drawn = wait_for_change(page, "learn", before)
    assert "Your drawing: class 7" in page.locator("#learn-picture").inner_text()
    restored = visit(page.url.partition("?")[2])
    expect(figure_of(restored, "learn")).to_have_attribute("aria-label", drawn)
    assert pixels_of(restored) == pixels_of(page)


def test_example_digits_are_chosen_by_keyboard(visit: Visit) -> None:
    page = visit("tab=learn")
    before = description(page, "learn")
    page.get_by_role("button", name="8", exact=True).focus()
    page.keyboard.press("Enter")
    before = wait_for_change(page, "learn", before)
    assert "Your drawing: class 8" in page.locator("#learn-picture").inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    wait_for_change(page, "learn", before)
    assert "Your drawing: class 9" in page.locator("#learn-picture").inner_text()


@pytest.mark.parametrize("device", ["desktop", "phone"])
def test_walk_is_built_step_by_step_and_the_address_restores_it(device: str, visit: Visit) -> None:
    page = visit("tab=family&chain=father&left_out=0", device)
    before = description(page, "family")
    steps, picture = page.locator("#steps-chain"), page.locator("#family-picture")
    steps.get_by_role("button", name="mother", exact=True).click()
    before = wait_for_change(page, "family", before)
    expect(picture).to_contain_text("my father's mother: grandmother, by the rules.")
    steps.get_by_role("button", name="son", exact=True).focus()
    page.keyboard.press("Enter")
    drawn = wait_for_change(page, "family", before)
    expect(picture).to_contain_text(re.compile(r"m = 8: ✓ uncle, probability [\d.]+%"))
    expect(picture.locator("li").first).to_contain_text(re.compile(r"uncle \d+%\s*grandmother \d+%\s*father\s*mother"))
    expect(page).to_have_url(re.compile(r"chain=father\+mother\+son&"))
    restored = visit(page.url.partition("?")[2], device)
    expect(figure_of(restored, "family")).to_have_attribute("aria-label", drawn)
    expect(restored.locator("#steps-chain output")).to_have_text("father → mother → son")


def test_steps_are_removed_and_end_at_the_longest_walk(visit: Visit) -> None:
    page = visit("tab=family&chain=" + "+".join(["brother"] * 7))
    before = description(page, "family")
    steps = page.locator("#steps-chain")
    sister = steps.get_by_role("button", name="sister", exact=True)
    sister.click()
    before = wait_for_change(page, "family", before)
    expect(sister).to_be_disabled()
    steps.get_by_role("button", name="remove last").click()
    wait_for_change(page, "family", before)
    expect(sister).to_be_enabled()
    steps.get_by_role("button", name="remove all").click()
    expect(page.get_by_role("alert").filter(has_text="must be 1 to 8 names, got 0")).to_be_visible()
    expect(steps.locator("output")).to_have_text("no steps")


SEVEN = [(0.3, 0.2), (0.7, 0.2), (0.45, 0.8)]  # in units of the canvas


def pixels_of(page: Page) -> list[int]:
    """Return which pixels of the canvas have ink, and check that some have it."""
    script = "(c) => [...c.getContext('2d').getImageData(0, 0, 32, 32).data].filter((_, i) => i % 4 == 3)"
    alphas: list[int] = page.locator("#sketch-drawing canvas").evaluate(script)
    assert 0 < sum(alpha > 0 for alpha in alphas) < 32 * 32
    return alphas


def test_two_users_do_not_share_values_or_models(visit: Visit) -> None:
    first, second = visit("tab=attention"), visit("tab=attention&text=this+cat")
    before = description(second, "attention")
    expect(first.locator("#attention-picture")).to_contain_text("GHRR, perplexity")
    first.locator("#attention-prepare").click()
    expect(first.locator("#attention-picture")).to_contain_text(
        re.compile(r"GHRR, 4 epochs, perplexity \d+.*vanilla, 4 epochs, perplexity")
    )
    set_slider(second, "seed of the generated words", 3)
    set_slider(second, "layer", 2)
    wait_for_change(second, "attention", before)
    expect(second.locator("#attention-picture")).to_contain_text("GHRR, perplexity")
    expect(second.get_by_label("beginning of a sentence")).to_have_value("this cat")
    expect(first.get_by_label("beginning of a sentence")).to_have_value("the dogs which the cat sees")
    set_slider(first, "layer", 2)
    expect(first).to_have_url(re.compile("layer=2"))
    expect(first.locator("#attention-picture")).to_contain_text(re.compile(r"GHRR, 4 epochs, perplexity \d+"))
