"""``ghrr lm``: train, evaluate and compare language models with GHRR attention."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer
from rich import box
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ghrr.cli import ERRORS, STREAM, console, escaped, fail, need, parse_settings, say, stop_training, warn

if TYPE_CHECKING:
    from ghrr_lab import lm

lm_app = typer.Typer(help="Train, evaluate and compare language models with GHRR attention.", no_args_is_help=True)

Dataset = Annotated[
    str, typer.Argument(help="ptb, wikitext-2, grammar (generated, needs no files), or a folder of texts.")
]
Data = Annotated[Path | None, typer.Option(help="Folder of the corpus. Default: where `ghrr lm data` stores it.")]
TrainDevice = Annotated[str | None, typer.Option("--device", help="cpu or cuda. Default: the GPU if there is one.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
RunFolder = Annotated[Path, typer.Argument(help="Folder of a trained run.")]


@lm_app.command("data")
def lm_data(
    name: Annotated[str, typer.Argument(help="ptb or wikitext-2.")],
    folder: Annotated[Path | None, typer.Option(help="Folder to store it in. Default: the user cache.")] = None,
    source: Annotated[
        Path | None, typer.Option(help="Copy the files from this folder instead of downloading them.")
    ] = None,
) -> None:
    """Download a corpus, or copy it from a folder, and check the hash of every file."""
    from ghrr_lab import lm

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console) as progress:
        rows: dict[str, Any] = {}

        def show(file: str, done: int, total: int) -> None:
            if file not in rows:
                rows[file] = progress.add_task(file, total=total)
            progress.update(rows[file], completed=done)

        try:
            stored = lm.fetch_corpus(name, folder, source=source, on_progress=show)
        except (OSError, ValueError) as error:
            progress.stop()
            fail(error)
    say(escaped(name), " is stored in ", escaped(stored))


@lm_app.command("train")
def lm_train(  # noqa: PLR0917 (typer reads options from a signature)
    dataset: Dataset,
    out: Annotated[Path, typer.Option(help="New folder for the run.")],
    attention: Annotated[str | None, typer.Option(help="vanilla, rope or ghrr.")] = None,
    dim: Annotated[int | None, typer.Option(help="Numbers per token, the setting embed_dim.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training text.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the run.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting of ModelConfig or TrainConfig. Repeatable."),
    ] = None,
    params: Annotated[
        int | None, typer.Option(help="Set ffn_dim so that the model has about this many parameters.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Maximum vocabulary size of words; rarer words become <unk>.")
    ] = None,
    bpe: Annotated[int | None, typer.Option(help="Use BPE tokens with this vocabulary size instead of words.")] = None,
    data: Data = None,
    device: TrainDevice = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder from its last checkpoint.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
) -> None:
    """Train a model. An interrupted run continues with --resume and gives the same result."""
    if bpe is not None:
        need("lm")
    from ghrr_lab import lm

    shortcuts = {"attention": attention, "embed_dim": dim, "epochs": epochs, "seed": seed}
    try:
        model, training = _settings(settings or [], {k: v for k, v in shortcuts.items() if v is not None})
        text = lm.encode_corpus(lm.load_corpus(dataset, data), bpe=bpe, limit=limit)
        config = lm.ModelConfig.from_dict({"vocab_size": text.tokenizer.vocab_size, **model})
        config = config if params is None else lm.match_parameters(config, params)
        train_config = lm.TrainConfig(**training)
        with _training_bar() as bar:
            task = bar.add_task("training", total=None, loss="", valid="", visible=False)
            result = lm.train(
                config,
                train_config,
                text,
                out,
                device=device,
                resume=resume,
                tensorboard=tensorboard,
                command=shlex.join(["ghrr", *sys.argv[1:]]),
                on_progress=lambda progress: _show_progress(bar, task, progress),
            )
    except KeyboardInterrupt:
        stop_training(out)
    except ERRORS as error:
        fail(error)
    _show_results([{"run": str(out), **result}], ("run", "params", "valid_ppl", "test_ppl", "tokens_per_s"))
    if train_config.warmup >= result["steps"]:
        warn(
            f"the run ended before the warm-up of the learning rate: it had {result['steps']} steps, and warmup is "
            f"{train_config.warmup}; lower it with --set warmup=N, or train for more epochs"
        )


@lm_app.command("eval")
def lm_eval(  # noqa: PLR0917
    run: RunFolder,
    dataset: Annotated[str | None, typer.Argument(help="Corpus to score. Default: the corpus of the run.")] = None,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    stride: Annotated[
        int | None, typer.Option(help="Tokens between the starts of windows. Default: the context.")
    ] = None,
    data: Data = None,
    device: Device = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute the perplexity of a trained model per token and per word."""
    from ghrr_lab import lm
    from ghrr_lab.lm.run_folder import read_description

    try:
        model, tokenizer = lm.load_run(run, device=device)
        trained = read_description(run)
        name = dataset or trained["corpus"].removesuffix("-small").removesuffix("-bpe")
        text = lm.encode_corpus(lm.load_corpus(name, data), tokenizer)
        if dataset is None and text.fingerprint != trained["text"]:
            raise ValueError(
                f"lm eval: the run was trained on another text with the name {name!r}: got sha256 {text.fingerprint}, "
                f"expected {trained['text']}; name the corpus to score: ghrr lm eval {run} CORPUS"
            )
        if split not in text.word_counts:
            raise ValueError(f"lm eval: --split must be one of {', '.join(text.word_counts)}, got {split!r}")
        score = lm.evaluate(model, getattr(text, split), words=text.word_counts[split], stride=stride)
    except ERRORS as error:
        fail(error)
    row = {"corpus": name, "split": split, "tokens": score.tokens, "words": score.words}
    row |= {"perplexity": score.perplexity, "word_perplexity": score.word_perplexity}
    if as_json:
        print(json.dumps(row))
    else:
        _show_results([row], tuple(row))


