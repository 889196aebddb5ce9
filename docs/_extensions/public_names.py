"""API entries: find the entry of an object by any of its names, and leave private parameters out of signatures.

Every object has one entry in the API pages. ``ghrr.ItemMemory`` and ``ghrr.memory.item_memory.ItemMemory`` both lead to
the entry of ``ghrr.memory.ItemMemory``.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

MODULES = (
    "ghrr",
    "ghrr.models",
    "ghrr.encoding",
    "ghrr.structures",
    "ghrr.memory",
    "ghrr.nn",
    "ghrr.nn.functional",
    "ghrr.learn",
    "ghrr.relations",
    "ghrr.relations.chains",
    "ghrr.search",
    "ghrr.training",
    "ghrr.unitary",
    "ghrr.ops",
    "ghrr.testing",
    "ghrr_lab.lm",
    "ghrr_lab.paper",
)


@functools.cache
def public_names() -> dict[str, Any]:
    """Return all public names and their objects; submodules are left out."""
    names = {}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            if f"{module.__name__}.{name}" not in MODULES:
                names[f"{module.__name__}.{name}"] = getattr(module, name)
    return names


def documented_name(target: str, documented: set[str]) -> str | None:
    """Return the documented name of the object that ``target`` names, or None."""
    owner, rest = target, ""
    while owner:
        try:
            found = pkgutil.resolve_name(owner)
        except (ImportError, AttributeError, ValueError):
            found = None
        if found is not None:
            for name, value in public_names().items():
                if value is found and name + rest in documented:
                    return name + rest
        owner, _, last = owner.rpartition(".")
        rest = f".{last}{rest}"
    return None


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    if node.get("refdomain") != "py":
        return None
    entries = env.domains.python_domain.objects
    target = node["reftarget"]
    for prefix in ("", f"{node.get('py:module')}."):
        name = documented_name(prefix + target, set(entries))
        if name is not None:
            entry = entries[name]
            return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, name)
    return None


def hide_private_parameters(signature: str) -> str:
    """Return a signature without the parameters that begin with an underscore, which are last in a signature."""
    return re.sub(r"(, \*)?(, _\w+(: [^,)]+)?)+(?=\))", "", signature)


def _process_signature(*event: Any) -> tuple[str | None, str | None]:
    signature, result = event[-2:]
    return signature and hide_private_parameters(signature), result


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the resolver."""
    app.connect("missing-reference", _resolve)
    app.connect("autodoc-process-signature", _process_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
