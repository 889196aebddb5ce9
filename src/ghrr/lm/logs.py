"""What a run writes while it goes: a line of JSON per event, and TensorBoard's format if wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ghrr._checks import install_hint
from ghrr.files import atomic_write, check_fields, open_to_append, parse_json, read_bytes

_MAX_BYTES = 1 << 30


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
        with atomic_write(self.path, follow_links=False) as temporary:
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
        with open_to_append(self.path, "train") as file:
            file.write(json.dumps({"step": step, **values}).encode() + b"\n")
        if self.events is not None:
            for name, value in values.items():
                self.events.add_scalar(name, value, step)

    def close(self) -> None:
        """Finish TensorBoard's file."""
        if self.events is not None:
            self.events.close()


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a log, without those that a kill has cut short.

    Raises ``ValueError`` for a line of JSON that is no entry of a log: an object with a step and numbers.
    """
    path = folder / "log.jsonl"
    lines = read_bytes(path, "read_log", limit=_MAX_BYTES).splitlines() if path.exists() else []
    read = []
    for number, line in enumerate(lines, 1):
        where = f"{path}, line {number}"
        try:
            entry = parse_json(line, where)
        except ValueError:
            continue
        numbers = dict.fromkeys(entry, float) if isinstance(entry, dict) else {}
        read.append(check_fields(where, entry, {**numbers, "step": int}))
    return read
