"""Dispatch: one declaration per operation, and the choice between its implementations.

An :class:`Operation` has a PyTorch implementation, usually one in :mod:`ghrr.ops.reference`, and kernels for the CPU or
a GPU. Each :class:`Kernel` states which arguments it supports and when it pays off. A call goes

- to PyTorch, or to the reference if it is selected, where no kernel supports the arguments or none pays off;
- directly to the kernel for plain tensors;
- to a custom operator, ``torch.ops.ghrr.<name>``, where the result is differentiated, vectorised or compiled. The
  operator calls the same kernels and has a gradient and a rule for ``torch.vmap``;
- to PyTorch where an operator is not enough, such as for forward-mode derivatives.

If a kernel fails to compile or to launch, PyTorch computes the result, and the backend is not used again
(:func:`ghrr.ops.backends.report_failure`). An out-of-memory error is raised; it does not disable the kernel.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.ops import backends
from ghrr.ops.tensor_state import allows_operators, are_flat, is_plain

OPERATIONS: dict[str, Operation[Any]] = {}
Result = TypeVar("Result")


class Kernel:
    """A kernel, and the arguments for which it is used.

    Parameters
    ----------
    backend
        ``"numba"`` or ``"triton"``.
    path
        ``"module:function"``. The module is imported at the first call, since both backends take long to import. The
        function takes the arguments of the operation; it returns None if PyTorch has to compute the result.
    supports
        Whether the kernel can compute the result for these arguments.
    pays_off
        Whether the kernel is faster than PyTorch. Ignored if the user selected the backend by name.
    """

    def __init__(
        self,
        backend: str,
        path: str,
        supports: Callable[..., bool],
        pays_off: Callable[..., bool] = lambda *arguments: True,
    ) -> None:
        self.backend, self.path, self.supports, self.pays_off = backend, path, supports, pays_off
        self.function: Callable[..., Any] | None = None

    def load(self) -> Callable[..., Any]:
        """Import the function."""
        module, _, name = self.path.partition(":")
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        self.function = function
        return function

    def applies(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether the kernel is allowed, supports the arguments, and pays off or is selected by name."""
        return (
            self.supports(*arguments)
            and (self.pays_off(*arguments) or backends.selected() == self.backend)
            and backends.is_allowed(self.backend)
        )


