"""Read a nested record with FHRR and with GHRR, and draw the scores.

Both hold {"home": {"home": "tea", "work": "coffee"}, "work": {"home": "laptop", "work": "desk"}} in one hypervector
of total dimension 3600. With FHRR (m = 1) the paths home.work and work.home give the same answer::

    python examples/nested_record.py docs/images/nested_record.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import torch

import ghrr

VALUES = ["tea", "coffee", "laptop", "desk"]
PATHS = [("home", "home"), ("home", "work"), ("work", "home"), ("work", "work")]
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"]  # Okabe and Ito


def scores(m: int) -> torch.Tensor:
    """Similarity of the answer at each path with each value, ``(paths, values)``."""
    space = ghrr.Space.from_total(3600, m=m, seed=0)
    keys = dict(zip(("home", "work"), space.vectors(["home", "work"]), strict=True))
    values = space.vectors(VALUES)
    products = torch.stack([ghrr.bind(keys[a], keys[b]) for a, b in PATHS])
    record = ghrr.bind_bundle(products, values)
    return ghrr.pairwise_similarity(ghrr.unbind(record, products, side="left"), values)


def main(path: Path) -> None:
    """Draw one panel per model, with a group of bars per path."""
    mpl.rcParams.update({"svg.hashsalt": "ghrr", "font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = plt.subplots(1, 2, figsize=(10, 3), sharey=True, layout="constrained")
    for panel, m, name in zip(panels, (1, 3), ("FHRR (m = 1)", "GHRR (m = 3)"), strict=True):
        for index, (value, colour, bars) in enumerate(zip(VALUES, COLOURS, scores(m).T, strict=True)):
            panel.bar([k + 0.2 * (index - 1.5) for k in range(4)], bars, 0.19, color=colour, label=value)
        panel.set_xticks(range(4), [".".join(path) for path in PATHS], fontsize=9.5)
        panel.set(title=name, xlabel="path that is read")
    panels[0].set_ylabel("similarity of the answer")
    panels[1].legend(title="value", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "nested_record.svg"))
