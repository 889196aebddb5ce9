"""The log of a training run: one line of JSON per event, and optional TensorBoard events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ghrr.checks import install_hint, named, names_errors
from ghrr.files import atomic_write, check_fields, open_to_append, parse_json, read_bytes
from ghrr_lab.lm.run_folder import LOG, TENSORBOARD

_MAX_BYTES = 1 << 30


class TrainLog:
    """Writer of ``log.jsonl`` and, optionally, of the ``tensorboard`` folder beside it.

    Opening the log drops the lines after step ``after``, because a resumed run repeats these steps.

    Parameters
    ----------
    folder
        Run folder.
    after
        Last step that is kept.
    tensorboard
        Also write TensorBoard events.
    enabled
        If False, write nothing. All processes but the main one use this.
    """

    def __init__(self, folder: Path, *, after: int, tensorboard: bool = False, enabled: bool = True) -> None:
        self.path = folder / LOG
        self.enabled = enabled
        self.events: Any = None
        if not enabled:
            return
        kept = [line for line in read_log(folder) if line["step"] <= after]
        with atomic_write(self.path, follow_links=False) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (slow, optional dependency)
            except ImportError as error:
                raise ImportError(named(f"tensorboard=True needs tensorboard; {install_hint('lm')}")) from error
            self.events = SummaryWriter(folder / TENSORBOARD, purge_step=after + 1)

    def write(self, *, step: int, **values: float) -> None:
        """Append one line."""
        if not self.enabled:
            return
        with open_to_append(self.path) as file:
            file.write(json.dumps({"step": step, **values}).encode() + b"\n")
        if self.events is not None:
            for name, value in values.items():
                self.events.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the TensorBoard file."""
        if self.events is not None:
            self.events.close()


@names_errors
def read_log(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of a log. Lines that are not JSON, as a killed process leaves them, are skipped.

    Raises
    ------
    ValueError
        A line is JSON but not an object of numbers with a step.
    """
    path = folder / LOG
    lines = read_bytes(path, limit=_MAX_BYTES).splitlines() if path.exists() else []
    entries = []
    for number, line in enumerate(lines, 1):
        source = f"{path}, line {number}"
        try:
            entry = parse_json(line, source)
        except ValueError:
            continue
        numbers = dict.fromkeys(entry, float) if isinstance(entry, dict) else {}
        entries.append(check_fields(source, entry, {**numbers, "step": int}))
    return entries
