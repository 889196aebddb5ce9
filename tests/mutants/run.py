"""Break the library on purpose, one line at a time, and count how many faults the tests detect.

Works in a copy of the checkout and never changes the checkout itself. Results are stored after each mutant; a second
call continues where the first one stopped::

    python -m tests.mutants.run --out results/benchmarks/mutations.json
    python -m tests.mutants.run --out one.json --only "unbind"
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.common.paths import ROOT

from tests.mutants.faults import MUTANTS, Mutant

_GIT = (shutil.which("git") or "git",)
_TIMEOUT = 1800  # seconds: a mutant that makes a test hang counts as detected


def copy_checkout(source: Path, target: Path) -> None:
    """Copy all files that git tracks."""
    listed = subprocess.run([*_GIT, "ls-files", "-z"], cwd=source, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target / name)


def find(source: Path, snippet: str) -> list[Path]:
    """Return a path for each occurrence of a snippet in the library."""
    paths = sorted((source / "src").rglob("*.py"))
    return [path for path in paths for _ in range(path.read_text().count(snippet))]


def run_tests(copy: Path, tests: tuple[str, ...], environment: dict[str, str]) -> tuple[str, str]:
    """Run tests up to the first failure; return the outcome and the last line of the report."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    settings = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    try:
        done = subprocess.run(
            command, cwd=copy, env=settings, capture_output=True, text=True, check=False, timeout=_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return "killed", f"no end after {_TIMEOUT} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))] or done.stdout.split(
        "\n"
    )[-2:]
    outcome = {0: "survived", 1: "killed"}.get(done.returncode, f"pytest exit {done.returncode}")
    if done.returncode == 2 and "error" in done.stdout:  # the module cannot even be imported
        outcome = "killed"
    return outcome, lines[0][:200] if lines else ""


def run_mutant(mutant: Mutant, copy: Path, cache: Path) -> dict[str, Any]:
    """Apply a mutant in the copy, run its tests and undo the change."""
    tests = tuple(test for test in mutant.tests if (copy / test).exists())
    forms = [(mutant.original, mutant.mutated), *mutant.other_forms]
    found = [(find(copy, original), original, mutated) for original, mutated in forms]
    usable = [form for form in found if len(form[0]) == 1]
    if not tests or not usable:
        counts = ", ".join(str(len(places)) for places, _, _ in found)
        return {"outcome": "does not apply", "detail": f"snippet found {counts} times; tests found: {', '.join(tests)}"}
    [path], original, mutated = usable[0]
    whole, times = path.read_text(), path.stat()
    environment = dict(mutant.environment)
    with tempfile.TemporaryDirectory() as fresh:
        # Loops that numba compiled before the change must not be used.
        environment["NUMBA_CACHE_DIR"] = fresh if "import numba" in whole or "from numba" in whole else str(cache)
        start = time.perf_counter()
        try:
            path.write_text(whole.replace(original, mutated))
            outcome, detail = run_tests(copy, tests, environment)
        finally:
            path.write_text(whole)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    seconds = round(time.perf_counter() - start, 1)
    return {"outcome": outcome, "detail": detail, "file": str(path.relative_to(copy)), "seconds": seconds}


def main() -> int:
    """Run all mutants that have no stored result, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT, help="checkout to copy and to break")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results")
    parser.add_argument("--only", default="", help="run mutants whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="mutants to test at a time, each in its own copy")
    options = parser.parse_args()
    source = options.source.resolve()
    results: dict[str, Any] = json.loads(options.out.read_text())["mutants"] if options.out.exists() else {}
    commit = subprocess.run([*_GIT, "rev-parse", "HEAD"], cwd=source, capture_output=True, text=True, check=True).stdout
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name and mutant.name not in results]
    with tempfile.TemporaryDirectory(prefix="ghrr-mutants-") as folder:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()  # one for each mutant that is tested at a time
        for job in range(options.jobs):
            copy = Path(folder) / f"checkout-{job}"
            copy_checkout(source, copy)
            compileall.compile_dir(copy, quiet=1)  # bytecode is not written later, so no mutant leaves its own
            copies.put(copy)
        cache = Path(folder) / "numba"

        def test_one(mutant: Mutant) -> None:
            copy = copies.get()
            result = run_mutant(mutant, copy, cache)
            copies.put(copy)
            with lock:
                results[mutant.name] = result
                print(f"{result['outcome']:15} {mutant.name}: {result['detail']}", flush=True)
                options.out.write_text(json.dumps(_report(commit.strip(), results), indent=1) + "\n")

        lock = threading.Lock()
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(test_one, chosen))
        if "control" not in results and not options.only:
            copy = copies.get()
            tests = tuple(sorted({t for mutant in MUTANTS for t in mutant.tests if (copy / t).exists()}))
            outcome, detail = run_tests(copy, tests, {"NUMBA_CACHE_DIR": str(cache)})
            results["control"] = {"outcome": "passed" if outcome == "survived" else outcome, "detail": detail}
    report = _report(commit.strip(), results)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    print({key: value for key, value in report.items() if key != "mutants"})
    return 0


def _report(commit: str, results: dict[str, Any]) -> dict[str, Any]:
    outcomes = [result["outcome"] for name, result in results.items() if name != "control"]
    counts = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
    return {"commit": commit, "counts": counts, "mutants": results}


if __name__ == "__main__":
    sys.exit(main())
