"""What a run writes while it goes: a line of JSON per event, and TensorBoard's format if wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ghrr._checks import install_hint
from ghrr.files import atomic_write


class Log:
    """``log.jsonl`` in the folder of a run, and ``tensorboard/`` beside it.

    A run that goes on from a step drops the lines after it: they belong to steps that are done again.
    """

    def __init__(self, folder: Path, *, after: int, tensorboard: bool = False, writes: bool = True) -> None:
        self.path = folder / "log.jsonl"
        self.writes = writes
        self.events: Any = None
        if not writes:
            return
        kept = [line for line in read_log(folder) if line["step"] <= after]
        with atomic_write(self.path) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (heavy, and an extra)
            except ImportError as error:
                raise ImportError(f"TensorBoard events need tensorboard: {install_hint('lm')}") from error
            self.events = SummaryWriter(folder / "tensorboard", purge_step=after + 1)

    def write(self, *, step: int, **values: float) -> None:
        """Add a line."""
        if not self.writes:
            return
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **values}) + "\n")
        if self.events is not None:
            for name, value in values.items():
                self.events.add_scalar(name, value, step)

    def close(self) -> None:
        """Finish TensorBoard's file."""
        if self.events is not None:
            self.events.close()


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines of a log; one that was cut short by a kill is left out."""
    path = folder / "log.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    read = []
    for line in lines:
        try:
            read.append(json.loads(line))
        except ValueError:
            continue
    return read
