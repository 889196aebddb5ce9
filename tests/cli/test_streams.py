"""Closed streams, pipes whose reader has gone, and full disks: a status and at most a message, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ghrr.cli.streams import BROKEN_PIPE
from tests.cli.common import invoke

pytestmark = pytest.mark.slow
GHRR = f"{sys.executable} -m ghrr"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an index and a file of records."""
    folder = tmp_path_factory.mktemp("streams")
    source = folder / "people.jsonl"
    source.write_text("".join(json.dumps({"name": f"person {n}"}) + "\n" for n in range(20)))
    assert invoke("index", str(source), "-o", str(folder / "idx")).exit_code == 0
    assert invoke("encode", str(source), "-o", str(folder / "records.safetensors")).exit_code == 0
    return folder


# Each with its status when the output can be written.
COMMANDS = {
    "--help": 0,
    "paper list": 0,
    "lm eval missing": 2,
    """search idx '{"name": "person"}' --json""": 0,
    "query records.safetensors name": 0,
    "index people.jsonl -o idx --force": 0,
}


def shell(folder: Path, script: str) -> tuple[int, str]:
    """Run a script of bash, and return its status and what it wrote to standard error."""
    settings = {**os.environ, "PYTHONUNBUFFERED": "", "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=settings, capture_output=True, text=True, timeout=600, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_reader_that_ends_early_ends_the_command_quietly(folder: Path, command: str) -> None:
    # The reader ends before the command, which takes a second to start, writes.
    status, errors = shell(folder, f"{GHRR} {command} | true; exit ${{PIPESTATUS[0]}}")
    if COMMANDS[command] == 0:
        assert (status, errors.strip()) == (BROKEN_PIPE, "")
    else:  # it writes to standard error only
        assert status == COMMANDS[command]
        assert errors.startswith("Error:")


def test_closed_output_works_like_dev_null(folder: Path) -> None:
    assert shell(folder, f"{GHRR} cite >&-") == (0, "")
    assert shell(folder, f"""{GHRR} search idx '{{"name": "person"}}' <&- >&- 2>&-""") == (0, "")


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_errors_that_cannot_be_written_do_not_change_the_status(folder: Path, closed: str) -> None:
    assert shell(folder, f"{GHRR} query missing.safetensors name {closed}")[0] == 2
    assert shell(folder, f"{GHRR} index people.jsonl -o idx{len(closed)} {closed}")[0] == 0


def test_closed_input_is_empty(folder: Path) -> None:
    status, errors = shell(folder, f"{GHRR} dedupe - <&-")
    assert status == 2
    assert "contains no documents" in errors


def test_full_disk_is_reported(folder: Path) -> None:
    message = "Error: cannot write to standard output: No space left on device\n"
    assert shell(folder, f"{GHRR} query records.safetensors name >/dev/full") == (2, message)


def test_file_that_is_opened_does_not_take_the_place_of_a_closed_stream(folder: Path) -> None:
    script = (
        "import os; from ghrr.cli.streams import safe_streams\n"
        "with safe_streams():\n"
        "    number = os.open('data', os.O_CREAT | os.O_WRONLY)\n"
        "    os.write(1, b'from a library')\n"
        "assert number > 2, number"
    )
    assert shell(folder, f'{sys.executable} -c "{script}" <&- >&-') == (0, "")
    assert (folder / "data").read_bytes() == b""


def test_lines_on_standard_error_are_written_at_once(folder: Path) -> None:
    script = (
        "import sys; from ghrr.cli.streams import safe_streams\n"
        "with safe_streams():\n"
        "    print('first', file=sys.stderr)\n"
        "    print('second', flush=True)\n"
        "    print('third', file=sys.stderr)"
    )
    assert shell(folder, f'{sys.executable} -c "{script}" >&2') == (0, "first\nsecond\nthird\n")
