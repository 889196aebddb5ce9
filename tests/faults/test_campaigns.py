"""A sample of each campaign finds no fault; `make fuzz` runs the rest. Negative controls: broken code is noticed."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ghrr.files import write_json
from ghrr.search import RecordIndex
from tests.faults import campaign
from tests.faults.campaigns import records
from tests.faults.campaigns.outcome import HANG, KINDS, LOST, RAW, WRONG, Fault, Outcome, is_explained
from tests.faults.campaigns.records import make_document, make_documents

SAMPLE = {
    "files": 8, "calls": 60, "documents": 3, "commands": 10, "kills": 3, "lines": 2, "threads": 1, "processes": 1,
    "engines": 4,
}  # fmt: skip
SEED = 7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", campaign.CAMPAIGNS)
def test_sample_of_campaign_finds_no_fault(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(campaign.ROOT / "src"), prepend=":")
    found = [campaign.attempt(name, SEED, number, tmp_path) for number in range(SAMPLE[name])]
    assert [one["text"] for one in found if "fault" in one] == []


def test_unchanged_calls_succeed() -> None:
    from tests.faults.campaigns.calls import calls

    for name, (function, arguments, keywords) in calls().items():
        try:
            function(*arguments, **keywords)
        except (KeyError, ValueError, IndexError) as error:
            if "certain" not in str(error) and "empty" not in str(error):  # small spaces are noisy, and say so
                pytest.fail(f"{name}: {error}")


# -------------------------------------------------------------------------------------------------- the checks can fail


@pytest.fixture
def index() -> RecordIndex:
    return records.make_index("torch", Path("unused"), make_documents(range(6)))


def lose(index: RecordIndex) -> None:
    index.remove(["id 3"])


def exchange(index: RecordIndex) -> None:
    index.update([make_document(77)], ids=["id 3"])


def add_twice(index: RecordIndex) -> None:
    index.add([make_document(3)], ids=["again"])


@pytest.mark.parametrize(("damage", "kind"), [(lose, LOST), (exchange, WRONG), (add_twice, WRONG)])
def test_records_are_compared_with_the_model(
    index: RecordIndex, damage: Callable[[RecordIndex], None], kind: str
) -> None:
    records.check_records(index, make_documents(range(6)), "")
    damage(index)
    with pytest.raises(Fault) as error:
        records.check_records(index, make_documents(range(6)), "")
    assert error.value.kind == kind


def test_answers_show_changed_weights_and_documents(index: RecordIndex) -> None:
    before = records.answers(index)
    assert records.answers(index).equals(before)
    index.learn_weights([{"name": make_document(2)["name"]}], ["id 2"])
    learned = records.answers(index)
    assert not learned.equals(before)
    exchange(index)
    assert not records.answers(index).equals(learned)


def test_errors_without_an_operation_are_not_explained() -> None:
    assert is_explained(ValueError("bind: shapes must match, got 1 and 2"))
    assert not is_explained(ValueError("truth value is ambiguous"))
    assert not is_explained(AttributeError("bind: shapes must match, got 1 and 2"))


def test_killed_writer_that_acknowledges_too_early_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.faults.campaigns import kills

    def forget(path: Path, version: int) -> None:
        write_json(path, {"version": min(version, 3)})

    monkeypatch.setattr(
        kills, "VERSIONED", {"forgetful": (forget, lambda path: json.loads(path.read_text())["version"])}
    )
    with pytest.raises(Fault, match="lost"):
        for number in range(20):
            folder = tmp_path / str(number)
            folder.mkdir()
            kills._kill_writer(random.Random(number), folder)


# -------------------------------------------------------------------------------------------------------- the framework


def toy(rng: random.Random, folder: Path) -> Outcome:
    """Attack with every outcome: which one follows from the case."""
    (folder / "file").write_text("x")
    chosen = rng.randrange(3)
    if chosen == 0:
        raise Fault(WRONG, "toy")
    if chosen == 1:
        raise sqlite3.OperationalError("toy")
    return Outcome("fine", kills=1)


def test_case_follows_from_seed_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "attack_of", lambda name: toy)
    runs = [[campaign.attempt("toy", 5, number, tmp_path) for number in range(30)] for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0] != [campaign.attempt("toy", 6, number, tmp_path) for number in range(30)]
    assert {one.get("fault") for one in runs[0]} == {WRONG, RAW, None}
    assert list(tmp_path.iterdir()) == []


def result(tries: int, kind: str = "") -> dict[str, Any]:
    faults = [{"case": "files:1:0", "kind": kind, "text": "x"}] if kind else []
    return {"tries": tries, "kills": 1, "outcomes": {"fine": tries}, "faults": faults}


def test_stored_count_adds_seeds_and_sources_but_no_case_twice(tmp_path: Path) -> None:
    path = tmp_path / "results" / "faults.json"
    campaign.add_run(path, 1, "a", {"files": result(10)})
    campaign.add_run(path, 1, "a", {"files": result(15), "calls": result(3)})  # the same cases and five more
    campaign.add_run(path, 1, "a", {"files": result(12)})
    campaign.add_run(path, 2, "a", {"files": result(100)})
    stored = campaign.add_run(path, 1, "b", {"files": result(1000)})
    assert stored == json.loads(path.read_text())
    assert campaign.totals(stored)["files"] == Counter({"tries": 1115, "kills": 3})
    assert campaign.totals(stored)["calls"]["tries"] == 3


def test_stored_count_starts_again_when_sources_change_after_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    campaign.add_run(path, 1, "a", {"files": result(10), "calls": result(4)})
    campaign.add_run(path, 2, "b", {"files": result(10, HANG)})
    stored = campaign.add_run(path, 3, "b", {"files": result(5)})
    assert campaign.totals(stored)["files"] == Counter({"tries": 25, "kills": 3, HANG: 1})
    stored = campaign.add_run(path, 2, "c", {"files": result(7)})
    assert campaign.totals(stored)["files"] == Counter({"tries": 7, "kills": 1})
    assert campaign.totals(stored)["calls"]["tries"] == 4
    assert [(run["seed"], run["sources"]) for run in stored["runs"]] == [(1, "a"), (2, "c")]


def test_stored_runs_are_many_and_found_no_fault() -> None:
    sums = campaign.totals(json.loads(campaign.STORED.read_text()))
    total = sum(sums.values(), Counter())
    assert {kind: total[kind] for kind in KINDS if total[kind]} == {}
    assert total["tries"] >= 20_000
    assert total["kills"] >= 500
    assert all(sums[name]["tries"] for name in campaign.CAMPAIGNS)


@pytest.mark.slow
def test_campaign_goes_on_after_a_case_that_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies in its second case, and one that hangs, are faults; the following cases run."""
    script = tmp_path / "worker.py"
    script.write_text(
        "import json, os, sys\n"
        "_, start, stop = sys.argv[sys.argv.index('--work') + 1].rsplit(':', 2)\n"
        "folder = sys.argv[sys.argv.index('--folder') + 1]\n"
        "with open(folder + '/report', 'w', buffering=1) as report:\n"
        "    open(folder + '/stacks', 'w').write('Timeout' if start == '2' else '')\n"
        "    for number in range(int(start), int(stop)):\n"
        "        report.write(json.dumps({'number': number}) + '\\n')\n"
        "        if number in (1, 3):\n"
        "            os._exit(1)\n"
        "        report.write(json.dumps({'number': number, 'what': 'fine', 'kills': 0}) + '\\n')\n"
    )
    monkeypatch.setattr(campaign, "COMMAND", ["python3", str(script)])
    found = campaign.run_campaign("files", 0, 60, count=6)
    assert found["outcomes"] == {"fine": 4, HANG: 1, RAW: 1}
    assert [fault["case"] for fault in found["faults"]] == ["files:0:1", "files:0:3"]
