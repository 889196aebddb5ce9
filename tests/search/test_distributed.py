"""Encoding on real local clusters of Ray and dask, with a worker that is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ghrr.search import RecordIndex
from ghrr.search.distributed import ShardEncoder, encode_with_ray, index_shards
from tests.search.common import people

pq = pytest.importorskip("pyarrow.parquet")
lance = pytest.importorskip("lance")

# Documents with different keys, and one column with values of several types.
DOCUMENTS = [document | ({"note": number if number % 2 else "odd"}) for number, document in enumerate(people(80))]

# The first worker that is asked for a shard kills itself; the flag file says that it happened.
DYING = """
import os, signal, sys
from pathlib import Path
import ghrr.search.distributed as own

folder = Path(sys.argv[1])
sources = sorted(folder.glob("part*.jsonl"))

class DyingEncoder(own.ShardEncoder):
    def write(self, source, shard):
        try:
            (folder / "killed").touch(exist_ok=False)
        except FileExistsError:
            return super().write(source, shard)
        os.kill(os.getpid(), signal.SIGKILL)

def report(shards):
    (folder / "report.txt").write_text(" ".join(shards))
"""

DASK = (
    DYING
    + """
import dask
from distributed import Client, LocalCluster

def encode(index, identifier, source, shard):
    return DyingEncoder(index, identifier).write(source, shard)

if __name__ == "__main__":
    own._encode_shard = encode
    dask.config.set({"distributed.scheduler.allowed-failures": 5})
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        report(own.encode_with_dask(client, folder / "index", sources, folder / "shards"))
"""
)

RAY = (
    DYING
    + """
import ray

if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    own.ShardEncoder = DyingEncoder
    report(own.encode_with_ray(folder / "index", sources, folder / "shards", form="lance"))
    ray.shutdown()
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    index = RecordIndex()
    index.add(DOCUMENTS)
    index.save(tmp_path / "index")
    for number in range(4):
        part = DOCUMENTS[20 * number : 20 * number + 20]
        (tmp_path / f"part{number}.jsonl").write_text("".join(json.dumps(document) + "\n" for document in part))
    return tmp_path


def read(shard: str) -> Any:
    return pq.read_table(shard) if shard.endswith(".parquet") else lance.dataset(shard).to_table()


def check_shards(folder: Path, shards: list[str]) -> None:
    """All documents are in the shards once, with the vectors that this process computes."""
    assert sorted(path.name for path in (folder / "shards").iterdir()) == [Path(shard).name for shard in shards]
    (folder / "local").mkdir()
    for number, shard in enumerate(shards):
        own = ShardEncoder(folder / "index").write(
            str(folder / f"part{number}.jsonl"), str(folder / "local" / Path(shard).name)
        )
        assert read(shard).equals(read(own))
    records = index_shards(folder / "index", shards)
    assert [records[name] for name in records.ids] == DOCUMENTS
    local = RecordIndex.open(folder / "index")
    for document in DOCUMENTS[:5]:
        assert [hit.document for hit in records.search(document)] == [hit.document for hit in local.search(document)]


def run(script: str, folder: Path) -> list[str]:
    (folder / "script.py").write_text(script)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(folder / "script.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ
        | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"},  # writes nothing to the home folder
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert (folder / "killed").exists()
    return (folder / "report.txt").read_text().split()


@pytest.mark.slow
def test_dask_encodes_all_shards_after_a_worker_was_killed(folder: Path) -> None:
    pytest.importorskip("distributed")
    check_shards(folder, run(DASK, folder))


@pytest.mark.slow
def test_ray_encodes_all_shards_after_a_worker_was_killed(folder: Path) -> None:
    pytest.importorskip("ray")
    check_shards(folder, run(RAY, folder))


def test_missing_ray_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"needs ray; pip install 'ghrr\[ray\]'"):
        encode_with_ray(tmp_path, ["a.jsonl"], tmp_path / "shards")


@pytest.mark.parametrize("form", ["parquet", "lance"])
def test_finished_shards_are_kept_and_broken_ones_leave_nothing(folder: Path, form: str) -> None:
    encoder, shard = ShardEncoder(folder / "index", identifier="name"), folder / f"0-x.{form}"
    with pytest.raises(ValueError, match=r"row \d+ has no id in the field 'name'"):
        encoder.write(str(folder / "part0.jsonl"), str(shard))
    assert not shard.exists()
    plain = ShardEncoder(folder / "index")
    plain.write(str(folder / "part0.jsonl"), str(shard))
    (folder / "part0.jsonl").write_text("{broken")
    assert plain.write(str(folder / "part0.jsonl"), str(shard)) == str(shard)
    with pytest.raises(ValueError, match=r"part0\.jsonl, line 1"):
        plain.write(str(folder / "part0.jsonl"), str(folder / f"1-x.{form}"))
    assert [path.name for path in folder.glob(f"*.{form}")] == [shard.name]
    assert not list(folder.glob("*.partial"))


def test_empty_file_gives_an_empty_shard(folder: Path) -> None:
    (folder / "none.jsonl").write_text("\n")
    shard = ShardEncoder(folder / "index").write(str(folder / "none.jsonl"), str(folder / "0-none.parquet"))
    assert len(index_shards(folder / "index", [shard])) == 0