class Operation(Generic[Result]):
    """An operation with all its implementations, called like a function.

    It has the parameters of the PyTorch implementation. Arguments are not checked.

    Parameters
    ----------
    name
        As a custom operator it is ``ghrr::name``.
    torch
        The implementation in PyTorch operations: any device, differentiable.
    reference
        The specification. By default the PyTorch implementation.
    kernels
        The first one that is allowed, supports the arguments and pays off is used.
    flat_kernels
        Kernels with less overhead for two plain, contiguous tensors of one shape, tried before all others.
    schema
        Types of the arguments and the result, as in ``torch.library.define``. Needed for a custom operator; without
        one, anything but plain tensors goes to PyTorch.
    check
        Raises if arguments do not fit. Called by the custom operator only, which users can call directly.
    fake
        Returns an empty tensor of the result's shape and dtype.
    gradient
        ``setup_context`` and ``backward``, as in ``torch.library.register_autograd``.
    vmap
        ``rule(operator, in_dims, *arguments)``, returns the result with the new axis first.
    """

    def __init__(
        self,
        name: str,
        *,
        torch: Callable[..., Result],
        reference: Callable[..., Result] | None = None,
        kernels: Sequence[Kernel] = (),
        flat_kernels: Sequence[Kernel] = (),
        schema: str | None = None,
        check: Callable[..., None] | None = None,
        fake: Callable[..., Any] | None = None,
        gradient: tuple[Callable[..., None], Callable[..., Any]] | None = None,
        vmap: Callable[..., Tensor] | None = None,
    ) -> None:
        self.name, self.torch, self.reference = name, torch, reference or torch
        self.__name__, self.__doc__ = name, self.reference.__doc__
        self.kernels, self.flat_kernels = tuple(kernels), tuple(flat_kernels)
        parameters = inspect.signature(torch).parameters.values()
        self._defaults = {x.name: x.default for x in parameters if x.kind is x.POSITIONAL_OR_KEYWORD}
        self._default_values = tuple(self._defaults.values())
        self._check = check
        self._has_vmap = vmap is not None
        self.operator = None if schema is None else self._register(schema, fake, gradient, vmap)
        OPERATIONS[name] = self

    @names_errors("{self.name}")
    def __call__(self, *arguments: Any, **named: Any) -> Result:
        """Compute the operation with the fastest implementation for these arguments."""
        if named:
            arguments += tuple((self._defaults | named).values())[len(arguments) :]
        else:
            arguments += self._default_values[len(arguments) :]
        if self.flat_kernels and are_flat(arguments[0], arguments[1]):
            for kernel in self.flat_kernels:
                if kernel.applies(arguments):
                    try:
                        result: Result = (kernel.function or kernel.load())(*arguments)
                        return result
                    except Exception as error:  # a compiler can raise anything
                        return self._replace(kernel, arguments, error)
        chosen = self.choose_kernel(*arguments)
        if chosen is None:
            return self._run_without_kernel(arguments)
        tensors = [x for x in arguments if isinstance(x, Tensor)]
        if is_plain(*tensors):
            return self._run(chosen, arguments)
        if self.operator is None or not allows_operators(*tensors, vmap=self._has_vmap):
            return self.torch(*arguments)
        by_operator: Result = self.operator(*arguments)
        return by_operator

    def choose_kernel(self, *arguments: Any) -> Kernel | None:
        """Return the kernel that computes the result for plain tensors, or None for PyTorch."""
        return next((kernel for kernel in self.kernels if kernel.applies(arguments)), None)

    def _run_without_kernel(self, arguments: tuple[Any, ...]) -> Result:
        return (self.reference if backends.selected() == "reference" else self.torch)(*arguments)

    def _run(self, kernel: Kernel, arguments: tuple[Any, ...]) -> Result:
        try:
            result = (kernel.function or kernel.load())(*arguments)
        except Exception as error:  # a compiler can raise anything
            return self._replace(kernel, arguments, error)
        return self.torch(*arguments) if result is None else result

    def _replace(self, kernel: Kernel, arguments: tuple[Any, ...], error: Exception) -> Result:
        """Compute the result in PyTorch after a kernel failed, and stop using its backend."""
        if is_out_of_memory(error):
            raise error
        # If PyTorch raises too, the arguments are invalid, and the backend stays in use.
        result = self.torch(*arguments)
        backends.report_failure(kernel.backend, error)
        return result

    def _register(
        self,
        schema: str,
        fake: Callable[..., Any] | None,
        gradient: tuple[Callable[..., None], Callable[..., Any]] | None,
        vmap: Callable[..., Tensor] | None,
    ) -> Any:
        """Define the custom operator."""
        operator = torch.library.custom_op(f"ghrr::{self.name}", self._run_operator, mutates_args=(), schema=schema)
        if fake is not None:
            operator.register_fake(fake)
        if gradient is not None:
            setup_context, backward = gradient
            operator.register_autograd(backward, setup_context=setup_context)
        if vmap is not None:
            operator.register_vmap(lambda info, in_dims, *arguments: (vmap(self.operator, in_dims, *arguments), 0))
        return getattr(torch.ops.ghrr, self.name).default

    @names_errors("ghrr::{self.name}")
    def _run_operator(self, *arguments: Any) -> Any:
        if self._check is not None:
            self._check(*arguments)
        kernel = self.choose_kernel(*arguments)
        result: Any = self._run_without_kernel(arguments) if kernel is None else self._run(kernel, arguments)
        if isinstance(result, Tensor):
            return _without_shared_memory(result, arguments)
        return tuple(_without_shared_memory(x, arguments) for x in result)


def _without_shared_memory(result: Tensor, arguments: tuple[Any, ...]) -> Tensor:
    """Return a contiguous result that shares no memory with the arguments."""
    storages = {x.untyped_storage().data_ptr() for x in arguments if isinstance(x, Tensor)}
    result = result.contiguous()
    return result.clone() if result.untyped_storage().data_ptr() in storages else result


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error is an out-of-memory error, of the CPU or of a GPU."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in message or "can't allocate memory" in message)


def refuse_second_derivative(name: str) -> tuple[Callable[..., None], Callable[..., Any]]:
    """Return the gradient rule of an operation that has no gradient, such as the gradient kernel of another."""

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise NotImplementedError(f"{name}: kernels have first derivatives only; use ghrr.backend('torch')")

    return setup_context, backward
