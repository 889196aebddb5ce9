"""Run all trainings of a plan, in parallel processes, and collect their results in one file."""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ghrr.checks import names_errors
from ghrr.files import atomic_write
from ghrr_lab.lm.config import ModelConfig
from ghrr_lab.lm.corpora import load_corpus
from ghrr_lab.lm.encoded_corpus import EncodedCorpus, encode_corpus
from ghrr_lab.lm.model import match_parameters
from ghrr_lab.lm.plan import PlannedRun, read_plan
from ghrr_lab.lm.summary import add_results, check_summary, markdown_table, stored_runs
from ghrr_lab.lm.train_config import TrainConfig
from ghrr_lab.lm.training import train


@names_errors
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
    """Do the runs of a plan in ``jobs`` processes and add each result to the JSON file ``summary``.

    Finished runs in ``out`` are not repeated, and interrupted runs are resumed. Ctrl-C or an error in one run stops
    all runs.

    Parameters
    ----------
    plan
        JSON file with the runs; see ``ghrr_lab.lm.plan``.
    out
        Folder for the run folders.
    summary
        JSON file ``{"runs": [...]}`` with one object per run. The :func:`markdown_table` of all its runs goes to the
        file of the same name that ends in ``.md``.
    data
        Folder of the corpus; see :func:`load_corpus`.
    jobs
        Number of runs at the same time. They share the device.
    device
        Device to train on; see :func:`train`.
    on_result
        Called after each run with its result, the number of finished runs and the number of all runs.

    Returns
    -------
    list of dict
        Results in the order in which the runs finished.

    Examples
    --------
    In a script, call it below ``if __name__ == "__main__":``, because it starts processes.

    >>> from ghrr_lab import lm
    >>> results = lm.compare("plan.json", "runs", summary="summary.json", jobs=2)  # doctest: +SKIP
    >>> print(lm.markdown_table(results))  # doctest: +SKIP
    """
    runs, target = read_plan(plan), Path(summary)
    check_summary(target)
    results: list[dict[str, Any]] = []
    other_children = set(multiprocessing.active_children())
    work = functools.partial(_do_run, Path(out), None if data is None else os.fspath(data), device)
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
            for process in set(multiprocessing.active_children()) - other_children:
                process.terminate()  # shutdown alone would let the current runs finish
            raise
    return results


def _do_run(out: Path, data: str | None, device: str | None, run: PlannedRun) -> dict[str, Any]:
    text = _encode(run.dataset, data, tuple(sorted(run.tokens.items())))
    config = ModelConfig.from_dict({"vocab_size": text.tokenizer.vocab_size, **run.model})
    if run.parameters is not None:
        config = match_parameters(config, run.parameters)
    training = TrainConfig(**run.training)
    result = train(config, training, text, out / run.folder, device=device, resume=True, command=run.command)
    return {**_description(run, config, training), **result}


def _description(run: PlannedRun, config: ModelConfig, training: TrainConfig) -> dict[str, Any]:
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
def _encode(dataset: str, data: str | None, tokens: tuple[tuple[str, int], ...]) -> EncodedCorpus:
    sizes = dict(tokens)
    return encode_corpus(load_corpus(dataset, data), limit=sizes.get("limit"), bpe=sizes.get("bpe"))
