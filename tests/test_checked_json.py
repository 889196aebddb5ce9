"""JSON with a checksum: what was written is read, any change is found, and files without one are read as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ghrr.files import read_checked_json, read_json, write_checked_json, write_json

CONTENT = {"name": "ü\n", "loss": [0.1, 1e-300, float("nan")], "command": None, "nested": {"b": 1, "a": (2, True)}}


def test_content_is_read_without_the_added_fields(tmp_path: Path) -> None:
    write_checked_json(tmp_path / "x.json", CONTENT)
    assert repr(read_checked_json(tmp_path / "x.json")) == repr(json.loads(json.dumps(CONTENT)))
    assert read_json(tmp_path / "x.json").keys() - CONTENT.keys() == {"format_version", "sha256"}


def test_file_without_checksum_is_read(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"name": "x"})
    assert read_checked_json(tmp_path / "x.json") == {"name": "x"}


def test_every_changed_byte_is_found_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    content = {"name": "x", "loss": [0.25], "nested": {"a": True}}
    write_checked_json(path, content)
    right = path.read_bytes()
    found = 0
    for place in range(len(right)):
        for bit in range(8):
            path.write_bytes(right[:place] + bytes([right[place] ^ 1 << bit]) + right[place + 1 :])
            try:
                assert read_checked_json(path) == content
            except ValueError:
                found += 1
    assert found > 0.9 * 8 * len(right)  # the rest are spaces


def test_message_names_the_file(tmp_path: Path) -> None:
    write_checked_json(tmp_path / "x.json", {"loss": 1})
    (tmp_path / "x.json").write_text((tmp_path / "x.json").read_text().replace(": 1", ": 3"))
    with pytest.raises(ValueError, match=r"^'.*x\.json': the content does not match its checksum"):
        read_checked_json(tmp_path / "x.json")
