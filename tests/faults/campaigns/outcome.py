"""Outcome of an attack: what happened, or the fault that it found."""

from __future__ import annotations

import random
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WRONG = "silently wrong"  # an answer, a file or a state that is not what it must be, without an error
LOST = "lost"  # something that was acknowledged, or that is not ours, is gone
HANG = "hang"  # no answer within the limit of a campaign
RAW = "raw error"  # an error that does not say what is wrong, or an error where the call had to succeed
KINDS = (WRONG, LOST, HANG, RAW)


@dataclass(frozen=True)
class Outcome:
    """What happened in an attack, such as "refused", and how many processes were killed."""

    what: str
    kills: int = 0


Attack = Callable[[random.Random, Path], Outcome]


class Fault(AssertionError):  # noqa: N818 (it is an outcome)
    """Fault of the library that an attack found; ``case`` describes the attack."""

    def __init__(self, kind: str, what: str, case: str = "") -> None:
        super().__init__(f"{kind}: {what}" + (f" [{case}]" if case else ""))
        self.kind = kind


# An error of ours names the operation, then says what is wrong; Python's own say which argument is missing or unknown.
EXPLAINED = (TypeError, ValueError, KeyError, IndexError, OverflowError, OSError)
_OURS = re.compile(
    r"^'?\"?[\w .*\[\]\"'()#,=&/\\-]{1,400}?: .|argument|positional|not iterable|unhashable|subscriptable"
    r"|Found array with|requires y to be passed",  # as scikit-learn wants it
    re.DOTALL,
)


def is_explained(error: BaseException) -> bool:
    """Whether an error has a type that callers expect and a message that names the operation."""
    # scikit-learn checks samples in words of its own
    is_of_sklearn = place_of(error).startswith(("validation.py:", "_array_api.py:"))
    return isinstance(error, EXPLAINED) and (is_of_sklearn or _OURS.search(str(error)) is not None)


_STORES = re.compile(
    r"^(RecordIndex|ItemMemory|LanceBackend|MilvusBackend|FaissBackend|engine)\b[^:]{0,300}.*: .", re.DOTALL
)


def is_explained_by_store(error: BaseException) -> bool:
    """Whether an error of an index or its engine says which operation failed, in words of ours."""
    return isinstance(error, (*EXPLAINED, RuntimeError)) and _STORES.search(str(error)) is not None


def place_of(error: BaseException) -> str:
    """Return the file and line where an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def describe(error: BaseException) -> str:
    return f"{type(error).__name__} at {place_of(error)}: {str(error)[:300]}"


@contextmanager
def must_work(case: str, kind: str = RAW) -> Iterator[None]:
    """Make any error of the block a fault."""
    try:
        yield
    except Fault:
        raise
    except Exception as error:
        raise Fault(kind, describe(error), case) from error


def ensure(condition: object, kind: str, what: str, case: str = "") -> None:
    """Raise a fault if a condition does not hold."""
    if not condition:
        raise Fault(kind, what, case)
