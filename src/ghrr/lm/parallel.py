"""Several processes at one model, through accelerate; one process needs nothing of it."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from ghrr._checks import install_hint


class Workers:
    """The processes of a run: as many as ``torchrun`` or ``accelerate launch`` has started, or this one alone."""

    def __init__(self) -> None:
        self.accelerator: Any = None
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            try:
                from accelerate import Accelerator  # noqa: PLC0415 (heavy, and an extra)
            except ImportError as error:
                raise ImportError(f"several processes need accelerate: {install_hint('lm')}") from error
            self.accelerator = Accelerator(cpu=not torch.cuda.is_available())
            if self.count != int(os.environ["WORLD_SIZE"]):
                raise RuntimeError(
                    f"{os.environ['WORLD_SIZE']} processes were started, but accelerate knows of {self.count}; "
                    "start them with torchrun --nproc-per-node N"
                )

    @property
    def count(self) -> int:
        """How many there are."""
        return 1 if self.accelerator is None else int(self.accelerator.num_processes)

    @property
    def rank(self) -> int:
        """Which one this is."""
        return 0 if self.accelerator is None else int(self.accelerator.process_index)

    @property
    def is_main(self) -> bool:
        """The one that writes files."""
        return self.rank == 0

    @property
    def device(self) -> torch.device | None:
        """The device that is this process's, where there are several."""
        return None if self.accelerator is None else self.accelerator.device

    def wrap(self, model: nn.Module) -> nn.Module:
        """A module whose forward is the loss and whose gradients are averaged over the processes."""
        if self.accelerator is None:
            return model
        wrapped: nn.Module = self.accelerator.prepare(_Loss(model))
        return wrapped

    def backward(self, loss: Tensor) -> None:
        """The derivatives of a loss."""
        torch.autograd.backward(loss) if self.accelerator is None else self.accelerator.backward(loss)

    def wait(self) -> None:
        """Until all are here."""
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()


class _Loss(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        loss: Tensor = self.model.loss(inputs, targets)  # type: ignore[operator]
        return loss
