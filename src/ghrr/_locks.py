"""Lock for objects that can be copied and pickled: the copy of an object gets a new lock."""

from __future__ import annotations

import _thread


class Lock(_thread.RLock):  # type: ignore[misc] # final for type checkers only
    """Reentrant lock, for use in a ``with`` statement.

    Acquiring and releasing are not Python code, so an interrupt cannot occur between acquiring the lock and the block.
    """

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()
