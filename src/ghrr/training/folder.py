"""The folder of a training run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ghrr.checks import value_error
from ghrr.files import lock_folder


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Create a folder with its parents, and lock it inside a ``with`` block. New folders that stay empty are removed.

    Parameters
    ----------
    folder
        A folder that may exist.

    Raises
    ------
    ValueError
        The path is a file.
    BlockingIOError
        Another process has locked the folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ghrr.training import new_folder
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     with new_folder(Path(parent, "runs", "first")):
    ...         pass  # nothing was written
    ...     list(Path(parent).iterdir())
    []
    """
    if folder.exists() and not folder.is_dir():
        raise value_error(f"{folder} is a file, expected a folder")
    created = [path for path in (folder, *folder.absolute().parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            yield
    finally:
        with contextlib.suppress(OSError):  # a folder that is not empty
            for path in created:
                path.rmdir()
