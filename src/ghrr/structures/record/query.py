"""Querying: unbind paths from records, and clean up the answers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ghrr.algebra import similarity
from ghrr.memory.decorrelation import DecorrelatedKeys
from ghrr.memory.match import Match, answer_noise
from ghrr.structures.inputs import chunks
from ghrr.structures.path_tree import Path
from ghrr.structures.record.cleanup import Found, best_matches, set_members
from ghrr.structures.record.tables import RecordTables


def query_values(
    tables: RecordTables,
    records: Tensor,
    paths: Sequence[Path],
    keys: DecorrelatedKeys,
    *,
    confidence: float,
    odds: float = 1.0,
) -> list[list[Found]]:
    """Return the best match at each path of each record ``(n, dim, m, m)``: for each path a list of n."""
    energy, count = similarity(records, records), len(records)
    candidates = [tables.candidates(path) for path in paths]
    found: list[Found] = []
    for chunk in chunks(count * len(paths), tables.space):
        pair = torch.arange(chunk.start, chunk.stop)
        path, row = pair // max(1, count), pair % max(1, count)
        path_of = path.tolist()
        answers = tables.paths.unbind(records[row], keys.vectors[path], [paths[n] for n in path_of])
        noise = keys[path].noise(answer_noise(tables.space, energy[row]))
        found += best_matches(
            tables.values, answers, candidates, path_of, noise=noise, confidence=confidence, odds=odds
        )
    return [found[n * count : (n + 1) * count] for n in range(len(paths))]


def query_set(
    tables: RecordTables, x: Tensor, path: Path, keys: DecorrelatedKeys, *, confidence: float, odds: float = 1.0
) -> tuple[list[Found], Match | None]:
    """Return the confident members of the set at a path of a record ``(dim, m, m)``, and the best other candidate."""
    answer = tables.paths.unbind(x, keys.vectors, [path])[0]
    noise = keys.noise(answer_noise(tables.space, similarity(x, x)))[0]
    return set_members(tables.values, answer, tables.candidates(path), noise=noise, confidence=confidence, odds=odds)
