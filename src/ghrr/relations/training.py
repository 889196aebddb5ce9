"""Train a relation model in a folder, from which an interrupted run can be resumed."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import (
    check_device,
    current_call,
    describe,
    names_errors,
    short_repr,
    type_error,
    value_error,
    warn,
    without_name,
)
from ghrr.files import check_fields, read_checked_json, write_checked_json, write_tensors
from ghrr.relations.baseline import frequency_baseline
from ghrr.relations.calibration import expected_calibration_error, fit_calibration, top_confidences
from ghrr.relations.config import CHOSEN, RelationConfig
from ghrr.relations.defaults import TRIAL_EPOCHS, choose_weight, default_sizes, is_small
from ghrr.relations.evaluation import evaluate
from ghrr.relations.graph import SPLITS, KnowledgeGraph, with_reciprocals
from ghrr.relations.model import RelationModel
from ghrr.relations.saving import load_checkpoint, load_model, restore_checkpoint, save_checkpoint, save_model
from ghrr.relations.train_step import answer_weights, make_optimizer, make_step
from ghrr.relations.unseen import count_tails
from ghrr.seeding import labelled_generator
from ghrr.training import new_folder, tf32_products

MODEL, CHECKPOINT, RANKS, RESULT = "model.safetensors", "checkpoint.safetensors", "ranks.safetensors", "result.json"
_LOG_INTERVAL = 20  # steps; reading the loss waits for the GPU
_CHECKPOINT_FIELDS: dict[str, type | tuple[type, ...]] = {
    "config": dict,
    "graph": str,
    "epoch": int,
    "history": list,
    "seconds": float,
}
_HISTORY_FIELDS: dict[str, type | tuple[type, ...]] = {"epoch": int, "loss": float, "valid_mrr": float}
_RESULT_FIELDS: dict[str, type | tuple[type, ...]] = {
    "graph": str,
    "config": dict,
    "best_epoch": int,
    "valid": dict,
    "test": dict,
}


@dataclass(frozen=True)
class RelationProgress:
    """State of a run after a step, as given to ``on_progress`` of :func:`train`.

    Attributes
    ----------
    step
        Steps done.
    total_steps
        Steps of the whole run if it does not stop early.
    loss
        Cross-entropy of the batch in nats; None at steps where it is not read.
    valid_mrr
        MRR of the validation triples; None at steps without an evaluation.
    trial
        Weight of the regulariser that a short training before the run tries; None in the run itself.

    Examples
    --------
    >>> from ghrr.relations import RelationProgress
    >>> RelationProgress(step=20, total_steps=100, loss=4.5)
    RelationProgress(step=20, total_steps=100, loss=4.5, valid_mrr=None, trial=None)
    """

    step: int
    total_steps: int
    loss: float | None = None
    valid_mrr: float | None = None
    trial: float | None = None


@names_errors
def train(
    graph: KnowledgeGraph,
    config: RelationConfig,
    out: str | os.PathLike[str],
    *,
    device: str | torch.device | None = None,
    resume: bool = False,
    on_progress: Callable[[RelationProgress], None] | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Train a model on the triples of a graph, keep the one with the best validation MRR, and evaluate it.

    The loss is the cross-entropy of the correct entity among all entities, for tails and, by reciprocal relations, for
    heads. Training stops early if the validation MRR does not improve. The folder ``out`` receives
    ``model.safetensors`` (the best model), ``checkpoint.safetensors`` (the state to resume from) and, at the end,
    ``ranks.safetensors`` and ``result.json``. The order of the triples depends only on the seed and the epoch: a
    resumed run gives the same model as an uninterrupted one, bit for bit on a CPU with the same number of threads.
    Files are replaced atomically, and only one process at a time can write to a folder.

    ``dim``, ``batch`` and ``regularizer_weight`` are chosen if they are not given. Warns if the model ends below the
    frequency baseline, which answers with the most frequent tails of a relation.

    Parameters
    ----------
    graph
        Triples.
    config
        Settings of the model and of the training.
    out
        A new or empty folder. With ``resume``, also the folder of the same run.
    device
        Device to train on. Default: the first GPU if there is one, else the CPU.
    resume
        Continue the run in ``out`` from its last checkpoint. A finished run is not repeated: its result is returned.
    on_progress
        Called after each step.
    command
        Command that started the run, stored in the result.

    Returns
    -------
    dict
        The content of ``result.json``: metrics of the best model on validation and test triples, the history of the
        validation MRR, the calibration of its probabilities, and the time.

    Raises
    ------
    ValueError
        ``out`` holds another run or other files, a split is empty, two splits share a triple, a relation has no
        training triple, or the loss is not finite.

    Examples
    --------
    >>> import tempfile, torch
    >>> from ghrr.relations import KnowledgeGraph, RelationConfig, train
    >>> numbers = torch.arange(12)  # a relation: the next number, modulo 12
    >>> triples = torch.stack([numbers, 0 * numbers, (numbers + 1) % 12], dim=1)
    >>> splits = triples[:10], triples[10:11], triples[11:]
    >>> graph = KnowledgeGraph("clock", tuple(map(str, range(12))), ("next",), *splits)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = train(graph, RelationConfig(dim=20, m=2, epochs=5, batch=10), folder, device="cpu")
    >>> len(result["history"])
    1
    """
    if not isinstance(graph, KnowledgeGraph):
        raise type_error(f"graph must be a KnowledgeGraph, got {describe(graph)}")
    if not isinstance(config, RelationConfig):
        raise type_error(f"config must be a RelationConfig, got {describe(config)}")
    _check_graph(graph)
    if not isinstance(out, (str, os.PathLike)):
        raise type_error(f"out must be a path, got {describe(out)}")
    if not isinstance(command, (str, type(None))):
        raise type_error(f"command must be a string, got {describe(command)}")
    target = check_device(("cuda" if torch.cuda.is_available() else "cpu") if device is None else device)
    folder = Path(out)
    with _open_folder(folder, resume=resume):
        if (folder / RESULT).exists():
            result = check_fields(current_call(folder / RESULT), read_checked_json(folder / RESULT), _RESULT_FIELDS)
            _check_same_run(folder, result, graph, config)
            return result
        run = _Run(graph, _settle(graph, config, folder, target, on_progress), folder, target)
        run.train(on_progress)
        return run.finish(folder, command)


