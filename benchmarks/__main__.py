"""Run a benchmark by its name: ``python -m benchmarks NAME``, or list all: ``python -m benchmarks``."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def find_benchmarks() -> dict[str, str]:
    """Return the first line of the docstring of each module with a function ``main``, by name. Imports none of them."""
    found = {}
    for path in sorted(FOLDER.rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        has_main = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
        if has_main and path != Path(__file__):
            name = ".".join(path.relative_to(FOLDER).with_suffix("").parts).removesuffix(".__main__")
            found[name] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main() -> None:
    """Run the benchmark that the command line names with the rest of its arguments."""
    benchmarks = find_benchmarks()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in benchmarks:
        width = max(map(len, benchmarks))
        print("usage: python -m benchmarks NAME [OPTIONS]\n")
        print("\n".join(f"{name:<{width}}  {line}" for name, line in benchmarks.items()))
        sys.exit(2 if name else 0)
    module = f"benchmarks.{name}"
    if (FOLDER / name.replace(".", "/")).is_dir():
        module += ".__main__"
    sys.argv[:2] = [f"python -m benchmarks {name}"]
    status = importlib.import_module(module).main()
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
