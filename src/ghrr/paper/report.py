"""The report: one HTML page with everything inside it, made from a template and the outcomes of a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import jinja2

from ghrr.paper.experiment import Check
from ghrr.paper.style import to_svg

if TYPE_CHECKING:
    from ghrr.paper.run import Outcome


def format_measured(check: Check) -> str:
    """A measurement with its standard error, rounded to two digits of the error: ``0.00745 ± 0.00012``."""
    if check.error <= 0 or not math.isfinite(check.error):
        return f"{check.measured:.4g}"
    digits = max(0, 1 - math.floor(math.log10(check.error)))
    return f"{check.measured:.{digits}f} ± {check.error:.{digits}f}"


def render(outcomes: Sequence[Outcome], manifest: Mapping[str, object]) -> str:
    """The page as text. Figures are inside it as SVG: it needs no network and no other file."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ghrr.paper"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["measured"] = format_measured
    return environment.get_template("report.html").render(
        outcomes=[(outcome, to_svg(outcome.experiment.draw(outcome.data, outcome.settings))) for outcome in outcomes],
        counts=Counter(finding.verdict for outcome in outcomes for finding in outcome.findings),
        manifest=manifest,
    )
