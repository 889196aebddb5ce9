"""Run campaigns of attacks on the library, and add what they tried and found to a stored count.

A campaign is a function ``attack(rng, folder) -> Outcome`` that raises :class:`Fault` if it finds one. A case follows
from the name of the campaign, a seed and a number, so each can be repeated::

    make fuzz SEED=3                      # every campaign for its share of ten minutes, all with seed 3
    make fuzz SEED=3 SECONDS=3600
    make fuzz CASE=kills:3:17             # one case again

Each campaign runs in a process of its own. A case that exceeds the limit, or that ends the process, is a fault, and
the campaign goes on with the next case.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ghrr.files import write_json
from tests.faults.campaigns.outcome import HANG, RAW, Attack, Fault, describe

CAMPAIGNS = ("files", "calls", "documents", "commands", "kills", "lines", "threads", "processes", "engines")
LIMIT = 90.0  # seconds of one case
ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.faults.campaign"]
STORED = ROOT / "results" / "benchmarks" / "faults.json"


def attack_of(name: str) -> Attack:
    attack: Attack = importlib.import_module(f"tests.faults.campaigns.{name}").attack
    return attack


def attempt(name: str, seed: int, number: int, parent: Path) -> dict[str, Any]:
    """Run one case in a new folder, and return its outcome as plain values."""
    folder = parent / f"{name}{number}"
    folder.mkdir()
    try:
        outcome = attack_of(name)(random.Random(f"{name} {seed} {number}"), folder)
        return {"what": outcome.what, "kills": outcome.kills}
    except Fault as fault:
        kills = int(name == "kills")
        return {"what": fault.kind, "kills": kills, "fault": fault.kind, "text": str(fault)}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # extensions raise others, too
        return {"what": RAW, "kills": 0, "fault": RAW, "text": f"{RAW}: {describe(error)}"}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ----------------------------------------------------------------------------------------- in the process of a campaign


def work(name: str, seed: int, numbers: range, seconds: float, parent: Path) -> None:
    """Run cases until the time is over; write the number of each before it, and its outcome after it."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.chdir(parent)  # a file or a command may name a path without a folder
    end = time.monotonic() + seconds
    with open(parent / "report", "w", buffering=1) as lines, open(parent / "stacks", "w") as stacks:
        for number in numbers:
            if time.monotonic() >= end:
                break
            lines.write(json.dumps({"number": number}) + "\n")
            faulthandler.dump_traceback_later(LIMIT, exit=True, file=stacks)
            outcome = attempt(name, seed, number, parent)
            faulthandler.cancel_dump_traceback_later()
            lines.write(json.dumps({"number": number, **outcome}) + "\n")


# ------------------------------------------------------------------------------------------------ in the main process


def run_campaign(name: str, seed: int, seconds: float, *, first: int = 0, count: int = 10**9) -> dict[str, Any]:
    """Run a campaign for some time; return the number of tries and kills, the counts of outcomes, and the faults."""
    counts, faults, kills = Counter[str](), list[dict[str, Any]](), 0
    end, numbers = time.monotonic() + seconds, range(first, first + count)
    while numbers and time.monotonic() < end:
        cases = _run_process(name, seed, numbers, end - time.monotonic())
        for case in cases:
            counts[case["what"]] += 1
            kills += case["kills"]
            if "fault" in case:
                where = f"{name}:{seed}:{case['number']}"
                faults.append({"case": where, "kind": case["fault"], "text": case["text"]})
        if not cases or "ended" not in cases[-1]:
            break
        numbers = range(cases[-1]["number"] + 1, numbers.stop)
    return {"tries": counts.total(), "kills": kills, "outcomes": dict(sorted(counts.items())), "faults": faults}


