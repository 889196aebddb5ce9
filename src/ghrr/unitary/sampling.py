"""Random unitary matrices: Haar sampling, and the exponential of a Hermitian matrix."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ghrr.checks import check_batch, check_complex_dtype, check_generator, check_integer, check_square, names_errors
from ghrr.ops.dispatch import Kernel, Operation
from ghrr.ops.tensor_state import is_plain
from ghrr.ops.threads import run_in_threads
from ghrr.seeding import Keys, drawn_keys, slot_uniform

# Entries made at a time: on a CPU 1 MiB, to stay in the cache; on a GPU enough to fill it.
_CHUNK_NUMBERS = (1 << 16, 1 << 24)
_MIN_NUMBERS = 1 << 10  # for fewer numbers per row, PyTorch is faster than the call of a kernel
_STORED_NUMBERS = 1 << 23  # uniform numbers in memory at a time: 64 MiB


@names_errors("haar(*batch, m)")
def haar(*batch: int, m: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.complex64) -> Tensor:
    r"""Draw unitary matrices from the Haar measure, the uniform distribution on U(m).

    Multiplication by a fixed unitary matrix, on either side, does not change the distribution. It follows that
    :math:`E|Q_{jk}|^2 = 1/m` and :math:`E|\mathrm{tr}\,Q|^2 = 1`.

    Parameters
    ----------
    *batch
        Batch shape, as in ``torch.randn``.
    m
        Size of the matrices.
    generator
        Source of randomness, by default torch's global generator. The result is on its device.
    dtype
        ``torch.complex64`` or ``torch.complex128``. Computed in double precision and rounded once.

    Shapes
    ------
    output: ``(*batch, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> ghrr.unitary.haar(5, m=2).shape
    torch.Size([5, 2, 2])
    >>> q = ghrr.unitary.haar(1000, m=3, generator=torch.Generator().manual_seed(0))
    >>> ghrr.unitary.is_unitary(q)
    True
    """
    m = check_integer("m", m, least=1)
    check_complex_dtype(dtype)
    batch = check_batch(batch)
    source = torch.default_generator if generator is None else generator
    return random_slots(source, math.prod(batch), m, dtype=dtype).reshape(*batch, m, m)


def draw_uniform(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw uniform numbers in [0, 1), in double precision, on the generator's device."""
    check_generator(generator)
    return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)


def random_slots(generator: torch.Generator, slots: int, m: int, *, roots: int = 0, dtype: torch.dtype) -> Tensor:
    """Draw slots of base hypervectors, ``(slots, m, m)``, on the generator's device.

    They are Haar matrices; with ``roots``, times roots of unity of this order. For m = 1 with ``roots`` they are these
    roots alone. Uniform phases would change nothing: a Haar matrix times phases is a Haar matrix.
    """
    check_generator(generator)
    if generator.device.type == "cpu" and is_plain():
        keys = drawn_keys(2 if m > 1 and roots else 1, generator)
        rotation_keys, phase_keys = (keys[:0], keys) if m == 1 else (keys[:1], keys[1:])
        return base_slots(rotation_keys, phase_keys, slots, m, roots=roots, dtype=dtype)[0]
    u = draw_uniform(generator, slots, m * m)
    if roots:
        turns = to_roots(draw_uniform(generator, slots, m), roots)
        u = turns if m == 1 else add_phases(u, turns)
    return haar_from_uniform(u, dtype=dtype)


def base_slots(
    rotation_keys: Keys, phase_keys: Keys, slots: int, m: int, *, roots: int = 0, dtype: torch.dtype
) -> Tensor:
    r"""Make slots of base hypervectors, :math:`Q\,\mathrm{diag}(e^{2\pi i t})` with Haar Q, from Philox keys.

    The numbers of a slot come from :func:`ghrr.seeding.slot_uniform`: :math:`m^2` of the first key for
    :func:`haar_from_uniform`, and m of the second for the phases t.

    Parameters
    ----------
    rotation_keys, phase_keys
        One key per row, ``(rows, 2)``. Without rotation keys, ``(0, 2)``, for m = 1 only, the rotation is 1. Without
        phase keys there are no phases.
    slots
        Number of slots per row.
    roots
        Phases are roots of unity of this order; 0 for phases that are uniform on the circle.

    Shapes
    ------
    output: ``(rows, slots, m, m)``
    """
    rows = max(len(rotation_keys), len(phase_keys))
    result: Tensor = _base_slots(rotation_keys, phase_keys, (rows, slots, m), roots, dtype)
    return result


def _kernel_pays_off(rotation_keys: Keys, phase_keys: Keys, shape: tuple[int, int, int], *_: object) -> bool:
    # Decided by the size of a row, so that a hypervector is the same to the bit however many are made together.
    return shape[1] * shape[2] ** 2 >= _MIN_NUMBERS


