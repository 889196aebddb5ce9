"""The folder of a training run: file names, checks, and a lock against other processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ghrr.checks import named, names_errors, short_repr, without_name
from ghrr.files import check_fields, read_checked_json, read_json, write_checked_json, write_json
from ghrr.training import new_folder
from ghrr_lab.lm.config import ModelConfig
from ghrr_lab.lm.encoded_corpus import EncodedCorpus

RUN, VOCABULARY, RESULT, LOG = "run.json", "vocabulary.json", "result.json", "log.jsonl"
CHECKPOINT, BEST, TENSORBOARD = "checkpoint.safetensors", "best.safetensors", "tensorboard"
_NAMES = (RUN, VOCABULARY, RESULT, LOG, CHECKPOINT, BEST, TENSORBOARD)
_RUN_FIELDS: dict[str, type | tuple[type, ...]] = {
    "model": dict,
    "training": dict,
    "corpus": str,
    "vocabulary": str,
    "text": str,
}
_RESULT_FIELDS: dict[str, type | tuple[type, ...]] = {
    "dataset": str,
    "seed": int,
    "params": int,
    "steps": int,
    "best_step": int,
    "valid_ppl": float,
    "test_ppl": float,
    "tokens_per_s": (float, type(None)),
    "command": (str, type(None)),
}


class RunError(ValueError):
    """Raised when a run cannot start, continue or be loaded.

    Examples
    --------
    >>> from ghrr_lab import lm
    >>> try:
    ...     lm.load_run("no-such-folder")
    ... except lm.RunError as error:
    ...     print(error)
    load_run: no-such-folder holds no run, expected a folder with run.json
    """


@names_errors
@dataclass(frozen=True)
class OpenRun:
    """A run folder that this process has locked.

    Attributes
    ----------
    folder
        Path of the folder.
    result
        Result of the run if it is finished, else None.
    is_new
        Whether this process created the run.
    """

    folder: Path
    result: dict[str, Any] | None = None
    is_new: bool = False

    def discard(self) -> None:
        """Remove the files of a run that failed before its first step, if this process created them."""
        if self.is_new:
            for name in (RUN, VOCABULARY, LOG):
                (self.folder / name).unlink(missing_ok=True)
            shutil.rmtree(self.folder / TENSORBOARD, ignore_errors=True)


@contextlib.contextmanager
def open_run(folder: Path, description: dict[str, Any], text: EncodedCorpus, *, resume: bool) -> Iterator[OpenRun]:
    """Create a run folder, or check that it holds this run, and lock it.

    ``description`` has the fields of ``run.json``, with settings as dataclasses. The folder of a finished run is not
    changed. New folders that are empty at the end are removed.

    Raises
    ------
    RunError
        The folder holds another run or other files, or it holds this run and ``resume`` is False.
    OSError
        Another process has locked the folder, or it is not writable.
    """
    result = check_run(folder, description, resume=resume)
    if result is not None:
        yield OpenRun(folder, result)
        return
    with new_folder(folder):
        result = check_run(folder, description, resume=resume)  # another process may have created it since
        opened = OpenRun(folder, result, is_new=not (folder / RUN).exists())
        try:
            if not _holds(folder / VOCABULARY, text.tokenizer.state()):  # missing or damaged
                write_json(folder / VOCABULARY, text.tokenizer.state(), follow_links=False)
            if opened.is_new:
                stored = {part: _as_json(value) for part, value in description.items()}
                write_checked_json(folder / RUN, stored, follow_links=False)
        except BaseException:
            opened.discard()
            raise
        yield opened


def check_run(folder: Path, description: dict[str, Any], *, resume: bool) -> dict[str, Any] | None:
    """Raise unless a folder is new, empty, or holds this run; return the result if the run is finished."""
    if folder.exists() and not folder.is_dir():
        raise RunError(named(f"{folder} is a file, expected a folder"))
    for name in _NAMES:
        if (folder / name).is_symlink():
            raise RunError(named(f"{folder / name} is a symbolic link, expected a file inside the folder; remove it"))
    if not (folder / RUN).exists():
        leftovers = {VOCABULARY, ".lock"}  # of a run that was killed before it wrote run.json
        if folder.exists() and any(f.name not in leftovers and f.suffix != ".tmp" for f in folder.iterdir()):
            raise RunError(named(f"{folder} is not empty and holds no run; choose another folder"))
        return None
    if not resume:
        raise RunError(named(f"{folder} holds a run already; resume it, or choose another folder"))
    stored = read_description(folder)
    for part, value in description.items():
        found, expected = stored[part], _as_json(value)
        if isinstance(value, ModelConfig):
            found = _model_settings(folder, found)
        elif dataclasses.is_dataclass(value):
            found = {**_defaults(value), **found}  # settings added in later versions have their defaults
        if found != expected:
            raise RunError(named(f"{folder} holds another run: its {part} is {_difference(found, expected)}"))
    return read_result(folder) if (folder / RESULT).exists() else None


def read_description(folder: Path) -> dict[str, Any]:
    """Read ``run.json``: settings of model and training, corpus, fingerprints of vocabulary and text."""
    return _read(folder / RUN, _RUN_FIELDS)


def read_result(folder: Path) -> dict[str, Any]:
    """Read ``result.json``."""
    return _read(folder / RESULT, _RESULT_FIELDS)


def _read(path: Path, fields: dict[str, type | tuple[type, ...]]) -> dict[str, Any]:
    try:
        return check_fields(str(path), read_checked_json(path), fields)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {without_name(error)}") from error


def _as_json(value: Any) -> Any:
    """Convert settings or another value to what a JSON file would give back."""
    if isinstance(value, ModelConfig):
        value = value.to_dict()
    return json.loads(json.dumps(dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value))  # type: ignore[arg-type]


def _model_settings(folder: Path, stored: dict[str, Any]) -> dict[str, Any]:
    """Convert stored model settings of any version to the names of this version."""
    try:
        return ModelConfig.from_dict(stored).to_dict()
    except (TypeError, ValueError) as error:
        raise RunError(f"{folder / RUN} cannot be read: {without_name(error)}") from error


def _defaults(settings: Any) -> dict[str, Any]:
    """Return the default values of settings, as JSON."""
    fields = dataclasses.fields(settings)
    out: dict[str, Any] = _as_json({f.name: f.default for f in fields if f.default is not dataclasses.MISSING})
    return out


def _difference(found: Any, expected: Any) -> str:
    """Describe the difference between two settings or values."""
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = [key for key in expected if found.get(key) != expected[key]]
        listed = ", ".join(f"{key} {short_repr(found.get(key))}, not {expected[key]!r}" for key in keys)
        return listed or "of another version"
    return f"{short_repr(found)}, not {expected!r}"


def _holds(path: Path, content: Any) -> bool:
    """Whether a JSON file exists and has this content."""
    try:
        return bool(read_json(path) == content)
    except (OSError, ValueError):
        return False
