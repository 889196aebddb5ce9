"""The loader of CLUTRR folders: shortest paths, and clear errors with file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ghrr.relations.chains import load_clutrr

STORY: dict[str, Any] = {
    "task": "task_1.4",
    "edges": [[0, 1], [1, 2], [2, 1], [1, 3]],
    "types": ["wife", "brother", "sister", "father"],
    "query": [0, 3],
    "target": "father-in-law",
}


def write(folder: Path, *stories: Any, split: str = "train") -> None:
    lines = "\n".join(story if isinstance(story, str) else json.dumps(story) for story in stories)
    (folder / f"{split}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, STORY)
    write(tmp_path, STORY, split="test")
    return tmp_path


def test_chain_is_the_shortest_path_and_steps_come_from_the_task(folder: Path) -> None:
    stories = load_clutrr(folder, verify=False).train
    assert stories.examples == [(("wife", "father"), "father-in-law")]
    assert stories.steps == [4]


def test_all_members_of_a_compressed_file_are_read(folder: Path) -> None:
    """Files that were appended to each other, as by ``cat``, have several members."""
    path = folder / "train.jsonl.gz"
    path.write_bytes(path.read_bytes() + gzip.compress(b"\n") + path.read_bytes())
    assert len(load_clutrr(folder, verify=False).train.examples) == 2


def test_byte_order_mark_and_line_separators_of_unicode_are_read(folder: Path) -> None:
    story = json.dumps({**STORY, "types": ["wife", "brother", "sister", "step\u2028father"]}, ensure_ascii=False)
    write(folder, "\ufeff" + story)
    assert load_clutrr(folder, verify=False).train.examples[0].chain == ("wife", "step\u2028father")


def test_edges_are_followed_in_their_direction(folder: Path) -> None:
    write(folder, {**STORY, "query": [3, 0]})
    with pytest.raises(ValueError, match=r"train.jsonl.gz, line 1: no path leads from person 3 to person 0"):
        load_clutrr(folder, verify=False)


def test_other_content_fails_the_hash_check(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"train.jsonl.gz is not a train file of the published data, got sha256"):
        load_clutrr(folder)


def test_missing_file_is_named(folder: Path) -> None:
    (folder / "test.jsonl.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"test.jsonl.gz is missing"):
        load_clutrr(folder, verify=False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected an object"),
        ({key: value for key, value in STORY.items() if key != "target"}, "target is missing"),
        ({**STORY, "types": ["wife"]}, "each edge must have a type"),
        ({**STORY, "edges": [[0], [1, 2], [2, 1], [1, 3]]}, "must be pairs"),
        ({**STORY, "types": ["wife", "", "sister", "father"]}, "must be names"),
        ({**STORY, "task": "task"}, "must end with a number"),
        ({**STORY, "task": "task." + 5000 * "9"}, "must end with a number"),
    ],
)
def test_malformed_line_is_named(folder: Path, line: Any, reason: str) -> None:
    write(folder, STORY, line)
    with pytest.raises(ValueError, match=rf"train.jsonl.gz, line 2: .*{reason}"):
        load_clutrr(folder, verify=False)


@pytest.mark.parametrize(
    "content",
    [b"plain text", gzip.compress(b"x" * 1000)[:-12], gzip.compress(b"\xff\xfe")],
    ids=["not compressed", "cut off", "not UTF-8"],
)
def test_damaged_file_is_named(folder: Path, content: bytes) -> None:
    (folder / "train.jsonl.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"train.jsonl.gz is not gzip-compressed UTF-8 text"):
        load_clutrr(folder, verify=False)


def test_empty_file_is_named(folder: Path) -> None:
    write(folder)
    with pytest.raises(ValueError, match=r"train.jsonl.gz has no stories"):
        load_clutrr(folder, verify=False)
