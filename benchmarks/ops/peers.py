"""CPU time of each operation, divided by the time of torch-hd for the same task at equal size.

Hypervectors have ``--total-dim`` complex numbers in both libraries: ``dim * m * m`` in ghrr, the dimension of an FHRR
hypervector in torch-hd. Every result is checked before it is timed. A wrong result is not timed, and the command ends
with exit code 1. Both libraries are timed alternately in one process, on one thread. The ratio of our time to
torch-hd's should be at most 1.2. Run it on an idle machine::

    python -m benchmarks ops.peers

The corresponding calls of torch-hd:

- random, named atoms: ``torchhd.random``. torch-hd has no named hypervectors.
- unbind: ``torchhd.bind`` with ``torchhd.inverse``.
- similarity: ``torchhd.dot_similarity``. For pairs of a batch, each hypervector gets an additional axis.
- power: torch-hd has no function for it. It is written with angles, like torch-hd's ``normalize``.
- sequence: ``torchhd.bundle_sequence``; hash table: ``torchhd.hash_table``; n-grams: ``torchhd.ngrams``. Both libraries
  get names, and look up hypervectors that were sampled before.
- resonator: ``torchhd.resonator``, repeated until its estimates do not change. It supports only the MAP model, whose
  hypervectors are real. "Equal reals" doubles its dimension, so that both libraries use equally many real numbers.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torchhd
from torch import Tensor

import ghrr
from benchmarks.common.measuring import (
    Case,
    Function,
    command,
    duration,
    error,
    facts,
    quartiles,
    store,
    time_alternately,
)
from benchmarks.common.paths import RESULTS
from ghrr import memory, structures
from ghrr.ops import reference
from ghrr.seeding import labelled_keys, slot_uniform

LIMIT = 1.2
EXACT = torch.complex128
PEER = "torch-hd"


def draw(space: ghrr.Space, *batch: int) -> tuple[Tensor, Tensor]:
    """Draw hypervectors of ghrr and of torch-hd."""
    generator = torch.Generator().manual_seed(0)
    theirs = torchhd.random(math.prod(batch), space.total_dim, "FHRR", generator=generator)
    return space.random(*batch, generator=generator), theirs.reshape(*batch, space.total_dim)


def case(name: str, space: ghrr.Space, sizes: Mapping[str, int], ours: Function, theirs: Function, want: Any) -> Case:  # noqa: PLR0917
    """Return a comparison. ``want`` is the expected result, or a function from our result to its errors."""
    errors = want if callable(want) else lambda got: {"reference": error(got, want, space.m)}
    return Case(name, {"m": space.m, **sizes}, ours, {PEER: theirs}, errors)


def sampling(space: ghrr.Space, batch: int) -> Iterator[Case]:
    """Sample base hypervectors: random ones, and atoms of names."""
    generator = torch.Generator().manual_seed(0)
    names = [f"name {i}" for i in range(batch)]

    def theirs() -> Any:
        return torchhd.random(batch, space.total_dim, "FHRR", generator=generator)

    def unitarity_errors(got: Tensor) -> dict[str, float]:
        squares = reference.bind(got.to(EXACT), reference.adjoint(got.to(EXACT)))
        return {"unitary": error(squares.to(got.dtype), space.identity(batch).to(EXACT), space.m)}

    yield case(
        "random", space, {"batch": batch}, lambda: space.random(batch, generator=generator), theirs, unitarity_errors
    )
    wanted = torch.stack([atom_by_formula(space, name) for name in (names[0], names[-1])])
    yield case(
        "named atoms",
        space,
        {"batch": batch},
        lambda: space.vectors(names),
        theirs,
        lambda got: {"formula": error(got[[0, -1]], wanted, space.m)},
    )


def atom_by_formula(space: ghrr.Space, name: str) -> Tensor:
    """Compute an atom from the uniform numbers of its name, as a product of matrices."""
    m = space.m
    u = slot_uniform(labelled_keys([name], space.seed, "phases"), space.dim, m)[0]
    phases = torch.polar(torch.ones_like(u), 2 * torch.pi * u)
    if m == 1:
        return phases[..., None]
    u = slot_uniform(labelled_keys([name], space.seed, "rotation"), space.dim, m * m)[0]
    atom = torch.ones(space.dim, 0, 0, dtype=EXACT)
    for k in range(1, m + 1):
        points, angles = u[:, (k - 1) ** 2 : k * (k - 1)], u[:, k * (k - 1) : k * k]
        ends = torch.zeros(space.dim, 1), torch.ones(space.dim, 1)
        w = torch.cat([ends[0], points.sort(dim=1).values, ends[1]], dim=1).diff(dim=1).sqrt()
        w[:, -1] += 1
        reflection = w[:, :, None] * w[:, None, :] / w[:, -1:, None] - torch.eye(k)
        columns = torch.polar(torch.ones_like(angles), 2 * torch.pi * angles)
        padded = torch.nn.functional.pad(atom, (0, 1, 0, 1))
        padded[:, -1, -1] = 1
        atom = padded @ (reflection * columns[:, None, :])
    return atom * phases[:, None, :]


def products(space: ghrr.Space, batch: int) -> Iterator[Case]:
    """Bind, unbind, compare and bundle pairs. A batch of 1 has no batch axis."""
    shape = () if batch == 1 else (batch,)
    (a, b), (theirs_a, theirs_b) = draw(space, 2, *shape)
    left, right = a.to(EXACT), b.to(EXACT)
    sizes = {"batch": batch}
    yield case(
        "bind",
        space,
        sizes,
        lambda: ghrr.bind(a, b),
        lambda: torchhd.bind(theirs_a, theirs_b),
        reference.bind(left, right),
    )
    yield case(
        "unbind",
        space,
        sizes,
        lambda: ghrr.unbind(b, a, side="left"),
        lambda: torchhd.bind(torchhd.inverse(theirs_a), theirs_b),
        reference.bind(left, right, adjoint_a=True),
    )
    one, other = (theirs_a, theirs_b) if batch == 1 else (theirs_a[:, None], theirs_b[:, None])
    yield case(
        "similarity",
        space,
        sizes,
        lambda: ghrr.similarity(a, b),
        lambda: torchhd.dot_similarity(one, other),
        reference.similarity(left, right),
    )
    many, theirs_many = draw(space, 100)
    yield case(
        "pairwise similarity",
        space,
        {"batch": batch, "items": 100},
        lambda: ghrr.pairwise_similarity(a, many),
        lambda: torchhd.dot_similarity(theirs_a, theirs_many),
        reference.pairwise_similarity(left, many.to(EXACT)),
    )
    if batch == 1:
        yield case(
            "bundle",
            space,
            sizes,
            lambda: ghrr.bundle([a, b]),
            lambda: torchhd.bundle(theirs_a, theirs_b),
            left + right,
        )
    else:
        yield case(
            "bundle", space, sizes, lambda: ghrr.bundle(a), lambda: torchhd.multiset(theirs_a), reference.bundle(left)
        )


def functions(space: ghrr.Space, batch: int) -> Iterator[Case]:
    """Project to unitary slots, and raise to a real power."""
    shape = () if batch == 1 else (batch,)
    (a, b), (theirs_a, theirs_b) = draw(space, 2, *shape)
    bundled, theirs_bundled = a + b, theirs_a + theirs_b
    left, _, right = torch.linalg.svd(bundled.to(EXACT))
    yield case(
        "normalize to unitary",
        space,
        {"batch": batch},
        lambda: ghrr.normalize(bundled, to="unitary"),
        lambda: torchhd.normalize(theirs_bundled),
        lambda got: {"SVD": error(got, left @ right, _rounding_terms(bundled))},
    )

    def theirs() -> Tensor:
        angle = 0.3 * theirs_a.angle()
        return torch.complex(angle.cos(), angle.sin())

    wanted = reference.power(a.to(EXACT), torch.tensor(0.3, dtype=torch.float64))
    yield case(
        "real power",
        space,
        {"batch": batch},
        lambda: ghrr.power(a, 0.3),
        theirs,
        lambda got: {"reference": error(got, wanted, 50 * space.m)},  # eigenvalues near -1 are sensitive
    )


def _rounding_terms(x: Tensor) -> int:
    """Return the number of rounding errors to allow in a polar factor, from the largest condition number of a slot."""
    return math.ceil(float(torch.linalg.cond(x.to(EXACT)).max())) * x.shape[-1]


def collections(space: ghrr.Space, lengths: Mapping[str, int]) -> Iterator[Case]:
    """Encode names as a sequence, a hash table and n-grams."""
    vocabulary = [f"word {i}" for i in range(100)]
    slots = torch.linspace(0, space.dim - 1, 16).long()  # slots to check
    generator = torch.Generator().manual_seed(0)
    codebook = torchhd.random(len(vocabulary), space.total_dim, "FHRR", generator=generator)
    index_of = {name: index for index, name in enumerate(vocabulary)}

    def look_up(names: Sequence[str]) -> Any:
        return codebook[torch.tensor([index_of[name] for name in names])]

    def text(length: int) -> list[str]:
        return [vocabulary[i] for i in torch.randint(len(vocabulary), (length,), generator=generator).tolist()]

    words = text(lengths["sequence"])
    sequence = structures.Sequence(space)
    vectors = sequence.names.encode(words)[:, slots].to(EXACT)
    positions = sequence.encoder.positions(torch.arange(len(words)))[:, slots].to(EXACT)
    expected_sequence = reference.bind_bundle(positions, vectors)
    yield case(
        "sequence",
        space,
        {"length": len(words)},
        lambda: sequence.encode(words),
        lambda: torchhd.bundle_sequence(look_up(words)),
        lambda got: {"reference": error(got[slots], expected_sequence, space.m)},
    )
    entries = dict(zip(vocabulary[: lengths["table"]], text(lengths["table"]), strict=True))
    table = structures.HashTable(space)
    keys, values = table.keys.encode(entries), table.values.encode(entries.values())
    values = values.roll(1, dims=1) if table.permute else values
    expected_table = reference.bind_bundle(keys[:, slots].to(EXACT), values[:, slots].to(EXACT))
    yield case(
        "hash table",
        space,
        {"entries": len(entries)},
        lambda: table.encode(entries),
        lambda: torchhd.hash_table(look_up(list(entries)), look_up(list(entries.values()))),
        lambda got: {"reference": error(got[slots], expected_table, space.m)},
    )
    letters = text(lengths["ngrams"])
    grams = structures.NGrams(space, 3)
    x = grams.names.encode(letters)
    x, y, z = (x.roll(j if grams.permute else 0, dims=1)[:, slots].to(EXACT) for j in range(3))
    expected_grams = reference.bind_bundle(reference.bind(x[:-2], y[1:-1]), z[2:])
    yield case(
        "3-grams",
        space,
        {"length": len(letters)},
        lambda: grams.encode(letters),
        lambda: torchhd.ngrams(look_up(letters), n=3),
        lambda got: {"reference": error(got[slots], expected_grams, space.m)},
    )


def resonators(space: ghrr.Space, entries: int) -> Iterator[Case]:
    """Find the factors of a product of three; torch-hd's vectors have equal dimension, or equally many real numbers."""
    generator = torch.Generator().manual_seed(0)
    books = list(space.random(3, entries, generator=generator))
    chosen = [entries // 2, 0, entries - 1]
    product = ghrr.multibind([book[i] for book, i in zip(books, chosen, strict=True)])
    for name, size in (("resonator", space.total_dim), ("resonator, equal reals", 2 * space.total_dim)):
        yield case(
            name,
            space,
            {"entries": entries},
            lambda: memory.resonator(product, books),
            their_resonator(size, entries, chosen, generator),
            lambda got: {"factors": 0.0 if got.indices.tolist() == chosen else math.inf},
        )


def their_resonator(size: int, entries: int, chosen: Sequence[int], generator: torch.Generator) -> Function:
    """Return a search with torch-hd's resonator, for hypervectors of ``size`` real numbers."""
    domains = torchhd.random(3 * entries, size, "MAP", generator=generator)
    domains = domains.reshape(3, entries, size)
    bound = torchhd.multibind(torch.stack([book[i] for book, i in zip(domains, chosen, strict=True)]))

    def theirs() -> Any:
        estimates = torchhd.multiset(domains).sign()
        for _ in range(100):
            before, estimates = estimates, torchhd.resonator(bound, estimates, domains)
            if torch.equal(before, estimates):
                break
        return torchhd.dot_similarity(estimates[:, None], domains).squeeze(-2).argmax(dim=-1)

    return theirs


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the cases of the table, each created when it is needed."""
    parts: dict[str, Callable[[ghrr.Space, int], Iterator[Case]]] = {
        "sampling": sampling,
        "products": products,
        "functions": functions,
    }
    quick = options.quick
    lengths = {"sequence": 12, "table": 10, "ngrams": 20} if quick else {"sequence": 200, "table": 100, "ngrams": 1000}
    for m in options.m:
        space = ghrr.Space.from_total(options.total_dim, m)
        for batch in (1, 4 if quick else 100):
            for name, part in parts.items():
                if not options.only or name in options.only:
                    yield from part(space, batch)
        if not options.only or "structures" in options.only:
            yield from collections(space, lengths)
        if not options.only or "resonator" in options.only:
            yield from resonators(space, 5 if quick else 20)


def run_case(one: Case, repeats: int) -> dict[str, Any]:
    """Check a case and measure its CPU time. The ratio is our time divided by torch-hd's."""
    row: dict[str, Any] = {"operation": one.group, "setting": one.setting}
    row["errors"] = {name: float(value) for name, value in one.errors(one.ours()).items()}
    row["right"] = all(value <= 1 for value in row["errors"].values())  # false for NaN
    if not row["right"]:
        return row
    seconds = time_alternately({"ours": one.ours, **one.others}, repeats, clock=time.process_time)
    row["seconds"] = {name: quartiles(values) for name, values in seconds.items()}
    row["ratio"] = quartiles([ours / theirs for ours, theirs in zip(seconds["ours"], seconds[PEER], strict=True)])
    return row | {"limit": LIMIT}


def line(row: Mapping[str, Any]) -> str:
    """Format a result as a line of text."""
    setting = ", ".join(f"{name} {value}" for name, value in row["setting"].items())
    head = f"{row['operation']:<24}{setting:<28}"
    if not row["right"]:
        wrong = ", ".join(f"{name} {value:.1e}" for name, value in row["errors"].items() if not value <= 1)
        return f"{head}wrong result, not timed (errors relative to the expected rounding error: {wrong})"
    ours, theirs = (duration(row["seconds"][name]["median"]) for name in ("ours", PEER))
    ratio = row["ratio"]
    mark = "  above the limit" if is_above(row) else ""
    quartile_range = f"({ratio['low']:.2f} to {ratio['high']:.2f})"
    return f"{head}{ours:>10}{theirs:>10}{ratio['median']:>8.2f} {quartile_range:<18}{row['limit']:>5}{mark}"


def is_above(row: Mapping[str, Any]) -> bool:
    """Return whether a correct result took longer than the limit."""
    return bool(row["right"] and row["ratio"]["median"] > row["limit"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print and store the table; return 1 if a result is wrong."""
    parser = argparse.ArgumentParser(
        description="CPU time of each operation on one thread, divided by the time of torch-hd."
    )
    parser.add_argument("--total-dim", type=int, default=10_000)
    parser.add_argument("--m", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--repeats", type=int, default=15)
    groups = ("sampling", "products", "functions", "structures", "resonator")
    parser.add_argument("--only", nargs="+", choices=groups, default=[], help="groups of operations; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, to test that it runs; ignore the times")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--name", default="peer_operations", help="name of the file of results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    if options.repeats < 2 or options.total_dim < 64:
        parser.error("--repeats must be at least 2, --total-dim at least 64")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        environment = facts()
        print(f"{'operation':<52}{'ours':>10}{PEER:>10}{'ratio':>8} {'(quartiles)':<18}{'limit':>5}")
        rows = []
        for one in cases(options):
            rows.append(run_case(one, options.repeats))
            print(line(rows[-1]), flush=True)
            del one
    finally:
        torch.set_num_threads(threads)
    store(
        {
            "command": command("ops.peers", given),
            **environment,
            "total_dim": options.total_dim,
            "repeats": options.repeats,
            "clock": "CPU time",
            "rows": rows,
        },
        options.out,
        options.name,
    )
    wrong = sum(not row["right"] for row in rows)
    above = sum(is_above(row) for row in rows)
    print(f"\n{len(rows)} cases: {wrong} wrong, {above} above the limit of {LIMIT} times {PEER}")
    return 1 if wrong else 0
