"""Other models that track state, in their naive forms: an LSTM, DeltaProduct and PaTH attention.

They have the interface of the language models that they are compared with: ``model(tokens)`` returns logits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ghrr_lab import lm


class LSTM(nn.Module):
    """Embedding, LSTM and output."""

    def __init__(self, vocab_size: int, embed_dim: int, num_layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.lstm = nn.LSTM(embed_dim, embed_dim, num_layers, batch_first=True)
        self.out = nn.Linear(embed_dim, vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.out(self.lstm(self.embedding(tokens))[0])
        return out


class DeltaProduct(nn.Module):
    r"""Linear attention whose state is multiplied by Householder-like factors: :math:`S \to \prod_r (I - \beta_r k_r
    k_r^\top) S + \dots`, each factor also writing :math:`\beta_r k_r v_r^\top`, with :math:`0 < \beta_r < 2`.

    ``factors`` is their number for each token (Siems et al. 2025).
    """

    def __init__(self, embed_dim: int, num_heads: int, factors: int) -> None:
        super().__init__()
        self.heads, self.factors, size = num_heads, factors, embed_dim // num_heads
        self.q = nn.Linear(embed_dim, embed_dim)
        self.kv = nn.Linear(embed_dim, 2 * factors * embed_dim)
        self.beta = nn.Linear(embed_dim, num_heads * factors)
        self.norm, self.out_proj = nn.LayerNorm(size), nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, cache: None = None) -> Tensor:
        q, k, v, beta = self.project(x)
        out: Tensor = self.out_proj(self.norm(delta_product(q, k, v, beta)).flatten(2))
        return out

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return q ``(batch, n, heads, d)``, and k and v with an axis of factors after n, as β has, without d."""
        k, v = self.kv(x).unflatten(-1, (2, self.factors, self.heads, -1)).unbind(2)
        beta = 2 * torch.sigmoid(self.beta(x)).unflatten(-1, (self.factors, self.heads))  # type: ignore[no-untyped-call]
        return self.q(x).unflatten(-1, (self.heads, -1)), nn.functional.normalize(k, dim=-1), v, beta


def delta_product(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """Apply the recurrence of :class:`DeltaProduct` token by token."""
    state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[-1])
    out = []
    for t in range(q.shape[1]):
        for r in range(k.shape[2]):
            key, b = k[:, t, r], beta[:, t, r, :, None]
            change = v[:, t, r] - (key[..., None, :] @ state)[..., 0, :]
            state = state + (b * key)[..., None] * change[..., None, :]
        out.append((q[:, t, :, None] @ state)[..., 0, :])
    return torch.stack(out, dim=1)


class PaTH(nn.Module):
    r"""Attention with scores :math:`q_i^\top H_i \cdots H_{j+1} k_j`, :math:`H_s = I - \beta_s w_s w_s^\top`.

    The factors have :math:`0 < \beta_s < 2` (Yang et al. 2025).
    """

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.heads = num_heads
        self.in_proj, self.out_proj = nn.Linear(embed_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)
        self.w, self.beta = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, num_heads)

    def forward(self, x: Tensor, cache: None = None) -> Tensor:
        q, k, v = self.in_proj(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        w = nn.functional.normalize(self.w(x).unflatten(-1, (self.heads, -1)), dim=-1).transpose(1, 2)
        beta = 2 * torch.sigmoid(self.beta(x)).transpose(1, 2)
        scores = path_scores(q, k, w, beta) / q.shape[-1] ** 0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1)
        out: Tensor = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        return out


def path_scores(q: Tensor, k: Tensor, w: Tensor, beta: Tensor) -> Tensor:
    """Return the scores of :class:`PaTH` for ``(batch, heads, n, d)``: each token moves all earlier keys."""
    n, rows, moved = q.shape[2], [], k[:, :, :0]
    for i in range(n):
        direction = w[:, :, i, :, None]
        moved = moved - beta[:, :, i, None, None] * (moved @ direction) * direction.mT
        moved = torch.cat((moved, k[:, :, i : i + 1]), dim=2)
        row = (moved @ q[:, :, i, :, None])[..., 0]
        rows.append(nn.functional.pad(row, (0, n - 1 - i)))
    return torch.stack(rows, dim=2)


def replace_attention(model: lm.Model, kind: str) -> lm.Model:
    """Replace the attention of a transformer by ``"householder"`` (PaTH) or ``"deltaproduct-R"``, R factors."""
    for layer in model.layers:
        embed_dim, heads = model.config.embed_dim, model.config.num_heads
        name, _, factors = kind.partition("-")
        layer.attention = (
            PaTH(embed_dim, heads) if name == "householder" else DeltaProduct(embed_dim, heads, int(factors))
        )
    return model
