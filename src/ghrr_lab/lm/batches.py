"""Batches of training windows, in a different order in every epoch."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.checks import named
from ghrr.seeding import labelled_generator
from ghrr_lab.lm.run_folder import RunError


def steps_per_epoch(tokens: int, context: int, batch: int, processes: int = 1) -> int:
    """Return the number of batches in an epoch.

    Parameters
    ----------
    tokens
        Number of tokens in the training text.
    context
        Tokens per window.
    batch
        Windows per batch.
    processes
        Number of processes that share each batch.

    Raises
    ------
    RunError
        The text is too short for one batch, or the processes cannot share a batch equally.

    Examples
    --------
    >>> from ghrr_lab.lm.batches import steps_per_epoch
    >>> steps_per_epoch(1000, context=10, batch=8)
    12
    """
    windows = (tokens - 1) // context - 1  # the first window of an epoch starts at a random offset below the context
    if windows < batch:
        raise RunError(
            named(
                f"the training text must fill one batch of {batch} windows of {context} tokens, got {tokens:,} "
                "tokens; reduce batch or max_len"
            )
        )
    if batch % processes:
        raise RunError(named(f"batch must be a multiple of the number of processes ({processes}), got {batch}"))
    return windows // batch


def epoch_batches(
    tokens: Tensor, *, epoch: int, context: int, batch: int, seed: int, rank: int = 0, processes: int = 1
) -> tuple[Tensor, Tensor]:
    """Return the inputs and targets of all batches of an epoch, or of one process's share of them.

    The text is cut into windows from a random offset, and the windows are shuffled. Offset and order depend only on
    ``seed`` and ``epoch``. Targets are the inputs shifted by one token.

    Shapes
    ------
    tokens: ``(n,)``; inputs and targets: ``(steps, batch / processes, context)``

    Examples
    --------
    >>> import torch
    >>> from ghrr_lab.lm.batches import epoch_batches
    >>> inputs, targets = epoch_batches(torch.arange(1000), epoch=0, context=10, batch=8, seed=0)
    >>> inputs.shape, torch.equal(targets, inputs + 1)
    (torch.Size([12, 8, 10]), True)
    """
    steps = steps_per_epoch(len(tokens), context, batch, processes)
    generator = labelled_generator(seed, "epoch", str(epoch))
    start = int(torch.randint(context, (), generator=generator))
    count = (len(tokens) - 1 - start) // context
    order = torch.randperm(count, generator=generator)[: steps * batch].view(steps, batch)
    order = order[:, rank::processes].to(tokens.device)
    end = start + count * context
    inputs = tokens[start:end].view(count, context)[order]
    targets = tokens[start + 1 : end + 1].view(count, context)[order]
    return inputs, targets
