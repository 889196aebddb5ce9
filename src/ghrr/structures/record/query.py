"""Querying: unbind paths from records, and compare what is left with the candidates of each path."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ghrr.algebra import similarity, unbind
from ghrr.memory.decorrelation import DecorrelatedKeys
from ghrr.memory.match import Match, answer_noise
from ghrr.structures.layout import Path, shift_each
from ghrr.structures.record.codebook import Codebook
from ghrr.structures.record.matching import Found, best_matches, members
from ghrr.structures.vocabulary import chunks


def match_paths(
    book: Codebook, rows: Tensor, paths: Sequence[Path], keys: DecorrelatedKeys, *, confidence: float, odds: float = 1.0
) -> list[list[Found]]:
    """Return the best match in every row ``(n, dim, m, m)`` under every path: for each path a list of n."""
    energy, count = similarity(rows, rows), len(rows)
    choices = [book.choice(path) for path in paths]
    found: list[Found] = []
    for run in chunks(count * len(paths), book.space):
        pair = torch.arange(run.start, run.stop)
        path, row = pair // max(1, count), pair % max(1, count)
        which = path.tolist()
        answers = unshift(book, unbind(rows[row], keys.vectors[path], side="left"), [len(paths[at]) for at in which])
        noise = keys[path].noise(answer_noise(book.space, energy[row]))
        found += best_matches(book.table, answers, choices, which, noise=noise, confidence=confidence, odds=odds)
    return [found[at * count : (at + 1) * count] for at in range(len(paths))]


def match_set(
    book: Codebook, x: Tensor, path: Path, keys: DecorrelatedKeys, *, confidence: float, odds: float = 1.0
) -> tuple[list[Found], Match | None]:
    """Return the sure members of the set at a path of a record ``(dim, m, m)``, and the best other candidate."""
    answers = unshift(book, unbind(x[None], keys.vectors, side="left"), [len(path)])
    noise = keys.noise(answer_noise(book.space, similarity(x, x)))[0]
    return members(book.table, answers[0], book.choice(path), noise=noise, confidence=confidence, odds=odds)


def unshift(book: Codebook, answers: Tensor, depths: Sequence[int]) -> Tensor:
    """Take the shift of values back, which is the depth of their path."""
    return shift_each(answers, [-depth for depth in depths]) if book.permute else answers
