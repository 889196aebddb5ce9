"""Which backend computes: what was asked for, what is installed, what has failed.

``"auto"`` takes numba's loops for tensors on the CPU and triton's kernels on a GPU, where they are quicker, and torch
for the rest. A kernel that fails to compile or to start is replaced by torch, with one warning, for the rest of the
process.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import threading
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ghrr._checks import check_choice, install_hint
from ghrr.ops import numba_backend, reference, torch_backend

NAMES = ("auto", "torch", "numba", "triton", "reference")
VARIABLE = "GHRR_BACKEND"
_EXTRAS = {"numba": "fast", "triton": "gpu"}
_KERNELS_OF = {"cpu": "numba", "cuda": "triton"}
_TRITON_INSTALLED = importlib.util.find_spec("triton") is not None

_start = os.environ.get(VARIABLE) or "auto"
_chosen = _start
_sure = _start == "auto"  # whether the name was found to be one that can be used
_choices: list[_Choice] = []  # the last one counts; empty: the name from the environment
_lock = threading.Lock()
_failed: dict[str, str] = {}
_PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)


def backend(name: str) -> AbstractContextManager[None]:
    """Choose which backend computes, from now on or inside a ``with`` block.

    As a plain call, ``ghrr.backend("torch")`` takes effect at once and stays. As a context manager it takes effect in
    the block; leaving the block, also by an exception, restores the choice from before it, and drops plain calls made
    inside. An unknown name, or a backend that is not installed or has failed before, raises at the call.

    The choice belongs to the process, not to a thread: a call or a block in one thread changes what all threads
    compute with. Where blocks of several threads overlap, the one entered last counts, and once all are left the
    choice from before is back.

    Parameters
    ----------
    name
        ``"auto"``, the default, takes the fastest for each tensor: numba on a CPU, triton on a GPU, torch where these
        are not faster. ``"torch"`` is torch alone. ``"numba"`` and ``"triton"`` are used for all tensors they support,
        also where torch is as fast. ``"reference"`` is the specification, slow. The environment variable
        ``GHRR_BACKEND`` sets the name to start with.

    Returns
    -------
    A context manager, for ``with``; a plain call can ignore it.

    Raises
    ------
    ValueError
        For an unknown name.
    ImportError
        For a backend whose package is not installed.
    RuntimeError
        For a backend that was replaced by torch earlier in this process, because it failed.

    Examples
    --------
    >>> import torch, ghrr
    >>> a, b = ghrr.Space(dim=1000, m=3, seed=0).vectors(["a", "b"])
    >>> fast = ghrr.bind(a, b)
    >>> with ghrr.backend("reference"):
    ...     torch.allclose(fast, ghrr.bind(a, b), atol=1e-6)
    True
    """
    operation = "backend(name)"
    _check(name, operation, "name")
    if name in _failed:
        raise RuntimeError(f"{operation}: {name} failed earlier in this process ({_failed[name]}); use 'torch'")
    return _Choice(name)


class _Choice:
    """A choice in force since it was made, until another is made or, if it was entered as a block, until its end."""

    def __init__(self, name: str) -> None:
        self.name, self.entered = name, False
        self._replaced: _Choice | None = None
        with _lock:
            choices = _choices.copy()
            if choices and not choices[-1].entered:  # plain calls replace each other, so that they do not pile up
                self._replaced = choices.pop()
                self._replaced._replaced = None
            _apply([*choices, self])

    def __enter__(self) -> None:
        with _lock:
            if self.entered:
                raise RuntimeError("backend: this block is entered already; make another one with ghrr.backend(name)")
            self.entered = True
            others = [choice for choice in _choices if choice is not self]
            if self in _choices and self._replaced is not None and not self._replaced.entered:
                others.insert(_choices.index(self), self._replaced)
            self._replaced = None
            _apply([*others, self])

    def __exit__(self, *error: object) -> None:
        with _lock:
            self.entered = False
            place = _choices.index(self)
            _apply(_choices[:place] + [choice for choice in _choices[place + 1 :] if choice.entered])


def _apply(choices: list[_Choice]) -> None:
    global _choices, _chosen, _sure  # noqa: PLW0603 (one choice for the process)
    _choices = choices
    _chosen, _sure = (choices[-1].name, True) if choices else (_start, _start == "auto")


def chosen() -> str:
    """The name in force; an error, at its first use, if the environment asks for one that does not exist."""
    global _sure  # noqa: PLW0603 (one choice for the process)
    if not _sure:
        _check(_chosen, f"the environment variable {VARIABLE}", "its value")
        _sure = True
    return _chosen


def _check(name: str, operation: str, what: str) -> None:
    check_choice(operation, what, name, NAMES)
    if name in _EXTRAS and importlib.util.find_spec(name) is None:
        raise ImportError(f"{operation}: {name} is not installed; {install_hint(_EXTRAS[name])}")


def in_use() -> dict[str, str]:
    """Say for each kind of device which backend computes there, and why.

    Examples
    --------
    >>> from ghrr import ops
    >>> with ops.backend("torch"):
    ...     ops.in_use()["cpu"]
    'torch: asked for'
    """
    devices = {device: _used_on(device) for device in _KERNELS_OF}
    if not torch.cuda.is_available():
        devices["cuda"] = "none: no GPU"
    return devices


def _used_on(device: str) -> str:
    name = _KERNELS_OF[device]
    asked = chosen()
    if asked in ("torch", "reference"):
        return f"{asked}: asked for"
    if asked not in ("auto", name):
        return f"torch: {asked} was asked for"
    if importlib.util.find_spec(name) is None:
        return f"torch: {name} is not installed ({install_hint(_EXTRAS[name])})"
    if name in _failed:
        return f"torch: {name} failed ({_failed[name]})"
    return f"{name} {importlib.metadata.version(name)}"


def is_plain(*tensors: Tensor) -> bool:
    """Whether these are numbers in memory: no derivative is asked for, nothing is being traced or vectorised."""
    if not torch_backend.needs_no_derivative(*tensors) or torch._C._len_torch_dispatch_stack():
        return False
    if torch._C._get_tracing_state() is not None:
        return False
    for x in tensors:  # noqa: SIM110 (quicker than all(), and everything comes by here)
        if type(x) not in _PLAIN or _is_stand_in(x):
            return False
    return True


def suit_flat_loops(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are plain numbers on the CPU that lie in memory as their one shape says, for numba's loops.

    The quick test for the most common input; what it turns down may still suit other loops.
    """
    return (
        not torch.compiler.is_compiling()
        and type(a) is type(b) is Tensor
        and a.numel() >= numba_backend.FEW_NUMBERS
        and a.is_cpu
        and b.is_cpu
        and a.is_contiguous()
        and b.is_contiguous()
        and (shape := a.shape) == b.shape
        and shape[-1] <= numba_backend.LARGEST_M
        and not (a.is_conj() or b.is_conj() or a.is_neg() or b.is_neg())
        and not ((a.requires_grad or b.requires_grad) and torch.is_grad_enabled())
        and forward_ad._current_level < 0
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        and torch._C._get_tracing_state() is None
        and not (_is_stand_in(a) or _is_stand_in(b))
        and numba_backend.INSTALLED
        and allows("numba")
    )


