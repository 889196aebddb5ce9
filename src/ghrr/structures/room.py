"""Memory for a large result, taken from the system while something else is done."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import torch
from torch import Tensor

_LARGE = 1 << 19  # numbers: below this, starting a thread takes longer than it saves


def room_ahead(shape: tuple[int, ...], dtype: torch.dtype) -> Callable[[], Tensor | None]:
    """Memory for a result. What is given waits for it; it gives None if that is not worth it, or no thread can be had.

    New memory is slow when it is first touched: another thread does that here. It lies on small pages, since a virtual
    machine that returns free memory to its host returns huge pages, and getting one back takes many times as long.

    Examples
    --------
    >>> import torch
    >>> from ghrr.structures.room import room_ahead
    >>> room = room_ahead((10, 100, 1, 1), torch.complex64)
    >>> room() is None
    True
    """
    if math.prod(shape) < _LARGE or torch.get_num_threads() == 1:
        return lambda: None
    room = torch.empty(shape, dtype=dtype)
    touching = threading.Thread(target=room.numpy().fill, args=(0,))
    try:
        touching.start()
    except RuntimeError:
        return lambda: None

    def wait() -> Tensor:
        touching.join()
        return room

    return wait
