"""The folder of a run: the files in it, what they must hold, and who may write to it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ghrr._checks import short_repr
from ghrr.files import check_fields, lock_folder, read_json, write_json
from ghrr.lm.config import ModelConfig
from ghrr.lm.encoded_corpus import EncodedCorpus

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
    """A run that cannot begin or go on, with the reason."""


@dataclass(frozen=True)
class OpenRun:
    """A folder that this process may write a run to.

    Attributes
    ----------
    folder
        Where it is.
    result
        What the run ended with, if it has ended.
    is_new
        Whether this process has made the run.
    """

    folder: Path
    result: dict[str, Any] | None = None
    is_new: bool = False

    def discard(self) -> None:
        """Remove the files of a run that did not get to its first step, if this process has made them."""
        if self.is_new:
            for name in (RUN, VOCABULARY, LOG):
                (self.folder / name).unlink(missing_ok=True)
            shutil.rmtree(self.folder / TENSORBOARD, ignore_errors=True)


@contextlib.contextmanager
def open_run(folder: Path, description: dict[str, Any], text: EncodedCorpus, *, resume: bool) -> Iterator[OpenRun]:
    """Make the folder of a run, or check that it holds this run, and keep other processes out of it.

    ``description`` has the fields of ``run.json``, its settings as dataclasses. Nothing is written to a folder whose
    run has ended. Folders that this process made are removed again if they are empty in the end.

    Raises
    ------
    RunError
        The folder holds another run or other files; or this run, without ``resume``.
    OSError
        Another process is at work in it, or it cannot be written to.
    """
    result = check_run(folder, description, resume=resume)
    if result is not None:
        yield OpenRun(folder, result)
        return
    made = [path for path in (folder, *folder.absolute().parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder, "train"):
            result = check_run(folder, description, resume=resume)  # another process may have been faster
            opened = OpenRun(folder, result, is_new=not (folder / RUN).exists())
            try:
                if not _holds(folder / VOCABULARY, text.tokenizer.state()):  # lost since; its fingerprint was not
                    write_json(folder / VOCABULARY, text.tokenizer.state(), follow_links=False)
                if opened.is_new:
                    stored = {part: _as_json(value) for part, value in description.items()}
                    write_json(folder / RUN, stored, follow_links=False)
            except BaseException:
                opened.discard()
                raise
            yield opened
    finally:
        with contextlib.suppress(OSError):  # not empty
            for path in made:
                path.rmdir()


def check_run(folder: Path, description: dict[str, Any], *, resume: bool) -> dict[str, Any] | None:
    """Raise unless a folder is new, empty, or holds this run; return the result of a run that has ended."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; name a folder")
    for name in _NAMES:
        if (folder / name).is_symlink():
            raise RunError(f"{folder / name} is a symbolic link, and a run writes only inside its folder; remove it")
    if not (folder / RUN).exists():
        killed = {VOCABULARY, ".lock"}  # what a run leaves that was killed before it had described itself
        if folder.exists() and any(f.name not in killed and f.suffix != ".tmp" for f in folder.iterdir()):
            raise RunError(f"{folder} is not empty and holds no run; name another folder")
        return None
    if not resume:
        raise RunError(f"{folder} holds a run already; resume it, or name another folder")
    there = read_description(folder)
    for part, value in description.items():
        given, wanted = there[part], _as_json(value)
        if isinstance(value, ModelConfig):
            given = _model_settings(folder, given)
        elif dataclasses.is_dataclass(value):
            given = {**_defaults(value), **given}  # settings that came later have their defaults
        if given != wanted:
            raise RunError(f"{folder} holds another run: its {part} is {_difference(given, wanted)}")
    return read_result(folder) if (folder / RESULT).exists() else None


def read_description(folder: Path) -> dict[str, Any]:
    """Return what a run says of itself: model, training, corpus, and fingerprints of vocabulary and text."""
    return _read(folder / RUN, _RUN_FIELDS)


def read_result(folder: Path) -> dict[str, Any]:
    """Return what a run ended with."""
    return _read(folder / RESULT, _RESULT_FIELDS)


def _read(path: Path, fields: dict[str, type | tuple[type, ...]]) -> dict[str, Any]:
    try:
        return check_fields(str(path), read_json(path, "train"), fields)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error


def _as_json(value: Any) -> Any:
    """Return settings, or another value, as they come back from a JSON file."""
    if isinstance(value, ModelConfig):
        value = value.to_dict()
    return json.loads(json.dumps(dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value))  # type: ignore[arg-type]


def _model_settings(folder: Path, stored: dict[str, Any]) -> dict[str, Any]:
    """Return the model settings of a run of any version under the names of this version."""
    try:
        return ModelConfig.from_dict(stored).to_dict()
    except (TypeError, ValueError) as error:
        raise RunError(f"{folder / RUN} cannot be read: {error}") from error


def _defaults(settings: Any) -> dict[str, Any]:
    """Return the defaults of the settings that have one, as JSON."""
    fields = dataclasses.fields(settings)
    out: dict[str, Any] = _as_json({f.name: f.default for f in fields if f.default is not dataclasses.MISSING})
    return out


def _difference(there: Any, wanted: Any) -> str:
    if isinstance(there, dict) and isinstance(wanted, dict):
        keys = [key for key in wanted if there.get(key) != wanted[key]]
        listed = ", ".join(f"{key} {short_repr(there.get(key))}, not {wanted[key]!r}" for key in keys)
        return listed or "of another version"
    return f"{short_repr(there)}, not {wanted!r}"


def _holds(path: Path, content: Any) -> bool:
    """Whether there is a file with this content."""
    try:
        return bool(read_json(path, "train") == content)
    except (OSError, ValueError):
        return False
