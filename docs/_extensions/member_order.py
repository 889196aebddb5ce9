"""Order API entries for a reader: the main classes of a module first; in a class constructors, then methods as written.

Sphinx orders the names of a module by ``__all__``, which is alphabetical, and inherited methods by name.
"""

from __future__ import annotations

import inspect
import pkgutil
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

# What a reader looks for first on the page of a module. Other names follow in their own order.
MAIN = {
    "ghrr.encoding": ("FractionalPower", "Codebook", "Level", "Circular", "Thermometer", "SequenceEncoder"),
    "ghrr.learn": ("HDClassifier", "HDRegressor", "TableFeatures", "KernelFeatures", "TextFeatures", "ImageFeatures"),
    "ghrr_lab.lm": ("ModelConfig", "Model", "TrainConfig", "train", "load_run", "generate", "evaluate", "load_corpus"),
    "ghrr.memory": ("ItemMemory", "Match", "resonator"),
    "ghrr_lab.paper": ("run", "plot"),
    "ghrr.relations": ("load_graph", "RelationConfig", "train", "RelationModel", "predict", "evaluate", "explain"),
    "ghrr.relations.chains": ("RelationChains", "ComposedMatch"),
    "ghrr.search": ("RecordIndex", "RecordMatch", "Range", "Contains", "Explanation", "Cluster", "Field"),
    "ghrr.structures": ("Record", "Sequence", "Set", "HashTable", "Tree", "Graph", "Chain", "Stack", "Automaton"),
    "ghrr": ("Space", "Hypervector", "bind", "bundle", "unbind", "similarity", "pairwise_similarity", "shift"),
}
FIRST = ("add", "fit", "partial_fit", "encode", "encode_many", "forward")  # what one does after making an object
Key = tuple[int, int, int]


def member_key(owner: type, name: str) -> Key:
    """Return the place of a member in its class: constructors, the first calls, other methods as written, attributes.

    Methods of the class itself come before methods of its base classes.
    """
    for depth, base in enumerate(owner.__mro__):
        if name in vars(base):
            member = vars(base)[name]
            line = _line(inspect.unwrap(getattr(member, "__func__", member)))
            if isinstance(member, classmethod | staticmethod):
                return 0, depth, line
            if not inspect.isroutine(member):
                return 3, depth, line
            return (1, FIRST.index(name), 0) if name in FIRST else (2, depth, line)
    return 3, len(owner.__mro__), 0  # an attribute of instances


def _line(member: Any) -> int:
    code = getattr(getattr(member, "fget", member), "__code__", None)
    return code.co_firstlineno if code else 0


def module_key(module: str, name: str) -> Key:
    """Return the place of a name on the page of its module."""
    main = MAIN.get(module, ())
    return (0, main.index(name), 0) if name in main else (1, 0, 0)


def _key(entry: addnodes.desc) -> Key:
    signature = entry.next_node(addnodes.desc_signature)
    module = str(signature["module"])
    owner, _, name = str(signature["fullname"]).rpartition(".")
    if not owner:
        return module_key(module, name)
    try:
        return member_key(pkgutil.resolve_name(f"{module}:{owner}"), name)
    except (AttributeError, ImportError, ValueError):
        return 3, 0, 0


def sort_entries(parent: nodes.Element) -> None:
    """Sort the API entries among the children of a node; index nodes before an entry go along with it."""
    groups: list[list[nodes.Node]] = []
    ahead: list[nodes.Node] = []
    entries: list[int] = []
    for child in parent.children:
        ahead.append(child)
        if isinstance(child, addnodes.desc) and child.get("domain") == "py":
            entries.append(len(groups))
        elif isinstance(child, addnodes.index | nodes.target):
            continue
        groups.append(ahead)
        ahead = []
    ordered = sorted((groups[place] for place in entries), key=lambda group: _key(group[-1]))
    for place, group in zip(entries, ordered, strict=True):
        groups[place] = group
    parent.children = [node for group in [*groups, ahead] for node in group]


def _sort(_: Sphinx, page: nodes.document) -> None:
    for parent in {id(entry.parent): entry.parent for entry in page.findall(addnodes.desc)}.values():
        sort_entries(parent)


def setup(app: Sphinx) -> dict[str, bool]:
    """Sort the entries of each page before Sphinx collects its table of contents."""
    app.connect("doctree-read", _sort, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
