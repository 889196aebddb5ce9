"""Checks that take the name of the operation first, for code that is not converted to ``ghrr.checks`` yet."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ghrr import checks
from ghrr._calls import named
from ghrr.checks import *  # noqa: F403
from ghrr.checks import LinAlgError, TensorInSpace, are_alike, first_nonfinite_slot, has_finite_sum, is_true  # noqa: F401

F = TypeVar("F", bound=Callable[..., Any])


def with_operation(check: Callable[..., Any]) -> Any:
    @functools.wraps(check)
    def run(operation: str, *arguments: Any, **options: Any) -> Any:
        try:
            return check(*arguments, **options)
        except (OSError, TypeError, ValueError) as error:
            if not named("") and error.args and isinstance(error.args[0], str):
                error.args = (f"{operation}: {error.args[0]}", *error.args[1:])
            raise

    return run


check_hypervectors = with_operation(checks.check_hypervectors)
check_alike = with_operation(checks.check_alike)
check_items = with_operation(checks.check_items)
check_broadcast = with_operation(checks.check_broadcast)
check_batch = with_operation(checks.check_batch)
check_square = with_operation(checks.check_square)
check_choice = with_operation(checks.check_choice)
check_known = with_operation(checks.check_known)
check_names = with_operation(checks.check_names)
check_integer = with_operation(checks.check_integer)
check_real = with_operation(checks.check_real)
check_flag = with_operation(checks.check_flag)
check_path = with_operation(checks.check_path)
check_generator = with_operation(checks.check_generator)
check_device = with_operation(checks.check_device)
check_complex_dtype = with_operation(checks.check_complex_dtype)
check_finite = with_operation(checks.check_finite)
