"""Random unitary matrices: Haar sampling, and the exponential of a Hermitian matrix."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ghrr._checks import check_batch, check_complex_dtype, check_generator, check_integer, check_square
from ghrr._random import Keys, philox_uniform
from ghrr.ops import choice, numba_backend, torch_backend
from ghrr.ops.threads import share_out

# Gaussian numbers made and orthonormalised at a time: 1 MiB on a CPU, to stay in cache; on a GPU enough to fill it.
_CHUNK_NUMBERS = (1 << 16, 1 << 24)
_LARGEST = 8  # beyond this size LAPACK is quicker
_MANY_NUMBERS = 1 << 17  # below so many torch has made them before numba is imported
_WORTH_IT = 1 << 10  # from so many numbers on a base hypervector is made by numba, as products are
_BLOCK_NUMBERS = 1 << 23  # uniform numbers in memory at a time: 64 MiB
_SHARED = 1 << 16  # from so many entries on the work is shared out over threads


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
    >>> ghrr.unitary.is_unitary(q)
    True
    """
    operation = "haar(*batch, m)"
    m = check_integer(operation, "m", m, least=1)
    check_complex_dtype(operation, dtype)
    batch = check_batch(operation, batch)
    return haar_from_uniform(draw_uniform(generator, *batch, m, m, 2), dtype=dtype)


def draw_uniform(generator: torch.Generator, *shape: int) -> Tensor:
    """Uniform numbers in [0, 1), in double precision, on the generator's device."""
    check_generator("sampling", generator)
    if math.prod(shape) < 2 * _MANY_NUMBERS or not choice.is_plain():
        return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)
    like = torch.empty(0, dtype=torch.float64, device=generator.device)
    return torch_backend.fresh(shape, like).uniform_(generator=generator)  # the same numbers, on huge pages


def base_slots(
    rotation_keys: Keys, phase_keys: Keys, slots: int, m: int, *, roots: int, halves: bool, dtype: torch.dtype
) -> Tensor:
    r"""Slots of base hypervectors, :math:`Q\,\mathrm{diag}(e^{2\pi i t})` with Haar Q, from keys of Philox streams.

    Parameters
    ----------
    rotation_keys, phase_keys
        One key for each row, ``(rows, 2)``. Without phase keys, ``(0, 2)``, the rotations stand alone; for m = 1 the
        rotation is 1 and its keys are not read.
    slots
        How many in each row.
    roots
        Phases are such roots of unity; 0 for phases that are uniform on the circle.
    halves
        Whether numbers have 32 random bits instead of 53.

    Shapes
    ------
    output: ``(rows, slots, m, m)``
    """
    rows = len(phase_keys if m == 1 else rotation_keys)
    # By the size of a row, so that a hypervector is the same to the bit however many are made together.
    numbers = slots * (1 if m == 1 else 2 * m * m)
    pays = choice.chosen() == "numba" or numbers >= _WORTH_IT
    if pays and numba_backend.INSTALLED and m <= _LARGEST and choice.allows("numba") and choice.is_plain():
        try:
            out, known = _base_by_numba(rotation_keys, phase_keys, (rows, slots, m), roots, halves, dtype)
        except Exception as error:  # whatever a compiler may raise
            out = _base_by_torch(rotation_keys, phase_keys, (rows, slots, m), roots, halves, dtype)
            choice.give_up("numba", error)
            return out
        if known:
            return out
    return _base_by_torch(rotation_keys, phase_keys, (rows, slots, m), roots, halves, dtype)


