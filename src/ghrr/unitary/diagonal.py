r"""Diagonality, which controls how far binding commutes: measured, and sampled at a given value.

The diagonality of Q is :math:`\sum_j |Q_{jj}| / \sum_{jk} |Q_{jk}|`. At 1 all Q are diagonal and binding commutes,
as in FHRR; at 0 the diagonal is zero and the expected similarity of swapped products is zero.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ghrr.checks import (
    check_batch,
    check_choice,
    check_complex_dtype,
    check_generator,
    check_integer,
    check_real,
    check_square,
    describe,
    named,
    names_errors,
    type_error,
    value_error,
)
from ghrr.ops.fourier import fft
from ghrr.unitary.sampling import draw_uniform, exp_hermitian


@names_errors("diagonality(q)")
def diagonality(q: Tensor) -> Tensor:
    r"""Compute the share of the diagonal in the absolute values, :math:`\sum_j |Q_{jj}| / \sum_{jk} |Q_{jk}|`.

    It is in [0, 1], and NaN for a zero matrix. It does not change if rows and columns are permuted together or
    multiplied by phases.

    Shapes
    ------
    q: ``(*, m, m)``, output: ``(*)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> ghrr.unitary.diagonality(torch.tensor([[1.0, 1.0], [1.0, -1.0]]) / 2**0.5)
    tensor(0.5000)
    """
    check_square(q)
    if q.dtype == torch.bool:
        raise type_error(f"needs numbers, got {describe(q)}; convert it with q.float()")
    size = q.abs()
    return torch.diagonal(size, dim1=-2, dim2=-1).sum(dim=-1) / size.sum(dim=(-1, -2))


@names_errors("with_diagonality(value, *batch, m)")
def with_diagonality(
    value: float,
    *batch: int,
    m: int,
    generator: torch.Generator | None = None,
    method: str = "closed form",
    dtype: torch.dtype = torch.complex64,
) -> Tensor:
    r"""Draw unitary matrices of a given diagonality.

    ``"closed form"``: a circulant matrix :math:`F^\dagger \mathrm{diag}(e^{i t \alpha_k}) F` (F the Fourier matrix)
    is unitary, and all entries of its diagonal are :math:`\frac1m \sum_k e^{i t \alpha_k}`. The angles are drawn such
    that this sum is zero at t = 1; at t = 0 the matrix is the identity. So every diagonality occurs at some t, which
    bisection finds to rounding. Rows and columns are then permuted together and multiplied by random phases.

    ``"descent"``: the paper's method, gradient descent on X until the diagonality of
    :math:`\exp(i(X + X^\dagger)/2)` is within 1e-4. It uses Adam, since plain descent stalls at low values for m >= 3.
    It has the distribution of the paper's figures but is thousands of times slower.

    With either method, unitary matrices with a zero diagonal have one entry per row for m = 2 and 3.

    Parameters
    ----------
    value
        The diagonality, in [0, 1]. For m = 1 it must be 1.
    *batch
        Batch shape, as in ``torch.randn``.
    m, generator, dtype
        As in :func:`haar`.
    method
        ``"closed form"`` or ``"descent"``.

    Shapes
    ------
    output: ``(*batch, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> q = ghrr.unitary.with_diagonality(0.3, 1000, m=4, generator=torch.Generator().manual_seed(0))
    >>> ghrr.unitary.diagonality(q).sub(0.3).abs().max() < 1e-6
    tensor(True)
    """
    m = check_integer("m", m, least=1)
    value = check_diagonality(value, m)
    check_choice("method", method, ("closed form", "descent"))
    check_complex_dtype(dtype)
    source = torch.default_generator if generator is None else check_generator(generator)
    batch = check_batch(batch)
    if method == "descent":
        return _descend(value, batch, m, source).to(dtype)
    return diagonality_from_uniform(value, draw_uniform(source, *batch, 5, m)).to(dtype)


def check_diagonality(value: float, m: int) -> float:
    """Return the value; raise unless a unitary matrix of size m can have this diagonality."""
    value = check_real("diagonality", value, low=0.0, high=1.0)
    if m == 1 and value != 1.0:
        raise value_error(f"a 1x1 matrix has diagonality 1, so {value} needs m >= 2")
    return value


def diagonality_from_uniform(value: float, u: Tensor) -> Tensor:
    """Compute the closed form from uniform numbers: ``(*, 5, m)`` to ``(*, m, m)``."""
    spectrum, ranks, labels, left, right = u.unbind(dim=-2)
    m = u.shape[-1]
    entries = circulant_entries(value, spectrum, ranks)
    index = torch.arange(m, device=u.device)
    circulant = entries[..., (index[:, None] - index[None, :]) % m]
    order = labels.argsort(dim=-1)
    rows = order[..., :, None].expand_as(circulant)
    columns = order[..., None, :].expand_as(circulant)
    relabelled = circulant.gather(-2, rows).gather(-1, columns)
    return _phases(left)[..., :, None] * relabelled * _phases(right)[..., None, :]


def circulant_entries(value: float, spectrum: Tensor, ranks: Tensor) -> Tensor:
    """Return the first column of the circulant matrices, before rows and columns are permuted: ``(*, m)``."""
    angles = torch.gather(_balanced_angles(spectrum), -1, ranks.argsort(dim=-1))
    return _circulant_entries(angles, _solve_for_diagonality(value, angles))


def _phases(u: Tensor) -> Tensor:
    return torch.polar(torch.ones_like(u), 2 * math.pi * u)


def _balanced_angles(u: Tensor) -> Tensor:
    """Return angles whose phases sum to zero: opposite pairs and, for odd m, one triangle; ``(*, m)``."""
    m = u.shape[-1]
    turns = [u[..., 0], u[..., 0] + 1 / 3, u[..., 0] + 2 / 3] if m % 2 and m > 1 else []
    for pair in range(len(turns), m - 1, 2):
        turns += [u[..., pair], u[..., pair] + 1 / 2]
    return 2 * math.pi * torch.stack(turns or [u[..., 0]], dim=-1)


def _circulant_entries(angles: Tensor, t: Tensor) -> Tensor:
    """Return the first column of the circulant matrix with eigenvalues exp(i t angles)."""
    return fft(torch.polar(torch.ones_like(angles), t[..., None] * angles), norm="forward")


def _solve_for_diagonality(value: float, angles: Tensor) -> Tensor:
    """Find t in [0, 1] by bisection; the diagonality falls continuously from 1 to 0."""
    low = torch.zeros_like(angles[..., 0])
    high = torch.ones_like(low)
    for _ in range(52):
        middle = (low + high) / 2
        size = _circulant_entries(angles, middle).abs()
        above = size[..., 0] >= value * size.sum(dim=-1)
        low = torch.where(above, middle, low)
        high = torch.where(above, high, middle)
    return high if value == 0 else low


def _descend(value: float, batch: tuple[int, ...], m: int, generator: torch.Generator) -> Tensor:
    """Repeat the descent from new starts until every matrix has converged: a few percent get stuck near 1."""
    found = torch.zeros((math.prod(batch), m, m), dtype=torch.complex128, device=generator.device)
    missing = torch.arange(len(found), device=generator.device)
    for _ in range(20):
        with torch.inference_mode(False), torch.enable_grad():  # gradients are needed here in any case
            q, converged = _descend_once(value, len(missing), m, generator)
        found[missing[converged]] = q[converged]
        missing = missing[~converged]
        if len(missing) == 0:
            return found.reshape(*batch, m, m)
    raise RuntimeError(
        named(
            f"descent to {value} with m={m} did not converge for {len(missing)} of {len(found)} "
            f'matrices; use method="closed form"'
        )
    )


def _descend_once(
    value: float, count: int, m: int, generator: torch.Generator, *, tolerance: float = 1e-4, steps: int = 1000
) -> tuple[Tensor, Tensor]:
    shape = (count, m, m)
    real, imaginary = (
        torch.randn(shape, generator=generator, dtype=torch.float64, device=generator.device) for _ in range(2)
    )
    x = torch.complex(real, imaginary).requires_grad_()
    found = torch.zeros_like(x, requires_grad=False)
    converged = torch.zeros(count, dtype=torch.bool, device=x.device)
    optimizer = torch.optim.Adam([x], lr=0.05)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.05 * 0.5 ** (step // 250)  # a constant rate would not converge
        q = exp_hermitian(x)
        error = diagonality(q) - value
        newly_converged = ~converged & (error.detach().abs() <= tolerance)
        found[newly_converged] = q.detach()[newly_converged]
        converged |= newly_converged
        if converged.all():
            break
        optimizer.zero_grad()
        error.square().sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return found, converged
