"""The commands ``ghrr chains``: learn how relations compose, and compose chains of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ghrr.cli.output import ERRORS, check_output, escaped, fail, say
from ghrr.relations.chains import ChainProgress, RelationChains, load_chains, load_clutrr, save_chains

chains_app = typer.Typer(help="Learn how relations compose, and compose chains of them.", no_args_is_help=True)


@chains_app.command()
def train(
    data: Annotated[Path, typer.Argument(help="CLUTRR folder with train.jsonl.gz and test.jsonl.gz.")],
    out: Annotated[Path, typer.Option(help="File for the model, usually *.safetensors.")],
    *,
    dim: Annotated[int, typer.Option(help="Number of slots.")] = 8,
    m: Annotated[int, typer.Option(help="Size of the matrix in each slot.")] = 8,
    epochs: Annotated[int, typer.Option(help="Passes over the training chains.")] = 15,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    verify: Annotated[bool, typer.Option(help="Check that the files are the published ones, by their hashes.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Learn one hypervector per relation from the training stories, and count correct answers to the test stories."""
    check_output(out, force=force)

    def report(progress: ChainProgress) -> None:
        say(f"epoch {progress.epoch} of {progress.epochs}: loss {progress.loss:.4f}")

    try:
        stories = load_clutrr(data, verify=verify)
        model = RelationChains(dim=dim, m=m, epochs=epochs, seed=seed).fit(stories.train.examples, progress=report)
        answers = model.predict([chain for chain, _ in stories.test.examples])
        save_chains(out, model)
    except ERRORS as error:
        fail(error)
    correct = sum(answer == target for answer, (_, target) in zip(answers, stories.test.examples, strict=True))
    say(f"{correct:,} of {len(answers):,} test chains are answered correctly; wrote ", escaped(out))


@chains_app.command()
def compose(
    model: Annotated[Path, typer.Argument(help="File written by `ghrr chains train`.")],
    relations: Annotated[list[str], typer.Argument(help="Relations in order, for example: father sister son.")],
) -> None:
    """Find the relation that a chain of relations composes to, with its probability and derivation."""
    try:
        match = load_chains(model).compose(relations)
    except ERRORS as error:
        fail(error)
    say(escaped(match.guess, "bold"), f", probability {match.probability:.2f}")
    say(escaped(match.derivation, lines=True))