def _check_graph(graph: KnowledgeGraph) -> None:
    """Raise if a split is empty, two splits share a triple, or a relation has no training triple.

    ``load_graph`` checks this too, and names the line; here it holds for graphs that were made in memory.
    """
    splits = {split: graph.split(split) for split in SPLITS}
    for split, triples in splits.items():
        if not len(triples):
            use = "" if split == "train" else "; hold some training triples out, for example one in ten"
            raise value_error(f"the {split} split of {graph.name!r} is empty, expected at least one triple{use}")
    missing = sorted(set(range(len(graph.relations))) - set(graph.train[:, 1].tolist()))
    if missing:
        raise value_error(
            f"relation {short_repr(graph.relations[missing[0]])} of {graph.name!r} has no training triple "
            f"({len(missing):,} of {len(graph.relations):,} relations have none); add some, or remove the relation"
        )
    sizes = len(graph.entities), len(graph.relations)
    keys = {split: (t[:, 0] * sizes[1] + t[:, 1]) * sizes[0] + t[:, 2] for split, t in splits.items()}
    for first, second in itertools.combinations(SPLITS, 2):
        shared = torch.isin(keys[second], keys[first])
        if shared.any():
            head, relation, tail = splits[second][shared][0].tolist()
            names = graph.entities[head], graph.relations[relation], graph.entities[tail]
            raise value_error(
                f"the {first} and {second} splits of {graph.name!r} share the triple {' '.join(names):.200}; "
                f"remove it from one of them"
            )


@contextlib.contextmanager
def _open_folder(folder: Path, *, resume: bool) -> Iterator[None]:
    """Create and lock a folder; remove it at the end if it is new and empty."""
    with new_folder(folder):
        own = (MODEL, CHECKPOINT, RANKS, RESULT)
        names = {path.name for path in folder.iterdir() if path.suffix != ".tmp"} - {".lock"}
        if not resume and names:
            what = "holds a run already; resume it, or" if names <= set(own) else "is not empty;"
            raise value_error(f"{folder} {what} choose another folder")
        if not names <= set(own):
            other = sorted(names - set(own))[0]
            raise value_error(f"{folder} holds {short_repr(other)}, which is not of a run; choose another folder")
        yield


def _check_same_run(folder: Path, stored: dict[str, Any], graph: KnowledgeGraph, config: RelationConfig) -> None:
    """Raise unless graph and settings are the stored ones. Settings that earlier versions did not have are defaults."""
    if stored["graph"] != graph.fingerprint:
        raise value_error(f"{folder} holds a run on other triples; choose another folder")
    settings = asdict(RelationConfig()) | stored["config"]
    for name, value in asdict(config).items():
        if settings[name] != value and not (value is None and name in CHOSEN):
            raise value_error(
                f"{folder} holds another run: its {name} is {short_repr(settings[name])}, not "
                f"{value!r}; choose another folder"
            )


