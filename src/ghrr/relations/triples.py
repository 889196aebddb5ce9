"""Read knowledge graphs: a folder with training, validation and test triples, one per line."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ghrr.checks import describe, named, names_errors, short_repr, type_error, value_error
from ghrr.files import read_bytes
from ghrr.relations.graph import SPLITS, KnowledgeGraph
from ghrr.relations.lines import decompress, split_lines
from ghrr.relations.model import RelationModel

_FILES = ("{split}.txt", "{split}.tsv", "{split}.txt.gz", "{split}.tsv.gz")
_MAX_BYTES = 4 << 30  # of a file after decompression

# SHA-256 of the text files of known graphs. The package contains the hashes, not the files.
KNOWN_GRAPHS = {
    "WN18RR": {
        "train": "038612e783c215ee5f3ca9fbfca27b8d0739be1028fe4ee7c174aecf0b83d5df",
        "valid": "453ce7202afa58094a04d2b1560ee2b02660f1c260b32ce6651c8ccedd1028ab",
        "test": "0383bceaaa1096cf3c03ec021ed0048068e2355dbfc0239b292cefdac821cec5",
    },
    "FB15k-237": {
        "train": "61099230e4439f90885ca9767739e31e8e32f54736fa1c35952b27997bc7c08a",
        "valid": "749cbe9d923bac7b9354da5614ecfed2e0220256d442c3e04a6b303db1f273d9",
        "test": "e2e35e8e6113de220140b6f44dc71a5207b0fc6872d575e874aefe13259b655b",
    },
}


Triple = tuple[str, str, str]


class _Vocabulary(NamedTuple):
    entities: dict[str, int]
    relations: dict[str, int]


@names_errors("load_graph('{folder}')")
def load_graph(folder: str | os.PathLike[str], *, like: KnowledgeGraph | RelationModel | None = None) -> KnowledgeGraph:
    r"""Read a folder of triples.

    The folder has the files ``train.txt``, ``valid.txt`` and ``test.txt`` (or ``.tsv``; ``.gz`` is decompressed), in
    UTF-8. Each line is ``head<TAB>relation<TAB>tail``. Entities and relations are numbered in the order of their names.
    If the folder has the name of a known graph (WN18RR, FB15k-237), the hash of every file is checked.

    Entities that occur in the validation or test triples only are allowed, because the standard graphs have some: no
    training triple teaches anything about them.

    Parameters
    ----------
    folder
        Folder with the files.
    like
        Use the entities and relations of this graph or model, and refuse others.

    Raises
    ------
    FileNotFoundError
        The folder or one of its files is missing.
    ValueError
        A line is malformed, a split is empty, two splits share a triple, a relation has no training
        triple, a name is not in ``like``, or a file of a known graph has another hash. The message has the file and
        line number.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ghrr.relations import load_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "train.txt").write_text("Ada\tparent\tByron\nByron\tparent\tJohn\n")
    ...     _ = Path(folder, "valid.txt").write_text("John\tparent\tAda\n")
    ...     _ = Path(folder, "test.txt").write_text("Byron\tparent\tAda\n")
    ...     graph = load_graph(folder)
    >>> graph.entities, graph.train.tolist()
    (('Ada', 'Byron', 'John'), [[0, 0, 1], [1, 0, 2]])
    """
    if not isinstance(folder, (str, os.PathLike)):
        raise type_error(f"folder must be a path, got {describe(folder)}")
    if not isinstance(like, (KnowledgeGraph, RelationModel, type(None))):
        raise type_error(f"like must be a KnowledgeGraph or a RelationModel, got {describe(like)}")
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(named("no such folder, expected one with train.txt, valid.txt and test.txt"))
    name = path.resolve().name
    files = {split: _find(path, split) for split in SPLITS}
    triples = {split: _read(files[split], KNOWN_GRAPHS.get(name, {}).get(split)) for split in SPLITS}
    _check_splits(files, triples)
    if like is None:
        lines = [line for split in SPLITS for line in triples[split]]
        entities = sorted({entity for head, _, tail in lines for entity in (head, tail)})
        relations = sorted({relation for _, relation, _ in lines})
    else:
        entities, relations = list(like.entities), list(like.relations)
    vocabulary = _Vocabulary(
        {name: index for index, name in enumerate(entities)}, {name: index for index, name in enumerate(relations)}
    )
    indices = {split: _to_indices(files[split], triples[split], vocabulary) for split in SPLITS}
    return KnowledgeGraph(name, tuple(entities), tuple(relations), **indices)


def _find(folder: Path, split: str) -> Path:
    names = [name.format(split=split) for name in _FILES]
    found = [folder / name for name in names if (folder / name).exists()]
    if not found:
        raise FileNotFoundError(named(f"the {split} triples are missing, expected one of {', '.join(names)}"))
    if len(found) > 1:
        raise value_error(
            f"expected one file of {split} triples, got {' and '.join(path.name for path in found)}; remove all but one"
        )
    return found[0]


def _read(path: Path, sha256: str | None) -> list[Triple]:
    """Return the triples of a file as strings; line i + 1 of the file is element i."""
    content = read_bytes(path, limit=_MAX_BYTES)
    try:
        content = decompress(content, limit=_MAX_BYTES) if path.suffix == ".gz" else content
        lines = split_lines(content)
    except ValueError as error:
        raise value_error(f"{path} {error}") from error
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256:
        raise value_error(
            f"{path} is not the file of the known graph {path.resolve().parent.name}: got sha256 {found}, "
            f"expected {sha256}; get the original file, or rename the folder if these are other triples"
        )
    if not lines:
        raise value_error(f"{path} has no triples, expected at least one line head<TAB>relation<TAB>tail")
    return [_parse(f"{path}, line {number}", line) for number, line in enumerate(lines, 1)]


def _parse(where: str, line: str) -> Triple:
    fields = line.split("\t")
    if len(fields) != 3 or not all(field.strip() for field in fields) or "\0" in line:
        raise value_error(f"{where}: expected head<TAB>relation<TAB>tail, got {short_repr(line)}")
    head, relation, tail = fields
    return head, relation, tail


def _check_splits(files: dict[str, Path], triples: dict[str, list[Triple]]) -> None:
    """Raise if two splits share a triple, or if a relation has no training triple."""
    trained = {relation for _, relation, _ in triples["train"]}
    first_lines: dict[Triple, tuple[str, int]] = {}
    for split in SPLITS:
        for number, triple in enumerate(triples[split], 1):
            if triple[1] not in trained:
                raise value_error(
                    f"{files[split]}, line {number} has the relation {short_repr(triple[1])}, which has "
                    f"no training triple; add some, or remove the line"
                )
            other, line = first_lines.setdefault(triple, (split, number))
            if other != split:
                raise value_error(
                    f"{files[split]}, line {number} repeats a triple of {files[other]}, line {line}: "
                    f"{' '.join(triple):.200}; remove it from one of the splits"
                )


def _to_indices(path: Path, triples: list[Triple], vocabulary: _Vocabulary) -> Tensor:
    rows = []
    for number, (head, relation, tail) in enumerate(triples, 1):
        try:
            rows.append((vocabulary.entities[head], vocabulary.relations[relation], vocabulary.entities[tail]))
        except KeyError as error:
            raise value_error(
                f"{path}, line {number} has {short_repr(error.args[0])}, which the given vocabulary of "
                f"{len(vocabulary.entities):,} entities and {len(vocabulary.relations):,} relations does not have"
            ) from None
    return torch.tensor(rows, dtype=torch.int64)
