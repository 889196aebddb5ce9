r"""The specification: every operation written as its formula, slow and readable.

Tests compare every faster implementation with these functions, values and gradients. A hypervector is a complex tensor
``(*batch, dim, m, m)``; :math:`A_j` is slot j.
"""

from __future__ import annotations

import torch
from torch import Tensor


def bind(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    r""":math:`(A * B)_j = A_j B_j`, that is :math:`[A_j B_j]_{kl} = \sum_n [A_j]_{kn} [B_j]_{nl}`.

    ``adjoint_a`` replaces :math:`A_j` by :math:`A_j^\dagger`, and ``adjoint_b`` likewise.
    """
    a, b = adjoint(a) if adjoint_a else a, adjoint(b) if adjoint_b else b
    m = a.shape[-1]
    rows = []
    for k in range(m):
        entries = [sum(a[..., k, n] * b[..., n, l] for n in range(m)) for l in range(m)]
        rows.append(torch.stack(entries, dim=-1))  # type: ignore[arg-type]
    return torch.stack(rows, dim=-2)


def adjoint(a: Tensor) -> Tensor:
    r""":math:`[A_j^\dagger]_{kl} = \overline{[A_j]_{lk}}`."""
    m = a.shape[-1]
    rows = [torch.stack([a[..., l, k].conj() for l in range(m)], dim=-1) for k in range(m)]
    return torch.stack(rows, dim=-2).resolve_conj()


def bundle(items: Tensor) -> Tensor:
    r""":math:`\sum_n A^{(n)}` over the item axis: ``(*, n, dim, m, m)`` to ``(*, dim, m, m)``."""
    total = torch.zeros_like(items.sum(dim=-4))
    for n in range(items.shape[-4]):
        total = total + items[..., n, :, :, :]
    return total


def multibind(items: Tensor) -> Tensor:
    r""":math:`A^{(1)} * A^{(2)} * \dots * A^{(n)}` over the item axis, in this order; the identity when n = 0."""
    product = identity_like(items)
    for n in range(items.shape[-4]):
        product = bind(product, items[..., n, :, :, :])
    return product


def path(steps: Tensor) -> Tensor:
    r""":math:`R_t = U_t * \dots * U_2 * U_1` for each t along the item axis: ``(*, n, dim, m, m)`` to the same."""
    products = [identity_like(steps)]
    for t in range(steps.shape[-4]):
        products.append(bind(steps[..., t, :, :, :], products[-1]))
    return torch.stack(products, dim=-4)[..., 1:, :, :, :]


def bind_bundle(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    r""":math:`\sum_n K^{(n)} * V^{(n)}` over the item axis; adjoints as in :func:`bind`."""
    items = keys.shape[-4] if values.shape[-4] == 1 else values.shape[-4]
    keys = keys.expand(*keys.shape[:-4], items, *keys.shape[-3:])
    values = values.expand(*values.shape[:-4], items, *values.shape[-3:])
    total = torch.zeros_like((keys * values).sum(dim=-4))
    for n in range(items):
        total = total + bind(keys[..., n, :, :, :], values[..., n, :, :, :], adjoint_keys, adjoint_values)
    return total


def bind_bags(keys: Tensor, values: Tensor, key_indices: Tensor, value_indices: Tensor, offsets: Tensor) -> Tensor:
    r""":math:`\sum_n K^{(k_n)} * V^{(v_n)}` for n from ``offsets[r]`` to ``offsets[r + 1]``, for each row r.

    From keys ``(p, dim, m, m)``, values ``(q, dim, m, m)``, indices into both ``(n,)`` and offsets ``(rows + 1,)`` that
    ascend from 0 to n, to ``(rows, dim, m, m)``.
    """
    total = keys.new_zeros((len(offsets) - 1, *keys.shape[1:]))
    for row in range(len(total)):
        for n in range(int(offsets[row]), int(offsets[row + 1])):
            total[row] += bind(keys[key_indices[n]], values[value_indices[n]])
    return total


def similarity(a: Tensor, b: Tensor) -> Tensor:
    r""":math:`\delta(A, B) = \frac{1}{mD} \mathrm{Re}\,\mathrm{tr}\big(\sum_j A_j B_j^\dagger\big)`."""
    dim, m = a.shape[-3], a.shape[-1]
    summed = bind(a, adjoint(b)).sum(dim=-3)
    trace = torch.stack([summed[..., k, k] for k in range(m)]).sum(dim=0)
    return trace.real / (m * dim)


def bind_similarity(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    r""":math:`\delta(A * B, C)`; with an adjoint, unbinding and similarity."""
    return similarity(bind(a, b, adjoint_a, adjoint_b), c)


def pairwise_similarity(queries: Tensor, items: Tensor) -> Tensor:
    r""":math:`\delta(A, B^{(n)})` of every query and item: ``(*, dim, m, m)`` x ``(n, dim, m, m)`` to ``(*, n)``."""
    if len(items) == 0:
        return queries.real.new_zeros((*queries.shape[:-3], 0))
    return torch.stack([similarity(queries, item) for item in items], dim=-1)


def shift(a: Tensor, steps: int) -> Tensor:
    r""":math:`\rho^s(A)_j = A_{(j-s) \bmod D}`: slots move, their matrices do not change."""
    dim = a.shape[-3]
    return torch.stack([a[..., (j - steps) % dim, :, :] for j in range(dim)], dim=-3)


def fractional_power(rotation: Tensor, frequencies: Tensor, x: Tensor) -> Tensor:
    r""":math:`\phi(x)_j = Q_j\,\mathrm{diag}(e^{i w_{j1}^\top x}, \dots, e^{i w_{jm}^\top x})`.

    From rotations ``(dim, m, m)``, frequencies ``(dim, m, n)`` and numbers ``(*, n)`` to ``(*, dim, m, m)``.
    """
    angles = (frequencies * x[..., None, None, :]).sum(dim=-1)
    return bind(rotation, torch.diag_embed(torch.exp(1j * angles)))


def cos_sin(angles: Tensor) -> Tensor:
    r""":math:`(\cos\theta, \sin\theta)` for each row of angles, ``(*, n)`` to ``(*, 2, n)``."""
    phasors = torch.exp(1j * angles)
    return torch.stack([phasors.real, phasors.imag], dim=-2)


def polar(x: Tensor) -> Tensor:
    r"""Compute the unitary factor of each slot: :math:`W = U V^\dagger` of :math:`X = U \Sigma V^\dagger`."""
    u, _, vh = torch.linalg.svd(x)
    return bind(u, vh)


def is_unitary(a: Tensor) -> Tensor:
    r"""Find slots that are unitary to rounding: :math:`|A_j^\dagger A_j - I| \le 20 m \varepsilon` in every entry."""
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    error = (bind(adjoint(a), a) - eye).abs().amax(dim=(-1, -2))
    return error <= 20 * a.shape[-1] * torch.finfo(a.dtype).eps


def power(a: Tensor, exponent: int | Tensor) -> Tensor:
    r"""Raise each slot to a matrix power.

    A slot that is unitary to rounding is replaced by the nearest unitary matrix in double precision, :math:`W = V
    \mathrm{diag}(e^{i\theta_k}) V^{-1}` with :math:`\theta_k \in (-\pi, \pi]`; its power is :math:`V
    \mathrm{diag}(e^{ix\theta_k}) V^{-1}`. For any other slot an integer power is repeated binding, with the matrix
    inverse for negative exponents, and a real power is the principal one: :math:`A_j^x = V \mathrm{diag}(\lambda_k^x)
    V^{-1}` for :math:`A_j = V \mathrm{diag}(\lambda_k) V^{-1}`, with :math:`\lambda^x = e^{x \log \lambda}` and
    :math:`\mathrm{Im} \log \lambda \in (-\pi, \pi]`. A tensor of exponents broadcasts against the batch. The
    derivative is the one for powers of general matrices: the replacement is treated as a constant.
    """
    unitary = is_unitary(a)
    exact = a.to(torch.complex128)
    exact = exact + torch.where(unitary[..., None, None], polar(exact) - exact, 0.0).detach()
    if not isinstance(exponent, int):
        return _spectral_power(exact, unitary, exponent.double()).to(a.dtype)
    result = torch.empty_like(exact)
    number = torch.tensor(exponent, dtype=torch.float64, device=a.device)
    result[unitary] = _spectral_power(exact[unitary], unitary[unitary], number)
    result[~unitary] = _repeated(exact[~unitary], exponent)
    return result.to(a.dtype)


def _spectral_power(a: Tensor, unitary: Tensor, exponent: Tensor) -> Tensor:
    eigenvalues, vectors = torch.linalg.eig(a)
    logs = torch.log(eigenvalues)
    logs = logs - torch.where(unitary[..., None], logs.real, 0.0).detach()
    return bind(vectors * torch.exp(exponent[..., None, None] * logs)[..., None, :], torch.linalg.inv(vectors))


def _repeated(a: Tensor, exponent: int) -> Tensor:
    base = torch.linalg.inv(a) if exponent < 0 else a
    product = identity_like(a.unsqueeze(-4))
    for _ in range(abs(exponent) if len(a) else 0):
        product = bind(product, base)
    return product


def identity_like(items: Tensor) -> Tensor:
    """Return the identity hypervector in the shape of a bundle of ``items``."""
    eye = torch.eye(items.shape[-1], dtype=items.dtype, device=items.device)
    return eye.expand(*items.shape[:-4], *items.shape[-3:]).clone()
