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
from ghrr.reasoning.rules import STEPS, Expression

__all__ = ["Grid", "Scores", "score_channel"]

EXCEPTION = 1e-3  # probability ε that a panel does not follow a rule that holds
SHARPNESS = 6.0  # of differences of sets
NOISE_LEVELS = 4.0  # similarities below so many standard deviations of their noise count as 0
Used = dict[Expression, bool]  # the expressions of a place, and which of them any rule uses


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
        return cls(cells.view(len(cells), rows, columns, *cells.shape[2:]), panels[:, known:])


@dataclass(frozen=True)
class Scores:
    """Scores of the expressions of a channel, in the order of :func:`ghrr.reasoning.rules.expressions`.

    ``first``, ``middle``, ``last``: log-probabilities of the known panels, ``(batch, expressions)``; ``answers``:
    agreement of the answers with the expressions of the last column, ``(batch, answers, expressions)``; ``expected``:
    that of a right answer, ``(batch, expressions)``, which is below 1 if panels are uncertain. Expressions that are not
    used have a score of 0.
    """

    channel: str
    first: Tensor
    middle: Tensor
    last: Tensor
    answers: Tensor
    expected: Tensor


def score_channel(channel: Channel, outlier: Tensor, rows: int, columns: int, used: Sequence[Used]) -> Scores:
    """Score the expressions that are used; ``outlier`` is the log-probability of panels without a rule."""
    panels, free, rest, other = (
        Grid.of(x, rows, columns) for x in (channel.vectors, channel.free, channel.rest, outlier)
    )
    places = (slice(0, 1), slice(1, columns - 1), slice(columns - 1, columns))
    scores = []
    for kinds, place in zip(used, places, strict=True):
        s, _ = _agreements(channel, kinds, panels.cells, panels.cells[:, :, place], place)
        likely = (1 - EXCEPTION) * s * rest.cells[:, :, place, None].exp()
        likely = likely + EXCEPTION * other.cells[:, :, place, None].exp()
        first_row = torch.arange(rows)[:, None, None] == 0
        unused = torch.tensor([e.kind == "free" for e in kinds]) | first_row & torch.tensor([e.relates for e in kinds])
        cells = torch.where(unused, free.cells[:, :, place, None], likely.clamp_min(LEAST**2).log())
        if place.stop == columns:
            cells = cells[:, :-1]  # the missing panel
        scores.append(cells.sum(dim=(1, 2)))
    answers, energy = _agreements(channel, used[2], panels.cells, panels.answers[:, None], places[2], last_row=True)
    if not channel.is_distribution:
        energy = torch.ones_like(energy)
    first, middle, last = scores
    return Scores(channel.name, first, middle, last, answers[:, 0], energy.mean(dim=2)[:, 0].sqrt().clamp(0, 1))


def _agreements(
    channel: Channel, kinds: Used, cells: Tensor, actual: Tensor, place: slice, *, last_row: bool = False
) -> tuple[Tensor, Tensor]:
    """Return how well expressions predict panels, and the product of the energies of both.

    Both are ``(batch, rows, columns, expressions)``, and 0 for expressions that are free or not used.
    """
    shape = actual.shape[:3]
    nothing = torch.zeros(shape)
    found = {kind: (nothing, nothing) for kind, use in kinds.items() if not use}
    found[Expression("free")] = nothing, nothing
    energy = _energy(actual)
    for kind in kinds:
        if kind in found:
            continue
        prediction = _predict(channel, kind, cells, place)
        if last_row:
            prediction = prediction[:, -1:]
        panels, panel_energy = actual, energy
        if not last_row and kind.relates:
            panels, panel_energy = actual[:, 1:], energy[:, 1:]
        both = _energy(prediction), panel_energy
        if kind.has_step:
            *numbers, _ = kind.numbers
            change = bind(adjoint(prediction), panels)
            close = _agreement(channel, pairwise_similarity(change, channel.steps), *both)
            steps = {Expression(kind.kind, (*numbers, c)): close[..., i] for i, c in enumerate(STEPS)}
        else:
            close = similarity(prediction, panels)[..., None]
            steps = {kind: _agreement(channel, close, *both)[..., 0]}
        missing = shape[1] - panels.shape[1]  # the first row, if the expression needs a row before
        for name, agreement in steps.items():
            if name not in found:
                pair = (agreement, (both[0] * both[1]).expand(agreement.shape))
                found[name] = tuple(torch.nn.functional.pad(x, (0, 0, missing, 0)) for x in pair)  # type: ignore
    agreements, energies = zip(*(found[kind] for kind in kinds), strict=True)
    return tuple(torch.stack([x.expand(shape) for x in each], dim=-1) for each in (agreements, energies))  # type: ignore


