r"""Match: the best candidate for an answer, and the probability that it is right.

Unbinding gives an answer q; the candidates :math:`v_1, \dots, v_N` score :math:`s_i = \delta(q, v_i)`. The right one
scores about 1, the others about 0, all within a noise :math:`\sigma` that the space and the load determine
(:func:`answer_noise`). A score makes it :math:`L_i = e^{(s_i - 1/2)/\sigma^2}` times as likely that candidate i is in
q: the ratio of two Gaussians, about 1 and about 0. With even odds beforehand that none of the candidates is there, and
N times smaller ones for two than for one,

.. math:: P(i) = L_i / Z, \qquad P(\text{unknown}) = N / Z, \qquad Z = N + \sum_j L_j + L_1 L_2 / N .

The last term speaks for both of the two best: a key that holds two values has no right one. Only the two best scores
are needed. Of those below the second the mean is known: a Gaussian about 0, weighted with L, is one about 1, so each
adds :math:`\Phi((s_2 - 1)/\sigma) / \Phi(s_2/\sigma)` to Z.

Candidates may be bundles themselves, such as records, searched with a query of some of their fields. The energies
:math:`E_q = \delta(q, q)` and :math:`E_i = \delta(v_i, v_i)` count what is bundled in each. A right candidate scores
:math:`E_q` if it contains the query, and :math:`E_i` if a noisy query contains it. So its expected score is

.. math:: e_i = \max(1, \min(E_q, E_i)),

and the nearest wrong candidate, which lacks one part of the query, scores about :math:`e_i - 1`. The formulas above
then hold for :math:`s_i - e_i + 1`, which is 1 if all parts are there and 0 if one is missing. For candidates of energy
1, such as atoms, :math:`e_i = 1` and this is the score itself. A :class:`Match` shows :math:`s_i / e_i`, the share of
the query that was found.

This has two limits. Noise in a query counts as content, which lowers the probability of a match with larger records.
Queries and candidates must not be normalised, because the energy counts their parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_integer, check_real, describe
from ghrr.space import Space

CONFIDENCE = 0.99  # how probable an answer must be to be called confident


@dataclass(frozen=True, repr=False)
class Match:
    """The best of some candidates, and whether it can be trusted.

    Parameters
    ----------
    guess
        The most probable candidate; ``label`` is the same, but None when noise explains the score.
    score
        Its similarity with the answer, divided by what is expected of a right one: about 1 when it is right. For
        candidates that are atoms it is the similarity itself.
    runner_up
        The second-best candidate, None if there was one only.
    margin
        How far the runner-up is behind; without one, the score itself.
    noise
        Standard deviation of the scores, by theory.
    candidates
        Among how many it was chosen.
    probability
        That the guess is right.
    probability_unknown
        That none of the candidates is in the answer.
    required_confidence
        Probability from which the match is ``confident``.
    error
        For a decoded number its standard error, otherwise None.

    Examples
    --------
    >>> import torch
    >>> from ghrr.memory.match import make_matches
    >>> scores = torch.tensor([[0.97, 0.12], [0.60, 0.55], [0.15, 0.14]])
    >>> for match in make_matches([["London", "Paris"]] * 3, scores, candidates=100, noise=torch.tensor(0.08)):
    ...     print(match)
    Match('London', score=0.970, margin=0.850, confident=True)
    Match('London', score=0.600, margin=0.050, confident=False)
    Match(unknown, score=0.150, margin=0.010, confident=False)
    """

    guess: Any
    score: float
    runner_up: Any
    margin: float
    noise: float
    candidates: int
    probability: float
    probability_unknown: float
    required_confidence: float = CONFIDENCE
    error: float | None = None

    @property
    def unknown(self) -> bool:
        """Whether it is more probable than not that none of the candidates is in the answer."""
        return self.probability_unknown > 0.5

    @property
    def label(self) -> Any:
        """The guess, or None if it is unknown."""
        return None if self.unknown else self.guess

    @property
    def confident(self) -> bool:
        """Whether the guess is right with a probability of at least ``required_confidence``."""
        return self.probability >= self.required_confidence

    def __repr__(self) -> str:
        guess = repr(self.guess) if self.error is None else f"{self.guess:.6g} ± {self.error:.2g}"
        shown = "unknown" if self.unknown else guess
        return f"Match({shown}, score={self.score:.3f}, margin={self.margin:.3f}, confident={self.confident})"


def answer_noise(
    space: Space, energy: Tensor | float, *, bound: bool = True, candidate_energy: Tensor | float = 1.0
) -> Tensor:
    r"""Standard deviation of the scores of candidates against an answer, :math:`\sigma^2 = s^2 + (E - 1) c^2`.

    :math:`E = \delta(q, q)` counts what is bundled in the answer: 1 for the right value, and 1 for each other pair,
    whose crosstalk has the deviation c; s is the noise of two independent hypervectors. Unbinding a unitary key does
    not change E, so it can be taken from the whole before unbinding. For a candidate that is a bundle itself, each part
    after the first adds :math:`E s^2`.

    Parameters
    ----------
    space
        Gives s and c: ``noise_std`` and ``crosstalk_std``.
    energy
        E, of any shape.
    bound
        Whether the other items are bound to other keys; if not, as in a set, their noise is s.
    candidate_energy
        What is bundled in a candidate: 1 for an atom.

    Shapes
    ------
    energy, candidate_energy: ``(*)``, broadcast; output: ``(*)``, in double precision

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.memory.match import answer_noise
    >>> space = ghrr.Space(dim=100, m=3)
    >>> x = ghrr.bundle(space.vectors(list("abcd")))
    >>> f"{answer_noise(space, ghrr.similarity(x, x)):.3f} {2 * space.noise_std:.3f}"
    '0.045 0.047'
    """
    given = torch.as_tensor(energy, dtype=torch.float64)
    more_parts = (torch.as_tensor(candidate_energy, dtype=torch.float64) - 1).clamp(min=0)
    other = space.crosstalk_std if bound else space.noise_std
    variance = space.noise_std**2 + (given - 1).clamp(min=0) * other**2
    return torch.sqrt(variance + more_parts * given * space.noise_std**2)


def expected_score(energy: Tensor, candidate_energy: Tensor) -> Tensor:
    r"""Similarity to expect of a right candidate, :math:`\max(1, \min(E_q, E_i))`: see :mod:`ghrr.memory.match`.

    Shapes
    ------
    energy, candidate_energy: ``(*)``, broadcast; output: ``(*)``, in double precision

    Examples
    --------
    >>> import torch
    >>> from ghrr.memory.match import expected_score
    >>> two_fields, noisy_atom = torch.tensor(2.0), torch.tensor(7.0)
    >>> record, atom = torch.tensor(5.0), torch.tensor(1.0)
    >>> expected_score(two_fields, record).item(), expected_score(noisy_atom, atom).item()
    (2.0, 1.0)
    """
    return torch.minimum(energy.double(), candidate_energy.double()).clamp(min=1.0)


def judge(best: Tensor, second: Tensor, *, candidates: int, noise: Tensor, odds: float = 1.0) -> tuple[Tensor, Tensor]:
    r"""Probability that the best of the candidates is right, and that none of them is.

    Parameters
    ----------
    best, second
        The two highest scores; with a single candidate ``second`` is not looked at.
    candidates
        Their number N.
    noise
        Standard deviation of the scores, as of :func:`answer_noise`.
    odds
        How much likelier it is beforehand that none of them is in the answer than that one is.

    Shapes
    ------
    best, second, noise: ``(*)``, broadcast; both outputs: ``(*)``, in double precision

    Examples
    --------
    >>> import torch
    >>> from ghrr.memory.match import judge
    >>> right, unknown = judge(torch.tensor(0.9), torch.tensor(0.3), candidates=1000, noise=torch.tensor(0.1))
    >>> f"{right:.6f} {unknown:.6f}"
    '1.000000 0.000000'
    """
    candidates = check_integer("judge", "candidates", candidates, least=1)
    best, second, sigma = torch.broadcast_tensors(best.double(), second.double(), noise.double())  # type: ignore[no-untyped-call]
    sigma = sigma.clamp(min=1e-150)
    none = torch.full_like(best, math.log(candidates * odds))
    terms = [none, (best - 0.5) / sigma.square()]
    if candidates > 1:
        runner_up = (second - 0.5) / sigma.square()
        terms += [runner_up, terms[1] + runner_up - math.log(candidates)]
    if candidates > 2:
        below = torch.special.log_ndtr((second - 1) / sigma) - torch.special.log_ndtr(second / sigma)
        terms.append(math.log(candidates - 2) + below)
    total = torch.logsumexp(torch.stack(terms), dim=0)
    return torch.exp(terms[1] - total), torch.exp(none - total)


def make_matches(
    labels: Sequence[Sequence[Any]],
    scores: Tensor,
    *,
    candidates: int,
    noise: Tensor,
    confidence: float = CONFIDENCE,
    odds: float = 1.0,
    errors: Sequence[float | None] | None = None,
    expected: Tensor | None = None,
) -> list[Match]:
    """Matches from the one or two best candidates of each answer.

    Parameters
    ----------
    labels
        For each answer the labels of its best candidates, best first; from the third on they are not looked at.
    scores
        Their scores.
    candidates
        Among how many they are the best.
    noise
        Standard deviation of the scores, one for all or one for each answer.
    confidence
        From which probability on a match is confident.
    odds
        As in :func:`judge`.
    errors
        Standard errors of labels that are decoded numbers.
    expected
        For each score, what a right candidate would score, as of :func:`expected_score`; 1 by default.

    Shapes
    ------
    labels: n lists of k; scores, expected: ``(n, k)``, k >= 1; noise: ``()`` or ``(n,)``

    Examples
    --------
    See :class:`Match`.
    """
    confidence = check_real("make_matches", "confidence", confidence, low=0.5, high=1.0, open_ends=True)
    if scores.ndim != 2 or scores.shape[1] < min(2, candidates) or len(labels) != len(scores):
        raise ValueError(
            f"make_matches: needs the {min(2, candidates)} best of {candidates} candidates for each answer, scores "
            f"(n, k) and n lists of labels; got {describe(scores)} and {len(labels)} lists"
        )
    if not torch.isfinite(scores).all():
        raise ValueError("make_matches: a score is not finite; NaN and infinity in a hypervector have no match")
    scores = scores.double().cpu()
    noise = noise.double().cpu().expand(len(scores))
    alone = candidates == 1
    expected = torch.ones_like(scores) if expected is None else expected.double().cpu()
    found = scores + (1 - expected)  # 1: all parts of the query are there, 0: all but one
    right, unknown = judge(found[:, 0], found[:, 1 - alone], candidates=candidates, noise=noise, odds=odds)
    scores, noise = scores / expected, noise / expected[:, 0]
    margin = scores[:, 0] if alone else scores[:, 0] - scores[:, 1]
    columns = (scores[:, 0], margin, noise, right, unknown)
    rows = zip(labels, errors or [None] * len(labels), *(column.tolist() for column in columns), strict=True)
    return [
        Match(
            guess=best[0],
            score=score,
            runner_up=None if alone else best[1],
            margin=margin,
            noise=deviation,
            candidates=candidates,
            probability=probability,
            probability_unknown=missing,
            required_confidence=confidence,
            error=error,
        )
        for best, error, score, margin, deviation, probability, missing in rows
    ]
