"""Break lines of the library on purpose, chosen at random by a seed, and count the faults that the tests detect.

Works in a copy of the checkout and never changes the checkout itself. Results are stored after each mutant; a second
call continues where the first one stopped::

    python -m tests.mutants.run --out results/benchmarks/mutations.json
    python -m tests.mutants.run --out search.json --only search --lines 10 --seed 3
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common.paths import ROOT

from tests.mutants.mutate import Mutant, mutants

_FIRST = 4  # the module and three test files, which detect most faults: the others need not be collected then
_TIMEOUT = 1200  # seconds: a fault that makes a test hang, or a busy machine; it is not known which, so neither counts

# Packages that are judged together: their sources below src/ghrr, and the tests that should detect their faults.
PACKAGES = {
    "core": (
        [
            "algebra",
            "capacity.py",
            "checks.py",
            "documents.py",
            "files",
            "hypervector.py",
            "ops",
            "seeding.py",
            "space",
            "unitary",
        ],
        ["tests/*.py", "tests/ops", "tests/unitary", "tests/models"],
    ),
    **{
        name: ([name], [f"tests/{name}"])
        for name in ("encoding", "learn", "memory", "nn", "relations", "search", "structures")
    },
}


def choose(source: Path, folders: list[str], lines: int, seed: int) -> tuple[int, list[tuple[Path, Mutant]]]:
    """Return the number of lines that have mutants, and one random mutant of each of a sample of these lines."""
    by_line: dict[tuple[Path, int], list[Mutant]] = {}
    for folder in folders:
        base = source / "src" / "ghrr" / folder
        for path in [base] if base.is_file() else sorted(base.rglob("*.py")):
            for mutant in mutants(path.read_text()):
                by_line.setdefault((path.relative_to(source), mutant.line), []).append(mutant)
    rng = random.Random(f"{seed}/{folders}")
    chosen = rng.sample(sorted(by_line), min(lines, len(by_line)))
    return len(by_line), [(path, rng.choice(by_line[path, line])) for path, line in chosen]


def ordered_tests(copy: Path, patterns: list[str], path: Path) -> list[str]:
    """Return the module, for its examples, and the test files: first those that mention the module most often."""
    module = ".".join(path.with_suffix("").parts[1:])
    words = re.compile(rf"\b({re.escape(module)}|{re.escape(path.stem)})\b")
    files = [file for pattern in patterns for file in copy.glob(pattern)]
    tests = [test for file in files for test in ([file] if file.is_file() else file.rglob("test_*.py"))]
    found = {test: len(words.findall(test.read_text())) for test in tests if test.name.startswith("test_")}
    ranked = sorted(found, key=lambda test: (-found[test], test.stat().st_size, str(test)))
    return [str(path), *(str(test.relative_to(copy)) for test in ranked)]


def run_tests(copy: Path, tests: list[str], cache: Path) -> tuple[str, str]:
    """Run tests up to the first failure; return the outcome, and the test that failed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    settings = {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(cache)}
    try:
        done = subprocess.run(
            command, cwd=copy, env=os.environ | settings, capture_output=True, text=True, check=False, timeout=_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return "timeout", f"no end after {_TIMEOUT} s"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode == 0:
        return "survived", ""
    return "killed", failed.group(1) if failed else f"pytest exit {done.returncode}"


def run_mutant(copy: Path, path: Path, mutant: Mutant, patterns: list[str], cache: Path) -> dict[str, Any]:
    """Apply a mutant in the copy, run the tests of its package, and undo the change.

    A test that also fails without the mutant detects nothing: the outcome is then ``"invalid"``.
    """
    source = (copy / path).read_text()
    compile(mutant.apply(source), str(path), "exec")  # a fault that is no Python would be detected by every test
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as fresh:
        kernels = Path(fresh) if "ops/cpu" in str(path) else cache  # not those compiled before the change
        try:
            (copy / path).write_text(mutant.apply(source))
            tests = ordered_tests(copy, patterns, path)
            for part in (tests[:_FIRST], tests[_FIRST:]):
                outcome, detail = run_tests(copy, part, kernels) if part else ("survived", "")
                if outcome != "survived":
                    break
        finally:
            (copy / path).write_text(source)
    if "::" in detail and run_tests(copy, [detail], cache)[0] == "killed":
        outcome = "invalid"
    seconds = round(time.perf_counter() - start, 1)
    return {"outcome": outcome, "change": mutant.describe(source), "detail": detail, "seconds": seconds}


def summarise(results: dict[str, dict[str, Any]], lines: dict[str, int]) -> dict[str, Any]:
    """Return counts by package, and all survivors with their change."""
    packages = {}
    for name, total in lines.items():
        outcomes = [result["outcome"] for result in results.values() if result["package"] == name]
        killed, survived = outcomes.count("killed"), outcomes.count("survived")
        rate = round(killed / (killed + survived), 3) if killed + survived else None
        unknown = len(outcomes) - killed - survived
        counts = {"lines": total, "killed": killed, "survived": survived, "unknown": unknown}
        packages[name] = {**counts, "kill_rate": rate}
    survivors = {place: result["change"] for place, result in results.items() if result["outcome"] == "survived"}
    return {"packages": packages, "survivors": survivors}


def main() -> int:
    """Run all chosen mutants that have no stored result, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results")
    parser.add_argument("--only", choices=sorted(PACKAGES), action="append", help="packages to break; repeatable")
    parser.add_argument("--lines", type=int, default=25, help="number of lines to break in each package")
    parser.add_argument("--seed", type=int, default=0, help="chooses the lines, and the fault of each")
    options = parser.parse_args()
    stored = json.loads(options.out.read_text()) if options.out.exists() else {}
    results, lines = stored.get("mutants", {}), {k: v["lines"] for k, v in stored.get("packages", {}).items()}
    git = shutil.which("git") or "git"
    commit = subprocess.run([git, "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="ghrr-mutants-") as folder:
        copy, cache = Path(folder) / "checkout", Path(folder) / "numba"
        for name in filter(None, listed.split("\0")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
        for package in options.only or PACKAGES:
            sources, patterns = PACKAGES[package]
            lines[package], chosen = choose(copy, sources, options.lines, options.seed)
            for path, mutant in chosen:
                place = f"{path}:{mutant.line}:{mutant.start}"
                if place in results:
                    continue
                results[place] = {"package": package, **run_mutant(copy, path, mutant, patterns, cache)}
                print(f"{results[place]['outcome']:9} {place}  {results[place]['change'][:150]}", flush=True)
                report = {"commit": commit.strip(), "seed": options.seed, **summarise(results, lines)}
                options.out.write_text(json.dumps({**report, "mutants": results}, indent=1) + "\n")
    for name, counts in summarise(results, lines)["packages"].items():
        print(name, counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
