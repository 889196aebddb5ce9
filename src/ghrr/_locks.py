"""A lock that objects can hold and still be copied and pickled: the copy gets a lock of its own."""

from __future__ import annotations

import _thread


class Lock(_thread.RLock):  # type: ignore[misc] # final for type checkers only
    """Reentrant lock, for use in a ``with`` statement.

    Entering and leaving are not Python code, so that an interrupt cannot come between taking the lock and the block.
    """

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()
