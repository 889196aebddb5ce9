"""What all commands share: the console, how to fail, and which extra a command needs."""

from __future__ import annotations

import importlib.util
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

console = Console()

EXTRAS = {
    "cluster": ("dask", "distributed"),
    "fast": ("numba",),
    "gpu": ("triton",),
    "paper": ("matplotlib", "pandas", "jinja2", "joblib"),
    "learn": ("sklearn",),
    "lm": ("tokenizers", "accelerate", "tensorboard"),
    "hf": ("transformers",),
    "index": ("faiss", "pymilvus"),
    "web": ("gradio",),
}


def fail(message: str) -> NoReturn:
    """Say what is wrong, in red, on standard error, and leave with status 2."""
    Console(stderr=True).print(f"[bold red]Error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    raise typer.Exit(2)


def need(extra: str) -> None:
    """Fail, naming the extra to install, if something that a command needs is not there."""
    missing = [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        fail(f"this needs {', '.join(missing)}: pip install 'ghrr[{extra}]'")
