r"""The forgetting gate: :math:`\sum_{s=j+1}^i \log f_s` added to the score of query i and key j.

With :math:`F_t = \sum_{s \le t} \log f_s` the sum is :math:`F_i - F_j`, so it is a scalar product of a few more
features of query and key, and any kernel of attention computes it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ghrr.nn.precision import FullPrecision

FEATURES = 8  # six are used; kernels of attention want a multiple of 8
_PIECES = 3


class ForgetGate(FullPrecision):
    """Logarithms of the gates of tokens. The initial gates of the heads forget in 7 to 400 tokens."""

    def __init__(self, embed_dim: int, heads: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, embed_dim, dtype=dtype) * (0.1 / embed_dim**0.5))
        self.bias = nn.Parameter(torch.linspace(2, 6, heads, dtype=dtype))

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """Return the logarithms for tokens ``(batch, n, embed_dim)``: ``(batch, heads, n)``, 0 at padding."""
        with torch.autocast(x.device.type, enabled=False):
            logs = nn.functional.logsigmoid(nn.functional.linear(x.to(self.weight.dtype), self.weight, self.bias))
        return (logs if padding is None else logs.masked_fill(padding[..., None], 0.0)).transpose(1, 2)


def fold(q: Tensor, k: Tensor, v: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Append features to rows of Q and K whose products are the differences of ``sums``, and zeros to those of V.

    A number that is rounded to 16 bits has 8 bits of precision left, and sums of logarithms become large. So each sum
    is written as three numbers, of which 16-bit rows hold the first two exactly, and the third with a relative error of
    2⁻⁹ of its own.

    Shapes
    ------
    q: ``(batch, heads, n, features)``; k, v: ``(batch, kv_heads, n, features)``; sums: ``(batch, kv_heads, n)``;
    output: with 8 features more

    Examples
    --------
    >>> import torch
    >>> from ghrr.nn.forget_gate import fold
    >>> rows = torch.zeros(1, 1, 2, 4, dtype=torch.bfloat16)
    >>> q, k, _ = fold(rows, rows, rows, torch.tensor([[[-1000.0, -1000.5]]]))
    >>> (q.float() @ k.float().mT)[0, 0]  # in bfloat16 itself, -1000.5 would be -1000
    tensor([[ 0.0000,  0.5000],
            [-0.5000,  0.0000]])
    """
    pieces, rest = [], sums
    for _ in range(_PIECES - 1):
        pieces.append(rest.to(torch.bfloat16).to(sums.dtype))
        rest = rest - pieces[-1]
    exact = torch.stack((*pieces, rest), dim=-1)
    ones, none = torch.ones_like(exact), torch.zeros_like(exact)[..., : FEATURES - 2 * _PIECES]
    for_q = torch.cat((exact, ones, none), dim=-1).to(q.dtype).repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    for_k = torch.cat((ones, -exact, none), dim=-1).to(k.dtype)
    return torch.cat((q, for_q), dim=-1), torch.cat((k, for_k), dim=-1), nn.functional.pad(v, (0, FEATURES))


def last_sums(keys: Tensor) -> Tensor:
    """Return the sums that were folded into the last of some keys, ``(batch, kv_heads, 1)``."""
    pieces = keys[..., -1:, keys.shape[-1] - FEATURES + _PIECES : keys.shape[-1] - FEATURES + 2 * _PIECES]
    return -pieces.to(torch.promote_types(keys.dtype, torch.float32)).sum(dim=-1)
