"""Tables of the stored run of the paper, for docs/results/paper.md, docs/errata.md and docs/paper.

The verdicts come from ``results/paper/manifest.json``, the wording of claims, notes and captions from the experiments.
``docs/paper/figures`` has the figures of a quick run; make them again with::

    ghrr paper run --quick --seed 0 --out report
    cp report/figures/*.svg docs/paper/figures/
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.common.paths import ROOT
from ghrr_lab.paper import EXPERIMENTS
from ghrr_lab.paper.experiment import Claim

_VERDICTS = {"reproduced": "✓", "consistent": "≈", "partly": "◐", "erratum": "✎", "not reproduced": "✗"}
Table = tuple[list[str], list[list[str]]]


class StoredClaim(NamedTuple):
    """A claim with its stored verdict."""

    experiment: str
    claim: Claim
    verdict: str


def _stored_claims() -> Iterator[StoredClaim]:
    """Yield all claims with their stored verdicts, in the order of the paper."""
    manifest = json.loads((ROOT / "results" / "paper" / "manifest.json").read_text(encoding="utf-8"))
    for entry in manifest["experiments"]:
        name = entry["name"]
        for claim, stored in zip(EXPERIMENTS[name].claims, entry["claims"], strict=True):
            yield StoredClaim(name, claim, stored["verdict"])


def names() -> list[str]:
    """Return the names of the stored experiments."""
    return list(dict.fromkeys(stored.experiment for stored in _stored_claims()))


def count_verdicts(name: str | None = None) -> Counter[str]:
    """Count the claims of each verdict, of one experiment or of all."""
    return Counter(stored.verdict for stored in _stored_claims() if name in (None, stored.experiment))


def verdicts() -> Table:
    """Count the claims of each verdict, by experiment."""
    rows = []
    for name in names():
        counts = count_verdicts(name)
        rows.append([f"`{name}`", *(str(counts[verdict] or "") for verdict in _VERDICTS)])
    counts = count_verdicts()
    rows.append(["**all**", *(f"**{counts[verdict]}**" for verdict in _VERDICTS)])
    return ["experiment", *_VERDICTS], rows


def errata() -> dict[str, Table]:
    """List the claims that are wrong as written with their corrections, by a heading whose anchor is the experiment."""
    found: dict[str, Table] = {}
    for name, claim, verdict in _stored_claims():
        if verdict == "erratum":
            heading = name.replace("-", " ").capitalize()
            _, rows = found.setdefault(heading, (["where", "the paper says", "correct is"], []))
            rows.append([_cell(text) for text in (claim.where, claim.says, claim.correction)])
    return found


def claims(name: str) -> Table:
    """List the claims that an experiment tests, each with its verdict and a note."""
    rows = []
    for experiment, claim, word in _stored_claims():
        if experiment == name:
            verdict = f"{_VERDICTS[word]} {word}"
            if word == "erratum":
                verdict = f"[{verdict}](../errata.md#{name})"
            rows.append([_cell(claim.says), verdict, _cell(claim.comment)])
    return ["the paper says", "verdict", "note"], rows


def introduction(name: str) -> str:
    """Return the source, the command and the figure of an experiment."""
    experiment, module = EXPERIMENTS[name], f"{name.replace('-', '_')}.py"
    return "\n\n".join(
        [
            f"Experiment: [{module}](../../src/ghrr_lab/paper/experiments/{module}), `ghrr paper run {name}`",
            f"![{experiment.title}](figures/{name}.svg)",
            f"**{_cell(experiment.title)}.** {_cell(experiment.caption)}",
        ]
    )


def _cell(text: str) -> str:
    """Escape a text for Markdown, also inside a table."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")
