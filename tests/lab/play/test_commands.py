"""``ghrr play``: what it says when it cannot start."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.common import invoke


@pytest.fixture
def taken() -> Iterator[int]:
    """Port on which another server listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_port_in_use_is_named_with_a_hint(taken: int) -> None:
    result = invoke("play", "--no-browser", "--port", str(taken))
    assert result.exit_code == 2
    assert f"play: port {taken} is in use on 127.0.0.1; choose another with --port" in result.output


def test_unknown_host_is_named(taken: int) -> None:
    result = invoke("play", "--no-browser", "--host", "no.such.host.invalid", "--port", str(taken))
    assert result.exit_code == 2
    assert "'no.such.host.invalid' is not an address of this machine; choose another with --host" in result.output


@pytest.mark.parametrize("arguments", [["--colour"], ["--port", "0"], ["--port", "70000"], ["--port", "x"]])
def test_invalid_options_are_refused(arguments: list[str]) -> None:
    result = invoke("play", *arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.output


def test_missing_extra_gives_installation_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "gradio" else object())
    result = invoke("play")
    assert result.exit_code == 2
    assert "this command needs gradio; pip install 'ghrr[play]'" in result.output


@pytest.mark.slow
def test_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = invoke("play", "--no-browser", "--port", str(port), "--run", str(tmp_path))
    assert result.exit_code == 2
    assert f"load_run: {tmp_path} holds no run" in result.output.replace("\n", "")


@pytest.mark.slow
def test_command_line_does_not_import_the_web_server() -> None:
    code = "import sys, ghrr.cli; print({'gradio', 'matplotlib', 'ghrr_lab.play'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "set()\n"
