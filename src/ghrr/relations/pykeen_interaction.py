"""GHRR as an interaction of PyKEEN, so that its pipelines train and evaluate it. Needs the extra ``relations``."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr import ops
from ghrr.checks import check_integer, describe, install_hint, names_errors, type_error, value_error
from ghrr.relations.scoring import to_hypervectors, to_rows

try:
    from pykeen.nn.modules import Interaction
except ModuleNotFoundError as error:
    raise ImportError(f"GHRRInteraction: PyKEEN is not installed; {install_hint('relations')}") from error


@names_errors
class GHRRInteraction(Interaction):  # type: ignore[misc]  # PyKEEN's types are not complete
    r"""Score :math:`mD\,\delta(h * r, t)` on real embeddings of :math:`2 D m^2` numbers.

    Representations are rows of ``ghrr.relations.scoring.to_rows``: real and imaginary parts side by side. The
    number of slots D follows from the dimension of the embeddings.

    Parameters
    ----------
    m
        Size of the matrices; m = 1 is ComplEx.

    Shapes
    ------
    h, r, t: ``(*batch, 2 * dim * m * m)``, real, batches broadcast; output: ``(*batch)``

    Examples
    --------
    The guide on knowledge graphs trains it with PyKEEN's ``pipeline``.

    >>> import torch
    >>> from ghrr.relations.pykeen_interaction import GHRRInteraction
    >>> h, r, t = torch.randn(3, 5, 2 * 28 * 9)  # five triples; 28 slots of 3 x 3 complex numbers
    >>> GHRRInteraction(m=3)(h, r, t).shape
    torch.Size([5])
    """

    def __init__(self, m: int) -> None:
        super().__init__()
        self.m = check_integer("m", m, least=1)

    def forward(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Return the scores of triples."""
        for name, x in {"h": h, "r": r, "t": t}.items():
            if x.dtype not in (torch.float32, torch.float64):
                raise type_error(f"{name} must be float32 or float64, got {describe(x)}")
            if x.shape[-1] == 0 or x.shape[-1] % (2 * self.m**2):
                raise value_error(
                    f"{name} must have a multiple of 2 * m**2 = {2 * self.m**2} numbers, got {describe(x)}"
                )
        relation = to_hypervectors(r, self.m)
        if h.numel() > t.numel():  # all heads: move the relation to the tail, and multiply once for each question
            query, candidates = ops.bind(*_broadcast(to_hypervectors(t, self.m), relation), adjoint_b=True), h
        else:
            query, candidates = ops.bind(*_broadcast(to_hypervectors(h, self.m), relation)), t
        return torch.einsum("...d,...d->...", to_rows(query), candidates)


def _broadcast(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    a, b = torch.broadcast_tensors(a, b)  # type: ignore[no-untyped-call]
    return a.contiguous(), b.contiguous()
