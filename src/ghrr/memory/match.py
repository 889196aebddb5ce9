r"""Match: judge the scores of candidates, and return the best one with the probability that it is correct.

Unbinding gives an answer q. The candidates :math:`v_1, \dots, v_N` have the scores :math:`s_i = \delta(q, v_i)`:
about 1 for the correct one and about 0 for the others, with noise :math:`\sigma` that follows from the space and the
number of bundled items (:func:`answer_noise`). The score is Gaussian around 1 if candidate i is in q, and around 0 if
not; the likelihood ratio is :math:`L_i = e^{(s_i - 1/2)/\sigma^2}`. Assume even prior odds that no candidate is in q,
and that two candidates are N times less probable than one. Then (:func:`judge`)

.. math:: P(i) = L_i / Z, \qquad P(\text{unknown}) = N / Z, \qquad Z = N + \sum_j L_j + L_1 L_2 / N .

The last term accounts for both top candidates being present: if a key holds two values, neither is the correct one. The
two best scores are sufficient. Every score below the second contributes its mean to Z: a Gaussian around 0, weighted
with L, is a Gaussian around 1, so each adds :math:`\Phi((s_2 - 1)/\sigma) / \Phi(s_2/\sigma)`.

Candidates may be bundles, for example records that are searched by some of their fields. The energies
:math:`E_q = \delta(q, q)` and :math:`E_i = \delta(v_i, v_i)` count the bundled parts. A correct candidate scores
:math:`E_q` if it contains the query, and :math:`E_i` if a noisy query contains the candidate. Its expected score is

.. math:: e_i = \max(1, \min(E_q, E_i)) .

The nearest wrong candidate lacks one part of the query and scores about :math:`e_i - 1`. The formulas above are applied
to :math:`s_i - e_i + 1`, which is 1 if all parts are present and 0 if one is missing. For candidates of energy 1, such
as atoms, this is the score itself. A :class:`Match` reports :math:`s_i / e_i`, the fraction of the query found.

Limitations: noise in a query counts as content, which lowers the probability of a match with larger records. Queries
and candidates must not be normalized, because the energy counts their parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from ghrr.checks import check_integer, check_real, describe, names_errors, value_error
from ghrr.space import Space

CONFIDENCE = 0.99  # default probability from which a match is confident
Number = TypeVar("Number", float, Tensor)


def check_confidence(confidence: float, *, low: float = 0.5) -> float:
    """Return a probability from which a match is confident; raise unless it is a number between ``low`` and 1.

    Examples
    --------
    >>> from ghrr.memory.match import check_confidence
    >>> check_confidence(0.9)
    0.9
    """
    return check_real("confidence", confidence, low=low, high=1.0, open_ends=True)


@dataclass(frozen=True, repr=False, kw_only=True)
class Answer:
    """Best candidate for a question, and the probability that it is correct: the base class of all answers.

    Parameters
    ----------
    guess
        Most probable candidate.
    score
        How well the guess fits; see the class of the answer.
    runner_up
        Second-best candidate, or None if there was only one.
    margin
        Score minus the score of the runner-up; without a runner-up, the score.
    candidates
        Number of candidates.
    probability
        Probability that the guess is correct.
    required_confidence
        Probability from which the answer is ``confident``.
    note
        What the reader should know, such as that a name of the query is unknown; otherwise empty.

    Examples
    --------
    >>> from ghrr.memory import Answer
    >>> answer = Answer(guess="sister", score=0.9, runner_up="brother", margin=0.4, candidates=20, probability=0.97)
    >>> answer
    Answer('sister', score=0.900, margin=0.400, confident=False)
    """

    guess: Any
    score: float
    runner_up: Any
    margin: float
    candidates: int
    probability: float
    required_confidence: float = CONFIDENCE
    note: str = ""

    @property
    def unknown(self) -> bool:
        """Whether it is more probable than not that no candidate is correct; False if this has no probability."""
        return False

    @property
    def label(self) -> Any:
        """The guess, or None if the answer is unknown."""
        return None if self.unknown else self.guess

    @property
    def confident(self) -> bool:
        """Whether the guess is correct with a probability of at least ``required_confidence``."""
        return self.probability >= self.required_confidence

    def _shown_guess(self) -> str:
        return repr(self.guess)

    def __repr__(self) -> str:
        shown = "unknown" if self.unknown else self._shown_guess()
        numbers = f"score={self.score:.3f}, margin={self.margin:.3f}, confident={self.confident}"
        return f"{type(self).__name__}({shown}, {numbers}{f', {self.note}' if self.note else ''})"


@names_errors
@dataclass(frozen=True, repr=False, kw_only=True)
class Match(Answer):
    """Best candidate for an answer that was read from a hypervector, and the probability that it is correct.

    Use :attr:`label` instead of the ``guess`` to get None if noise explains the score. The score is the similarity of
    the guess with the answer, divided by the expected similarity of a correct one: about 1 if the guess is correct.
    For atoms it is the similarity itself.

    Parameters
    ----------
    guess, score, runner_up, margin, candidates, probability, required_confidence, note
        See :class:`ghrr.memory.Answer`.
    noise
        Theoretical standard deviation of the scores.
    probability_unknown
        Probability that no candidate is in the answer.
    error
        Standard error of a decoded number, otherwise None.

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

    noise: float
    probability_unknown: float
    error: float | None = None

    @property
    def unknown(self) -> bool:
        """Whether the probability that no candidate is in the answer is above one half."""
        return self.probability_unknown > 0.5

    def _shown_guess(self) -> str:
        return repr(self.guess) if self.error is None else f"{self.guess:.6g} ± {self.error:.2g}"


