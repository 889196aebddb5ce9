"""Train a language model in a run folder, from which an interrupted run can be resumed."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import check_device, named, names_errors, without_name
from ghrr.files import write_checked_json
from ghrr.seeding import labelled_generator
from ghrr.training import replay_as_graph, restore_module, restore_optimizer, set_learning_rate, tf32_products
from ghrr_lab.lm.batches import epoch_batches, steps_per_epoch
from ghrr_lab.lm.checkpoint import load_checkpoint, save_checkpoint
from ghrr_lab.lm.config import ModelConfig
from ghrr_lab.lm.encoded_corpus import EncodedCorpus
from ghrr_lab.lm.evaluation import evaluate
from ghrr_lab.lm.model import Model, check_memory
from ghrr_lab.lm.parallel import Workers
from ghrr_lab.lm.run_folder import BEST, CHECKPOINT, RESULT, RunError, check_run, open_run
from ghrr_lab.lm.train_config import TrainConfig
from ghrr_lab.lm.train_log import TrainLog
from ghrr_lab.lm.train_step import Step, make_optimizer, make_step, schedule

_LOG_INTERVAL = 20  # steps; reading the loss waits for the GPU


@dataclass(frozen=True)
class TrainProgress:
    """State of a run after a step, as given to ``on_progress`` of :func:`train`.

    Attributes
    ----------
    step
        Steps done.
    total_steps
        Steps of the whole run.
    loss
        Training loss per token in nats; None at steps where it is not read.
    valid_perplexity
        Perplexity of the validation text; None at steps without an evaluation.

    Examples
    --------
    >>> from ghrr_lab.lm import TrainProgress
    >>> TrainProgress(step=20, total_steps=100, loss=4.5)
    TrainProgress(step=20, total_steps=100, loss=4.5, valid_perplexity=None)
    """

    step: int
    total_steps: int
    loss: float | None = None
    valid_perplexity: float | None = None


@names_errors
def train(
    model_config: ModelConfig,
    config: TrainConfig,
    text: EncodedCorpus,
    out: str | os.PathLike[str],
    *,
    device: str | torch.device | None = None,
    resume: bool = False,
    on_progress: Callable[[TrainProgress], None] | None = None,
    tensorboard: bool = False,
    command: str | None = None,
) -> dict[str, Any]:
    """Train a model, keep the weights with the best validation perplexity, and score them on the test text.

    The folder ``out`` receives ``run.json`` (the settings), ``vocabulary.json``, ``checkpoint.safetensors`` (the state
    to resume from), ``best.safetensors`` (the best weights), ``log.jsonl`` and, at the end, ``result.json``. All
    randomness of a step depends only on the seed and the step number. A resumed run therefore gives the same weights
    as an uninterrupted one, bit for bit on a CPU. A run that fails before its first step leaves no files. Only one
    process at a time can write to a folder.

    Parameters
    ----------
    model_config
        Settings of the model.
    config
        Settings of the training.
    text
        Encoded corpus.
    out
        A new or empty folder. With ``resume``, also the folder of the same run.
    device
        Device to train on. Default: the first GPU if there is one, else the CPU.
    resume
        Continue the run in ``out`` from its last checkpoint. A finished run is not repeated: its result is returned.
    on_progress
        Called after each step.
    tensorboard
        Also write TensorBoard events to ``out/tensorboard``.
    command
        Command that started the run, stored in the result.

    Returns
    -------
    dict
        The content of ``result.json``: ``valid_ppl`` and ``test_ppl`` of the best weights, the number of parameters and
        steps, and the speed.

    Raises
    ------
    RunError
        ``out`` holds another run or other files, the text is too short, or the loss is not finite.

    Examples
    --------
    >>> import tempfile
    >>> from ghrr_lab import lm
    >>> sentences = lm.generate_grammar_text(200, seed=0)
    >>> text = lm.encode_corpus(lm.Corpus("tiny", train=sentences, valid=sentences, test=sentences))
    >>> config = lm.ModelConfig(
    ...     vocab_size=text.tokenizer.vocab_size, embed_dim=16, num_layers=1, ffn_dim=8, max_len=8, attention="rope"
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = lm.train(config, lm.TrainConfig(epochs=1, batch=16, warmup=2), text, folder, device="cpu")
    >>> result["test_ppl"] < config.vocab_size
    True
    """
    workers = Workers()
    folder = Path(out)
    if model_config.vocab_size != text.tokenizer.vocab_size:
        raise RunError(
            named(
                f"vocab_size of the model must equal the vocabulary of the text ({text.tokenizer.vocab_size}), got "
                f"{model_config.vocab_size}"
            )
        )
    target = workers.device or check_device(
        ("cuda" if torch.cuda.is_available() else "cpu") if device is None else device
    )
    description = {
        "model": model_config,
        "training": config,
        "corpus": text.name,
        "vocabulary": text.tokenizer.fingerprint,
        "text": text.fingerprint,
    }
    # Find settings that cannot work before writing anything.
    steps_per_epoch(len(text.train), model_config.max_len, config.batch, workers.count)
    check_memory(model_config)
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_run(folder, description, text, resume=resume)) if workers.is_main else None
        workers.wait()  # the main process makes the folder, then the others read it
        result = check_run(folder, description, resume=True) if opened is None else opened.result
        workers.wait()
        if result is not None:
            return result
        trainer = None
        try:
            devices = [target] if target.type == "cuda" else []
            with torch.random.fork_rng(devices=devices), tf32_products(target):
                log = {"tensorboard": tensorboard, "enabled": workers.is_main}
                trainer = _Trainer(model_config, config, text, folder=folder, device=target, workers=workers, log=log)
                return trainer.run(on_progress, command)
        except BaseException:
            if opened is not None and (trainer is None or not trainer.steps_done):
                opened.discard()
            raise


class _Trainer:
    """A run in progress: model, optimizer, step function and counters."""

    def __init__(
        self,
        model_config: ModelConfig,
        config: TrainConfig,
        text: EncodedCorpus,
        *,
        folder: Path,
        device: torch.device,
        workers: Workers,
        log: dict[str, bool],
    ) -> None:
        self.config, self.text, self.folder, self.workers = config, text, folder, workers
        self.context = model_config.max_len
        self.tokens = text.train.to(device, torch.long)
        self.epoch_steps = steps_per_epoch(len(text.train), self.context, config.batch, workers.count)
        self.total_steps = self.epoch_steps * config.epochs
        torch.manual_seed(_step_seed(config.seed, 0, -1))
        self.model = Model(model_config).to(device)
        self.optimizer = make_optimizer(
            self.model, learning_rate=config.learning_rate, weight_decay=config.weight_decay, betas=config.betas
        )
        self.bf16 = config.precision == "bf16" or (config.precision == "auto" and device.type == "cuda")
        self.steps_done, self.best_valid, self.best_step, self.seconds = 0, math.inf, 0, 0.0
        if (folder / CHECKPOINT).exists():
            self._restore()
        self.log = TrainLog(folder, after=self.steps_done, **log)
        self.step = self._make_step(device)

    def _make_step(self, device: torch.device) -> Step:
        total_loss = self.workers.wrap_loss(self.model)
        tokens = self.config.batch // self.workers.count * self.context

        def mean_loss(inputs: Tensor, targets: Tensor) -> Tensor:
            return total_loss(inputs, targets) / tokens

        forward: Callable[[Tensor, Tensor], Tensor] = mean_loss
        if self.config.compile or (self.config.compile is None and device.type == "cuda"):
            torch.compiler.reset()  # drop the compiled code of earlier models in this process
            forward = torch.compile(mean_loss, dynamic=False)
        step = make_step(
            forward, self.model, self.optimizer, clip=self.config.clip, bf16=self.bf16, backward=self.workers.backward
        )
        if device.type == "cuda" and self.workers.count == 1:
            return replay_as_graph(step, lead=self.config.batch)
        return step

    def run(self, on_progress: Callable[[TrainProgress], None] | None, command: str | None) -> dict[str, Any]:
        """Do the remaining steps and return the result."""
        interval = max(1, self.epoch_steps // self.config.evaluations)
        self.model.train()
        clock, batches = time.perf_counter(), None
        while self.steps_done < self.total_steps:
            epoch, index = divmod(self.steps_done, self.epoch_steps)
            if batches is None or index == 0:
                batches = self._batches(epoch)
            torch.manual_seed(_step_seed(self.config.seed, self.workers.rank, self.steps_done))
            rate = self.config.learning_rate * schedule(self.steps_done, self.total_steps, self.config.warmup)
            inputs, targets = batches
            set_learning_rate(self.optimizer, rate)
            loss = self.step(inputs[index], targets[index])
            self.steps_done += 1
            is_last = self.steps_done == self.total_steps
            shown = valid = None
            if self.steps_done % _LOG_INTERVAL == 0 or is_last:
                shown = float(loss)
                if not math.isfinite(shown):
                    raise RunError(named(f"the loss is {shown} at step {self.steps_done}; lower the learning rate"))
                self.log.write(step=self.steps_done, epoch=epoch, loss=shown, learning_rate=rate)
            if self.steps_done % interval == 0 or is_last:
                float(loss)  # wait for the device, so that the clock measures the steps
                self.seconds += time.perf_counter() - clock
                valid = self._validate_and_save(epoch)
                clock = time.perf_counter()
            if on_progress is not None:
                on_progress(TrainProgress(self.steps_done, self.total_steps, shown, valid))
        return self._finish(command)

    def _batches(self, epoch: int) -> tuple[Tensor, Tensor]:
        return epoch_batches(
            self.tokens,
            epoch=epoch,
            context=self.context,
            batch=self.config.batch,
            seed=self.config.seed,
            rank=self.workers.rank,
            processes=self.workers.count,
        )

    def _perplexity(self, tokens: Tensor) -> float:
        with torch.autocast(self.tokens.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            return evaluate(self.model, tokens, batch=256).perplexity

    def _validate_and_save(self, epoch: int) -> float:
        valid = self._perplexity(self.text.valid)
        if not math.isfinite(valid):
            raise RunError(
                named(f"the validation loss is {math.log(valid)} at step {self.steps_done}; lower the learning rate")
            )
        self.log.write(step=self.steps_done, epoch=epoch, valid_ppl=valid)
        if self.workers.is_main:
            if valid < self.best_valid:
                self.best_valid, self.best_step = valid, self.steps_done
                save_checkpoint(self.folder / BEST, self.model, self._info())
            save_checkpoint(self.folder / CHECKPOINT, self.model, self._info(), self.optimizer)
        self.workers.wait()
        return valid

    def _info(self) -> dict[str, Any]:
        return {
            "step": self.steps_done,
            "best_valid": self.best_valid,
            "best_step": self.best_step,
            "seconds": self.seconds,
            "model": self.model.config.to_dict(),
            "vocabulary": self.text.tokenizer.fingerprint,
        }

    def _restore(self) -> None:
        info, tensors = load_checkpoint(self.folder / CHECKPOINT)
        try:
            restore_module(self.model, tensors, "model")
            restore_optimizer(self.optimizer, tensors)
        except ValueError as error:
            raise RunError(named(f"{self.folder / CHECKPOINT}: {without_name(error)}")) from error
        self.steps_done, self.seconds = info["step"], info["seconds"]
        self.best_valid, self.best_step = info["best_valid"], info["best_step"]

    def _finish(self, command: str | None) -> dict[str, Any]:
        """Score the best weights and write the result."""
        info, tensors = load_checkpoint(self.folder / BEST)
        restore_module(self.model, tensors, "model")
        trained_tokens = self.total_steps * self.config.batch * self.context
        result = {
            "dataset": self.text.name,
            "seed": self.config.seed,
            "params": self.model.parameter_count,
            "steps": self.total_steps,
            "best_step": info["step"],
            "valid_ppl": self._perplexity(self.text.valid),
            "test_ppl": self._perplexity(self.text.test),
            "tokens_per_s": round(trained_tokens / self.seconds) if self.seconds else None,
            "command": command,
        }
        if self.workers.is_main:
            write_checked_json(self.folder / RESULT, result, follow_links=False)
        self.log.close()
        self.workers.wait()
        return result


def _step_seed(seed: int, rank: int, step: int) -> int:
    return labelled_generator(seed, "step", str(rank), str(step)).initial_seed()
