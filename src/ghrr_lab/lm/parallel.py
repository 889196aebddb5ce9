"""Data-parallel training in several processes, through the package ``accelerate``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.checks import install_hint, named
from ghrr_lab.lm.model import Model


class Workers:
    """The processes of a run, as started by ``torchrun`` or ``accelerate launch``.

    A single process does not import ``accelerate``.
    """

    def __init__(self) -> None:
        self.accelerator: Any = None
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            try:
                from accelerate import Accelerator  # noqa: PLC0415 (slow, optional dependency)
            except ImportError as error:
                raise ImportError(named(f"several processes need accelerate; {install_hint('lm')}")) from error
            self.accelerator = Accelerator(cpu=not torch.cuda.is_available())
            if self.count != int(os.environ["WORLD_SIZE"]):
                raise RuntimeError(
                    named(
                        f"accelerate found {self.count} processes, expected WORLD_SIZE={os.environ['WORLD_SIZE']}; "
                        "start them with torchrun --nproc-per-node N"
                    )
                )

    @property
    def count(self) -> int:
        """Number of processes."""
        return 1 if self.accelerator is None else int(self.accelerator.num_processes)

    @property
    def rank(self) -> int:
        """Index of this process."""
        return 0 if self.accelerator is None else int(self.accelerator.process_index)

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files of the run."""
        return self.rank == 0

    @property
    def device(self) -> torch.device | None:
        """Device of this process; None for a single process."""
        return None if self.accelerator is None else self.accelerator.device

    def wrap_loss(self, model: Model) -> Callable[[Tensor, Tensor], Tensor]:
        """Return ``model.loss``, made to average its gradients over the processes."""
        if self.accelerator is None:
            return model.loss
        wrapped: nn.Module = self.accelerator.prepare(_Loss(model))
        return wrapped

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of a loss."""
        torch.autograd.backward(loss) if self.accelerator is None else self.accelerator.backward(loss)

    def wait(self) -> None:
        """Block until all processes have called this method."""
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()


class _Loss(nn.Module):
    """``model.loss`` as the forward of a module, which ``accelerate`` needs."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return self.model.loss(inputs, targets)