@names_errors
def answer_noise(
    space: Space, energy: Tensor | float, *, bound: bool = True, candidate_energy: Tensor | float = 1.0
) -> Tensor:
    r"""Return the standard deviation of the scores of an answer, :math:`\sigma^2 = s^2 + (E - 1) c^2`.

    The energy :math:`E = \delta(q, q)` counts the items that are bundled in the answer: the correct value and E - 1
    others. Each of the others adds crosstalk of deviation c; s is the noise of two independent hypervectors. Unbinding
    a unitary key does not change E, so you can compute it before unbinding. If a candidate is itself a bundle, each of
    its parts after the first adds :math:`E s^2`.

    Parameters
    ----------
    space
        Space of the hypervectors: s is its ``noise_std`` and c its ``crosstalk_std``.
    energy
        Energy E of the answers.
    bound
        Whether the other items are bound to other keys. If not, as in a set, their noise is s instead of c.
    candidate_energy
        Energy of the candidates; 1 for atoms.

    Shapes
    ------
    energy, candidate_energy: ``(*)``, broadcast; output: ``(*)``, in double precision, on the device of ``energy``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.memory.match import answer_noise
    >>> space = ghrr.Space(dim=100, m=3)
    >>> x = ghrr.bundle(space.vectors(list("abcd")))
    >>> f"{answer_noise(space, ghrr.similarity(x, x)):.3f} {2 * space.noise_std:.3f}"
    '0.048 0.047'
    """
    given = torch.as_tensor(energy, dtype=torch.float64)
    more_parts = (torch.as_tensor(candidate_energy, dtype=torch.float64) - 1).clamp(min=0)
    other = space.crosstalk_std if bound else space.noise_std
    variance = space.noise_std**2 + (given - 1).clamp(min=0) * other**2
    return torch.sqrt(variance + more_parts * given * space.noise_std**2)


