"""CLUTRR: stories about families as chains of relations (Sinha et al., EMNLP 2019).

A folder has ``train.jsonl.gz`` and ``test.jsonl.gz``. Each line is one story as JSON: its ``edges`` between persons
(pairs of numbers), their ``types``, a ``query`` (two persons), the ``target`` relation between them, and the ``task``,
which ends with the number of steps of the story. A story may visit a person twice, so the shortest path that answers
the query can be shorter than the story. The package contains hashes of the files, not the files.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ghrr.checks import named, names_errors, value_error
from ghrr.files import check_fields, parse_json, read_bytes
from ghrr.relations.chains.examples import Example
from ghrr.relations.lines import decompress, split_lines

_HASHES = {
    "train": {
        "8b560f70440b5d124cfb614e62606d7a4c1acbcee6f24d70dd7c86b4ca66f385",  # 2 and 3 steps
        "3ffc2811981aa0973600d1525f52fddf5e0eb67b5bf34a320ca4f906fbb790e2",  # 2, 3 and 4 steps
    },
    "test": {
        "13d4e02b2789215159fd89f2442bb32382f8c28e057de69b853f756117658574",
        "3127ba5310138cf9df021f2aa7abe706915eecdbf08121ec0ed7c52bfcb5ffa8",
    },
}
_FIELDS = {"task": str, "edges": list, "types": list, "query": list, "target": str}
_MAX_BYTES = 64 << 20
_STEPS = re.compile("[0-9]{1,9}")


@names_errors
@dataclass(frozen=True, repr=False)
class Stories:
    """Stories as chains of relations.

    Parameters
    ----------
    examples
        For each story the relations along the shortest path from the first person of the query to the second, and the
        target. Of several shortest paths the one whose edges come first in the story is taken.
    steps
        For each story its number of steps, the number that the label of its task ends with.

    Examples
    --------
    >>> from ghrr.relations.chains import Example, Stories
    >>> Stories([Example(("father", "sister"), "aunt")], steps=[4])
    <Stories: 1>
    """

    examples: list[Example]
    steps: list[int]

    def __repr__(self) -> str:
        return f"<Stories: {len(self.examples):,}>"


@names_errors
@dataclass(frozen=True)
class Clutrr:
    """Training and test stories.

    Examples
    --------
    >>> from ghrr.relations.chains import Clutrr, Example, Stories
    >>> stories = Stories([Example(("father", "sister"), "aunt")], steps=[4])
    >>> Clutrr(train=stories, test=stories)
    Clutrr(train=<Stories: 1>, test=<Stories: 1>)
    """

    train: Stories
    test: Stories


@names_errors("load_clutrr('{folder}')")
def load_clutrr(folder: str | os.PathLike[str], *, verify: bool = True) -> Clutrr:
    """Load the training and test stories of a CLUTRR folder.

    Parameters
    ----------
    folder
        Folder with ``train.jsonl.gz`` and ``test.jsonl.gz``.
    verify
        Whether the SHA-256 of the files must match the published data; False for stories of your own.

    Raises
    ------
    FileNotFoundError
        A file is missing.
    ValueError
        A file has another hash, or is malformed; the message has the file and the line.

    Examples
    --------
    >>> import gzip, json, pathlib, tempfile
    >>> from ghrr.relations.chains import load_clutrr
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> story = {"task": "task_1.2", "edges": [[0, 1], [1, 2]], "types": ["father", "sister"], "query": [0, 2],
    ...          "target": "aunt"}
    >>> for split in ("train", "test"):
    ...     _ = (folder / f"{split}.jsonl.gz").write_bytes(gzip.compress(json.dumps(story).encode()))
    >>> load_clutrr(folder, verify=False).train.examples
    [Example(chain=('father', 'sister'), target='aunt')]
    """
    return Clutrr(*(_load_stories(Path(folder) / f"{split}.jsonl.gz", split, verify) for split in ("train", "test")))


def _load_stories(path: Path, split: str, verify: bool) -> Stories:
    if not path.exists():
        raise FileNotFoundError(named(f"{path.name} is missing, expected train.jsonl.gz and test.jsonl.gz"))
    content = read_bytes(path, limit=_MAX_BYTES)
    digest = hashlib.sha256(content).hexdigest()
    if verify and digest not in _HASHES[split]:
        raise value_error(
            f"{path.name} is not a {split} file of the published data, got sha256 {digest}, expected one "
            f"of {', '.join(sorted(_HASHES[split]))}; give verify=False to load stories of your own"
        )
    try:
        lines = split_lines(decompress(content, limit=_MAX_BYTES))
    except ValueError as error:
        raise value_error(f"{path.name} is not gzip-compressed UTF-8 text: it {error!s:.200}") from None
    try:
        stories = [_parse(f"{path.name}, line {number}", line) for number, line in enumerate(lines, 1)]
    except ValueError as error:
        raise value_error(str(error)) from None
    if not stories:
        raise value_error(f"{path.name} has no stories")
    return Stories([example for example, _ in stories], [steps for _, steps in stories])


def _parse(where: str, line: str) -> tuple[Example, int]:
    story = check_fields(where, parse_json(line, where), _FIELDS)
    edges, types, steps = story["edges"], story["types"], story["task"].rpartition(".")[2]
    if len(edges) != len(types) or not all(_is_pair(edge) for edge in [*edges, story["query"]]):
        raise ValueError(
            f"{where}: edges and query must be pairs of persons (whole numbers) and each edge must have a type, got "
            f"{len(edges)} edges, {len(types)} types and query {story['query']!r:.80}"
        )
    if not all(isinstance(name, str) and name for name in (*types, story["target"])) or not _STEPS.fullmatch(steps):
        raise ValueError(f"{where}: types and target must be names and task must end with a number, as in 'task_1.2'")
    chain = _shortest_path(edges, types, *story["query"])
    if not chain:
        raise ValueError(f"{where}: no path leads from person {story['query'][0]} to person {story['query'][1]}")
    return Example(chain, story["target"]), int(steps)


def _is_pair(edge: Any) -> bool:
    return isinstance(edge, list) and len(edge) == 2 and all(type(person) is int for person in edge)


def _shortest_path(edges: list[list[int]], types: list[str], start: int, end: int) -> tuple[str, ...]:
    """Return the relations on a shortest path, by breadth-first search; nothing if there is none."""
    neighbours: dict[int, list[tuple[int, str]]] = {}
    for (source, target), name in zip(edges, types, strict=True):
        neighbours.setdefault(source, []).append((target, name))
    paths: dict[int, tuple[str, ...]] = {start: ()}
    queue = deque([start])
    while queue and end not in paths:
        person = queue.popleft()
        for other, name in neighbours.get(person, ()):
            if other not in paths:
                paths[other] = (*paths[person], name)
                queue.append(other)
    return paths.get(end, ())
