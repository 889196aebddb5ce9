r"""Chart: the most probable way to compose a chain, over all bracketings.

Because binding is associative, a chain can be composed in any order: :math:`(a * b) * c = a * (b * c)`. Replacing an
intermediate product by the nearest relation removes its noise, but not every intermediate product has a name: there is
no word for the father of an uncle's wife. The chart tries all orders. With the log-probability
:math:`T[a, b, c]` that a and b compose to c, the best score of relation c for the steps i to j of a chain is

.. math:: S[i, j, c] = \max_{i \le k < j} \max_{a, b} \; S[i, k, a] + S[k + 1, j, b] + T[a, b, c] .

This is the algorithm of Cocke, Younger and Kasami for context-free grammars. A span can also be read directly, as one
product without intermediate names; the better of both counts. All chains of a batch have one length, and there is no
loop over chains: the loops run over the width of the span and the place of the split.

For n chains of length L and R relations the time is :math:`O(n L^3 R^2 + n L^2 R^3)`: the maximum over splits is taken
before that over the answers, which saves a factor R.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from ghrr.checks import names_errors

# Score of impossible compositions. Finite, so that differences of scores are numbers.
IMPOSSIBLE = -1e9
_CHUNK_NUMBERS = 1 << 24  # numbers in the tensors of one chunk of chains: 64 MiB


class Chart(NamedTuple):
    """Result of :func:`fill_chart`.

    Parameters
    ----------
    scores
        Entry w - 1 has the scores of spans of width w, by chain, start and relation.
    table, direct
        As given.
    """

    scores: list[Tensor]
    table: Tensor
    direct: Mapping[int, Tensor]

    @property
    def answers(self) -> Tensor:
        """Scores of all relations for the whole chains, ``(n, relations)``."""
        return self.scores[-1][:, 0]


class Step(NamedTuple):
    """How a relation was obtained for a span: widths and relations of its parts, and the score of the step.

    A span that was read as one product has no relations besides the ones of the chain: ``relations`` is empty.
    """

    widths: tuple[int, ...]
    relations: tuple[int, ...]
    score: float


@names_errors
def fill_chart(
    chains: Tensor,
    table: Tensor,
    direct: Mapping[int, Tensor] = MappingProxyType({}),
    combine: Callable[[Tensor, Tensor], Tensor] = torch.add,
) -> Chart:
    """Return the best score of every relation for every span of the chains.

    Parameters
    ----------
    chains
        Relations as indices.
    table
        Log-probability that a and b compose to c.
    direct
        Log-probabilities of spans that are read as one product, by their width.
    combine
        Score of two steps from their scores: :func:`torch.add`, or :func:`torch.minimum` for the weakest step of the
        derivation whose weakest step is the most probable one.

    Shapes
    ------
    chains: ``(n, length)``; table: ``(relations, relations, relations)``; direct[w] and scores[w - 1] of the output:
    ``(n, length - w + 1, relations)``

    Examples
    --------
    Composition is addition modulo 3, so 1 + 2 + 2 = 2, in any order:

    >>> import torch
    >>> from ghrr.relations.chains import fill_chart
    >>> table = torch.full((3, 3, 3), -9.0)
    >>> for a in range(3):
    ...     for b in range(3):
    ...         table[a, b, (a + b) % 3] = 0.0
    >>> fill_chart(torch.tensor([[1, 2, 2]]), table).answers
    tensor([[-9., -9.,  0.]])
    """
    (n, length), count = chains.shape, len(table)
    leaves = torch.full((n, length, count), IMPOSSIBLE, dtype=table.dtype)
    scores = [leaves.scatter_(2, chains[..., None], 0.0)]
    columns = table.flatten(0, 1).mT.contiguous()
    for width in range(2, length + 1):
        starts = length - width + 1
        pairs = torch.full((n, starts, count, count), 2 * IMPOSSIBLE, dtype=table.dtype)
        for split in range(1, width):
            left = scores[split - 1][:, :starts]
            right = scores[width - split - 1][:, split : split + starts]
            torch.maximum(pairs, combine(left[..., :, None], right[..., None, :]), out=pairs)
        flat = pairs.flatten(2)
        best = torch.stack([combine(flat, column).amax(dim=2) for column in columns], dim=2)
        if width in direct:
            best = torch.maximum(best, direct[width])
        scores.append(best.clamp(min=IMPOSSIBLE))
    return Chart(scores, table, direct)


def chunks(chains: Tensor, relations: int) -> Iterator[Tensor]:
    """Yield parts of the chains whose charts fit in memory together."""
    length = chains.shape[1]
    per_chain = length * relations * (length // 2 + 3 * relations)
    yield from torch.split(chains, max(1, _CHUNK_NUMBERS // per_chain))


def find_step(chart: Chart, row: int, span: tuple[int, int], relation: int) -> Step:
    """Return how the score of a relation for a span of a chain was reached; a span is ``(start, width >= 2)``."""
    start, width = span
    lefts = torch.stack([chart.scores[split - 1][row, start] for split in range(1, width)])
    rights = torch.stack([chart.scores[width - split - 1][row, start + split] for split in range(1, width)])
    totals = lefts[:, :, None] + rights[:, None, :] + chart.table[:, :, relation]
    best, count = int(totals.argmax()), len(chart.table)
    if width in chart.direct:
        score = chart.direct[width][row, start, relation]
        if score > totals.flatten()[best]:
            return Step((1,) * width, (), float(score))
    split, a, b = best // count**2 + 1, best // count % count, best % count
    return Step((split, width - split), (a, b), float(chart.table[a, b, relation]))


@names_errors
def compose_left_to_right(chains: Tensor, table: Tensor) -> Tensor:
    """Compose the first two relations, replace them by the most probable relation, and continue to the end.

    The simplest clean-up. It fails when an intermediate product has no name.

    Shapes
    ------
    chains: ``(n, length)``; table: ``(relations, relations, relations)``; output: ``(n,)``

    Examples
    --------
    Composition is subtraction modulo 3, so (1 - 2) - 2 = 0:

    >>> import torch
    >>> from ghrr.relations.chains import compose_left_to_right
    >>> a, b, c = torch.meshgrid(3 * [torch.arange(3)], indexing="ij")
    >>> compose_left_to_right(torch.tensor([[1, 2, 2]]), ((a - b) % 3 == c).float().log())
    tensor([0])
    """
    best = table.argmax(dim=2)
    answer = chains[:, 0]
    for step in range(1, chains.shape[1]):
        answer = best[answer, chains[:, step]]
    return answer
