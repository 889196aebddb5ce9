"""Many runs of one plan, side by side, gathered in one file."""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ghrr.files import atomic_write
from ghrr.lm.config import ModelConfig
from ghrr.lm.corpora import load_corpus
from ghrr.lm.model import match_parameters
from ghrr.lm.plan import PlannedRun, read_plan
from ghrr.lm.summary import add_results, check_summary, markdown_table, stored_runs
from ghrr.lm.text import Text, encode_corpus
from ghrr.lm.train import TrainConfig, train


def compare(
    plan: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    summary: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    device: str | None = None,
    on_result: Callable[[dict[str, Any], int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Do the runs of a plan in ``jobs`` processes and add each result to the JSON file ``summary`` as it comes.

    Runs that are in ``out`` already, finished or not, are taken up where they are. What stops it, Ctrl-C or a run that
    fails, stops all runs.

    Parameters
    ----------
    plan
        A file, see :mod:`ghrr.lm.plan`.
    out
        Folder for the runs.
    summary
        ``{"runs": [...]}``, one object per run. A file of the same name that ends in ``.md`` has them as
        :func:`markdown_table`.
    data
        Folder of the corpus.
    jobs
        Processes side by side; they share the device.
    device
        As in :func:`train`.
    on_result
        Called with each result, how many there are and how many there will be.
    """
    runs, target = read_plan(plan), Path(summary)
    check_summary(target)
    results: list[dict[str, Any]] = []
    others = set(multiprocessing.active_children())
    work = functools.partial(_do, Path(out), None if data is None else os.fspath(data), device)
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(work, run) for run in runs]):
                results.append(future.result())
                add_results(target, results[-1:])
                with atomic_write(target.with_suffix(".md")) as temporary:
                    temporary.write_text(markdown_table(stored_runs(target)), encoding="utf-8")
                if on_result is not None:
                    on_result(results[-1], len(results), len(runs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()  # what runs would go on to its end, and be followed by what is queued
            raise
    return results


def _do(out: Path, data: str | None, device: str | None, run: PlannedRun) -> dict[str, Any]:
    text = _text(run.dataset, data, tuple(sorted(run.tokens.items())))
    config = ModelConfig.from_dict({"vocab_size": text.tokens.size, **run.model})
    if run.parameters is not None:
        config = match_parameters(config, run.parameters)
    training = TrainConfig(**run.training)
    result = train(config, training, text, out / run.folder, device=device, resume=True, command=run.command)
    return {**_described(run, config, training), **result}


def _described(run: PlannedRun, config: ModelConfig, training: TrainConfig) -> dict[str, Any]:
    ghrr = config.attention == "ghrr"
    return {
        "attention": run.label,
        "variant": run.variant,
        "position_sharing": config.position_sharing if ghrr else None,
        "trainable_positions": config.trainable_positions if ghrr else None,
        "trainable_phases": config.trainable_phases if ghrr else None,
        "dropout": config.dropout,
        "learning_rate": training.learning_rate,
        "epochs": training.epochs,
        "model": run.model,
    }


@functools.lru_cache(maxsize=1)
def _text(dataset: str, data: str | None, tokens: tuple[tuple[str, int], ...]) -> Text:
    sizes = dict(tokens)
    return encode_corpus(load_corpus(dataset, data), limit=sizes.get("limit"), bpe=sizes.get("bpe"))
