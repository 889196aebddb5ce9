"""The manifest of a results folder, ``manifest.json``: settings, versions, and every check of every claim."""

from __future__ import annotations

import datetime
import itertools
import platform
from collections.abc import Container
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import ghrr
from ghrr.checks import without_name
from ghrr.files import check_fields, read_json
from ghrr_lab.paper.experiment import Outcome
from ghrr_lab.paper.registry import ALL
from ghrr_lab.paper.report import VERDICTS
from ghrr_lab.paper.source_code import source_hash

_MANIFEST = {"command": str, "size": str, "seed": int, "made": str, "versions": dict, "experiments": list}
_ENTRY = {"name": str, "settings": dict, "rows": int, "seconds": float}
_ENTRY_OF_REPORT = {"title": str, "caption": str, "code": str, "claims": list}  # missing in manifests of ghrr 0.1
_CLAIM = {
    **{"where": str, "says": str, "verdict": str, "correction": str, "comment": str},
    **{"checks": list, "corrected": list, "rejected": dict},
}
_CHECK = {"what": str, "measured": float, "error": float, "expected": str, "holds": bool}


def describe_environment() -> dict[str, Any]:
    """Return the date and the versions that the manifest records."""
    return {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {
            "ghrr": ghrr.__version__,
            "torch": torch.__version__,
            "pandas": pd.__version__,
            "python": platform.python_version(),
        },
    }


def describe(outcome: Outcome) -> dict[str, Any]:
    """Return the entry of the manifest for an outcome."""
    return {
        "name": outcome.experiment.name,
        "title": outcome.experiment.title,
        "caption": outcome.experiment.caption,
        "code": source_hash(outcome.experiment.name),
        "settings": dict(outcome.settings),
        "rows": len(outcome.data),
        "seconds": outcome.seconds,
        "claims": [
            {
                "where": finding.claim.where,
                "says": finding.claim.says,
                "verdict": finding.verdict,
                "correction": finding.claim.correction,
                "comment": finding.claim.comment,
                "checks": [asdict(check) for check in finding.checks],
                "corrected": [asdict(check) for check in finding.corrected],
                "rejected": {name: [asdict(check) for check in checks] for name, checks in finding.rejected.items()},
            }
            for finding in outcome.findings
        ],
    }


def read_manifest(out: Path) -> dict[str, Any]:
    """Read the manifest of a folder, also one of ghrr 0.1. Raises ``ValueError`` if it is missing or damaged."""
    path = out / "manifest.json"
    try:
        manifest = check_fields("manifest", read_json(path), _MANIFEST)
        entries = [check_fields(f"experiment {i}", entry, _ENTRY) for i, entry in enumerate(manifest["experiments"])]
    except FileNotFoundError as error:
        raise ValueError(f"{out} has no manifest.json with results; create them with ghrr paper run") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is damaged or not a manifest: {without_name(error)}") from error
    unknown = [entry["name"] for entry in entries if entry["name"] not in ALL]
    if unknown:
        raise ValueError(f"{path} has unknown experiments ({', '.join(unknown)}); run ghrr paper run again")
    return manifest


def reusable_entries(
    out: Path, size: str, seed: int, except_for: Container[str]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Find the entries that a new report in this folder can show without computing or importing their experiments.

    Returns
    -------
    The entries of an earlier run of the same size, seed and source code, by name, without the names in ``except_for``;
    and notices for the user about results that the new report does not show.
    """
    try:
        manifest = read_manifest(out)
    except ValueError:
        return {}, []
    if (manifest["size"], manifest["seed"]) != (size, seed):
        notice = (
            f"this run replaces the report in {out} of size {manifest['size']} and seed {manifest['seed']}; its trials "
            "remain stored"
        )
        return {}, [notice]
    others = {entry["name"]: entry for entry in manifest["experiments"] if entry["name"] not in except_for}
    reusable = {name: entry for name, entry in others.items() if _is_reusable(entry)}
    outdated = [name for name in others if name not in reusable]
    notice = f"the report does not show {', '.join(outdated)}, from another version; run them again to include them"
    return reusable, [notice] if outdated else []


def _is_reusable(entry: dict[str, Any]) -> bool:
    """Whether an entry is complete and comes from the current source code."""
    try:
        check_fields("experiment", entry, _ENTRY_OF_REPORT)
        claims = [check_fields("claim", claim, _CLAIM) for claim in entry["claims"]]
        for claim in claims:
            for check in itertools.chain(claim["checks"], claim["corrected"], *claim["rejected"].values()):
                check_fields("check", check, _CHECK)
    except (TypeError, ValueError):
        return False
    return entry["code"] == source_hash(entry["name"]) and all(claim["verdict"] in VERDICTS for claim in claims)
