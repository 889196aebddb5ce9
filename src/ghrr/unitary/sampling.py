"""Random unitary matrices: Haar sampling, and the exponential of a Hermitian matrix."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ghrr._checks import check_batch, check_complex_dtype, check_generator, check_integer, check_square


def haar(*batch: int, m: int, generator: torch.Generator, dtype: torch.dtype = torch.complex64) -> Tensor:
    r"""Draw unitary matrices from the Haar measure, the uniform distribution on U(m).

    A complex Gaussian matrix is orthonormalised with a positive diagonal of R in X = QR. A plain QR routine leaves the
    phases of that diagonal to chance, and its Q is visibly not uniform. Two properties follow from uniformity:
    :math:`E|Q_{jk}|^2 = 1/m` and :math:`E|\mathrm{tr}\,Q|^2 = 1`.

    Parameters
    ----------
    *batch
        How many, as in ``torch.randn``.
    m
        Size of the matrices.
    generator
        Source of randomness; the result lies on its device.
    dtype
        ``torch.complex64`` or ``torch.complex128``. The work is done in double precision and rounded once.

    Shapes
    ------
    output: ``(*batch, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> q = ghrr.unitary.haar(1000, m=3, generator=torch.Generator().manual_seed(0))
    >>> q.shape
    torch.Size([1000, 3, 3])
    >>> ghrr.unitary.check_unitary(q)
    True
    """
    operation = "haar(*batch, m)"
    m = check_integer(operation, "m", m, least=1)
    check_complex_dtype(operation, dtype)
    batch = check_batch(operation, batch)
    return haar_from_uniform(draw_uniform(generator, *batch, m, m, 2)).to(dtype)


def draw_uniform(generator: torch.Generator, *shape: int) -> Tensor:
    """Uniform numbers in [0, 1), in double precision, on the generator's device."""
    check_generator("sampling", generator)
    return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)


def haar_from_uniform(u: Tensor) -> Tensor:
    """Haar matrices as a function of uniform numbers, ``(*, m, m, 2)`` to ``(*, m, m)``."""
    radius = torch.sqrt(-2.0 * torch.log1p(-u[..., 0]))  # Box-Muller: one complex Gaussian from two uniforms
    return orthonormalize(torch.polar(radius, 2 * math.pi * u[..., 1]))


def orthonormalize(x: Tensor) -> Tensor:
    r"""Q of the decomposition X = QR in which R has a positive diagonal.

    Gram-Schmidt, each column twice, on all matrices at once: LAPACK's cost for a small matrix is mostly that of the
    call.

    Shapes
    ------
    x: ``(*, m, m)``, output: ``(*, m, m)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.unitary import orthonormalize
    >>> orthonormalize(torch.tensor([[2.0 + 0j, 1], [0, 1]])).real
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_square("orthonormalize(x)", x)
    # The matrix axes go first: every step is then elementwise over the long last axes.
    columns = x.movedim((-2, -1), (1, 0)).contiguous()
    basis: list[Tensor] = []
    for x_column in columns:
        column = x_column
        for _ in range(2):  # the second pass removes what rounding left of the first
            for q in basis:
                column = column - q * (q.conj() * column).sum(dim=0)
        basis.append(column / torch.linalg.vector_norm(column, dim=0))
    return torch.stack(basis).movedim((1, 0), (-2, -1)).contiguous()


def exp_hermitian(x: Tensor) -> Tensor:
    r"""The unitary matrix :math:`\exp(iH)` of the Hermitian part :math:`H = (X + X^\dagger)/2`.

    This is the paper's parametrisation of Q: every complex matrix gives a unitary one, smoothly, and every unitary
    matrix is reached. A Hermitian X is its own Hermitian part.

    Shapes
    ------
    x: ``(*, m, m)``, output: ``(*, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> x = torch.randn(5, 4, 4, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    >>> ghrr.unitary.check_unitary(ghrr.unitary.exp_hermitian(x))
    True
    """
    check_square("exp_hermitian(x)", x)
    hermitian = (x + x.mH) / 2
    if x.shape[-1] == 2:
        return _exp_hermitian_pair(hermitian)
    return torch.matrix_exp(1j * hermitian)


def _exp_hermitian_pair(h: Tensor) -> Tensor:
    r"""The closed form for m = 2, several times faster: :math:`e^{ia} (\cos b + i\,\frac{\sin b}{b} N)` where a is half
    of the trace, N = H - a, and N² = b².
    """
    first, second, corner = h[..., 0, 0].real, h[..., 1, 1].real, h[..., 0, 1]
    half_trace, half_gap = (first + second) / 2, (first - second) / 2
    size = torch.sqrt(half_gap.square() + corner.real.square() + corner.imag.square() + 1e-20)  # smooth at zero too
    cos, sinc = torch.cos(size), torch.sin(size) / size
    top, off = torch.complex(cos, sinc * half_gap), 1j * sinc * corner
    special = torch.stack([top, off, -off.conj(), top.conj()], dim=-1).reshape(h.shape)
    return special * torch.complex(torch.cos(half_trace), torch.sin(half_trace))[..., None, None]
