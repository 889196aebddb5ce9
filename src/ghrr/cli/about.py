"""``ghrr demo``, ``ghrr info`` and ``ghrr cite``: an example, the installation, and the paper."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from functools import reduce
from operator import add

import numpy as np
import torch
from rich.table import Table

import ghrr
from ghrr.cli.output import EXTRAS, console, escaped

BIBTEX = """\
@article{yeung2024ghrr,
  title   = {Generalized Holographic Reduced Representations},
  author  = {Yeung, Calvin and Zou, Zhuowen and Jeong, SungHeon and Huang, Wenjun
             and Bastian, Nathaniel D. and Imani, Mohsen},
  journal = {arXiv preprint arXiv:2405.09689},
  year    = {2024}
}"""


def demo() -> None:
    """Encode a nested dictionary in one vector, and read it with GHRR, with FHRR and from the wrong side."""
    document = {"home": {"home": "tea", "work": "coffee"}, "work": {"home": "laptop", "work": "desk"}}
    values = [value for inner in document.values() for value in inner.values()]
    console.print("\n[bold]One vector for a nested dictionary[/]\n")
    console.print_json(data=document)
    console.print(
        "\nEach key is bound to its value (key * value), and the pairs of each dictionary are bundled (added):\n"
        "  H = home * (home * tea + work * coffee) + work * (home * laptop + work * desk)\n"
        "To read a path, unbind its keys from the left, outermost first. GHRR and FHRR use the same total dimension.\n",
        highlight=False,
    )
    ghrr_space, fhrr_space = ghrr.Space.from_total(3600, m=3), ghrr.Space.from_total(3600, m=1)
    for title, space, side in (
        ("GHRR (m = 3), read from the left", ghrr_space, "left"),
        ("FHRR (m = 1): confuses the paths home.work and work.home", fhrr_space, "left"),
        ("GHRR (m = 3), read from the wrong side", ghrr_space, "right"),
    ):
        console.print(_similarity_table(title, document, values, space, side))
    console.print(
        f"The correct value has a similarity of about 1, and noise of 0 ± {ghrr_space.noise_std:.3f} per item. The "
        "value of the swapped path has about 1/m² = 0.11 with GHRR, but 1 with FHRR.\n",
        highlight=False,
    )


def _similarity_table(
    title: str, document: dict[str, dict[str, str]], values: list[str], space: ghrr.Space, side: str
) -> Table:
    """Read every path of the document from one side, and list the similarity to each value."""
    keys = dict(zip(document, space.atoms(*document), strict=True))
    atoms = dict(zip(values, space.atoms(*values), strict=True))
    inner = {key: reduce(add, [keys[k] * atoms[v] for k, v in pairs.items()]) for key, pairs in document.items()}
    whole = reduce(add, [keys[key] * inner[key] for key in document])
    table = Table(title=title, title_justify="left", title_style="bold", min_width=60)
    table.add_column("path")
    for value in values:
        table.add_column(value, justify="right")
    table.add_column("answer")
    for outer, pairs in document.items():
        for key, value in pairs.items():
            found = whole.unbind(keys[outer], side=side).unbind(keys[key], side=side)
            scores = {value: float(found.similarity(atom)) for value, atom in atoms.items()}
            answers = [value for value, score in scores.items() if score > 0.5]
            mark = "[green]✓[/]" if answers == [value] else "[red]✗[/]"
            answer = f"{mark} {' or '.join(answers) or 'none'}"
            table.add_row(f"{outer}.{key}", *(f"{score:.2f}" for score in scores.values()), answer)
    return table


# ---------------------------------------------------------------------------------------------------------- info, cite


def info() -> None:
    """Show versions, devices, kernels, the BLAS library and the installed extras."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in _facts():
        table.add_row(f"[bold]{name}[/]", escaped(value))
    installed = {extra: all(map(importlib.util.find_spec, modules)) for extra, modules in EXTRAS.items()}
    extras = (f"{extra} {'[green]yes[/]' if found else '[dim]no[/]'}" for extra, found in installed.items())
    table.add_row("[bold]extras[/]", ", ".join(extras))
    console.print(table, highlight=False)


def _facts() -> list[tuple[str, str]]:
    device = "CPU"
    if torch.cuda.is_available():
        device = f"{torch.cuda.get_device_name()} (CUDA {torch.version.cuda})"
    elif torch.mps.is_available():
        device = "Apple GPU"
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("safetensors", "typer", "rich")]
    return [
        ("ghrr", ghrr.__version__),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("torch", f"{torch.__version__}, {torch.get_num_threads()} threads of {os.cpu_count()} cores"),
        ("NumPy", np.__version__),
        ("others", ", ".join(versions)),
        ("device", device),
        ("kernels", ", ".join(f"{kind} {used}" for kind, used in ghrr.ops.in_use().items())),
        ("BLAS", "MKL" if torch.backends.mkl.is_available() else "not MKL"),  # type: ignore[no-untyped-call]
    ]


def cite() -> None:
    """Print the BibTeX entry of the paper."""
    print(BIBTEX)
