"""Killed writers, memory limits and concurrent readers, in separate processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ghrr import Space
from ghrr.memory import ItemMemory
from tests.processes import needs_fork

# One process imports torch, then forks a writer fifty times and kills it after some reports and a random time. The
# writer reports an item after the call that saved it has returned. All reported items must be in the files.
KILLS = """
import os, random, shutil, signal, sys, time
import torch
torch.set_num_threads(1)
from ghrr import Space
from ghrr.memory import ItemMemory

folder, single = sys.argv[1] + "/folder", sys.argv[1] + "/single.safetensors"
space = Space(20, 2)

def write(report):
    memory = ItemMemory.open(folder)
    while True:
        memory.add([f"{len(memory) + i}" for i in range(random.randint(1, 3))])
        memory.commit()
        os.write(report, f"folder {memory.labels[-1]}\\n".encode())
        memory.save(single)
        os.write(report, f"single {memory.labels[-1]}\\n".encode())

def check(last, memory):
    assert memory.labels == [str(i) for i in range(len(memory))]
    assert len(memory) > last, (len(memory), last)
    assert torch.equal(memory.vectors(memory.labels), space.vectors(memory.labels))

memory = ItemMemory(space, ["0"])
memory.commit(folder)
memory.save(single)
random.seed(0)
last = {"folder": 0, "single": 0}
interrupted = 0
for number in range(50):
    source, report = os.pipe()
    writer = os.fork()
    if writer == 0:
        random.seed(number)
        os.close(source)
        write(report)
    os.close(report)
    with os.fdopen(source) as lines:
        reports = [lines.readline() for _ in range(random.randint(0, 4))]
        time.sleep(random.uniform(0, 0.01))
        os.kill(writer, signal.SIGKILL)
        status = os.waitpid(writer, 0)[1]
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
        for line in reports + lines.readlines():
            where, label = line.split()
            last[where] = int(label)
    check(last["folder"], ItemMemory.load(folder))
    check(last["single"], ItemMemory.load(single))
    left_over = [name for name in os.listdir(folder) + os.listdir(sys.argv[1]) if name.endswith(".tmp")]
    interrupted += bool(left_over)
    for name in os.listdir(sys.argv[1]):
        if name.endswith(".tmp"):
            shutil.rmtree(f"{sys.argv[1]}/{name}")
print(last["folder"], last["single"], interrupted)
"""

# A memory is built, searched and verified in a process whose memory limit is smaller than the items.
LIMIT = """
import os, pathlib, resource, sys
import torch
torch.set_num_threads(1)
from ghrr import Space
from ghrr.memory import ItemMemory, search

search.CHUNK_NUMBERS = 1 << 21  # chunks of 8 MiB, so that a small file and a small limit are enough
space = Space(200, 2)
generator = space.generator("items")
memory = ItemMemory(space, ["first"])
memory.commit(sys.argv[1])
memory = ItemMemory.open(sys.argv[1])
memory.cleanup(space.vectors(["first"]))
in_use = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
limit = 100 << 20
resource.setrlimit(resource.RLIMIT_AS, (in_use + limit, in_use + limit))
for step in range(14):
    start = len(memory)
    vectors = torch.randn(2000, *space.shape, dtype=space.dtype, generator=generator)
    memory.add([str(start + i) for i in range(2000)], vectors)
    memory.commit()
size = sum(entry.stat().st_size for entry in os.scandir(sys.argv[1]))
assert size > 1.6 * limit, size
memory.verify()
again = ItemMemory.open(sys.argv[1])
wanted = ["first", "1", "13000", "25999"]
assert again.cleanup(again.vectors(wanted)).labels == [[label] for label in wanted]
again.verify()
try:
    ItemMemory.load(sys.argv[1])
except (MemoryError, RuntimeError, OSError) as error:
    print("too large to load:", type(error).__name__)
"""

WRITER = """
import sys
import torch
torch.set_num_threads(1)
from ghrr import Space
from ghrr.memory import ItemMemory

memory = ItemMemory.load(sys.argv[1] + "/folder")
print("ready", flush=True)
while True:
    memory.add(str(len(memory)))
    if len(memory) > 60:
        memory.remove(memory.labels[1:])  # rewrites everything, so that files of the readers are removed
    memory.commit()
    memory.save(sys.argv[1] + "/single.safetensors")
"""

READER = """
import sys, torch
torch.set_num_threads(1)
from tests.memory.test_kills_and_concurrent_readers import read_often
print(read_often(sys.argv[1]))
"""

SPACE = Space(20, 2)
pytestmark = pytest.mark.slow


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_fork
def test_fifty_kills_lose_no_saved_items(tmp_path: Path) -> None:
    in_folder, in_file, interrupted = map(int, run(KILLS, tmp_path).split())
    assert in_folder > 50  # the controls: items were saved, and some writes were interrupted
    assert in_file > 50
    assert interrupted > 0


def test_a_memory_larger_than_ram_is_built_and_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # glibc returns freed arrays at once; otherwise 40 to 70 MB that it keeps would count against the limit.
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", str(1 << 20))
    assert run(LIMIT, tmp_path).startswith("too large to load: ")  # negative control: the limit is effective


def read_often(folder: str) -> int:
    """Open and search forty times; return the number of different states that were seen."""
    seen = set()
    for _ in range(20):
        for path in (f"{folder}/folder", f"{folder}/single.safetensors"):
            memory = ItemMemory.open(path)
            labels = memory.labels
            assert labels[0] == "0"
            assert memory.cleanup(SPACE.vectors(labels)).labels == [[label] for label in labels]
            memory.verify()
            seen.add((path, len(labels)))
    return len(seen)


def test_concurrent_readers_see_complete_states(tmp_path: Path) -> None:
    """A process and three threads read while a writer commits and replaces files."""
    memory = ItemMemory(SPACE, ["0"])
    memory.commit(tmp_path / "folder")
    memory.save(tmp_path / "single.safetensors")
    states: list[int] = []
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        command = [sys.executable, "-W", "error", "-c", READER, str(tmp_path)]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        threads = [threading.Thread(target=lambda: states.append(read_often(str(tmp_path)))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        states.append(int(reader.communicate()[0] or 0))
        assert writer.poll() is None  # the writer was running until the end
        writer.kill()
    assert len(states) == 4
    assert min(states) > 2  # negative control: the files did change while they were read


def test_threads_share_one_open_memory(tmp_path: Path) -> None:
    labels = [str(i) for i in range(300)]
    ItemMemory(SPACE, labels).save(tmp_path / "x")
    memory = ItemMemory.open(tmp_path / "x")
    queries = SPACE.vectors(labels)
    want = memory.cleanup(queries, 3)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(memory.cleanup(queries, 3))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.labels for answer in answers] == [want.labels] * 8


@pytest.mark.parametrize("count", [1, 2])
def test_files_are_closed_and_unmapped_with_their_memory(tmp_path: Path, count: int) -> None:
    ItemMemory(SPACE, [str(i) for i in range(50)]).save(tmp_path / "x")
    for _ in range(count):
        memory = ItemMemory.open(tmp_path / "x")
        memory.cleanup(SPACE.identity(2))
        del memory
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    files = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert not [file for file in files if tmp_path in file.parents]