def expected_score(energy: Tensor, candidate_energy: Tensor) -> Tensor:
    r"""Return the expected similarity of a correct candidate, :math:`\max(1, \min(E_q, E_i))`.

    See :mod:`ghrr.memory.match`.

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


@names_errors
def judge(best: Tensor, second: Tensor, *, candidates: int, noise: Tensor, odds: float = 1.0) -> tuple[Tensor, Tensor]:
    r"""Return the probabilities that the best candidate is correct, and that no candidate is.

    Parameters
    ----------
    best, second
        The two highest scores. ``second`` is ignored if there is a single candidate.
    candidates
        Number of candidates N.
    noise
        Standard deviation of the scores; see :func:`answer_noise`.
    odds
        Prior odds that no candidate is in the answer.

    Shapes
    ------
    best, second, noise: ``(*)``, broadcast; outputs: ``(*)``, in double precision

    Examples
    --------
    >>> import torch
    >>> from ghrr.memory.match import judge
    >>> correct, unknown = judge(torch.tensor(0.9), torch.tensor(0.3), candidates=1000, noise=torch.tensor(0.1))
    >>> f"{correct:.6f} {unknown:.6f}"
    '1.000000 0.000000'
    """
    candidates = check_integer("candidates", candidates, least=1)
    best, second, sigma = torch.broadcast_tensors(best.double(), second.double(), noise.double())  # type: ignore[no-untyped-call]
    sigma = sigma.clamp(min=1e-150)
    log_unknown = torch.full_like(best, math.log(candidates * odds))
    terms = [log_unknown, (best - 0.5) / sigma.square()]
    if candidates > 1:
        runner_up = (second - 0.5) / sigma.square()
        terms += [runner_up, terms[1] + runner_up - math.log(candidates)]
    if candidates > 2:
        below = torch.special.log_ndtr((second - 1) / sigma) - torch.special.log_ndtr(second / sigma)
        terms.append(math.log(candidates - 2) + below)
    total = torch.logsumexp(torch.stack(terms), dim=0)
    return torch.exp(terms[1] - total), torch.exp(log_unknown - total)


@names_errors
def required_score(variance: Number, *, odds: float, confidence: float = 0.5) -> Number:
    r"""Return the score at which a candidate that is judged alone has a probability of ``confidence``.

    .. math:: \tfrac12 + \sigma^2 \left(\log \text{odds} + \log \frac{c}{1 - c}\right)

    Parameters
    ----------
    variance
        Variance of the scores, a number or a tensor.
    odds
        Prior odds that the candidate is not in the answer.
    confidence
        Probability c.

    Examples
    --------
    >>> import torch
    >>> from ghrr.memory.match import judge, required_score
    >>> score = torch.tensor(required_score(0.01, odds=100, confidence=0.99))
    >>> f"{judge(score, score, candidates=1, noise=torch.tensor(0.1), odds=100)[0]:.2f}"
    '0.99'
    """
    confidence = check_confidence(confidence, low=0.0)
    return 0.5 + variance * (math.log(odds) + math.log(confidence / (1 - confidence)))


@names_errors
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
    """Make a :class:`Match` for each answer from its two best candidates.

    Parameters
    ----------
    labels
        For each answer the labels of its best candidates, best first. Only the first two are used.
    scores
        Scores of these candidates, on any device.
    candidates
        Number of all candidates.
    noise
        Standard deviation of the scores, for all answers or for each.
    confidence
        Probability from which a match is confident.
    odds
        Prior odds that no candidate is in the answer.
    errors
        Standard errors of labels that are decoded numbers.
    expected
        Expected score of a correct answer, for each score, as from ``ghrr.memory.match.expected_score``; 1 by default.

    Shapes
    ------
    labels: n lists of k; scores, expected: ``(n, k)``, k >= 1; noise: ``()`` or ``(n,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.memory import make_matches
    >>> make_matches([["London", "Paris"]], torch.tensor([[0.97, 0.12]]), candidates=100, noise=torch.tensor(0.08))
    [Match('London', score=0.970, margin=0.850, confident=True)]
    """
    confidence = check_confidence(confidence)
    if scores.ndim != 2 or scores.shape[1] < min(2, candidates) or len(labels) != len(scores):
        raise value_error(
            f"expected scores (n, k) and n lists of labels for the {min(2, candidates)} best of "
            f"{candidates} candidates, got {describe(scores)} and {len(labels)} lists"
        )
    if not torch.isfinite(scores).all():
        raise value_error("scores must be finite, got NaN or infinity; check the hypervectors")
    scores = scores.double().cpu()
    noise = noise.double().cpu().expand(len(scores))
    is_single = candidates == 1
    expected = torch.ones_like(scores) if expected is None else expected.double().cpu()
    found = scores + (1 - expected)  # 1 if all parts of the query are present, 0 if one is missing
    correct, unknown = judge(found[:, 0], found[:, 1 - is_single], candidates=candidates, noise=noise, odds=odds)
    scores, noise = scores / expected, noise / expected[:, 0]
    margin = scores[:, 0] if is_single else scores[:, 0] - scores[:, 1]
    columns = (scores[:, 0], margin, noise, correct, unknown)
    rows = zip(labels, errors or [None] * len(labels), *(column.tolist() for column in columns), strict=True)
    return [
        Match(
            guess=best[0],
            score=score,
            runner_up=None if is_single else best[1],
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