def _settle(
    graph: KnowledgeGraph,
    config: RelationConfig,
    folder: Path,
    device: torch.device,
    on_progress: Callable[[RelationProgress], None] | None,
) -> RelationConfig:
    """Return settings without None: from the checkpoint of an interrupted run, or chosen ones."""
    missing = [name for name in CHOSEN if getattr(config, name) is None]
    if missing and (folder / CHECKPOINT).exists():
        stored = load_checkpoint(folder / CHECKPOINT, _CHECKPOINT_FIELDS)[0]["config"]
        return replace(config, **{name: stored[name] for name in missing if name in stored})
    config = default_sizes(graph, config)
    if "regularizer_weight" not in missing or not is_small(graph):
        return config

    def valid_mrr(weight: float) -> float:
        epochs = min(TRIAL_EPOCHS, config.epochs)
        short = replace(config, regularizer_weight=weight, epochs=epochs, evaluate_every=epochs)
        trial = _Run(graph, short, None, device)
        trial.train(None if on_progress is None else lambda progress: on_progress(replace(progress, trial=weight)))
        return trial.history[-1]["valid_mrr"]

    return replace(config, regularizer_weight=choose_weight(valid_mrr))


class _Run:
    """A run in progress: model, optimiser and history. Without a folder nothing is stored."""

    def __init__(
        self, graph: KnowledgeGraph, config: RelationConfig, folder: Path | None, device: torch.device
    ) -> None:
        self.graph, self.config, self.folder, self.device = graph, config, folder, device
        self.model = RelationModel(
            graph.entities,
            graph.relations,
            dim=config.dim,
            m=config.m,
            relation_form=config.relation_form,
            length_penalty=config.length_penalty,
            init_std=config.init_std,
            seed=config.seed,
        )
        self.model.unseen = count_tails(graph)
        self.model.to(device)
        self.optimizer = make_optimizer(self.model, config)
        self.triples = with_reciprocals(graph.train, len(graph.relations)).to(device)
        self.epoch, self.seconds = 0, 0.0
        self.history: list[dict[str, float]] = []
        self.average = self.model if config.average_epochs == 1 else copy.deepcopy(self.model)
        self.best = self.average  # replaced at the first evaluation
        self.next_checkpoint = -math.inf  # time from which the next checkpoint is due
        if folder is not None and (folder / CHECKPOINT).exists():
            self._restore(folder)
        elif folder is not None and (folder / MODEL).exists():
            self._check_interrupted(folder)
        self.step = make_step(self.model, self.optimizer, config, answer_weights(graph, config.frequency_share))

    def train(self, on_progress: Callable[[RelationProgress], None] | None) -> None:
        """Do the remaining epochs."""
        steps = -(-len(self.triples) // self.config.batch)
        total = steps * self.config.epochs
        report = on_progress or (lambda progress: None)
        while self.epoch < self.config.epochs and not self._is_stuck():
            clock = time.perf_counter()
            with tf32_products(self.device):
                losses = torch.zeros((), device=self.device)
                for index, batch in enumerate(self._batches()):
                    loss = self.step(batch)
                    losses += loss
                    step = self.epoch * steps + index + 1
                    shown = float(loss) if step % _LOG_INTERVAL == 0 else None
                    if index < steps - 1:  # the last step is reported after the evaluation
                        report(RelationProgress(step, total, shown))
            mean = float(losses) / steps
            if not math.isfinite(mean):
                raise value_error(f"the loss is {mean} in epoch {self.epoch + 1}; lower the learning rate")
            self.epoch += 1
            self._update_average()
            self.seconds += time.perf_counter() - clock
            valid = None
            if self.epoch % self.config.evaluate_every == 0 or self.epoch == self.config.epochs:
                valid = self._evaluate_and_save(mean)
            report(RelationProgress(self.epoch * steps, total, mean, valid))

    def _batches(self) -> Iterator[Tensor]:
        """Yield the triples of this epoch in an order that depends on the seed and the epoch alone."""
        generator = labelled_generator(self.config.seed, "relation epoch", str(self.epoch))
        order = torch.randperm(len(self.triples), generator=generator).to(self.device)
        for rows in torch.split(order, self.config.batch):
            yield self.triples[rows]

    @torch.no_grad()
    def _update_average(self) -> None:
        """Add the parameters to their mean over all epochs at first, then to a moving average."""
        if self.average is self.model:
            return
        weight = 1 / min(self.epoch, self.config.average_epochs)
        for mean, parameter in zip(self.average.parameters(), self.model.parameters(), strict=True):
            mean.lerp_(parameter, weight)

    def _evaluate_and_save(self, loss: float) -> float:
        mrr = evaluate(self.average, self.graph, "valid").mrr
        if mrr > self._best["valid_mrr"]:
            self.best = copy.deepcopy(self.average)
        self.history.append({"epoch": self.epoch, "loss": loss, "valid_mrr": mrr})
        is_last = self.epoch == self.config.epochs or self._is_stuck()
        if self.folder is not None and (is_last or time.monotonic() >= self.next_checkpoint):
            self._save(self.folder)
        return mrr

    def _save(self, folder: Path) -> None:
        """Write the best model, then the checkpoint. A kill in between repeats the epochs since the last checkpoint."""
        start = time.monotonic()
        save_model(folder / MODEL, self.best)
        info = {"config": asdict(self.config), "graph": self.graph.fingerprint, "epoch": self.epoch}
        info |= {"history": self.history, "seconds": self.seconds}
        save_checkpoint(folder / CHECKPOINT, info, self._models, self.optimizer)
        end = time.monotonic()
        self.next_checkpoint = end + _seconds_between_checkpoints(end - start)

    @property
    def _models(self) -> dict[str, RelationModel]:
        """The models of a checkpoint by name."""
        return {"model": self.model} | ({} if self.average is self.model else {"average": self.average})

    @property
    def _best(self) -> dict[str, float]:
        return max(self.history, key=lambda entry: entry["valid_mrr"], default={"epoch": 0, "valid_mrr": -math.inf})

    def _is_stuck(self) -> bool:
        """Whether the last ``patience`` evaluations were not better than an earlier one."""
        later = [entry for entry in self.history if entry["epoch"] > self._best["epoch"]]
        return len(later) >= self.config.patience

    def _restore(self, folder: Path) -> None:
        info, tensors = load_checkpoint(folder / CHECKPOINT, _CHECKPOINT_FIELDS)
        _check_same_run(folder, info, self.graph, self.config)
        try:
            restore_checkpoint(self._models, self.optimizer, tensors)
            self.best = load_model(folder / MODEL, device=self.device)
        except (OSError, ValueError, LookupError) as error:
            raise value_error(f"{folder / CHECKPOINT}: {without_name(error)}") from error
        for entry in info["history"]:
            check_fields(current_call(folder / CHECKPOINT), entry, _HISTORY_FIELDS)
        self.epoch, self.history, self.seconds = info["epoch"], info["history"], info["seconds"]

    def _check_interrupted(self, folder: Path) -> None:
        """Raise unless a model without a checkpoint can be of this run, killed before its first checkpoint."""
        found = load_model(folder / MODEL)
        is_calibrated = (found.temperature, found.background) != (self.model.temperature, self.model.background)
        names = (found.entities, found.relations) == (self.graph.entities, self.graph.relations)
        if is_calibrated or not names or found.extra_repr() != self.model.extra_repr():
            raise value_error(
                f"{folder} holds a trained model without the checkpoint of its run; choose another folder"
            )

    def finish(self, folder: Path, command: str | None) -> dict[str, Any]:
        """Calibrate and evaluate the best model, and write the result."""
        model = self.best
        model.temperature, model.background = fit_calibration(model, self.graph)
        save_model(folder / MODEL, model)
        metrics = {split: evaluate(model, self.graph, split) for split in ("valid", "test")}
        baseline = frequency_baseline(self.graph, "valid").mrr
        if metrics["valid"].mrr < baseline:
            warn(
                f"the model ranks worse than the frequency of answers, got a validation MRR of "
                f"{metrics['valid'].mrr:.3f}, expected at least {baseline:.3f}; train for more epochs, or lower "
                f"regularizer_weight={self.config.regularizer_weight:.3g} or learning_rate"
            )
        confidences, correct = top_confidences(model, self.graph, "test")
        result = {
            "name": self.graph.name,
            "graph": self.graph.fingerprint,
            "config": asdict(self.config),
            "params": model.parameter_count,
            "epochs": self.epoch,
            "best_epoch": self._best["epoch"],
            **{split: found.summary() for split, found in metrics.items()},
            "calibration": {
                "temperature": model.temperature,
                "background": model.background,
                "mean_confidence": float(confidences.mean()),
                "accuracy": float(correct.double().mean()),
                "expected_error": expected_calibration_error(confidences, correct),
            },
            "frequency_baseline": {"valid_mrr": baseline},
            "seconds_per_epoch": self.seconds / self.epoch,
            "history": self.history,
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu",
            "command": command,
        }
        ranks = {split: found.ranks.float() for split, found in metrics.items()}
        write_tensors(folder / RANKS, {}, ranks, kind="ghrr-relation-ranks", version=1, follow_links=False)
        write_checked_json(folder / RESULT, result, follow_links=False)
        return result


def _seconds_between_checkpoints(writing: float) -> float:
    """Return the time until the next checkpoint; checkpoints of large models take at most a twentieth of the time."""
    return max(30.0, 20 * writing)