@lm_app.command("generate")
def lm_generate(  # noqa: PLR0917
    run: RunFolder,
    prompt: Annotated[
        str, typer.Argument(help="Beginning of the text; - reads it from standard input. Default: the start of a line.")
    ] = "\n",
    count: Annotated[int, typer.Option("--tokens", min=0, help="Number of tokens to add.")] = 100,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Divisor of the logits; 0 always takes the most likely token.")
    ] = 1.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample from the k most likely tokens only.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the text.")] = 0,
    device: Device = "cpu",
    option: Annotated[str | None, typer.Option("--prompt", hidden=True)] = None,  # of version 0.3
) -> None:
    """Generate text with a trained model."""
    from ghrr_lab import lm

    prompt = sys.stdin.read() if prompt == STREAM else prompt
    prompt = prompt if option is None else option
    try:
        model, tokenizer = lm.load_run(run, device=device)
        ids = torch.from_numpy(tokenizer.encode(prompt)).long()[None]
        if not ids.numel():
            raise ValueError(f"lm generate: the prompt must have at least one token, got {prompt!r}")
        generator = torch.Generator().manual_seed(seed)
        generated = lm.generate(model, ids, count, temperature=temperature, top_k=top_k, generator=generator)
    except ERRORS as error:
        fail(error)
    say(escaped(tokenizer.decode(generated[0].cpu().numpy()).strip("\n"), lines=True))


@lm_app.command("compare")
def lm_compare(  # noqa: PLR0917
    plan: Annotated[
        Path, typer.Argument(help="JSON file with the runs; `python -m pydoc ghrr_lab.lm.plan` describes it.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the runs.")] = Path("runs"),
    summary: Annotated[
        Path, typer.Option(help="JSON file for the results. The same name with .md gets a table.")
    ] = Path("summary.json"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of runs at the same time.")] = 1,
    data: Data = None,
    device: TrainDevice = None,
) -> None:
    """Train and evaluate the models of a plan, several at a time, and collect their results."""
    from ghrr_lab import lm

    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("runs", total=None, visible=False)
            results = lm.compare(
                plan,
                out,
                summary=summary,
                data=data,
                jobs=jobs,
                device=device,
                on_result=lambda _, done, total: progress.update(task, completed=done, total=total, visible=True),
            )
    except KeyboardInterrupt:
        say("Stopped. Run the same command again to continue from ", escaped(out), ".")
        raise typer.Exit(130) from None
    except ERRORS as error:
        fail(error)
    shown = ("attention", "variant", "seeds", "params", "valid_ppl", "test_ppl", "test_std", "tokens_per_s")
    _show_results(sorted(lm.average_over_seeds(results), key=lambda row: row["test_ppl"]), shown)
    say("Full table: ", escaped(summary.with_suffix(".md")))


def _settings(given: list[str], shortcuts: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split NAME=VALUE pairs into settings of the model and of the training.

    A name that both have, such as ``seed``, belongs to the training; ``model.seed`` is the one of the model.
    """
    from ghrr_lab import lm
    from ghrr_lab.lm.config import setting_names

    model, training = setting_names(), {field.name for field in dataclasses.fields(lm.TrainConfig)}
    section = dict.fromkeys(setting_names(old=True) - {"vocab_size", "vocabulary"}, "model")
    section |= dict.fromkeys(training, "training") | {f"model.{name}": "model" for name in model & training}
    settings: dict[str, dict[str, Any]] = {"model": {}, "training": {}}
    names = sorted(name for name in section if name.removeprefix("model.") in model | training)
    values = shortcuts | parse_settings("lm train", given, names, old=section.keys() - set(names))
    for name, value in values.items():
        settings[section[name]][name.removeprefix("model.")] = value
    return settings["model"], settings["training"]


def _training_bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"))
    return Progress(*columns, TextColumn("{task.fields[valid]}"), TimeRemainingColumn(), console=console)


def _show_progress(bar: Progress, task: Any, progress: lm.TrainProgress) -> None:
    if progress.loss is not None:
        bar.update(task, loss=f"loss {progress.loss:.3f}")
    if progress.valid_perplexity is not None:
        bar.update(task, valid=f"valid {progress.valid_perplexity:.2f}")
    bar.update(task, completed=progress.step, total=progress.total_steps, visible=True)


def _show_results(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    table = Table(*(name.replace("_", " ") for name in columns), box=box.SIMPLE_HEAD)
    for row in rows:
        cells = (row[name] for name in columns)
        table.add_row(
            *(f"{c:.2f}" if isinstance(c, float) else f"{c:,}" if isinstance(c, int) else escaped(c) for c in cells)
        )
    console.print(table)
