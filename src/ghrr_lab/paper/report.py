"""Render the report: one self-contained HTML page, made from the manifest and the figures of a run."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import jinja2

from ghrr_lab.paper.experiment import Verdict
from ghrr_lab.paper.registry import COMPARISONS
from ghrr_lab.paper.source_code import claim_source, source_file, trial_source

# Verdicts in the order in which they are listed, each with its symbol.
VERDICTS: dict[Verdict, str] = {
    "reproduced": "✓",
    "consistent": "≈",
    "partly": "◐",
    "erratum": "✎",
    "not reproduced": "✗",
    "not measured": "–",
}
# Added to the figures: black and white follow the reader's colour scheme. Text without a colour inherits the figure's.
_DARK_SCHEME = b"""
@media (prefers-color-scheme: dark) {
  svg { fill: #e6e9ec }
  [style*="fill: #222222"], [style*="fill: #000000"] { fill: #e6e9ec !important }
  [style*="stroke: #222222"], [style*="stroke: #000000"] { stroke: #e6e9ec !important }
  [style*="fill: #ffffff"] { fill: #14181c !important }
  [style*="stroke: #ffffff"] { stroke: #14181c !important }
}
</style>"""


def format_measured(measured: float, error: float) -> str:
    """Format a measurement with two digits of its standard error.

    Examples
    --------
    >>> format_measured(0.0074512, 0.00012)
    '0.00745 ± 0.00012'
    """
    if error <= 0 or not math.isfinite(error):
        return f"{measured:.4g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{measured:.{digits}f} ± {error:.{digits}f}"


def format_setting(value: object) -> str:
    """Format a setting; lists are shown without brackets."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def render(manifest: Mapping[str, Any], figures: Mapping[str, bytes]) -> str:
    """Render the page from a manifest and the SVG figures by name of the experiment.

    Figures become images, not elements of the page: a browser runs no script inside an image.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ghrr_lab.paper"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    is_comparison = all(entry["name"] in COMPARISONS for entry in manifest["experiments"])
    counts = Counter(claim["verdict"] for entry in manifest["experiments"] for claim in entry["claims"])
    return environment.get_template("report.html").render(
        manifest=manifest,
        is_comparison=is_comparison,
        title="Vector symbolic architectures, compared" if is_comparison else "GHRR: the paper reproduced",
        command_of=command_of,
        figures={name: _as_base64(svg.replace(b"</style>", _DARK_SCHEME, 1)) for name, svg in figures.items()},
        counts={verdict: counts[verdict] for verdict in VERDICTS if verdict in counts},
        symbols=VERDICTS,
        format_measured=format_measured,
        format_setting=format_setting,
        claim_source=claim_source,
        source_file=source_file,
        trial_source=trial_source,
    )


def command_of(name: str) -> str:
    """Return the command that runs an experiment.

    Examples
    --------
    >>> command_of("fixed-vs-varying"), command_of("compare-order")
    ('ghrr paper run fixed-vs-varying', 'ghrr compare --experiment compare-order')
    """
    return f"ghrr compare --experiment {name}" if name in COMPARISONS else f"ghrr paper run {name}"


def _as_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
