"""Write figures as SVG files: the command line shared by the scripts that draw stored results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from ghrr.files import atomic_write
from ghrr_lab.paper.style import to_svg


def write_figures(
    figures: Mapping[str, Callable[[], Figure]], folder: Path, description: str, arguments: Sequence[str] | None
) -> list[Path]:
    """Draw all figures to ``folder``, or to the folder of the option ``--out``; return their paths."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=folder, help="folder for the figures")
    options = parser.parse_args(list(sys.argv[1:] if arguments is None else arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in figures.items():
        path = options.out / f"{name}.svg"
        with atomic_write(path) as temporary:
            temporary.write_text(to_svg(draw()) + "\n", encoding="utf-8")
        written.append(path)
    print("\n".join(path.name for path in written))
    return written
