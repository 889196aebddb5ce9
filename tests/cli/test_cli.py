"""Commands of general use, ``ghrr paper``, and how untrusted text is printed."""

from __future__ import annotations

import importlib.util
import re

import pytest

import ghrr
from ghrr.cli.output import escaped, say
from tests.cli.common import invoke


def rows_of(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("│").split("│")] for line in table.splitlines() if line.startswith("│")
    ]


def test_demo_shows_right_and_confused_answers() -> None:
    result = invoke("demo")
    assert result.exit_code == 0
    left, fhrr, wrong = re.split(r"FHRR \(m = 1\):|GHRR \(m = 3\), read from the wrong side", result.output)
    answers = ["tea", "coffee", "laptop", "desk"]
    assert [row[-1] for row in rows_of(left)] == [f"✓ {word}" for word in answers]
    mixed = "✗ coffee or laptop"
    assert [row[-1] for row in rows_of(fhrr)] == ["✓ tea", mixed, mixed, "✓ desk"]
    assert [row[-1] for row in rows_of(wrong)] == ["✗ none"] * 4


def test_info_lists_versions_devices_and_extras() -> None:
    output = invoke("info").output
    for word in ("ghrr", ghrr.__version__, "Python", "torch", "NumPy", "device", "BLAS", "extras", "paper yes"):
        assert word in output
    with ghrr.backend("torch"):
        assert "kernels  cpu torch: selected" in invoke("info").output


def test_info_prints_installation_hints_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "numba" else find(name))
    output = " ".join(invoke("info").output.split())
    assert "pip install 'ghrr[fast]'" in output
    assert "pip install -e '.[fast]'" in output


def test_info_escapes_device_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ghrr.ops, "in_use", lambda: {"cpu": "[/x] \x1b[31m :warning:"})
    result = invoke("info")
    assert result.exit_code == 0
    assert r"cpu [/x] \x1b[31m :warning:" in result.output


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a[bold]b[/]\\", "a[bold]b[/]\\"),
        (":smile:", ":smile:"),
        ("\x1b]0;x\x07\r\x7f", r"\x1b]0;x\x07\x0d\x7f"),
        ("\x9b2J\x85", r"\x9b2J\x85"),
        ("\u202ea\u2066\u2069\u200e\u200f\u061c", r"\u202ea\u2066\u2069\u200e\u200f\u061c"),
        (b"\xff".decode(errors="surrogateescape"), r"\udcff"),
        ("a\tb\nc", r"a\x09b\x0ac"),
        ("Zürich 東京 👩\u200d🚀", "Zürich 東京 👩\u200d🚀"),
    ],
)
def test_untrusted_text_is_escaped(text: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(escaped(text))
    assert capsys.readouterr().out == f"{shown}\n"


def test_untrusted_text_keeps_newlines_on_request() -> None:
    assert escaped("a\n\tb\r", lines=True).plain == "a\n\tb\\x0d"


def test_cite_and_version_print() -> None:
    assert "arXiv:2405.09689" in invoke("cite").output
    assert invoke("--version").output == f"{ghrr.__version__}\n"
    assert "Usage" in invoke().output


def test_missing_extra_gives_installation_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pandas" else object())
    result = invoke("paper", "list")
    assert result.exit_code == 2
    assert "this command needs pandas; pip install 'ghrr[paper]'" in result.output
