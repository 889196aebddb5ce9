"""Random unitary matrices: Haar sampling, and the exponential of a Hermitian matrix."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ghrr._checks import check_batch, check_complex_dtype, check_generator, check_integer, check_square
from ghrr._random import Keys, philox_uniform
from ghrr.ops.dispatch import Kernel, Operation
from ghrr.ops.tensor_state import is_plain
from ghrr.ops.threads import run_in_threads
from ghrr.ops.torch_implementation import allocate

# Gaussian numbers made and orthonormalised at a time: on a CPU 1 MiB, to stay in the cache; on a GPU enough to fill it.
_CHUNK_NUMBERS = (1 << 16, 1 << 24)
_LARGEST_M = 8  # LAPACK is faster for larger matrices
_LEAST_NUMBERS = 1 << 17  # fewer take PyTorch less time than importing numba
_LEAST_BASE_NUMBERS = 1 << 10  # fewer numbers of a base hypervector take PyTorch less time than the call of a kernel
_STORED_NUMBERS = 1 << 23  # uniform numbers in memory at a time: 64 MiB


def haar(*batch: int, m: int, generator: torch.Generator, dtype: torch.dtype = torch.complex64) -> Tensor:
    r"""Draw unitary matrices from the Haar measure, the uniform distribution on U(m).

    Orthonormalises complex Gaussian matrices by X = QR with a positive diagonal of R. (QR routines do not fix the
    phases of that diagonal, and then Q is not uniform.) It follows that :math:`E|Q_{jk}|^2 = 1/m` and
    :math:`E|\mathrm{tr}\,Q|^2 = 1`.

    Parameters
    ----------
    *batch
        Batch shape, as in ``torch.randn``.
    m
        Size of the matrices.
    generator
        Source of randomness. The result is on its device.
    dtype
        ``torch.complex64`` or ``torch.complex128``. Computed in double precision and rounded once.

    Shapes
    ------
    output: ``(*batch, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> q = ghrr.unitary.haar(1000, m=3, generator=torch.Generator().manual_seed(0))
    >>> q.shape
    torch.Size([1000, 3, 3])
    >>> ghrr.unitary.is_unitary(q)
    True
    """
    operation = "haar(*batch, m)"
    m = check_integer(operation, "m", m, least=1)
    check_complex_dtype(operation, dtype)
    batch = check_batch(operation, batch)
    return haar_from_uniform(draw_uniform(generator, *batch, m, m, 2), dtype=dtype)


def draw_uniform(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw uniform numbers in [0, 1), in double precision, on the generator's device."""
    check_generator("sampling", generator)
    if math.prod(shape) < 2 * _LEAST_NUMBERS or not is_plain():
        return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)
    like = torch.empty(0, dtype=torch.float64, device=generator.device)
    return allocate(shape, like).uniform_(generator=generator)  # the same numbers, on huge pages


def base_slots(
    rotation_keys: Keys, phase_keys: Keys, slots: int, m: int, *, roots: int, halves: bool, dtype: torch.dtype
) -> Tensor:
    r"""Make slots of base hypervectors, :math:`Q\,\mathrm{diag}(e^{2\pi i t})` with Haar Q, from Philox keys.

    Parameters
    ----------
    rotation_keys, phase_keys
        One key per row, ``(rows, 2)``. Without phase keys, ``(0, 2)``, there are no phases. For m = 1 the rotation is 1
        and its keys are not read.
    slots
        Number of slots per row.
    roots
        Phases are roots of unity of this order; 0 for phases that are uniform on the circle.
    halves
        Use numbers of 32 random bits instead of 53.

    Shapes
    ------
    output: ``(rows, slots, m, m)``
    """
    rows = len(phase_keys if m == 1 else rotation_keys)
    result: Tensor = _base_slots(rotation_keys, phase_keys, (rows, slots, m), roots, halves, dtype)
    return result


def _kernel_supports_base(rotation_keys: Keys, phase_keys: Keys, shape: tuple[int, int, int], *_: object) -> bool:
    return shape[-1] <= _LARGEST_M


def _base_kernel_pays_off(rotation_keys: Keys, phase_keys: Keys, shape: tuple[int, int, int], *_: object) -> bool:
    # Decided by the size of a row, so that a hypervector is the same to the bit however many are made together.
    slots, m = shape[1:]
    return slots * (1 if m == 1 else 2 * m * m) >= _LEAST_BASE_NUMBERS


