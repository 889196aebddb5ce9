"""The choice of backend: selected by the user, installed, and not failed earlier in this process.

``"auto"`` uses numba's kernels for tensors on the CPU and triton's for tensors on a GPU where they are faster than
PyTorch. A backend whose kernels fail to compile or to launch is replaced by PyTorch, with one warning, for the rest of
the process.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import threading
import warnings
from contextlib import AbstractContextManager

import torch

from ghrr.checks import check_choice, install_hint, named, names_errors

NAMES = ("auto", "torch", "numba", "triton", "reference")
ENVIRONMENT_VARIABLE = "GHRR_BACKEND"
_EXTRAS = {"numba": "fast", "triton": "gpu"}
_BACKEND_OF_DEVICE = {"cpu": "numba", "cuda": "triton"}
_installed = {name: importlib.util.find_spec(name) is not None for name in _EXTRAS}

_initial = os.environ.get(ENVIRONMENT_VARIABLE) or "auto"
_selected = _initial
_validated = _initial == "auto"  # the name from the environment is checked at its first use
_selections: list[_Selection] = []  # the last one applies; if empty, the environment variable does
_lock = threading.Lock()
_failures: dict[str, str] = {}  # error message by backend


@names_errors("backend(name)")
def backend(name: str) -> AbstractContextManager[None]:
    """Select the backend that computes, from now on or inside a ``with`` block.

    As a plain call, ``ghrr.backend("torch")`` takes effect at once and stays. As a context manager it takes effect in
    the block; leaving the block, also by an exception, restores the previous selection and drops plain calls made
    inside. An unknown name, or a backend that is not installed or has failed before, raises at the call.

    The selection belongs to the process, not to a thread. If blocks of several threads overlap, the one entered last
    counts; after all of them have ended, the earlier selection is restored.

    Parameters
    ----------
    name
        ``"auto"``, the default, uses the fastest backend for each tensor: numba on a CPU, triton on a GPU, PyTorch
        where these are not faster. ``"torch"`` uses PyTorch alone. ``"numba"`` and ``"triton"`` are used for all
        tensors they support, also where PyTorch is as fast. ``"reference"`` is the specification and slow. The
        environment variable ``GHRR_BACKEND`` sets the initial name.

    Returns
    -------
    A context manager. A plain call can ignore it.

    Raises
    ------
    ValueError
        For an unknown name.
    ImportError
        For a backend whose package is not installed.
    RuntimeError
        For a backend that failed earlier in this process and was replaced by PyTorch.

    Examples
    --------
    >>> import torch, ghrr
    >>> a, b = ghrr.Space(dim=1000, m=3, seed=0).vectors(["a", "b"])
    >>> fast = ghrr.bind(a, b)
    >>> with ghrr.backend("reference"):
    ...     torch.allclose(fast, ghrr.bind(a, b), atol=1e-6)
    True
    """
    _check(name, "name")
    if name in _failures:
        raise RuntimeError(named(f"{name} failed earlier in this process ({_failures[name]}); use 'torch'"))
    return _Selection(name)


class _Selection:
    """A selected backend. It applies until another is selected, or until its block ends."""

    def __init__(self, name: str) -> None:
        self.name, self.entered = name, False
        self._replaced: _Selection | None = None
        with _lock:
            selections = _selections.copy()
            if selections and not selections[-1].entered:  # a plain call replaces the plain call before it
                self._replaced = selections.pop()
                self._replaced._replaced = None
            _apply([*selections, self])

    @names_errors("backend")
    def __enter__(self) -> None:
        with _lock:
            if self.entered:
                raise RuntimeError(
                    named("this context manager is already active; create another one with ghrr.backend(name)")
                )
            self.entered = True
            others = [selection for selection in _selections if selection is not self]
            if self in _selections and self._replaced is not None and not self._replaced.entered:
                others.insert(_selections.index(self), self._replaced)
            self._replaced = None
            _apply([*others, self])

    def __exit__(self, *error: object) -> None:
        with _lock:
            self.entered = False
            index = _selections.index(self)
            _apply(_selections[:index] + [selection for selection in _selections[index + 1 :] if selection.entered])


def _apply(selections: list[_Selection]) -> None:
    global _selections, _selected, _validated  # noqa: PLW0603 (one selection for the process)
    _selections = selections
    _selected, _validated = (selections[-1].name, True) if selections else (_initial, _initial == "auto")


def selected() -> str:
    """Return the name of the selected backend; raise at first use if the environment holds an unknown name."""
    global _validated  # noqa: PLW0603 (one selection for the process)
    if not _validated:
        _check(_selected, f"the environment variable {ENVIRONMENT_VARIABLE}: its value")
        _validated = True
    return _selected


def _check(name: str, what: str) -> None:
    check_choice(what, name, NAMES)
    if name in _EXTRAS and importlib.util.find_spec(name) is None:
        raise ImportError(named(f"{name} is not installed; {install_hint(_EXTRAS[name])}"))


def is_allowed(name: str) -> bool:
    """Return whether the kernels of a backend may be used: selected, installed and not failed."""
    chosen = _selected if _validated else selected()
    return (chosen == "auto" or chosen == name) and _installed[name] and name not in _failures  # noqa: PLR1714 (faster)


def report_failure(name: str, error: Exception) -> None:
    """Warn that a backend failed, and stop using it in this process."""
    if name not in _failures:
        _failures[name] = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"{name} backend failed ({_failures[name]}); falling back to PyTorch for the rest of this process. Set "
            f"{ENVIRONMENT_VARIABLE}=torch to silence this.",
            RuntimeWarning,
            stacklevel=5,
        )


@names_errors
def in_use() -> dict[str, str]:
    """Return the backend that computes on each type of device, and why.

    Examples
    --------
    >>> from ghrr import ops
    >>> with ops.backend("torch"):
    ...     ops.in_use()["cpu"]
    'torch: selected'
    """
    devices = {device: _describe(name) for device, name in _BACKEND_OF_DEVICE.items()}
    if not torch.cuda.is_available():
        devices["cuda"] = "none: no GPU"
    return devices


def _describe(name: str) -> str:
    chosen = selected()
    if chosen in ("torch", "reference"):
        return f"{chosen}: selected"
    if chosen not in ("auto", name):
        return f"torch: {chosen} is selected"
    if importlib.util.find_spec(name) is None:
        return f"torch: {name} is not installed ({install_hint(_EXTRAS[name])})"
    if name in _failures:
        return f"torch: {name} failed ({_failures[name]})"
    return f"{name} {importlib.metadata.version(name)}"
