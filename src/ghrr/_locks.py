"""A lock that objects can hold and still be copied and pickled: the copy gets a lock of its own."""

from __future__ import annotations

import threading


class Lock:
    """Reentrant lock, for use in a ``with`` statement."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()
