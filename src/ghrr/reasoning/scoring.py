r"""How well each expression predicts the panels of each row, from similarities of hypervectors.

For distributions, the similarity of prediction and panel is the probability that they agree. For sets and collections,
:math:`d^2 = \delta(a - b, a - b)` counts what differs, and the panels agree with probability :math:`e^{-6 d^2}`.
An agreement s becomes the probability of the panel

.. math:: (1 - \varepsilon)\, s\, P(\text{rest}) + \varepsilon\, P(\text{panel without any rule}).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.algebra import adjoint, bind, multibind, pairwise_similarity, similarity
from ghrr.reasoning.panels import LEAST, Channel
from ghrr.reasoning.rules import STEPS, Expression, expressions

__all__ = ["Grid", "Scores", "score_channel"]

EXCEPTION = 1e-3  # probability ε that a panel does not follow a rule that holds
SHARPNESS = 6.0  # of differences of sets
NOISE_LEVELS = 4.0  # similarities below so many standard deviations of their noise count as 0


@dataclass(frozen=True)
class Grid:
    """The panels of one channel, by row and column, and the answers.

    ``cells``: ``(batch, rows, columns, dim, m, m)``, zero where the panel is missing; ``answers``: ``(batch, answers,
    dim, m, m)``.
    """

    cells: Tensor
    answers: Tensor

    @classmethod
    def of(cls, panels: Tensor, rows: int, columns: int) -> Grid:
        """Arrange panels ``(batch, panels, ...)``."""
        known = rows * columns - 1
        missing = torch.zeros_like(panels[:, :1])
        cells = torch.cat([panels[:, :known], missing], dim=1)
        return cls(cells.unflatten(1, (rows, columns)), panels[:, known:])


@dataclass(frozen=True)
class Scores:
    """Scores of the expressions of a channel, in the order of :func:`ghrr.reasoning.rules.expressions`.

    ``first``, ``middle``, ``last``: log-probabilities of the known panels, ``(batch, expressions)``; ``answers``:
    agreement of the answers with the expressions of the last column, ``(batch, answers, expressions)``.
    """

    channel: str
    first: Tensor
    middle: Tensor
    last: Tensor
    answers: Tensor


def score_channel(channel: Channel, outlier: Tensor, rows: int, columns: int) -> Scores:
    """Score all expressions of a channel on all panels; ``outlier`` is the log-probability of panels without a rule."""
    panels, free, rest, other = (
        Grid.of(x, rows, columns) for x in (channel.vectors, channel.free, channel.rest, outlier)
    )
    places = (slice(0, 1), slice(1, columns - 1), slice(columns - 1, columns))
    scores = []
    for kinds, place in zip(expressions(channel.name), places, strict=True):
        s = _agreements(channel, kinds, panels.cells, panels.cells[:, :, place], place)
        likely = (1 - EXCEPTION) * s * rest.cells[:, :, place, None].exp()
        likely = likely + EXCEPTION * other.cells[:, :, place, None].exp()
        first_row = torch.arange(rows)[:, None, None] == 0
        unused = torch.tensor([e.kind == "free" for e in kinds]) | first_row & torch.tensor([e.relates for e in kinds])
        cells = torch.where(unused, free.cells[:, :, place, None], likely.clamp_min(LEAST**2).log())
        if place.stop == columns:
            cells = cells[:, :-1]  # the missing panel
        scores.append(cells.sum(dim=(1, 2)))
    last = slice(columns - 1, columns)
    answers = _agreements(channel, expressions(channel.name)[2], panels.cells, panels.answers[:, None], last, rows - 1)
    return Scores(channel.name, *scores, answers[:, 0])


def _agreements(
    channel: Channel, kinds: Sequence[Expression], cells: Tensor, actual: Tensor, place: slice, row: int | None = None
) -> Tensor:
    """Return how well expressions predict panels, ``(batch, rows, columns, expressions)``; 0 for free ones."""
    shape = actual.shape[:3]
    found: dict[Expression, Tensor] = {Expression("free"): torch.zeros(shape)}
    for kind in kinds:
        if kind in found:
            continue
        prediction = _predict(channel, kind, cells, place)
        if row is not None:
            prediction = prediction[:, row : row + 1]
        if kind.has_step:
            *numbers, _ = kind.numbers
            change = bind(adjoint(prediction), actual)
            close = _agreement(channel, prediction, actual, pairwise_similarity(change, channel.steps))
            found |= {Expression(kind.kind, (*numbers, c)): close[..., i] for i, c in enumerate(STEPS)}
        else:
            close = similarity(*torch.broadcast_tensors(prediction, actual))[..., None]
            found[kind] = _agreement(channel, prediction, actual, close)[..., 0]
    return torch.stack([found[kind].expand(shape) for kind in kinds], dim=-1)


def _agreement(channel: Channel, prediction: Tensor, actual: Tensor, close: Tensor) -> Tensor:
    """Turn similarities into probabilities of agreement."""
    if channel.is_distribution:
        return torch.where(close > NOISE_LEVELS * channel.noise, close, 0.0).clamp(0, 1)
    energy = similarity(prediction, prediction) + similarity(actual, actual)
    return torch.exp(-SHARPNESS * (energy[..., None] - 2 * close).clamp_min(0))


def _predict(channel: Channel, expression: Expression, x: Tensor, place: slice) -> Tensor:
    """Return what an expression predicts, before its step: ``(batch, rows, columns of the place, dim, m, m)``."""
    p, n = x.roll(1, dims=1), x.shape[2]
    j = torch.arange(n)[place]
    match expression.kind:
        case "copy":
            return p[:, :, (j + expression.numbers[0]) % n]
        case "step":
            return x[:, :, j - 1]
        case "first":
            return x[:, :, :1]
        case "parallel":
            return bind(x[:, :, j - 1], bind(adjoint(p[:, :, j - 1]), p[:, :, j]))
        case "repeat":
            return bind(x[:, :, j - 1], bind(adjoint(x[:, :, j - 2]), x[:, :, j - 1]))
        case "rest":
            return bind(multibind(p.unbind(2)), adjoint(multibind(x[:, :, :-1].unbind(2))))[:, :, None]
        case "total":
            a, b, _ = expression.numbers
            middle = multibind(x[:, :, 1:-1].unbind(2)) if n > 2 else None
            start = x[:, :, 0] if a > 0 else adjoint(x[:, :, 0])
            if middle is not None:
                start = bind(start, middle if b > 0 else adjoint(middle))
            return start[:, :, None]
    bits = pairwise_similarity(x[:, :, :2], channel.slots).clamp(0, 1)
    a, b = bits[:, :, :1], bits[:, :, 1:]
    shares = ((1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b)
    wanted = torch.zeros_like(a)
    for i, share in enumerate(shares):
        if expression.numbers[0] >> i & 1:
            wanted = wanted + share
    return torch.einsum("...k,kdij->...dij", wanted.to(x.dtype), channel.slots)
