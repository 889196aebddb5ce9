"""Checks that take the name of the operation first, for ``memory`` and ``search``, which are not converted yet."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from ghrr import checks
from ghrr.checks import current_call, describe, has_finite_sum, install_hint

__all__ = ["describe", "has_finite_sum", "install_hint"]

P = ParamSpec("P")
R = TypeVar("R")


def with_operation(check: Callable[P, R]) -> Callable[Concatenate[str, P], R]:
    """Return a check that takes the name of the operation first, and uses it if no public call is registered."""

    @functools.wraps(check)
    def run(operation: str, /, *arguments: P.args, **options: P.kwargs) -> R:
        try:
            return check(*arguments, **options)
        except (OSError, TypeError, ValueError) as error:
            if not current_call() and error.args and isinstance(error.args[0], str):
                error.args = (f"{operation}: {error.args[0]}", *error.args[1:])
            raise

    return run


check_hypervectors = with_operation(checks.check_hypervectors)
check_choice = with_operation(checks.check_choice)
check_integer = with_operation(checks.check_integer)
check_real = with_operation(checks.check_real)
check_flag = with_operation(checks.check_flag)
check_path = with_operation(checks.check_path)
check_generator = with_operation(checks.check_generator)
check_device = with_operation(checks.check_device)
check_finite = with_operation(checks.check_finite)
