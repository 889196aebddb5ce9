"""Backends: the same answers from every exact engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from ghrr.search import RecordIndex
from ghrr.search.calibration import damaged_examples
from tests.search.common import people

DOCUMENTS = people(120)
EXAMPLES = damaged_examples(DOCUMENTS[:20], seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["faiss", "lancedb", "milvus"])
def test_engines_give_the_same_answers_as_torch(backend: str, tmp_path: Path) -> None:
    pytest.importorskip({"faiss": "faiss", "lancedb": "lancedb", "milvus": "milvus_lite"}[backend])
    uri = {"faiss": None, "lancedb": str(tmp_path / "lance"), "milvus": str(tmp_path / "milvus.db")}[backend]
    expected, records = RecordIndex(storage="float32"), RecordIndex(backend=backend, uri=uri)
    for one in (expected, records):
        one.add(DOCUMENTS)
        one.remove(["3", "5"])
    for candidates in (0, 50):
        for own, other in zip(
            expected.search_many(EXAMPLES, 5, candidates=candidates),
            records.search_many(EXAMPLES, 5, candidates=candidates),
            strict=True,
        ):
            assert [hit.guess for hit in own] == [hit.guess for hit in other]
            assert [hit.score for hit in own] == pytest.approx([hit.score for hit in other], abs=1e-5)


def test_save_of_another_backend_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    records = RecordIndex(backend="faiss")
    records.add(DOCUMENTS[:3])
    with pytest.raises(ValueError, match="only an index with the torch backend"):
        records.save(tmp_path)


def test_lancedb_needs_a_folder() -> None:
    with pytest.raises(ValueError, match="needs a folder"):
        RecordIndex(backend="lancedb")
