"""Run work in many threads at once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable


def run_threads(rounds: int, *work: Callable[[random.Random], object]) -> None:
    """Call each function again and again, in a thread of its own, until all have been called ``rounds`` times.

    Quick functions repeat until the slowest one is done, so that all threads are busy at the same time.
    """
    counts = [0] * len(work)
    errors: list[BaseException] = []

    def repeat(number: int) -> None:
        rng = random.Random(number)
        try:
            while min(counts) < rounds and not errors:
                work[number](rng)
                counts[number] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