def _run_process(name: str, seed: int, numbers: range, seconds: float) -> list[dict[str, Any]]:
    """Run cases in one process. If a case ends the process or takes too long, it is the last one, and a fault."""
    with tempfile.TemporaryDirectory(prefix="fuzz", ignore_cleanup_errors=True) as folder:
        parent = Path(folder)
        command = [*COMMAND, "--work", f"{name}:{seed}:{numbers.start}:{numbers.stop}"]
        environment = {**os.environ, "TMPDIR": folder, "GRPC_ENABLE_FORK_SUPPORT": "0"}
        with open(parent / "output", "w") as output:
            process = subprocess.Popen(
                [*command, "--seconds", str(seconds), "--folder", folder],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                process.wait()
            finally:  # processes that it started, too
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        report = parent / "report"
        lines = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
        cases = [line for line in lines if "what" in line]
        if process.returncode == 0:
            return cases
        stacks = (parent / "stacks").read_text() if report.exists() else ""
        if not lines:
            raise RuntimeError(f"campaign {name}: the process did not start\n{(parent / 'output').read_text()[-3000:]}")
        kind = HANG if stacks else RAW
        text = f"no end after {LIMIT:.0f} s: {_innermost(stacks)}" if stacks else f"ended with {process.returncode}"
        ended = {"number": lines[-1]["number"], "what": kind, "kills": 0, "fault": kind, "text": f"{kind}: {text}"}
        return [*cases, {**ended, "ended": True}]


def _innermost(stacks: str) -> str:
    """Return the innermost lines of the main thread."""
    return " < ".join(line.strip() for line in stacks.rpartition("most recent call first")[2].splitlines()[1:5])


def fingerprint() -> str:
    """Return a hash of the library and of the campaigns."""
    digest = hashlib.sha256()
    for folder in (ROOT / "src", ROOT / "tests" / "faults"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def add_run(path: Path, seed: int, sources: str, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Add the counts of a run to those stored in a file.

    The same seed at the same version of the sources repeats the same cases: of two such runs the longer one counts.
    Faults stay in the file until the sources change. Then the count of their campaign starts again.
    """
    stored = json.loads(path.read_text()) if path.exists() else {"runs": []}
    for name in found:
        earlier = [run["campaigns"] for run in stored["runs"] if name in run["campaigns"] and run["sources"] != sources]
        if any(campaigns[name]["faults"] for campaigns in earlier):
            for campaigns in earlier:
                del campaigns[name]
    stored["runs"] = [run for run in stored["runs"] if run["campaigns"]]
    same = next((run for run in stored["runs"] if (run["seed"], run["sources"]) == (seed, sources)), None)
    if same is None:
        same = {"seed": seed, "sources": sources, "campaigns": {}}
        stored["runs"].append(same)
    for name, counts in found.items():
        if counts["tries"] > same["campaigns"].get(name, {"tries": 0})["tries"]:
            same["campaigns"][name] = counts
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, stored)
    return dict(stored)


def totals(stored: dict[str, Any]) -> dict[str, Counter[str]]:
    """Return the sums over all runs by campaign: tries, kills, and faults by kind."""
    sums: dict[str, Counter[str]] = {name: Counter() for name in CAMPAIGNS}
    for run in stored["runs"]:
        for name, counts in run["campaigns"].items():
            own = sums.setdefault(name, Counter())
            own.update(tries=counts["tries"], kills=counts["kills"])
            own.update(fault["kind"] for fault in counts["faults"])
    return sums


def _parts(text: str) -> list[Any]:
    name, *numbers = text.split(":")
    return [name, *map(int, numbers)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaigns, one case, or (for internal use) the cases of one process."""
    parser = argparse.ArgumentParser(description="Run campaigns of attacks.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", default=",".join(CAMPAIGNS), help="names, separated by commas")
    parser.add_argument("--case", default="", help="campaign:seed:number, to repeat one case")
    parser.add_argument("--out", type=Path, default=STORED, help="file of the stored count")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        name, seed, start, stop = _parts(given.work)
        work(name, seed, range(start, stop), given.seconds, given.folder)
        return 0
    if given.case:
        name, seed, number = _parts(given.case)
        result = run_campaign(name, seed, 2 * LIMIT, first=number, count=1)
        print(json.dumps(result, indent=2, ensure_ascii=False))  # noqa: T201
        return bool(result["faults"])
    names, sources, found = given.only.split(","), fingerprint(), {}
    end = time.monotonic() + given.seconds
    for place, name in enumerate(names):
        share = (end - time.monotonic()) / (len(names) - place)
        found[name] = result = run_campaign(name, given.seed, share)
        print(f"{name}: {result['tries']:,} tries, {result['kills']} kills, {result['outcomes']}", flush=True)  # noqa: T201
        for fault in result["faults"]:
            print(f"  {fault['case']}: {fault['text']}", flush=True)  # noqa: T201
        add_run(given.out, given.seed, sources, {name: result})
    return any(result["faults"] for result in found.values())


if __name__ == "__main__":
    sys.exit(main())
