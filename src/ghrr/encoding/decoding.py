r"""Decode numbers from noisy hypervectors: search a grid, then climb to the peak of the similarity.

With :math:`z_{jk} = (Q_j^\dagger h_j)_{kk}` the similarity of h with an encoding is :math:`s(x) = \frac{1}{mD}
\mathrm{Re} \sum_{jk} z_{jk} e^{-i w_{jk}^\top x}`. Its values on a grid are one real matrix product; gradient and
curvature are sums of the same terms.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ghrr.checks import value_error

_MAX_POINTS = 1 << 20
_CHUNK_NUMBERS = 1 << 22


class Decoded(NamedTuple):
    """Result of decoding a number.

    Value and std are in double precision: around 1.7e9 (seconds since 1970) single precision has steps of 128.

    Attributes
    ----------
    value
        The decoded numbers, ``(*batch, n_features)``, or ``(*batch)`` for :class:`Circular`.
    std
        Their standard errors, of the same shape.
    score
        Similarity of the hypervector with the encoding of the value, ``(*batch)``.

    Examples
    --------
    >>> import ghrr
    >>> clock = ghrr.encoding.Circular(ghrr.Space(dim=500, m=2), period=24)
    >>> found = clock.decode(clock(7.5))
    >>> f"{found.value:.2f} {found.score:.2f}"
    '7.50 1.00'
    """

    value: Tensor
    std: Tensor
    score: Tensor


def decode_peak(
    z: Tensor,
    frequencies: Tensor,
    *,
    typical: Tensor,
    energy: Tensor,
    m: int,
    box: tuple[Tensor, Tensor],
    slack: float = 0.0,
) -> Decoded:
    r"""Find the peak of s(x) in a box.

    Parameters
    ----------
    z
        The diagonal of :math:`Q^\dagger h`, ``(batch, dim * m)``.
    frequencies
        ``(dim * m, n)``.
    typical
        A typical frequency of each feature, ``(n,)``: its inverse is about the width of the peak.
    energy
        :math:`\delta(h, h)`, ``(batch,)``. The part that the peak does not explain is noise.
    m
        Size of the matrix in each slot.
    box
        The two corners of the box, each ``(n,)``, in double precision.
    slack
        How far the climb from the best point of the grid may leave the box.
    """
    origin = box[0]
    z = z * torch.exp(-1j * (frequencies.double() @ origin)).to(z.dtype)  # move the lower corner to x = 0
    box = torch.zeros_like(frequencies[0]), (box[1] - origin).to(frequencies.dtype)
    pairs = torch.cat([z.real, z.imag], dim=-1)  # s(x) = pairs · (cos, sin) / (mD)
    x, spacing = _best_of_grid(pairs, frequencies, typical, box)
    low, high = box[0] - slack, box[1] + slack
    if (frequencies.square().mean(dim=0).sqrt() > 4 * typical).any():  # heavy tails: a kernel with a sharp peak
        x = _zoom(pairs, frequencies, x, spacing, box=(low, high))
    # At the peak s is flat: single precision would lose half of the digits of x.
    pairs, frequencies, x, low, high = (t.double() for t in (pairs, frequencies, x, low, high))
    unit = 1 / typical.double()  # from here on, x is in units of the bandwidth of each feature
    frequencies, x, low, high = frequencies * unit, x / unit, low / unit, high / unit
    for _ in range(10):
        x = torch.clamp(_climb(pairs, frequencies, x), low, high)
    score, _, curvature = _local(pairs, frequencies, x)
    # Noise of energy v has variance v / (2m) in each real term, which the gradient sums with weights w / (mD).
    noise = (energy - score.square()).clamp(min=0) / (2 * m * len(frequencies))
    frequency_moments = frequencies.mT @ frequencies / len(frequencies)
    inverse = torch.linalg.pinv(curvature)
    covariance = noise[:, None, None] * (inverse @ frequency_moments @ inverse)
    std = torch.diagonal(covariance, dim1=-2, dim2=-1).clamp(min=0).sqrt()
    is_peak = torch.linalg.eigvalsh(curvature)[:, :1] > 0
    inside = (x > low) & (x < high)
    std = torch.where(is_peak & inside, std, torch.inf)
    return Decoded(origin + unit * x, unit * std, score.to(z.real.dtype))


def _table(frequencies: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    angles = x @ frequencies.mT
    return torch.cos(angles), torch.sin(angles)


def _best_of_grid(
    pairs: Tensor, frequencies: Tensor, typical: Tensor, box: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the best point of a grid that is fine enough to find the peak, and the spacing of the grid."""
    low, high = box
    sizes = torch.ceil((high - low) * typical * 2) + 2
    if not sizes.prod() <= _MAX_POINTS:  # also for infinity
        shown = " x ".join(f"{size:.7g}" for size in sizes.tolist())
        raise value_error(
            f"the grid for this box has {shown} points, expected at most {_MAX_POINTS}; use a "
            f"smaller box (low, high), or decode fewer features at a time"
        )
    counts = sizes.long().tolist()
    axes = [torch.linspace(0, 1, count, dtype=low.dtype, device=low.device) for count in counts]
    unit = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, len(counts))
    grid = low + unit * (high - low)
    best = torch.full_like(pairs[:, 0], -torch.inf)
    best_point = grid[:1].expand(len(pairs), -1).clone()
    step = max(1, _CHUNK_NUMBERS // (2 * len(frequencies) + len(pairs)))
    for start in range(0, len(grid), step):
        points = grid[start : start + step]
        scores, index = (pairs @ torch.cat(_table(frequencies, points), dim=-1).mT).max(dim=-1)
        better = scores > best
        best = torch.where(better, scores, best)
        best_point = torch.where(better[:, None], points[index], best_point)
    return best_point, (high - low) / torch.tensor([count - 1 for count in counts], device=low.device)


def _score(pairs: Tensor, frequencies: Tensor, x: Tensor) -> Tensor:
    return (pairs * torch.cat(_table(frequencies, x), dim=-1)).sum(dim=-1) / len(frequencies)


def _local(pairs: Tensor, frequencies: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return value, gradient and curvature (minus the Hessian) of s at x."""
    real, imaginary = pairs.chunk(2, dim=-1)
    cosine, sine = _table(frequencies, x)
    even, odd = real * cosine + imaginary * sine, imaginary * cosine - real * sine
    count = len(frequencies)
    curvature = torch.einsum("bk,kp,kq->bpq", even, frequencies, frequencies) / count
    return even.sum(dim=-1) / count, odd @ frequencies / count, curvature


def _zoom(pairs: Tensor, frequencies: Tensor, x: Tensor, spacing: Tensor, *, box: tuple[Tensor, Tensor]) -> Tensor:
    """Refine the grid along one axis after the other, for peaks that are too sharp for Newton's method."""
    offsets = torch.linspace(-1, 1, 17, dtype=x.dtype, device=x.device)
    for power in range(8):
        for axis in range(x.shape[-1]):
            candidates = x.expand(17, *x.shape).clone()
            candidates[..., axis] += spacing[axis] * offsets[:, None] / 4**power
            candidates = torch.clamp(candidates, *box)
            best = _score(pairs, frequencies, candidates).argmax(dim=0)
            x = candidates[best, torch.arange(len(x), device=x.device)]
    return x


def _climb(pairs: Tensor, frequencies: Tensor, x: Tensor) -> Tensor:
    """Take the best of several Newton steps (gradient steps where s is not concave), or no step if none goes up."""
    score, gradient, curvature = _local(pairs, frequencies, x)
    values, vectors = torch.linalg.eigh(curvature)
    smallest = values.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) * 1e-3
    step = (vectors / torch.maximum(values.abs(), smallest)[:, None, :]) @ (vectors.mT @ gradient[..., None])
    best = x
    for scale in (1, 1 / 2, 1 / 4, 1 / 16):  # far from the peak a full step would jump over it
        candidate = x + scale * step[..., 0]
        value = _score(pairs, frequencies, candidate)
        best = torch.where((value > score)[:, None], candidate, best)
        score = torch.maximum(score, value)
    return best
