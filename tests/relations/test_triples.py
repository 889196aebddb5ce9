"""Reading triples: the content of a folder, and an error with file and line number for every bad input."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest
import torch

from ghrr.relations import KnowledgeGraph, RelationModel, evaluate, load_graph
from ghrr.relations.graph import with_reciprocals
from ghrr.relations.lines import decompress
from ghrr.relations.triples import KNOWN_GRAPHS
from tests.relations.common import SPLITS, as_indices, random_graph, write_graph

GOOD = {"train": "a\tr\tb\nb\tr\tc\n", "valid": "a\tr\tc\n", "test": "c\tr\ta\n"}


def folder_with(path: Path, **changes: str | bytes) -> Path:
    path.mkdir(exist_ok=True)
    for split, content in {**GOOD, **changes}.items():
        (path / f"{split}.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_written_graph_is_read_back(tmp_path: Path) -> None:
    graph = random_graph(entities=9)
    found = load_graph(write_graph(tmp_path / "g", graph))
    assert (found.name, found.entities, found.relations) == ("g", graph.entities, graph.relations)
    for split in SPLITS:
        assert torch.equal(found.split(split), graph.split(split))
    assert found.fingerprint == graph.fingerprint


def test_fingerprint_depends_on_the_split_of_a_triple() -> None:
    graph = random_graph()
    swapped = KnowledgeGraph(graph.name, graph.entities, graph.relations, graph.train, graph.test, graph.valid)
    assert swapped.fingerprint != graph.fingerprint


def test_compressed_files_windows_line_ends_and_spaces_in_names_are_read(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, valid="a\tr\tc")
    (folder / "train.txt").unlink()
    with gzip.open(folder / "train.txt.gz", "wb") as file:
        file.write("a b\tr\tä\r\na\tr\tb\r\n".encode())
    graph = load_graph(folder)
    assert graph.entities == ("a", "a b", "b", "c", "ä")
    assert len(graph.train) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": "a\tr\tb\na r b\n"}, r"train\.txt, line 2: expected head<TAB>relation<TAB>tail, got 'a r b'"),
        ({"valid": "a\tr\tc\td\n"}, r"valid\.txt, line 1: expected head"),
        ({"valid": "a\tr\tc\n\n\nb\tr\ta\n"}, r"valid\.txt, line 2: expected head<TAB>relation<TAB>tail, got ''"),
        ({"test": "a\t\tc\n"}, r"test\.txt, line 1: expected head"),
        ({"test": ""}, r"test\.txt has no triples"),
        ({"train": "\n"}, r"train\.txt has no triples"),
        ({"test": b"\xff\xfe\n"}, r"test\.txt is not UTF-8 text"),
        ({"test": "c\tr\ta\nb\tr\tc\n"}, r"test\.txt, line 2 repeats a triple of .*train\.txt, line 2: b r c"),
        ({"test": "a\tr\tc\n"}, r"test\.txt, line 1 repeats a triple of .*valid\.txt, line 1"),
        ({"valid": "a\ts\tc\n"}, r"valid\.txt, line 1 has the relation 's', which has no training triple"),
        ({"train": "a\tr\tb\na\t~r\tb\n"}, r"relations 'r' and '~r' are both given"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, changes: dict[str, str | bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_graph(folder_with(tmp_path, **changes))


def test_missing_folder_file_or_split_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        load_graph(tmp_path / "missing")
    (folder_with(tmp_path) / "valid.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"the valid triples are missing, expected one of valid\.txt"):
        load_graph(tmp_path)
    folder_with(tmp_path)
    (tmp_path / "valid.tsv").write_text("a\tr\tc\n")
    with pytest.raises(ValueError, match=r"one file of valid triples, got valid\.txt and valid\.tsv"):
        load_graph(tmp_path)
    with pytest.raises(TypeError, match="folder must be a path"):
        load_graph(3)  # type: ignore[arg-type]


def test_byte_order_mark_is_not_part_of_the_first_name(tmp_path: Path) -> None:
    graph = load_graph(folder_with(tmp_path, train=b"\xef\xbb\xbf" + GOOD["train"].encode()))
    assert graph.entities == ("a", "b", "c")
    inside = load_graph(folder_with(tmp_path, train="a\tr\tb\n\ufeffa\tr\tc\n"))  # only the first character is a mark
    assert inside.entities == ("a", "b", "c", "\ufeffa")


def test_line_separators_of_unicode_do_not_end_a_line(tmp_path: Path) -> None:
    assert "a\u2028b" in load_graph(folder_with(tmp_path, train="a\u2028b\tr\tc\n")).entities


def test_small_compressed_file_needs_little_memory(tmp_path: Path) -> None:
    """The file may have 4 GiB after decompression, which must not be allocated at once."""
    content = gzip.compress(b"a\tr\tb\n")
    tracemalloc.start()
    try:
        assert decompress(content, limit=4 << 30) == b"a\tr\tb\n"
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises(ValueError, match="has more than 5 bytes after decompression"):
        decompress(content, limit=5)


def test_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    (folder_with(tmp_path) / "test.txt").unlink()
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(b"c\tr\ta\n" * 100)[:-9])
    with pytest.raises(ValueError, match=r"test\.txt\.gz cannot be decompressed"):
        load_graph(tmp_path)


def test_vocabulary_of_another_graph_is_used_and_other_names_are_refused(tmp_path: Path) -> None:
    like = KnowledgeGraph("g", ("c", "b", "a"), ("q", "r"), *[as_indices((0, 0, 1))] * 3)
    graph = load_graph(folder_with(tmp_path), like=like)
    assert graph.train.tolist() == [[2, 1, 1], [1, 1, 0]]
    with pytest.raises(ValueError, match=r"test\.txt, line 1 has 'x', which the given vocabulary"):
        load_graph(folder_with(tmp_path, test="x\tr\ta\n"), like=like)


def test_vocabulary_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="like must be a KnowledgeGraph or a RelationModel, got str 'model'"):
        load_graph(folder_with(tmp_path), like="model")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", list(KNOWN_GRAPHS))
def test_files_of_known_graphs_must_have_their_hashes(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"is not the file of the known graph {name}: got sha256"):
        load_graph(folder_with(tmp_path / name))


def test_graph_checks_names_and_indices() -> None:
    one = as_indices((0, 0, 1))
    with pytest.raises(ValueError, match="entities must be different, got 'a' 2 times"):
        KnowledgeGraph("g", ("a", "a"), ("r",), one, one, one)
    with pytest.raises(ValueError, match="valid has an index outside of 2 entities"):
        KnowledgeGraph("g", ("a", "b"), ("r",), one, one + 1, one)
    with pytest.raises(TypeError, match=r"train must be an int64 tensor of shape \(n, 3\)"):
        KnowledgeGraph("g", ("a", "b"), ("r",), one.float(), one, one)
    with pytest.raises(ValueError, match="relations is empty"):
        KnowledgeGraph("g", ("a", "b"), (), one, one, one)
    with pytest.raises(ValueError, match="must be one of"):
        KnowledgeGraph("g", ("a", "b"), ("r",), one, one, one).split("dev")


def test_names_can_be_a_list_and_must_be_text() -> None:
    one = as_indices((0, 0, 1))
    graph = KnowledgeGraph("g", ["a", "b"], ["r"], one, one, one)  # type: ignore[arg-type]
    assert (graph.entities, graph.relations) == (("a", "b"), ("r",))
    assert evaluate(RelationModel(graph.entities, graph.relations, dim=2, m=1), graph).ranks.shape == (1, 2)
    for names in ("ab", 3, torch.tensor(1.0)):
        with pytest.raises(TypeError, match="entities must be a list of names"):
            KnowledgeGraph("g", names, ("r",), one, one, one)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="RelationModel: entities must be a list of names"):
            RelationModel(names, ("r",), dim=2, m=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name must be a string"):
        KnowledgeGraph(Path("g"), ("a", "b"), ("r",), one, one, one)  # type: ignore[arg-type]


def test_reciprocal_triples_ask_for_the_head() -> None:
    assert with_reciprocals(as_indices((0, 1, 2), (3, 0, 4)), 2).tolist() == [
        [0, 1, 2],
        [3, 0, 4],
        [2, 3, 0],
        [4, 2, 3],
    ]
