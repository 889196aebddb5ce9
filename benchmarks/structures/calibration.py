"""Calibration: the share of confident answers that are correct, for every structure and m = 1 to 4.

Small structures of few symbols are encoded in spaces of total dimension 200, 500 and 1200, which range from far too
small to sufficient, with varying and with fixed rotations. Queries ask for encoded items and for the same symbols in
every other order, most of which are absent. A confident answer is correct if it names an encoded item. Run::

    python -m benchmarks structures.calibration

The table shows, for every structure and m, the number of confident answers, the share of them that are correct, and the
share of encoded items that were answered confidently.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.measuring import command, store
from benchmarks.common.paths import RESULTS
from ghrr import Match, Space
from ghrr.structures import Automaton, CapacityWarning, Chain, Graph, HashTable, NGrams, Record, Set, Stack, Tree
from ghrr.structures import Sequence as Line

LEAST = 0.98  # share of the confident answers that must be correct
M = (1, 2, 3, 4)

Answer = tuple[bool, bool, bool]  # confident, correct, encoded
Word = tuple[Any, ...]
Task = Callable[[Space, random.Random, bool | None], list[Answer]]


def all_permutations(words: Iterable[Word]) -> list[Word]:
    """Return all different permutations of the symbols of paths."""
    return sorted({order for word in words for order in itertools.permutations(word)})


def judge(encoded: dict[Word, str], queries: Sequence[Word], matches: Iterable[Match]) -> list[Answer]:
    """Compare matches with the encoded items."""
    pairs = zip(queries, matches, strict=True)
    return [(match.confident, match.guess == encoded.get(word), word in encoded) for word, match in pairs]


def length(space: Space) -> int:
    """Return the length of paths: long enough that permutations are linearly dependent, short enough to query all."""
    return {1: 3, 2: 3, 3: 4, 4: 4}[space.m]


def ask_tree(space: Space, rng: random.Random, permute: bool | None) -> list[Answer]:
    """Query labels at all paths of a random tree, and at the same indices in another order."""

    def grow(path: Word, depth: int) -> list[Any]:
        nodes[path] = rng.choice("pqr")
        children = rng.randint(1, 2) if depth else 0
        return [nodes[path], *(grow((*path, child), depth - 1) for child in range(children))]

    model, nodes = Tree(space, permute=permute), dict[Word, str]()
    h = model.encode(grow((), 1 + length(space)))
    queries = all_permutations(nodes)
    return judge(nodes, queries, [model.label(h, path) for path in queries])


def ask_record(space: Space, rng: random.Random, permute: bool | None) -> list[Answer]:
    """Query values at random paths of two keys, and at the same keys in another order."""
    codec, document = Record(space, permute=permute), dict[str, Any]()
    paths: dict[Word, str] = {tuple(rng.choices("ab", k=length(space))): rng.choice("pqr") for _ in range(12)}
    for path, value in paths.items():
        node = document
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = value
    queries = all_permutations(paths)
    return judge(paths, queries, codec.query_many(codec.encode(document), queries))


def ask_set(space: Space, rng: random.Random, permute: bool | None) -> list[Answer]:
    """Query tuples of two names, and their other orders."""
    model = Set(space, permute=permute)
    members = {tuple(rng.choices("ab", k=length(space))) for _ in range(10)}
    h, queries = model.encode(sorted(members)), all_permutations(members)
    return [(model.contains(h, word).confident, word in members, word in members) for word in queries]


def ask_ngrams(space: Space, rng: random.Random, permute: bool | None) -> list[Answer]:
    """Decode the n-grams of a random text of two letters, and look for their other orders."""
    model, text = NGrams(space, length(space), permute=permute), rng.choices("ab", k=9)
    grams = {tuple(text[start : start + model.n]) for start in range(len(text) - model.n + 1)}
    found = model.decode(model.encode(text))
    return [(word in found, word in grams, word in grams) for word in all_permutations(grams)]


def ask_chain(space: Space, rng: random.Random, permute: bool | None) -> list[Answer]:
    """Query the element after every prefix of a chain, and after the same elements in another order."""
    model, chain = Chain(space, permute=permute), rng.choices("ab", k=7)
    follows: dict[Word, str] = {tuple(chain[:end]): chain[end] for end in range(2, 6)}
    h, queries = model.encode(chain), all_permutations(follows)
    return judge(follows, queries, [model.next(h, prefix) for prefix in queries])


def ask_graph(space: Space, rng: random.Random, permute: bool | None) -> list[Answer]:
    """Decode the edges between six nodes, and look for their reversals."""
    model = Graph(space, permute=permute)
    edges = {(rng.choice("abcdef"), "to", rng.choice("abcdef")) for _ in range(10)}
    found = model.decode(model.encode(sorted(edges)))
    return [(e in found, e in edges, e in edges) for u, to, v in edges for e in ((u, to, v), (v, to, u))]


def ask_automaton(space: Space, rng: random.Random, permute: bool | None) -> list[Answer]:
    """Query the next state for all pairs of four states and two symbols, of which some have no transition."""
    model, queries = Automaton(space, permute=permute), list(itertools.product("pqrs", "ab"))
    moves: dict[Word, str] = {pair: rng.choice("pqrs") for pair in queries if rng.random() < 0.6}
    moves[queries[0]] = rng.choice("pqrs")
    h = model.encode({(state, symbol): after for (state, symbol), after in moves.items()}, start="p")
    return judge(moves, queries, [model.step(h, *pair) for pair in queries])


def ask_sequence(space: Space, rng: random.Random, _: bool | None) -> list[Answer]:
    """Query the elements of a sequence, and three indices after its end."""
    model, items = Line(space), rng.choices("abcdefgh", k=rng.randint(5, 40))
    encoded: dict[Word, str] = {(index,): item for index, item in enumerate(items)}
    h, queries = model.encode(items), [(index,) for index in range(len(items) + 3)]
    return judge(encoded, queries, [model.item(h, index) for (index,) in queries])


def ask_stack(space: Space, rng: random.Random, _: bool | None) -> list[Answer]:
    """Decode the elements of a stack from the top."""
    model, items = Stack(space), rng.choices("abcdefgh", k=rng.randint(3, 20))
    found = model.decode(model.encode(items))
    top_down = items[::-1]
    correct = [(True, at < len(items) and match.guess == top_down[at], True) for at, match in enumerate(found)]
    return correct + [(False, False, True)] * max(0, len(items) - len(found))


def ask_hash_table(space: Space, rng: random.Random, permute: bool | None) -> list[Answer]:
    """Query the values of keys, some of which are absent."""
    model = HashTable(space, permute=permute)
    names = [f"k{number}" for number in range(20)]
    table: dict[Word, str] = {(name,): rng.choice("pqrstu") for name in rng.sample(names, k=rng.randint(3, 15))}
    h, queries = model.encode({name: value for (name,), value in table.items()}), [(name,) for name in names]
    return judge(table, queries, model.get_many(h, names))


TASKS: dict[str, Task] = {
    "Tree": ask_tree,
    "Record": ask_record,
    "Set": ask_set,
    "NGrams": ask_ngrams,
    "Chain": ask_chain,
    "Graph": ask_graph,
    "Automaton": ask_automaton,
    "Sequence": ask_sequence,
    "Stack": ask_stack,
    "HashTable": ask_hash_table,
}


UNSHIFTED = ("Sequence", "Stack")  # structures without the setting permute


def answers(structure: str, m: int, count: int, permute: bool | None = None) -> list[Answer]:
    """Return at least ``count`` answers, from spaces of all sizes."""
    found: list[Answer] = []
    for seed in itertools.count():
        # With fixed rotations some pairs of atoms nearly commute: an edge is then similar to its reversal.
        rotation = ("varying", "fixed")[seed % 2]
        space = Space.from_total((200, 500, 1200)[seed % 3], m, rotation=rotation, seed=seed)
        found += TASKS[structure](space, random.Random(seed), permute)  # noqa: S311 (a fixed seed)
        if len(found) >= count and seed >= 5:
            break
    return found


def default_permute(structure: str, m: int) -> bool:
    """Return the default of ``permute``."""
    return m == 1 or structure == "HashTable"


def summary(found: Sequence[Answer]) -> dict[str, Any]:
    """Return counts and shares of answers."""
    confident = [answer for answer in found if answer[0]]
    encoded = [answer for answer in found if answer[2]]
    return {
        "answers": len(found),
        "absent": len(found) - len(encoded),
        "confident": len(confident),
        "right": sum(right for _, right, _ in confident),
        "confident_and_absent": sum(not is_encoded for _, _, is_encoded in confident),
        "answered": sum(is_confident for is_confident, _, _ in encoded) / max(1, len(encoded)),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Query all structures, print and store the table; return 1 if a structure is not calibrated."""
    warnings.simplefilter("ignore", CapacityWarning)  # some spaces are too small on purpose
    parser = argparse.ArgumentParser(description="Share of confident answers that are correct.")
    parser.add_argument("--answers", type=int, default=3000, help="number of answers per structure and m")
    parser.add_argument("--structures", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    print("structure, m, permute: confident answers, share correct, share of encoded items answered confidently")
    rows = []
    for structure, m, permute in itertools.product(options.structures, M, (None, True, False)):
        if permute == default_permute(structure, m) or (permute is not None and structure in UNSHIFTED):
            continue  # measured as "default", or there is no such setting
        row = {"structure": structure, "m": m, "permute": "default" if permute is None else permute}
        row |= summary(answers(structure, m, options.answers, permute))
        rows.append(row)
        share = row["right"] / max(1, row["confident"])
        print(f"{structure:10} {m} {row['permute']!s:8} {row['confident']:5} {share:7.1%} {row['answered']:7.1%}")
    store({"command": command("structures.calibration", given), "rows": rows}, options.out, "calibration")
    wrong = [row for row in rows if row["right"] < LEAST * row["confident"]]
    print(f"\n{len(rows)} rows, {len(wrong)} with fewer than {LEAST:.0%} of the confident answers correct")
    return 1 if wrong else 0
