"""Encoding on a real local cluster of dask, with a worker that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ghrr.search import RecordIndex
from tests.search.common import people

DOCUMENTS = [{"name": document.get("name"), "born": document.get("born")} for document in people(80)]

# A worker kills itself at the first shard, once; the flag file says that it happened.
DASK = """
import os, signal, sys
from pathlib import Path
import dask
from distributed import Client, LocalCluster
import ghrr.search.distributed as own

folder, flag = Path(sys.argv[1]), Path(sys.argv[1]) / "killed"

def kill_once(dask_worker=None):
    flag.write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    dask.config.set({"distributed.scheduler.allowed-failures": 5})
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        sources = sorted(folder.glob("part*.jsonl"))
        victim = next(iter(client.scheduler_info()["workers"]))
        lost = client.submit(kill_once, workers=[victim], pure=False, retries=0)
        shards = own.encode_with_dask(client, folder / "index", sources, folder / "shards")
        print(len(shards), flag.exists())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    index = RecordIndex()
    index.add(DOCUMENTS)
    index.save(tmp_path / "index")
    for number in range(4):
        part = DOCUMENTS[20 * number : 20 * number + 20]
        (tmp_path / f"part{number}.jsonl").write_text("".join(json.dumps(document) + "\n" for document in part))
    return tmp_path


def check_shards(folder: Path) -> None:
    """All rows are in the shards once, with the vectors that this process computes."""
    import numpy as np
    import pyarrow.parquet as pq

    from ghrr.search import encode_table

    table = pq.read_table(folder / "shards")
    assert sorted(map(str, table["name"].to_pylist())) == sorted(str(document["name"]) for document in DOCUMENTS)
    again = encode_table(RecordIndex.open(folder / "index"), table.drop_columns(["vector"]))
    rows = [np.array(one["vector"].to_pylist()) for one in (table, again)]
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-5)


def run(script: str, folder: Path) -> str:
    (folder / "script.py").write_text(script)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(folder / "script.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.mark.slow
def test_dask_encodes_all_shards_after_a_worker_was_killed(folder: Path) -> None:
    pytest.importorskip("distributed")
    assert "4 True" in run(DASK, folder)
    check_shards(folder)
