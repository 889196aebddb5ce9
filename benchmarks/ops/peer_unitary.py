"""Cases that compare projection to unitary and real powers with torch-hd's FHRR and holovec's GHRR.

All have the same total dimension. torch-hd has no power of a hypervector; ``pow`` of its tensors is ``torch.pow``,
element by element. Multiplying angles, as one would write it by hand, is timed as well. A library that is not installed
is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

import ghrr
from benchmarks.common.measuring import Case, Function, error
from benchmarks.ops.peer_cases import HAS_HOLOVEC, HAS_TORCH_HD, holovec_model
from ghrr.ops import reference


def normalize_to_unitary(m: int, batch: int, total: int = 10_000) -> Case:
    """Project bundles of three hypervectors to the nearest unitary slots."""
    space = ghrr.Space(round(total / m**2), m)
    x = space.random(3, batch, generator=torch.Generator().manual_seed(0)).sum(dim=0)
    others: dict[str, Function] = {}
    if HAS_TORCH_HD:
        import torchhd  # noqa: PLC0415 (an optional package)

        flat = x.flatten(-3).as_subclass(torchhd.FHRRTensor)
        others["torch-hd"] = flat.normalize
    if HAS_HOLOVEC:
        model, arrays = holovec_model(space, "numpy"), list(x.numpy())
        others["holovec"] = lambda: [model.normalize(one) for one in arrays]

    def errors_of(got: torch.Tensor) -> dict[str, float]:
        # The nearest unitary matrix of a nearly singular slot is ill-conditioned: compare the other slots only.
        first = x[0].to(torch.complex128)
        singular_values = torch.linalg.svdvals(first)
        regular = singular_values[:, 0] < 100 * singular_values[:, -2:].sum(dim=-1)
        return {"reference": error(got[0][regular], reference.polar(first[regular]), 100 * m)}

    return Case(
        "normalize to unitary",
        {"m": m, "dim": space.dim, "batch": batch},
        lambda: ghrr.normalize(x, to="unitary"),
        others,
        errors_of,
        {"torch-hd": 1 / 1.2} if HAS_TORCH_HD else {},
    )


def real_power(m: int, batch: int, total: int = 10_000, exponent: float = 0.7) -> Case:
    """Raise random hypervectors to a fractional power."""
    space = ghrr.Space(round(total / m**2), m)
    a = space.random(batch, generator=torch.Generator().manual_seed(0))
    flat = a.flatten(-3)
    others: dict[str, Function] = {
        "angles": lambda: torch.polar(torch.ones_like(flat.real), exponent * flat.angle()),
    }
    if HAS_TORCH_HD:
        import torchhd  # noqa: PLC0415 (an optional package)

        fhrr = flat.as_subclass(torchhd.FHRRTensor)
        others["torch-hd"] = lambda: fhrr.pow(exponent)
    want = reference.power(a[0].to(torch.complex128), torch.tensor(exponent, dtype=torch.float64))
    return Case(
        "real power",
        {"m": m, "dim": space.dim, "batch": batch},
        lambda: ghrr.power(a, exponent),
        others,
        lambda got: {"reference": error(got[0], want, 10 * m)},
        {"torch-hd": 1 / 1.2} if HAS_TORCH_HD else {},
    )


def cases(*, quick: bool) -> Iterator[Case]:
    """Yield all cases; ``quick`` selects small sizes."""
    total = 64 if quick else 10_000
    for batch in (1, 3) if quick else (1, 100):
        for m in (1, 2, 3, 4):
            yield normalize_to_unitary(m, batch, total)
            yield real_power(m, batch, total)
