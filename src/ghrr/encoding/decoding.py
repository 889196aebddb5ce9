r"""From a noisy hypervector back to the number: scan a grid, climb to the peak, and say how sure.

With :math:`z_{jk} = (Q_j^\dagger h_j)_{kk}` the similarity of h with an encoding is :math:`s(x) = \frac{1}{mD}
\mathrm{Re} \sum_{jk} z_{jk} e^{-i w_{jk}^\top x}`: a grid of x is one real matrix product, and gradient and
curvature are sums of the same terms.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_MOST_POINTS = 1 << 20
_CHUNK_NUMBERS = 1 << 22


class Decoded(NamedTuple):
    """A decoded number: ``value`` and its standard error ``std``, ``(*, n)``, and the similarity ``score``, ``(*)``.

    Value and std are in double precision: near 1.7e9 neighbours in single precision are 128 apart.
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
        A typical frequency of each feature, ``(n,)``: one over it is about the width of the peak.
    energy
        :math:`\delta(h, h)`, ``(batch,)``: what the peak does not explain of it is noise.
    m
        Size of the slots.
    box
        Its two corners, each ``(n,)``, in double precision. The search runs over the distance from the lower one.
    slack
        How far the climb from the best point of the grid may leave the box.
    """
    origin = box[0]
    z = z * torch.exp(-1j * (frequencies.double() @ origin)).to(z.dtype)  # so that x = 0 is the lower corner
    box = torch.zeros_like(frequencies[0]), (box[1] - origin).to(frequencies.dtype)
    pairs = torch.cat([z.real, z.imag], dim=-1)  # s(x) = pairs · (cos, sin) / (mD)
    x, spacing = _best_of_grid(pairs, frequencies, typical, box)
    low, high = box[0] - slack, box[1] + slack
    if (frequencies.square().mean(dim=0).sqrt() > 4 * typical).any():  # heavy tails: a rough kernel
        x = _zoom(pairs, frequencies, x, spacing, box=(low, high))
    # At the peak s is flat: in single precision it would hide half of the digits of x.
    pairs, frequencies, x, low, high = (t.double() for t in (pairs, frequencies, x, low, high))
    unit = 1 / typical.double()  # from here in units of each feature's bandwidth
    frequencies, x, low, high = frequencies * unit, x / unit, low / unit, high / unit
    for _ in range(10):
        x = torch.clamp(_climb(pairs, frequencies, x), low, high)
    score, _, curvature = _local(pairs, frequencies, x)
    # Noise of energy v spreads evenly: v / (2m) in each real part that the gradient sums with weights w / (mD).
    noise = (energy - score.square()).clamp(min=0) / (2 * m * len(frequencies))
    spread = frequencies.mT @ frequencies / len(frequencies)
    inverse = torch.linalg.pinv(curvature)
    covariance = noise[:, None, None] * (inverse @ spread @ inverse)
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
    """The best point of a grid fine enough not to miss the peak, whose width is about one over a typical frequency."""
    low, high = box
    counts = (torch.ceil((high - low) * typical * 2).long() + 2).tolist()
    total = 1
    for count in counts:
        total *= count
    if total > _MOST_POINTS:
        raise ValueError(
            f"decode: a grid fine enough for this box has {' x '.join(map(str, counts))} points; give a smaller box "
            f"(low, high), or decode fewer features at a time"
        )
    axes = [torch.linspace(0, 1, count, dtype=low.dtype, device=low.device) for count in counts]
    unit = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, len(counts))
    grid = low + unit * (high - low)
    best = torch.full_like(pairs[:, 0], -torch.inf)
    at = grid[:1].expand(len(pairs), -1).clone()
    step = max(1, _CHUNK_NUMBERS // (2 * len(frequencies) + len(pairs)))
    for start in range(0, len(grid), step):
        points = grid[start : start + step]
        scores, index = (pairs @ torch.cat(_table(frequencies, points), dim=-1).mT).max(dim=-1)
        better = scores > best
        best = torch.where(better, scores, best)
        at = torch.where(better[:, None], points[index], at)
    return at, (high - low) / torch.tensor([count - 1 for count in counts], device=low.device)


def _score(pairs: Tensor, frequencies: Tensor, x: Tensor) -> Tensor:
    return (pairs * torch.cat(_table(frequencies, x), dim=-1)).sum(dim=-1) / len(frequencies)


def _local(pairs: Tensor, frequencies: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Value, gradient and curvature (minus the Hessian) of s at x."""
    real, imaginary = pairs.chunk(2, dim=-1)
    cosine, sine = _table(frequencies, x)
    even, odd = real * cosine + imaginary * sine, imaginary * cosine - real * sine
    count = len(frequencies)
    curvature = torch.einsum("bk,kp,kq->bpq", even, frequencies, frequencies) / count
    return even.sum(dim=-1) / count, odd @ frequencies / count, curvature


def _zoom(pairs: Tensor, frequencies: Tensor, x: Tensor, spacing: Tensor, *, box: tuple[Tensor, Tensor]) -> Tensor:
    """Look ever closer along one axis after the other: rough kernels have peaks too sharp for Newton's method."""
    offsets = torch.linspace(-1, 1, 17, dtype=x.dtype, device=x.device)
    for power in range(8):
        for axis in range(x.shape[-1]):
            around = x.expand(17, *x.shape).clone()
            around[..., axis] += spacing[axis] * offsets[:, None] / 4**power
            around = torch.clamp(around, *box)
            best = _score(pairs, frequencies, around).argmax(dim=0)
            x = around[best, torch.arange(len(x), device=x.device)]
    return x


def _climb(pairs: Tensor, frequencies: Tensor, x: Tensor) -> Tensor:
    """The best of some steps: Newton's where the peak is round, along the gradient elsewhere; none if none goes up."""
    score, gradient, curvature = _local(pairs, frequencies, x)
    values, vectors = torch.linalg.eigh(curvature)
    floor = values.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) * 1e-3
    step = (vectors / torch.maximum(values.abs(), floor)[:, None, :]) @ (vectors.mT @ gradient[..., None])
    best = x
    for shorter in (1, 1 / 2, 1 / 4, 1 / 16):  # far from the peak a whole step would jump over it
        candidate = x + shorter * step[..., 0]
        value = _score(pairs, frequencies, candidate)
        best = torch.where((value > score)[:, None], candidate, best)
        score = torch.maximum(score, value)
    return best
