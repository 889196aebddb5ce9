"""``ghrr lm``: language models whose attention is binding."""

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

from ghrr.cli.shared import ERRORS, console, fail, foreign, need, say
from ghrr.files import parse_json

if TYPE_CHECKING:
    from ghrr import lm

lm_app = typer.Typer(help="Language models whose attention is binding.", no_args_is_help=True)

Dataset = Annotated[
    str, typer.Argument(help="ptb, wikitext-2, grammar (made up, needs no files), or a folder of text.")
]
Data = Annotated[Path | None, typer.Option(help="Folder of the corpus; else where `ghrr lm data` puts it.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; else the GPU if there is one.")]
RunFolder = Annotated[Path, typer.Argument(help="Folder of a run.")]


@lm_app.command("data")
def lm_data(
    name: Annotated[str, typer.Argument(help="ptb or wikitext-2.")],
    folder: Annotated[Path | None, typer.Option(help="Where to put it; else in the cache.")] = None,
    source: Annotated[Path | None, typer.Option(help="Take the files from this folder instead of the network.")] = None,
) -> None:
    """Get a corpus: from the network or a folder, every file checked against its hash."""
    from ghrr import lm

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console) as progress:
        rows: dict[str, Any] = {}

        def show(file: str, done: int, total: int) -> None:
            if file not in rows:
                rows[file] = progress.add_task(file, total=total)
            progress.update(rows[file], completed=done)

        try:
            there = lm.fetch_corpus(name, folder, source=source, on_progress=show)
        except (OSError, ValueError) as error:
            progress.stop()
            fail(error)
    say(foreign(name), " is in ", foreign(there))


@lm_app.command("train")
def lm_train(  # noqa: PLR0917 (typer reads options from a signature)
    dataset: Dataset,
    out: Annotated[Path, typer.Option(help="A new folder for the run.")],
    attention: Annotated[str | None, typer.Option(help="vanilla, rope or ghrr.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training text.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same run.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of ModelConfig or TrainConfig; repeatable."),
    ] = None,
    params: Annotated[int | None, typer.Option(help="Choose the feed-forward width for so many parameters.")] = None,
    limit: Annotated[int | None, typer.Option(help="Words: keep so many of the most frequent.")] = None,
    bpe: Annotated[int | None, typer.Option(help="Byte-pair tokens, so many, instead of words.")] = None,
    data: Data = None,
    device: Device = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard events too.")] = False,
) -> None:
    """Train a model. A run that was stopped goes on with --resume, and ends as if it never had been."""
    if bpe is not None:
        need("lm")
    from ghrr import lm

    shortcuts = {"attention": attention, "epochs": epochs, "seed": seed}
    try:
        model, training = _settings(settings or [], {k: v for k, v in shortcuts.items() if v is not None})
        text = lm.encode_corpus(lm.load_corpus(dataset, data), bpe=bpe, limit=limit)
        config = lm.ModelConfig.from_dict({"vocab_size": text.tokens.size, **model})
        config = config if params is None else lm.match_parameters(config, params)
        planned = lm.TrainConfig(**training)
        with _training_progress() as progress:
            task = progress.add_task("training", total=None, loss="", valid="", visible=False)
            result = lm.train(
                config,
                planned,
                text,
                out,
                device=device,
                resume=resume,
                tensorboard=tensorboard,
                command=shlex.join(["ghrr", *sys.argv[1:]]),
                on_progress=lambda step: _show(progress, task, step),
            )
    except KeyboardInterrupt:
        say("Stopped. The same command with --resume goes on from the last checkpoint in ", foreign(out), ".")
        raise typer.Exit(130) from None
    except ERRORS as error:
        fail(error)
    _show_results([{"run": str(out), **result}], ("run", "params", "valid_ppl", "test_ppl", "tokens_per_s"))
    if planned.warmup >= result["steps"]:
        say(
            f"The learning rate rises for {planned.warmup} steps, and there were {result['steps']}: it never got to "
            "where it should; use --set warmup=... or more epochs."
        )