def only_torch_takes(*tensors: Tensor) -> bool:
    """Whether something is asked for that operators from outside do not have.

    That is derivatives in forward mode or by ``torch.func``, gradients of a batch at once
    (``is_grads_batched=True``), and being traced by ``torch.jit``.
    """
    if torch.compiler.is_compiling():  # a compiler cannot look at the transforms
        return torch._C._are_functorch_transforms_active()
    if torch._C._get_tracing_state() is not None or any(_is_stand_in(x) for x in tensors):
        return True
    if not torch._C._are_functorch_transforms_active():
        return torch_backend.has_tangent(*tensors)
    layers = torch._C._functorch.get_interpreter_stack() or []
    return any(layer.key() != torch._C._functorch.TransformType.Vmap for layer in layers)


_is_stand_in = torch._C._functorch.is_legacy_batchedtensor  # one tensor of a batch, which has no memory of its own


def formula(operation: str) -> Callable[..., Tensor]:
    """What computes an operation without faster kernels: torch, or the specification if it was asked for."""
    function: Callable[..., Tensor] = getattr(reference if chosen() == "reference" else torch_backend, operation)
    return function


def allows(name: str) -> bool:
    """Whether a backend with faster kernels may be tried."""
    return chosen() in ("auto", name) and name not in _failed


def compiles_for_triton(x: Tensor) -> bool:
    """Whether this is being compiled for a GPU: a compiler cannot ask a driver, so the operator does when it runs."""
    return torch.compiler.is_compiling() and x.is_cuda and _TRITON_INSTALLED and allows("triton")


def kernels_for(operation: str, *tensors: Tensor) -> ModuleType:
    """The backend that computes this for such tensors."""
    name = _chosen if _sure else chosen()
    if name == "reference":
        return reference
    on = name
    if name == "auto":
        on = "numba" if tensors[0].is_cpu else "triton" if tensors[0].is_cuda else "torch"
    if on == "torch" or on in _failed:
        return torch_backend
    kernels = numba_backend if on == "numba" else _triton()
    if kernels is None or not (name == on or kernels.pays(operation, *tensors)):
        return torch_backend
    if not kernels.suits(operation, *tensors):
        return torch_backend
    return kernels


def _triton() -> ModuleType | None:
    """Imported only when a tensor on a GPU arrives, or when it was asked for by name."""
    if not _TRITON_INSTALLED:
        return None
    try:
        from ghrr.ops import triton_backend  # noqa: PLC0415
    except Exception as error:
        give_up("triton", error)
        return None
    return triton_backend


def compute(operation: str, tensors: tuple[Tensor, ...], *options: Any) -> Tensor:
    """An operation on plain numbers, by the backend for them."""
    return run(kernels_for(operation, *tensors), operation, tensors, *options)


def run(kernels: ModuleType, operation: str, tensors: tuple[Tensor, ...], *options: Any) -> Tensor:
    """Compute an operation on plain numbers with a backend, or with torch if that fails."""
    try:
        result: Tensor = getattr(kernels, operation)(*tensors, *options)
    except Exception as error:  # whatever a compiler may raise
        if kernels is torch_backend or kernels is reference:
            raise
        result = getattr(torch_backend, operation)(*tensors, *options)  # if this fails too, it was not the kernel
        give_up("numba" if kernels is numba_backend else "triton", error)
    return result


def give_up(name: str, error: Exception) -> None:
    if name not in _failed:
        _failed[name] = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"{name} backend failed ({_failed[name]}); falling back to PyTorch for the rest of this process. Set "
            f"GHRR_BACKEND=torch to silence this.",
            RuntimeWarning,
            stacklevel=4,
        )