def _base_by_numba(  # noqa: PLR0917
    rotation_keys: Keys, phase_keys: Keys, shape: tuple[int, int, int], roots: int, halves: bool, dtype: torch.dtype
) -> tuple[Tensor, bool]:
    """All in one pass, and whether all columns are known: one that depends on those before is left to chance."""
    rows, slots, m = shape
    kernel, at_a_time = _base_kernel(m)
    to = np.empty((rows, slots, m * m), dtype=np.complex64 if dtype == torch.complex64 else np.complex128)
    unknown: list[int] = []

    def fill(part: slice) -> None:
        unknown.append(kernel(part.start, part.stop, slots, rotation_keys, phase_keys, halves, roots, to))

    chunks = rows * -(-slots // at_a_time)
    if to.size < _SHARED:
        fill(slice(0, chunks))
    else:
        share_out(fill, chunks)
    return torch.from_numpy(to.reshape(rows, slots, m, m)), not any(unknown)


@functools.cache
def _base_kernel(m: int) -> tuple[Callable[..., int], int]:
    """The loop for one m, and how many slots it takes at a time."""
    from ghrr.ops import numba_sampling  # noqa: PLC0415 (numba takes long to import)

    if m == 1:
        return numba_sampling.phasors, numba_sampling.PHASES
    return numba_sampling.base_kernel(m), numba_sampling.SLOTS


def _base_by_torch(  # noqa: PLR0917
    rotation_keys: Keys, phase_keys: Keys, shape: tuple[int, int, int], roots: int, halves: bool, dtype: torch.dtype
) -> Tensor:
    """As numbers, then operation by operation; some rows at a time, so that the numbers of all never exist."""
    rows, slots, m = shape
    out = torch.empty((rows, slots, m, m), dtype=dtype, device="cpu")
    step = max(1, _BLOCK_NUMBERS // max(1, 2 * m * m * slots))
    for start in range(0, rows, step):
        some = slice(start, start + step)
        turns = None
        if len(phase_keys):
            turns = philox_uniform(phase_keys[some], slots * m, halves=halves).reshape(-1, m)
            turns = to_roots(turns, roots) if roots else turns
        if m == 1 and turns is not None:
            phases = torch.polar(torch.ones_like(turns), 2 * math.pi * turns)
            out[some] = phases.reshape(out[some].shape)
        else:
            u = philox_uniform(rotation_keys[some], slots * m * m * 2, halves=halves).reshape(-1, m, m, 2)
            out[some] = _by_torch(u, turns, dtype).reshape(out[some].shape)
    return out


def to_roots(turns: Tensor, roots: int) -> Tensor:
    """Uniform numbers to multiples of 1 / roots."""
    return torch.floor(turns * roots) / roots


def haar_from_uniform(u: Tensor, turns: Tensor | None = None, *, dtype: torch.dtype = torch.complex128) -> Tensor:
    r"""Haar matrices Q as a function of uniform numbers; with turns :math:`Q\,\mathrm{diag}(e^{2\pi i t})`.

    Two uniform numbers make one complex Gaussian (Box-Muller): radius and angle. Phases cost nothing: with X = QR also
    :math:`X\Lambda = (Q\Lambda)(\Lambda^\dagger R\Lambda)`, whose last factor keeps its positive diagonal, so it is
    enough to turn the columns of X.

    Shapes
    ------
    u: ``(*, m, m, 2)``, double precision, in [0, 1); turns: ``(*, m)``; output: ``(*, m, m)``
    """
    m = u.shape[-2]
    numbers = u.detach().reshape(-1, m, m, 2)
    turns = None if turns is None else turns.reshape(-1, m)
    if not _suits_loop(numbers, turns):
        return _by_torch(numbers, turns, dtype).reshape(u.shape[:-1])
    try:
        out = _by_numba(numbers, turns, dtype)
    except Exception as error:  # whatever a compiler may raise
        out = _by_torch(numbers, turns, dtype)  # if this fails too, it was not the loop
        choice.give_up("numba", error)
    return out.reshape(u.shape[:-1])


def _suits_loop(numbers: Tensor, turns: Tensor | None) -> bool:
    """Whether numba has a loop for such numbers, which may be used and is worth it."""
    pays = choice.chosen() == "numba" or numbers.numel() >= 2 * _MANY_NUMBERS
    suits = numba_backend.INSTALLED and numbers.is_cpu and numbers.shape[-2] <= _LARGEST
    return pays and suits and choice.allows("numba") and choice.is_plain(numbers, numbers if turns is None else turns)


def _by_numba(numbers: Tensor, turns: Tensor | None, dtype: torch.dtype) -> Tensor:
    """All in one pass; where a column depends on those before, which is left to chance, torch does it."""
    from ghrr.ops.numba_sampling import haar_kernel  # noqa: PLC0415 (numba takes long to import)

    slots, m = numbers.shape[:2]
    kernel = haar_kernel(m)
    with torch.inference_mode(False):
        out = torch_backend.fresh((slots, m, m), numbers.new_empty(0, dtype=dtype))
    u, to = numbers.flatten(1).contiguous().numpy(force=True), torch.view_as_real(out).flatten(1).numpy()
    columns = np.zeros((1, m)) if turns is None else turns.expand(slots, m).contiguous().numpy(force=True)
    unknown: list[int] = []
    share_out(lambda part: unknown.append(kernel(part.start, part.stop, u, columns, to)), slots)
    return _by_torch(numbers, turns, dtype) if any(unknown) else out


def _by_torch(numbers: Tensor, turns: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Operation by operation along many slots, in chunks."""
    slots, m = numbers.shape[:2]
    with torch.inference_mode(False):  # a tensor of that mode could not be written to by other threads
        out = torch.empty((slots, m, m), dtype=dtype, device=numbers.device)
    on_gpu = numbers.is_cuda
    step = max(1, _CHUNK_NUMBERS[on_gpu] // (m * m))
    parts = [slice(start, start + step) for start in range(0, slots, step)]

    def fill(part: slice) -> None:
        x = _gaussians(numbers[part].flatten(1).mT, None if turns is None else turns[part].mT)
        _orthonormalize_into(out[part], x.reshape(m, m, 2, -1))

    def fill_some(some: slice) -> None:
        for part in parts[some]:
            fill(part)

    # Whole chunks go to threads. torch would share out each operation, and these are so short that it would wait for
    # its threads most of the time.
    if on_gpu:
        fill_some(slice(None))
    else:
        share_out(fill_some, len(parts), calls_torch=True)
    return out


def _gaussians(u: Tensor, turns: Tensor | None) -> Tensor:
    """Uniform numbers ``(2 m m, slots)``, pair by pair, to real and imaginary parts of Gaussian ones, turned by column.

    The slot goes last: every operation then runs along many slots.
    """
    x = u.clone(memory_format=torch.contiguous_format)
    radius, angle = torch.log1p(-x[0::2]).mul_(-2).sqrt_(), x[1::2] * (2 * math.pi)
    if turns is not None:
        angle.view(-1, *turns.shape).add_(turns, alpha=2 * math.pi)
    torch.mul(radius, torch.cos(angle), out=x[0::2])
    torch.mul(radius, angle.sin_(), out=x[1::2])
    return x


def _orthonormalize_into(out: Tensor, x: Tensor) -> None:
    """Q of matrices ``(row, column, real or imaginary part, slot)``, which are used up, to ``(slot, row, column)``."""
    m = len(x)
    if m > _LARGEST:
        out.copy_(orthonormalize(torch.view_as_complex(x.permute(3, 0, 1, 2).contiguous())))
        return
    left = _gram_schmidt(x)
    # Rounding grows as a column shrinks. A second time mends it; for single precision that is seldom needed.
    if out.dtype == torch.complex128 or bool((left < 1e-8).any()):
        _gram_schmidt(x)
    rows = torch.view_as_real(out).flatten(start_dim=1)
    rows.copy_(x.to(rows.dtype).reshape(2 * m * m, -1).mT)


def _gram_schmidt(x: Tensor) -> Tensor:
    """Orthonormalise the columns of many matrices in place: ``(row, column, real or imaginary part, slot)``.

    Gives the squared length that was left of each column, ``(column, slot)``.
    """
    real, imaginary = x.unbind(dim=2)
    left = []
    for j in range(x.shape[1]):
        a, b = real[:, j : j + 1], imaginary[:, j : j + 1]
        left.append((a * a).addcmul_(b, b).sum(dim=0))
        scale = left[-1] ** -0.5
        a *= scale
        b *= scale
        p, q = real[:, j + 1 :], imaginary[:, j + 1 :]
        c, d = _inner_products(a, b, p, q)
        p.addcmul_(a, c, value=-1).addcmul_(b, d)
        q.addcmul_(a, d, value=-1).addcmul_(b, c, value=-1)
    return torch.cat(left)


def _inner_products(a: Tensor, b: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of the inner products of columns a + ib, conjugated, with columns p + iq."""
    return (a * p).addcmul_(b, q).sum(dim=0), (a * q).addcmul_(b, p, value=-1).sum(dim=0)


def orthonormalize(x: Tensor) -> Tensor:
    r"""Q of the decomposition X = QR in which R has a positive diagonal.

    It is unique and differentiable where X is invertible; elsewhere it is one of several.

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
    >>> ghrr.unitary.is_unitary(ghrr.unitary.exp_hermitian(x))
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
