"""The report: one HTML page with everything inside it, made from a template and the outcomes of a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import jinja2

from ghrr.paper.experiment import Check

if TYPE_CHECKING:
    from ghrr.paper.run import Outcome


# Verdicts in the order in which they are counted, each with its mark.
VERDICTS = {
    "reproduced": "✓",
    "consistent": "≈",
    "partly": "◐",
    "erratum": "✎",
    "not reproduced": "✗",
    "not measured": "–",
}


def format_measured(check: Check) -> str:
    """A measurement with its standard error, rounded to two digits of the error: ``0.00745 ± 0.00012``."""
    if check.error <= 0 or not math.isfinite(check.error):
        return f"{check.measured:.4g}"
    digits = max(0, 1 - math.floor(math.log10(check.error)))
    return f"{check.measured:.{digits}f} ± {check.error:.{digits}f}"


def format_setting(value: object) -> str:
    """A setting in words: lists without brackets."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def render(outcomes: Sequence[tuple[Outcome, str]], manifest: Mapping[str, object]) -> str:
    """The page as text, from outcomes and their figures as SVG. It needs no network and no other file."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ghrr.paper"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["measured"] = format_measured
    environment.filters["setting"] = format_setting
    counts = Counter(finding.verdict for outcome, _ in outcomes for finding in outcome.findings)
    return environment.get_template("report.html").render(
        outcomes=outcomes,
        counts={verdict: counts[verdict] for verdict in VERDICTS if verdict in counts},
        marks=VERDICTS,
        manifest=manifest,
    )