@lm_app.command("eval")
def lm_eval(  # noqa: PLR0917
    run: RunFolder,
    dataset: Annotated[str | None, typer.Argument(help="Another corpus than that of the run.")] = None,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    stride: Annotated[int | None, typer.Option(help="Tokens between windows; else the whole context.")] = None,
    data: Data = None,
    device: Device = None,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Perplexity per token and per word, every token scored once."""
    from ghrr import lm
    from ghrr.lm.run_folder import read_description

    try:
        model, tokens = lm.load_run(run, device=device or "cpu")
        trained = read_description(run)
        name = dataset or trained["corpus"].removesuffix("-small").removesuffix("-bpe")
        text = lm.encode_corpus(lm.load_corpus(name, data), tokens)
        if dataset is None and text.fingerprint != trained["text"]:
            raise ValueError(
                f"the run was trained on another text that is also called {name!r}, expected sha256 {trained['text']}, "
                f"got {text.fingerprint}; name the corpus: ghrr lm eval {run} CORPUS"
            )
        if split not in text.words:
            raise ValueError(f"--split must be one of {', '.join(text.words)}, got {split!r}")
        score = lm.evaluate(model, getattr(text, split), words=text.words[split], stride=stride)
    except ERRORS as error:
        fail(error)
    found = {"corpus": name, "split": split, "tokens": score.tokens, "words": score.words}
    found |= {"perplexity": score.perplexity, "word_perplexity": score.word_perplexity}
    if as_json:
        print(json.dumps(found))
    else:
        _show_results([found], tuple(found))


@lm_app.command("generate")
def lm_generate(  # noqa: PLR0917
    run: RunFolder,
    prompt: Annotated[str, typer.Option(help="How the text begins; else at the start of a line.")] = "\n",
    count: Annotated[int, typer.Option("--tokens", min=0, help="How many to add.")] = 100,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest token each time.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from the likeliest so many.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same text.")] = 0,
    device: Device = None,
) -> None:
    """Text from a trained model."""
    from ghrr import lm

    try:
        model, tokens = lm.load_run(run, device=device or "cpu")
        ids = torch.from_numpy(tokens.encode(prompt)).long()[None]
        if not ids.numel():
            raise ValueError("the prompt has no tokens")
        generator = torch.Generator().manual_seed(seed)
        found = lm.generate(model, ids, count, temperature=temperature, top_k=top_k, generator=generator)
    except ERRORS as error:
        fail(error)
    say(foreign(tokens.decode(found[0].cpu().numpy()).strip("\n"), lines=True))


@lm_app.command("compare")
def lm_compare(  # noqa: PLR0917
    plan: Annotated[Path, typer.Argument(help="JSON file of runs; see ghrr.lm.plan.")],
    out: Annotated[Path, typer.Option(help="Folder for the runs.")] = Path("runs"),
    summary: Annotated[
        Path, typer.Option(help="JSON file that the results are added to; a .md beside it has them as a table.")
    ] = Path("summary.json"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs side by side.")] = 1,
    data: Data = None,
    device: Device = None,
) -> None:
    """Do the runs of a plan, side by side, and gather their results."""
    from ghrr import lm

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
        say("Stopped. Run the same command again to continue from ", foreign(out), ".")
        raise typer.Exit(130) from None
    except ERRORS as error:
        fail(error)
    shown = ("attention", "variant", "seeds", "params", "valid_ppl", "test_ppl", "test_std", "tokens_per_s")
    _show_results(sorted(lm.average(results), key=lambda row: row["test_ppl"]), shown)
    say("With parameters, speeds and commands: ", foreign(summary.with_suffix(".md")))


def _settings(given: list[str], shortcuts: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sort NAME=VALUE pairs into settings of the model and of the training; ``model.seed`` is not the run's seed."""
    from ghrr import lm
    from ghrr.lm.config import setting_names

    model, training = setting_names(), {field.name for field in dataclasses.fields(lm.TrainConfig)}
    section = dict.fromkeys(setting_names(old=True) - {"vocab_size", "vocabulary"}, "model")
    section |= dict.fromkeys(training, "training") | {f"model.{name}": "model" for name in model & training}
    found: dict[str, dict[str, Any]] = {"model": {}, "training": {}}
    values = dict(shortcuts)
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or name not in section:
            names = sorted(name for name in section if name.removeprefix("model.") in model | training)
            raise ValueError(f"--set {pair}: expected NAME=VALUE with a name among {', '.join(names)}")
        try:
            values[name] = parse_json(value, "--set")
        except ValueError:
            values[name] = value
    for name, value in values.items():
        found[section[name]][name.removeprefix("model.")] = value
    return found["model"], found["training"]


def _training_progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"))
    return Progress(*columns, TextColumn("{task.fields[valid]}"), TimeRemainingColumn(), console=console)


def _show(progress: Progress, task: Any, step: lm.Progress) -> None:
    if step.loss is not None:
        progress.update(task, loss=f"loss {step.loss:.3f}")
    if step.valid is not None:
        progress.update(task, valid=f"valid {step.valid:.2f}")
    progress.update(task, completed=step.step, total=step.steps, visible=True)


def _show_results(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    table = Table(*(name.replace("_", " ") for name in columns), box=box.SIMPLE_HEAD)
    for row in rows:
        cells = (row[name] for name in columns)
        table.add_row(
            *(f"{c:.2f}" if isinstance(c, float) else f"{c:,}" if isinstance(c, int) else foreign(c) for c in cells)
        )
    console.print(table)
