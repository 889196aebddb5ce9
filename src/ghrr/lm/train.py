"""Training: what a run is, its schedule and batches, and the loop that can be stopped anywhere."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_choice, check_device, check_integer, check_real
from ghrr._random import labelled_generator
from ghrr.files import read_json, write_json
from ghrr.lm.checkpoint import check_shapes, load_checkpoint, restore_model, restore_optimizer, save_checkpoint
from ghrr.lm.config import ModelConfig
from ghrr.lm.evaluate import evaluate
from ghrr.lm.logs import Log
from ghrr.lm.model import Model, check_memory
from ghrr.lm.parallel import Workers
from ghrr.lm.run_folder import BEST, CHECKPOINT, RESULT, RUN, VOCABULARY, RunError, check_run, open_run
from ghrr.lm.steps import Step, make_optimizer, make_step, record_step
from ghrr.lm.text import Text
from ghrr.lm.tokens import Tokens, tokens_from_state


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained, JSON-able. A step takes ``batch`` windows of the model's context."""

    epochs: int = 30
    batch: int = 128
    learning_rate: float = 1e-3
    warmup: int = 200
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    seed: int = 0
    evaluations: int = 1  # per epoch; each also writes a checkpoint
    precision: str = "auto"  # bf16 on a GPU, float32 elsewhere
    compile: bool | None = None  # None: on a GPU

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "evaluations"):
            check_integer("TrainConfig", name, getattr(self, name), least=1)
        check_integer("TrainConfig", "warmup", self.warmup, least=0)
        check_integer("TrainConfig", "seed", self.seed, least=0)
        check_real("TrainConfig", "learning_rate", self.learning_rate, low=0.0, high=1.0, open_ends=True)
        check_real("TrainConfig", "weight_decay", self.weight_decay, low=0.0, high=math.inf)
        check_real("TrainConfig", "clip", self.clip, low=0.0, high=math.inf, open_ends=True)
        check_choice("TrainConfig", "precision", self.precision, ("auto", "bf16", "float32"))
        betas = tuple(self.betas) if isinstance(self.betas, (tuple, list)) else ()
        if len(betas) != 2 or not all(isinstance(beta, float) and 0 <= beta < 1 for beta in betas):
            raise ValueError(f"TrainConfig: betas must be two numbers in [0, 1), got {self.betas!r}")
        object.__setattr__(self, "betas", betas)  # JSON has lists


@dataclass(frozen=True)
class Progress:
    """Where a run is; given to ``on_progress`` after each step."""

    step: int
    steps: int
    loss: float | None = None
    valid: float | None = None


def train(
    model_config: ModelConfig,
    config: TrainConfig,
    text: Text,
    out: str | os.PathLike[str],
    *,
    device: str | torch.device | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    tensorboard: bool = False,
    command: str | None = None,
) -> dict[str, Any]:
    """Train a model, keep the weights with the best validation perplexity, and score them on the test text.

    The folder ``out`` gets ``run.json`` (what is trained), ``vocabulary.json``, ``checkpoint.safetensors`` (to go on
    from), ``best.safetensors``, ``log.jsonl`` and at the end ``result.json``, which is also returned. All randomness of
    a step follows from the seed and the number of the step, so a run that was killed and resumed ends with the same
    weights, to the bit on a CPU, as one that never stopped. A run that fails before its first step is done leaves no
    files. Only one process at a time may write to a folder.

    Parameters
    ----------
    model_config, config
        The model and its training.
    text
        Tokens of the training, validation and test text, with their vocabulary.
    out
        A new folder, or with ``resume`` that of the same run, which then goes on, or is read if it has ended.
    device
        By default the first GPU, or else the CPU.
    on_progress
        Called after each step; reading the loss waits for the GPU, so it is there every 20 steps.
    tensorboard
        Write TensorBoard events too.
    command
        How the run was started, for its record.
    """
    workers = Workers()
    folder = Path(out)
    if model_config.vocab_size != text.tokens.size:
        raise RunError(f"the model has a vocabulary of {model_config.vocab_size}, the text one of {text.tokens.size}")
    place = workers.device or check_device("train", device or ("cuda" if torch.cuda.is_available() else "cpu"))
    description = {
        "model": model_config,
        "training": config,
        "corpus": text.name,
        "vocabulary": text.tokens.fingerprint,
        "text": text.fingerprint,
    }
    steps_per_epoch(model_config, config, text, workers.count)  # raises before anything is written, as this does:
    check_memory(model_config)
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_run(folder, description, text, resume=resume)) if workers.is_main else None
        workers.wait()  # the others read the folder when the first has made it
        result = check_run(folder, description, resume=True) if opened is None else opened.result
        workers.wait()
        if result is not None:
            return result
        run = None
        try:
            devices = [place] if place.type == "cuda" else []
            with torch.random.fork_rng(devices=devices), _float32_matmul(place):
                run = _Run(
                    model_config,
                    config,
                    text,
                    folder=folder,
                    device=place,
                    workers=workers,
                    command=command,
                    tensorboard=tensorboard,
                )
                return run.loop(on_progress)
        except BaseException:
            if opened is not None and (run is None or not run.done):
                opened.discard()
            raise