def _base_slots_by_torch(
    rotation_keys: Keys, phase_keys: Keys, shape: tuple[int, int, int], roots: int, dtype: torch.dtype
) -> Tensor:
    """Make the slots of a few rows at a time, so that the uniform numbers of all rows are never stored."""
    rows, slots, m = shape
    out = torch.empty((rows, slots, m, m), dtype=dtype, device="cpu")
    step = max(1, _STORED_NUMBERS // max(1, m * m * slots))
    for start in range(0, rows, step):
        chunk = slice(start, start + step)
        if len(rotation_keys):
            u = slot_uniform(rotation_keys[chunk], slots, m * m)
        else:
            u = torch.zeros((len(phase_keys[chunk]), slots, 1), dtype=torch.float64, device="cpu")
        if len(phase_keys):
            turns = slot_uniform(phase_keys[chunk], slots, m)
            u = add_phases(u, to_roots(turns, roots) if roots else turns)
        out[chunk] = haar_from_uniform(u, dtype=dtype)
    return out


_base_slots = Operation(
    "base_slots",
    torch=_base_slots_by_torch,
    kernels=(Kernel("numba", "ghrr.ops.cpu.unitary:base_slots", lambda *_: True, _kernel_pays_off),),
)


def to_roots(turns: Tensor, roots: int) -> Tensor:
    """Round uniform numbers down to multiples of 1 / roots."""
    return torch.floor(turns * roots) / roots


def add_phases(u: Tensor, turns: Tensor) -> Tensor:
    r"""Return the uniform numbers of :math:`Q\,\mathrm{diag}(e^{2\pi i t})` from the ones of Q and phases t, in turns.

    The last m numbers of Q in :func:`haar_from_uniform` are phases of its columns, to which t is added.

    Shapes
    ------
    u: ``(*, m * m)``; turns: ``(*, m)``; output: ``(*, m * m)``
    """
    m = turns.shape[-1]
    return torch.cat([u[..., :-m], u[..., -m:] + turns], dim=-1)


def haar_from_uniform(u: Tensor, *, dtype: torch.dtype = torch.complex128) -> Tensor:
    r"""Make Haar matrices from :math:`m^2` uniform numbers each.

    Step k extends a Haar matrix of size k - 1 by a row and a column, with the next 2k - 1 numbers:

    .. math:: Q_k = (Q_{k-1} \oplus 1)\,R, \qquad R = H(r)\,\mathrm{diag}(e^{2\pi i t_1}, \dots, e^{2\pi i t_k}), \qquad
              H(r) = \frac{(r + e_k)(r + e_k)^T}{1 + r_k} - 1

    The first k - 1 numbers divide [0, 1] into k gaps, whose square roots are r; the others are the phases t. H(r) is a
    reflection times -1 and has the last row r. Nothing is lost to cancellation, since :math:`1 + r_k \ge 1`.

    Why :math:`Q_k` is uniform on U(k). The last row of R is :math:`v = (r_j e^{2\pi i t_j})_j`. It is uniform on the
    unit sphere of :math:`\mathbb{C}^k`, as a Gaussian vector divided by its length is: the squared entries of that are
    exponential numbers divided by their sum, which are distributed as the gaps between uniform numbers, and its phases
    are uniform and independent of them. Now multiply by a fixed unitary matrix U. The last row of :math:`R(v)\,U` is
    :math:`vU`, which is uniform as well. :math:`R(v)\,U R(vU)^\dagger` is unitary and has the last row :math:`e_k^T`,
    so it is :math:`W \oplus 1` for some W, and :math:`Q_k U = (Q_{k-1} W \oplus 1)\,R(vU)`. Given v,
    :math:`Q_{k-1} W` is Haar if :math:`Q_{k-1}` is. So :math:`Q_k U` is distributed as :math:`Q_k` for every U, and
    only the Haar measure has this property.

    Parameters
    ----------
    u
        Uniform numbers in [0, 1), in double precision.
    dtype
        Computed in double precision and rounded once.

    Shapes
    ------
    u: ``(*, m * m)``; output: ``(*, m, m)``
    """
    m = math.isqrt(u.shape[-1])
    numbers = u.detach().reshape(-1, m * m)
    with torch.inference_mode(False):  # other threads could not write to an inference tensor
        out = torch.empty((len(numbers), m, m), dtype=dtype, device=u.device)
    step = max(1, _CHUNK_NUMBERS[u.is_cuda] // (m * m))
    chunks = [slice(start, start + step) for start in range(0, len(numbers), step)]

    def fill(selected: slice) -> None:
        for chunk in chunks[selected]:
            out[chunk] = _haar_along_slots(numbers[chunk].mT.contiguous()).movedim(-1, 0)

    # Each thread processes whole chunks. If PyTorch divided each of these short operations between threads, it would
    # spend most of the time waiting for them.
    if u.is_cuda:
        fill(slice(None))
    else:
        run_in_threads(fill, len(chunks), calls_torch=True)
    return out.reshape(*u.shape[:-1], m, m)


def _haar_along_slots(u: Tensor) -> Tensor:
    """Compute :func:`haar_from_uniform` with the slot as the last axis: ``(m * m, slots)`` to ``(m, m, slots)``."""
    phases = torch.polar(torch.ones_like(u), 2 * math.pi * u)
    q = phases[None, :1]
    for k in range(2, math.isqrt(len(u)) + 1):
        points = u[(k - 1) ** 2 : k * (k - 1)].sort(dim=0).values
        ends = torch.zeros_like(points[:1]), torch.ones_like(points[:1])
        r = torch.diff(points, dim=0, prepend=ends[0], append=ends[1]).sqrt_()
        column = (q * r[:-1]).sum(dim=1, keepdim=True)
        above = torch.cat([column * (r[:-1] / (1 + r[-1])) - q, column], dim=1)
        q = torch.cat([above, r[None]]) * phases[k * (k - 1) : k * k]
    return q


@names_errors("orthonormalize(x)")
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
    check_square(x)
    q, r = torch.linalg.qr(x)
    diagonal = torch.diagonal(r, dim1=-2, dim2=-1)
    phases = torch.where(diagonal == 0, torch.ones_like(diagonal), torch.sgn(diagonal))
    result: Tensor = q * phases[..., None, :]
    return result


@names_errors("exp_hermitian(x)")
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
    check_square(x)
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