def _energy(x: Tensor) -> Tensor:
    """Return the similarity of hypervectors with themselves, in one pass."""
    return torch.view_as_real(x).square().flatten(-4).sum(-1) / (x.shape[-3] * x.shape[-1])


def _agreement(channel: Channel, close: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
    """Turn similarities into probabilities of agreement, given the energies of both."""
    if channel.is_distribution:
        noise = NOISE_LEVELS * channel.noise * (predicted * actual).sqrt()[..., None]
        return torch.where(close > noise, close, 0.0).clamp(0, 1)
    return torch.exp(-SHARPNESS * ((predicted + actual)[..., None] - 2 * close).clamp_min(0))


def _predict(channel: Channel, expression: Expression, x: Tensor, place: slice) -> Tensor:
    """Return what an expression predicts, before its step: ``(batch, rows, columns of the place, dim, m, m)``.

    Expressions that relate rows have no first row.
    """
    p, own, n = x[:, :-1], x[:, 1:], x.shape[2]
    first, stop = place.start, place.stop
    match expression.kind:
        case "copy":
            start = (first + expression.numbers[0]) % n  # a place of several columns never wraps around
            return p[:, :, start : start + stop - first]
        case "step":
            return x[:, :, first - 1 : stop - 1]
        case "first":
            return x[:, :, :1]
        case "parallel":
            change = bind(adjoint(p[:, :, first - 1 : stop - 1]), p[:, :, first:stop])
            return bind(own[:, :, first - 1 : stop - 1], change)
        case "repeat":
            before, start = x[:, :, -2:-1], x[:, :, -3:-2] if n > 2 else x[:, :, -2:-1]
            return bind(before, bind(adjoint(start), before))
        case "rest":
            return bind(multibind(p.unbind(2)), adjoint(multibind(own[:, :, :-1].unbind(2))))[:, :, None]
        case "total":
            sign, signs, _ = expression.numbers
            middle = multibind(x[:, :, 1:-1].unbind(2)) if n > 2 else None
            start = x[:, :, 0] if sign > 0 else adjoint(x[:, :, 0])
            if middle is not None:
                start = bind(start, middle if signs > 0 else adjoint(middle))
            return start[:, :, None]
    bits = pairwise_similarity(x[:, :, :2], channel.slots).clamp(0, 1)
    a, b = bits[:, :, :1], bits[:, :, 1:]
    shares = ((1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b)
    wanted = torch.zeros_like(a)
    for i, share in enumerate(shares):
        if expression.numbers[0] >> i & 1:
            wanted = wanted + share
    return torch.einsum("...k,kdij->...dij", wanted.to(x.dtype), channel.slots)


def predict_missing(channel: Channel, expression: Expression, rows: int, columns: int) -> Tensor:
    """Return what an expression predicts for the missing panel, ``(batch, dim, m, m)``."""
    cells = Grid.of(channel.vectors, rows, columns).cells
    prediction = _predict(channel, expression, cells, slice(columns - 1, columns))[:, -1, 0]
    return bind(prediction, channel.steps[STEPS.index(expression.numbers[-1])]) if expression.has_step else prediction
