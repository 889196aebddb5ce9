"""Cases that compare a single binding, clean-up and sampling with torch-hd's FHRR and holovec's GHRR.

A library that is not installed is left out. holovec compares one query with one item at a time, so it gets one query,
and its time is multiplied by the number of queries; the table says so. By default it first tries a faster search, which
fails for GHRR; its search item by item (``fast=False``) is timed as well.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

import ghrr
from benchmarks.common.measuring import Case, Function, error
from ghrr.ops import reference
from ghrr.unitary import unitarity_error

HAS_HOLOVEC = importlib.util.find_spec("holovec") is not None
HAS_TORCH_HD = importlib.util.find_spec("torchhd") is not None


def holovec_model(space: ghrr.Space, backend: str) -> Any:
    """Return the GHRR model of holovec of this size."""
    from holovec import VSA  # noqa: PLC0415 (an optional package)

    return VSA.create("GHRR", dim=space.dim, matrix_size=space.m, backend=backend)


def single_bind(dim: int = 1000, m: int = 3) -> Case:
    """Bind one pair of hypervectors, including the validation of arguments."""
    space = ghrr.Space(dim, m)
    a, b = space.random(2, generator=torch.Generator().manual_seed(0))
    others: dict[str, Function] = {"matmul": lambda: a @ b, "FHRR": lambda: a * b}
    if HAS_HOLOVEC:
        model, pair = holovec_model(space, "numpy"), (a.numpy(), b.numpy())
        others["holovec"] = lambda: model.bind(*pair)
    return Case(
        "single bind",
        {"m": m, "dim": dim},
        lambda: ghrr.bind(a, b),
        others,
        lambda got: {"reference": error(got, reference.bind(a.to(torch.complex128), b.to(torch.complex128)), m)},
        {"matmul": 1.0},
        max_seconds=30e-6,
    )


def cleanup(queries: int = 256, items: int = 10_000, total: int = 900, m: int = 3) -> Case:
    """Find the best match of each query. For torch-hd, items are flattened to FHRR vectors of total_dim numbers."""
    space = ghrr.Space.from_total(total, m)
    generator = torch.Generator().manual_seed(0)
    vectors = space.random(items, generator=generator)
    wanted = torch.randint(items, (queries,), generator=generator)
    noisy = vectors[wanted] + space.random(5, queries, generator=generator).sum(dim=0)
    memory = ghrr.ItemMemory(space, map(str, range(items)), vectors)
    others: dict[str, Function] = {}
    scale_up: dict[str, float] = {}
    if HAS_TORCH_HD:
        import torchhd  # noqa: PLC0415 (an optional package)

        codebook, their_queries = (x.flatten(1).as_subclass(torchhd.FHRRTensor) for x in (vectors, noisy))
        others["torch-hd"] = lambda: torchhd.dot_similarity(their_queries, codebook).max(dim=-1)
    if HAS_HOLOVEC:
        from holovec.retrieval import ItemStore  # noqa: PLC0415

        store, query = ItemStore(holovec_model(space, "numpy")), noisy[0].numpy()
        store.extend({str(i): vector for i, vector in enumerate(vectors.numpy())})
        others["holovec"] = lambda: store.query(query, k=1)
        others["holovec, item by item"] = lambda: store.query(query, k=1, fast=False)
        scale_up |= {name: float(queries) for name in others if name.startswith("holovec")}

    def errors_of(got: Any) -> dict[str, float]:
        scores = reference.similarity(noisy.to(torch.complex128), vectors[wanted].to(torch.complex128))
        found = torch.tensor([int(label) for (label,) in got.labels])
        errors = {
            "labels": 0.0 if torch.equal(found, wanted) else torch.inf,
            "scores": error(got.scores[:, 0], scores, m),
        }
        if HAS_TORCH_HD:
            best = others["torch-hd"]().indices.as_subclass(Tensor)
            errors["torch-hd"] = 0.0 if torch.equal(best, wanted) else torch.inf
        if HAS_HOLOVEC:
            errors["holovec"] = 0.0 if others["holovec"]()[0][0] == str(int(wanted[0])) else torch.inf
        return errors

    return Case(
        "cleanup",
        {"m": m, "dim": space.dim, "queries": queries, "items": items},
        lambda: memory.cleanup(noisy, 1),
        others,
        errors_of,
        {name: least for name, least in (("torch-hd", 1.0), ("holovec", 500.0)) if name in others},
        scale_up,
    )


def haar_by_qr(*batch: int, m: int, generator: torch.Generator) -> Tensor:
    """Return Haar matrices by LAPACK's QR of Gaussian matrices, with corrected phases."""
    u = torch.rand((*batch, m, m, 2), generator=generator, dtype=torch.float64)
    gaussians = torch.polar(torch.sqrt(-2 * torch.log1p(-u[..., 0])), 2 * torch.pi * u[..., 1])
    q, r = torch.linalg.qr(gaussians)
    phases = torch.diagonal(r, dim1=-2, dim2=-1).sgn()
    corrected: Tensor = q * phases[..., None, :]
    return corrected


def sampling(count: int = 1000, dim: int = 100, m: int = 3) -> Case:
    """Sample base hypervectors, rotations times phases."""
    space = ghrr.Space(dim, m)
    generator = torch.Generator()

    def by_qr() -> Tensor:
        q = haar_by_qr(count, dim, m=m, generator=generator.manual_seed(0))
        angles = 2 * torch.pi * torch.rand((count, dim, m), generator=generator, dtype=torch.float64)
        phases = torch.polar(torch.ones_like(angles), angles)
        return (q * phases[..., None, :]).to(space.dtype)

    others: dict[str, Function] = {"QR": by_qr}
    for backend in ("numpy", "torch") if HAS_HOLOVEC else ():
        model = holovec_model(space, backend)
        name = "holovec" if backend == "numpy" else "holovec on torch"
        others[name] = functools.partial(_draw_all, model, count)
    return Case(
        "sampling",
        {"m": m, "dim": dim, "hypervectors": count},
        lambda: space.random(count, generator=generator.manual_seed(0)),
        others,
        _unitarity_errors,
        {"holovec": 50.0} if HAS_HOLOVEC else {},
    )


def _unitarity_errors(got: Tensor) -> dict[str, float]:
    """Return the error of unitarity, relative to rounding.

    Implementations draw different numbers, so their results cannot be compared; tests compare the distributions.
    """
    m = got.shape[-1]
    return {"unitary": float(unitarity_error(got).max()) / (20 * m * torch.finfo(got.dtype).eps)}


def _draw_all(model: Any, count: int) -> list[Any]:
    return [model.random(seed=seed) for seed in range(count)]


def haar_matrices(slots: int, m: int) -> Case:
    """Sample many Haar matrices of one size."""
    generator = torch.Generator()

    def by_qr() -> Tensor:
        return haar_by_qr(slots, m=m, generator=generator.manual_seed(0)).to(torch.complex64)

    return Case(
        "Haar matrices",
        {"m": m, "slots": slots},
        lambda: ghrr.unitary.haar(slots, m=m, generator=generator.manual_seed(0)),
        {"QR": by_qr},
        _unitarity_errors,
    )


def cases(*, quick: bool, numbers: int) -> Iterator[Case]:
    """Yield all cases; ``quick`` selects small sizes. ``numbers``: total entries of the Haar matrices of each m."""
    yield single_bind(**({"dim": 50} if quick else {}))
    yield cleanup(**({"queries": 5, "items": 40} if quick else {}))
    yield sampling(**({"count": 5} if quick else {}))
    for m in range(1, 9):
        yield haar_matrices(numbers // (m * m), m)