def _base_slots_by_torch(  # noqa: PLR0917
    rotation_keys: Keys, phase_keys: Keys, shape: tuple[int, int, int], roots: int, halves: bool, dtype: torch.dtype
) -> Tensor:
    """Make some rows at a time, so that the uniform numbers of all rows are never stored."""
    rows, slots, m = shape
    out = torch.empty((rows, slots, m, m), dtype=dtype, device="cpu")
    step = max(1, _STORED_NUMBERS // max(1, 2 * m * m * slots))
    for start in range(0, rows, step):
        chunk = slice(start, start + step)
        turns = None
        if len(phase_keys):
            turns = philox_uniform(phase_keys[chunk], slots * m, halves=halves).reshape(-1, m)
            turns = to_roots(turns, roots) if roots else turns
        if m == 1 and turns is not None:
            phases = torch.polar(torch.ones_like(turns), 2 * math.pi * turns)
            out[chunk] = phases.reshape(out[chunk].shape)
        else:
            u = philox_uniform(rotation_keys[chunk], slots * m * m * 2, halves=halves).reshape(-1, m, m, 2)
            out[chunk] = _haar_by_torch(u, turns, dtype).reshape(out[chunk].shape)
    return out


_base_slots = Operation(
    "base_slots",
    torch=_base_slots_by_torch,
    kernels=(Kernel("numba", "ghrr.ops.cpu.unitary:base_slots", _kernel_supports_base, _base_kernel_pays_off),),
)


def to_roots(turns: Tensor, roots: int) -> Tensor:
    """Round uniform numbers down to multiples of 1 / roots."""
    return torch.floor(turns * roots) / roots


def haar_from_uniform(u: Tensor, turns: Tensor | None = None, *, dtype: torch.dtype = torch.complex128) -> Tensor:
    r"""Make Haar matrices Q from uniform numbers; with turns :math:`Q\,\mathrm{diag}(e^{2\pi i t})`.

    Two uniform numbers make one complex Gaussian number by the Box-Muller transform. The phases cost nothing: with
    X = QR also :math:`X\Lambda = (Q\Lambda)(\Lambda^\dagger R\Lambda)`, whose last factor has a positive diagonal too,
    so it is enough to multiply the columns of X by the phases.

    Shapes
    ------
    u: ``(*, m, m, 2)``, double precision, in [0, 1); turns: ``(*, m)``; output: ``(*, m, m)``
    """
    m = u.shape[-2]
    result: Tensor = _haar(u.detach().reshape(-1, m, m, 2), None if turns is None else turns.reshape(-1, m), dtype)
    return result.reshape(u.shape[:-1])


def _kernel_supports_haar(numbers: Tensor, *_: object) -> bool:
    return numbers.is_cpu and numbers.shape[-2] <= _LARGEST_M


def _haar_kernel_pays_off(numbers: Tensor, *_: object) -> bool:
    return numbers.numel() >= 2 * _LEAST_NUMBERS


def _haar_by_torch(numbers: Tensor, turns: Tensor | None, dtype: torch.dtype) -> Tensor:
    slots, m = numbers.shape[:2]
    with torch.inference_mode(False):  # other threads could not write to an inference tensor
        out = torch.empty((slots, m, m), dtype=dtype, device=numbers.device)
    on_gpu = numbers.is_cuda
    step = max(1, _CHUNK_NUMBERS[on_gpu] // (m * m))
    chunks = [slice(start, start + step) for start in range(0, slots, step)]

    def fill(some: slice) -> None:
        for chunk in chunks[some]:
            x = _gaussians(numbers[chunk].flatten(1).mT, None if turns is None else turns[chunk].mT)
            _orthonormalize_into(out[chunk], x.reshape(m, m, 2, -1))

    # Threads get whole chunks. PyTorch would divide each operation, and wait for its threads most of the time, since
    # the operations are short.
    if on_gpu:
        fill(slice(None))
    else:
        run_in_threads(fill, len(chunks), calls_torch=True)
    return out


_haar = Operation(
    "haar",
    torch=_haar_by_torch,
    kernels=(Kernel("numba", "ghrr.ops.cpu.unitary:haar", _kernel_supports_haar, _haar_kernel_pays_off),),
)


def _gaussians(u: Tensor, turns: Tensor | None) -> Tensor:
    """Transform pairs of uniform numbers, ``(2 m m, slots)``, to complex Gaussian numbers; turns rotate columns.

    The slot is the last axis, so that every operation runs along many slots.
    """
    x = u.clone(memory_format=torch.contiguous_format)
    radius, angle = torch.log1p(-x[0::2]).mul_(-2).sqrt_(), x[1::2] * (2 * math.pi)
    if turns is not None:
        angle.view(-1, *turns.shape).add_(turns, alpha=2 * math.pi)
    torch.mul(radius, torch.cos(angle), out=x[0::2])
    torch.mul(radius, angle.sin_(), out=x[1::2])
    return x


def _orthonormalize_into(out: Tensor, x: Tensor) -> None:
    """Write Q of matrices ``(row, column, real or imaginary, slot)`` to ``(slot, row, column)``. Overwrites x."""
    m = len(x)
    if m > _LARGEST_M:
        out.copy_(orthonormalize(torch.view_as_complex(x.permute(3, 0, 1, 2).contiguous())))
        return
    lengths = _gram_schmidt(x)
    # Rounding errors grow as a column shrinks. A second pass removes them; single precision seldom needs it.
    if out.dtype == torch.complex128 or bool((lengths < 1e-8).any()):
        _gram_schmidt(x)
    rows = torch.view_as_real(out).flatten(start_dim=1)
    rows.copy_(x.to(rows.dtype).reshape(2 * m * m, -1).mT)


def _gram_schmidt(x: Tensor) -> Tensor:
    """Orthonormalise the columns of many matrices ``(row, column, real or imaginary, slot)`` in place.

    Returns the squared length of each column after subtracting the previous ones, ``(column, slot)``.
    """
    real, imaginary = x.unbind(dim=2)
    lengths = []
    for j in range(x.shape[1]):
        a, b = real[:, j : j + 1], imaginary[:, j : j + 1]
        lengths.append((a * a).addcmul_(b, b).sum(dim=0))
        scale = lengths[-1] ** -0.5
        a *= scale
        b *= scale
        p, q = real[:, j + 1 :], imaginary[:, j + 1 :]
        c, d = _inner_products(a, b, p, q)
        p.addcmul_(a, c, value=-1).addcmul_(b, d)
        q.addcmul_(a, d, value=-1).addcmul_(b, c, value=-1)
    return torch.cat(lengths)


def _inner_products(a: Tensor, b: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Return the real and imaginary part of the inner products of columns a + ib (conjugated) and p + iq."""
    return (a * p).addcmul_(b, q).sum(dim=0), (a * q).addcmul_(b, p, value=-1).sum(dim=0)


def orthonormalize(x: Tensor) -> Tensor:
    r"""Return Q of the decomposition X = QR in which R has a positive diagonal.

    Q is unique and differentiable where X is invertible. For a singular X it is one of several solutions.

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
    q, r = torch.linalg.qr(x)
    diagonal = torch.diagonal(r, dim1=-2, dim2=-1)
    phases = torch.where(diagonal == 0, torch.ones_like(diagonal), torch.sgn(diagonal))
    result: Tensor = q * phases[..., None, :]
    return result


def exp_hermitian(x: Tensor) -> Tensor:
    r"""Return the unitary matrix :math:`\exp(iH)` of the Hermitian part :math:`H = (X + X^\dagger)/2`.

    This is the paper's parametrisation of Q: a smooth map from all complex matrices onto all unitary matrices.

    Shapes
    ------
    x: ``(*, m, m)``, output: ``(*, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> x = torch.randn(5, 4, 4, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    >>> ghrr.unitary.is_unitary(ghrr.unitary.exp_hermitian(x))
    True
    """
    check_square("exp_hermitian(x)", x)
    hermitian = (x + x.mH) / 2
    if x.shape[-1] == 2:
        return _exp_hermitian_pair(hermitian)
    return torch.matrix_exp(1j * hermitian)


def _exp_hermitian_pair(h: Tensor) -> Tensor:
    r"""Compute the closed form for m = 2, several times faster: :math:`e^{ia} (\cos b + i\,\frac{\sin b}{b} N)`, where
    a is half of the trace, N = H - a, and N² = b².
    """
    first, second, corner = h[..., 0, 0].real, h[..., 1, 1].real, h[..., 0, 1]
    half_trace, half_gap = (first + second) / 2, (first - second) / 2
    size = torch.sqrt(half_gap.square() + corner.real.square() + corner.imag.square() + 1e-20)  # differentiable at zero
    cos, sinc = torch.cos(size), torch.sin(size) / size
    top, off = torch.complex(cos, sinc * half_gap), 1j * sinc * corner
    special = torch.stack([top, off, -off.conj(), top.conj()], dim=-1).reshape(h.shape)
    return special * torch.complex(torch.cos(half_trace), torch.sin(half_trace))[..., None, None]