class _Run:
    """A run under way."""

    def __init__(
        self,
        model_config: ModelConfig,
        config: TrainConfig,
        text: Text,
        *,
        folder: Path,
        device: torch.device,
        workers: Workers,
        command: str | None,
        tensorboard: bool,
    ) -> None:
        self.config, self.text, self.folder, self.workers, self.command = config, text, folder, workers, command
        self.context = model_config.max_len
        self.data = text.train.to(device, torch.long)
        self.per_epoch = steps_per_epoch(model_config, config, text, workers.count)
        self.steps = self.per_epoch * config.epochs
        torch.manual_seed(_step_seed(config.seed, 0, -1))
        self.model = Model(model_config).to(device)
        self.optimizer = make_optimizer(
            self.model, learning_rate=config.learning_rate, weight_decay=config.weight_decay, betas=config.betas
        )
        self.bf16 = config.precision == "bf16" or (config.precision == "auto" and device.type == "cuda")
        self.done, self.best_valid, self.best_step, self.seconds = 0, math.inf, 0, 0.0
        if (folder / CHECKPOINT).exists():
            self._restore()
        self.log = Log(folder, after=self.done, tensorboard=tensorboard, writes=workers.is_main)
        self.step = self._make_step(device)

    def _make_step(self, device: torch.device) -> Step:
        model, tokens = self.workers.wrap(self.model), self.config.batch // self.workers.count * self.context
        loss: Callable[[Tensor, Tensor], Tensor] = lambda x, y: self.model.loss(x, y) / tokens  # noqa: E731
        if self.workers.count > 1:
            loss = lambda x, y: model(x, y) / tokens  # noqa: E731 (its forward is the loss)
        wanted = self.config.compile
        if wanted or (wanted is None and device.type == "cuda"):
            torch._dynamo.reset()  # models before this one in the same process are forgotten
            loss = torch.compile(loss, dynamic=False)
        step = make_step(
            loss, self.model, self.optimizer, clip=self.config.clip, bf16=self.bf16, backward=self.workers.backward
        )
        if device.type == "cuda" and self.workers.count == 1:
            return record_step(step, self.model, self.optimizer, (self.config.batch, self.context))
        return step

    def loop(self, on_progress: Callable[[Progress], None] | None) -> dict[str, Any]:
        """From where the run is to its end."""
        interval = max(1, self.per_epoch // self.config.evaluations)
        self.model.train()
        clock, batches = time.perf_counter(), None
        while self.done < self.steps:
            epoch, number = divmod(self.done, self.per_epoch)
            if batches is None or number == 0:
                batches = self._batches(epoch)
            torch.manual_seed(_step_seed(self.config.seed, self.workers.rank, self.done))
            rate = self.config.learning_rate * schedule(self.done, self.steps, self.config.warmup)
            inputs, targets = batches
            loss = self.step(inputs[number], targets[number], rate)
            self.done += 1
            shown = None
            if self.done % 20 == 0 or self.done == self.steps:
                shown = float(loss)
                if not math.isfinite(shown):
                    raise RunError(f"the loss is {shown} at step {self.done}; lower the learning rate")
                self.log.write(step=self.done, epoch=epoch, loss=shown, learning_rate=rate)
            valid = None
            if self.done % interval == 0 or self.done == self.steps:
                float(loss)  # waits for the device, so that the clock is right
                self.seconds += time.perf_counter() - clock
                valid = self._evaluate_and_store(epoch)
                clock = time.perf_counter()
            if on_progress is not None:
                on_progress(Progress(self.done, self.steps, shown, valid))
        return self._finish()

    def _batches(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of an epoch, ``(steps, batch, context)``: windows in a new order from a new beginning."""
        generator = labelled_generator(self.config.seed, "epoch", str(epoch))
        start = int(torch.randint(self.context, (), generator=generator))
        count = (len(self.data) - 1 - start) // self.context
        order = torch.randperm(count, generator=generator)[: self.per_epoch * self.config.batch]
        order = order.view(self.per_epoch, self.config.batch)[:, self.workers.rank :: self.workers.count]
        order = order.to(self.data.device)
        inputs = self.data[start : start + count * self.context].view(count, self.context)[order]
        targets = self.data[start + 1 : start + 1 + count * self.context].view(count, self.context)[order]
        return inputs, targets

    def _score(self, part: Tensor) -> float:
        with torch.autocast(self.data.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            return evaluate(self.model, part, batch=256).perplexity

    def _evaluate_and_store(self, epoch: int) -> float:
        valid = self._score(self.text.valid)
        if not math.isfinite(valid):
            raise RunError(
                f"the loss is {math.log(valid)} on the validation text at step {self.done}; lower the learning rate"
            )
        self.log.write(step=self.done, epoch=epoch, valid_ppl=valid)
        if self.workers.is_main:
            if valid < self.best_valid:
                self.best_valid, self.best_step = valid, self.done
                save_checkpoint(self.folder / BEST, self.model, self._info())
            save_checkpoint(self.folder / CHECKPOINT, self.model, self._info(), self.optimizer)
        self.workers.wait()
        return valid

    def _info(self) -> dict[str, Any]:
        return {
            "step": self.done,
            "best_valid": self.best_valid,
            "best_step": self.best_step,
            "seconds": self.seconds,
            "model": self.model.config.to_dict(),
            "vocabulary": self.text.tokens.fingerprint,
        }

    def _restore(self) -> None:
        info, tensors = load_checkpoint(self.folder / CHECKPOINT)
        try:
            restore_model(self.model, tensors)
            restore_optimizer(self.optimizer, tensors)
        except ValueError as error:
            raise RunError(f"{self.folder / CHECKPOINT}: {error}") from error
        self.done, self.best_valid, self.best_step = info["step"], info["best_valid"], info["best_step"]
        self.seconds = info["seconds"]

    def _finish(self) -> dict[str, Any]:
        info, tensors = load_checkpoint(self.folder / BEST)
        restore_model(self.model, tensors)
        result = {
            "dataset": self.text.name,
            "seed": self.config.seed,
            "params": self.model.parameter_count,
            "steps": self.steps,
            "best_step": info["step"],
            "valid_ppl": self._score(self.text.valid),
            "test_ppl": self._score(self.text.test),
            "tokens_per_s": round(self.steps * self.config.batch * self.context / self.seconds)
            if self.seconds
            else None,
            "command": self.command,
        }
        if self.workers.is_main:
            write_json(self.folder / RESULT, result, follow_links=False)
        self.log.close()
        self.workers.wait()
        return result


def steps_per_epoch(model: ModelConfig, config: TrainConfig, text: Text, processes: int = 1) -> int:
    """How many batches an epoch has; ``RunError`` where there is none, or they cannot be shared by the processes."""
    windows = (len(text.train) - 1) // model.max_len - 1  # each epoch begins somewhere in the first window
    if windows < config.batch:
        raise RunError(
            f"the training text has {len(text.train):,} tokens, too few for one batch of {config.batch} windows of "
            f"{model.max_len}; use a smaller batch or max_len"
        )
    if config.batch % processes:
        raise RunError(f"a batch of {config.batch} cannot be shared equally by {processes} processes")
    return windows // config.batch


def load_run(folder: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> tuple[Model, Tokens]:
    """The best model of a run and its vocabulary, ready to evaluate or to generate.

    Raises ``RunError`` where there is no run, where it has not been evaluated yet, and where a file is damaged or the
    vocabulary is not the one that the weights were trained with.
    """
    path, place = Path(folder), check_device("load_run", device)
    if not (path / RUN).exists():
        raise RunError(f"{path} holds no run: there is no {RUN} in it")
    if not (path / BEST).exists():
        raise RunError(f"{path} holds a run that has no weights yet; go on with its training")
    try:
        tokens = tokens_from_state(read_json(path / VOCABULARY, "load_run"))
        info, tensors = load_checkpoint(path / BEST)
        if info["vocabulary"] != tokens.fingerprint:
            raise ValueError("the vocabulary is not the one that the weights were trained with")
        config = ModelConfig.from_dict(info["model"])
        check_shapes(config, tensors)
        with torch.random.fork_rng(devices=[]):
            model = Model(config)
        restore_model(model, tensors)
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path}: {error}") from error
    return model.to(place).eval(), tokens


def schedule(step: int, steps: int, warmup: int) -> float:
    """The share of the learning rate at a step: a linear rise, then half a cosine down to 2 %.

    Examples
    --------
    >>> from ghrr.lm.train import schedule
    >>> [round(schedule(step, 100, 10), 2) for step in (0, 9, 50, 99)]
    [0.1, 0.98, 0.51, 0.02]
    """
    fall = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps))
    return min(1.0, (step + 1) / warmup) * fall if warmup else fall


def _step_seed(seed: int, rank: int, step: int) -> int:
    return labelled_generator(seed, "step", str(rank), str(step)).initial_seed()


@contextlib.contextmanager
def _float32_matmul(device: torch.device) -> Iterator[None]:
    """On a GPU, products of 32-bit matrices in TF32 while this lasts: the phases' own are the only large ones."""
    if device.type != "cuda" or torch.backends.cuda.matmul.fp32_precision == "tf32":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
