"""A decoder-only transformer with a choice of attention."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ghrr.checks import describe, names_errors, value_error
from ghrr.nn import Attention, AttentionCache
from ghrr.nn.functional import multiply, softmax_of_scores
from ghrr_lab.lm.config import ModelConfig


@names_errors
class Model(nn.Module):
    """A transformer that predicts the next token: embeddings, layers of attention and feed-forward, tied output.

    Logits are differentiable with respect to all parameters. Move the model with ``.to(device)``; it computes where
    its parameters are.

    Shapes
    ------
    tokens: ``(batch, n)``, integers; output: logits ``(batch, n, vocab_size)``

    Examples
    --------
    >>> import torch
    >>> from ghrr_lab import lm
    >>> _ = torch.manual_seed(0)
    >>> model = lm.Model(lm.ModelConfig(vocab_size=100, embed_dim=32, num_layers=2, ffn_dim=64, max_len=16))
    >>> model(torch.randint(100, (2, 16))).shape
    torch.Size([2, 16, 100])
    """

    sinusoids: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check_memory(config)
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embed_dim)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.num_layers))
        self.norm = nn.LayerNorm(config.embed_dim)
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("sinusoids", _sinusoids(config.max_len, config.embed_dim), persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        nn.init.normal_(self.embedding.weight, std=0.02)
        for name, module in self.named_modules():
            if not isinstance(module, nn.Linear):
                continue
            nn.init.zeros_(module.bias)
            if name.endswith(("out_proj", "shrink")):  # small, since the outputs of all layers are summed
                nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * self.config.num_layers))
            elif name.endswith("in_proj"):
                nn.init.normal_(module.weight, std=1 / math.sqrt(self.config.embed_dim))
                with torch.no_grad():
                    module.weight[: 2 * self.config.embed_dim] *= float(self.config.qk_gain)
            else:
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Tensor, cache: Sequence[AttentionCache] | None = None) -> Tensor:
        """Return logits for the token after each of ``tokens``."""
        return nn.functional.linear(self.hidden(tokens, cache), self.embedding.weight, self.output_bias)

    def hidden(self, tokens: Tensor, cache: Sequence[AttentionCache] | None = None) -> Tensor:
        """Return the output of the last layer at each token: ``(batch, n, embed_dim)``."""
        x = self._embed(tokens, cache[0].length if cache is not None else 0)
        for i, layer in enumerate(self.layers):
            x = layer(x, None if cache is None else cache[i])
        out: Tensor = self.norm(x)
        return out

    def _embed(self, tokens: Tensor, start: int) -> Tensor:
        """Return the input of the first layer, for tokens from position ``start`` on."""
        if tokens.ndim != 2 or tokens.is_floating_point():
            raise value_error(f"tokens must be integers of shape (batch, n), got {describe(tokens)}")
        end = start + tokens.shape[1]
        if end > self.config.max_len:
            raise value_error(
                f"expected at most max_len={self.config.max_len} tokens, got {end}; shorten the text, or make a "
                "model with a larger max_len"
            )
        x = self.embedding(tokens) * math.sqrt(self.config.embed_dim)
        if self.config.attention == "vanilla":
            x = x + self.sinusoids[start:end]
        out: Tensor = self.dropout(x)
        return out

    @torch.no_grad()
    def attention_weights(self, tokens: Tensor) -> Tensor:
        """Return the weights of every layer and head: how much each token attends to each token up to itself.

        Shapes
        ------
        tokens: ``(batch, n)``, integers; output: ``(num_layers, batch, num_heads, n, n)``, rows of sum 1

        Examples
        --------
        >>> import torch
        >>> from ghrr_lab import lm
        >>> model = lm.Model(lm.ModelConfig(vocab_size=9, embed_dim=16, num_layers=2, ffn_dim=8, max_len=8))
        >>> model.attention_weights(torch.tensor([[1, 2, 3]])).shape
        torch.Size([2, 1, 4, 3, 3])
        """
        x, found = self._embed(tokens, 0), []
        for layer in self.layers:
            assert isinstance(layer, Layer)
            found.append(_weights(layer.attention, layer.first_norm(x)))
            x = layer(x)
        return torch.stack(found)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of the cross-entropies of the targets, in nats; targets of -1 are not scored."""
        logits = self(tokens)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum", ignore_index=-1)

    def new_cache(self) -> list[AttentionCache]:
        """Return empty caches, one per layer, for generation token by token."""
        return [AttentionCache() for _ in self.layers]

    @property
    def parameter_count(self) -> int:
        """Number of trained parameters, without fixed frequencies and positions."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def check_memory(config: ModelConfig) -> None:
    """Raise ``ValueError`` if the weights of a model cannot fit into the memory of this machine."""
    if torch.get_default_device().type == "meta" or not hasattr(os, "sysconf"):
        return
    width = config.embed_dim
    attention = width * width
    if config.attention == "ghrr":
        attention = 2 * config.num_heads * config.row_features * (config.resolved_m + width)
    layer = attention + 2 * width * config.ffn_dim
    needed = 4 * ((config.vocab_size + config.max_len) * width + config.num_layers * layer)
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise value_error(
            f"the weights need at least {needed >> 30:,} GiB, but this machine has {available >> 30:,} GiB of "
            "memory; reduce embed_dim, num_layers, ffn_dim, max_len or m"
        )


class Layer(nn.Module):
    """Attention, then a feed-forward network, each on normalised input and added to it."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(config.embed_dim), nn.LayerNorm(config.embed_dim)
        self.attention = _attention(config, index)
        self.grow = nn.Linear(config.embed_dim, config.ffn_dim)
        self.shrink = nn.Linear(config.ffn_dim, config.embed_dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, cache: AttentionCache | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.first_norm(x), cache=cache))
        inner = self.dropout(nn.functional.gelu(self.grow(self.second_norm(x))))
        out: Tensor = x + self.dropout(self.shrink(inner))
        return out


class DotProduct(nn.Module):
    """Causal dot-product attention, with rotary positions or none."""

    rotations: Tensor | None

    def __init__(self, config: ModelConfig, *, rotary: bool) -> None:
        super().__init__()
        self.num_heads, self.rate = config.num_heads, config.dropout
        self.in_proj = nn.Linear(config.embed_dim, 3 * config.embed_dim)
        self.out_proj = nn.Linear(config.embed_dim, config.embed_dim)
        size = config.embed_dim // config.num_heads
        angles = torch.arange(config.max_len)[:, None] * 10000 ** (-torch.arange(size // 2) / (size // 2))
        rotations = torch.cat((angles.cos(), angles.sin()), dim=-1) if rotary else None
        self.register_buffer("rotations", rotations, persistent=False)

    def project(self, x: Tensor, start: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return Q, K and V of tokens from position ``start`` on: each ``(batch, heads, n, features)``."""
        batch, n, width = x.shape
        q, k, v = self.in_proj(x).view(batch, n, 3, self.num_heads, width // self.num_heads).permute(2, 0, 3, 1, 4)
        if self.rotations is not None:
            rotations = self.rotations[start : start + n].to(q.dtype)
            q, k = multiply(q, rotations), multiply(k, rotations)
        return q, k, v

    def forward(self, x: Tensor, cache: AttentionCache | None = None) -> Tensor:
        n, start = x.shape[1], cache.length if cache is not None else 0
        q, k, v = self.project(x, start)
        if cache is not None:
            k, v = cache.append(k, v, n)
        mask = None
        if start and n > 1:
            mask = torch.ones(n, start + n, dtype=torch.bool, device=x.device).tril(start)
        rate = self.rate if self.training else 0.0
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate, is_causal=not start)
        out: Tensor = self.out_proj(y.transpose(1, 2).flatten(2))
        return out


def _weights(attention: nn.Module, x: Tensor) -> Tensor:
    """Return the weights of a causal attention layer for its input: ``(batch, heads, n, n)``."""
    if isinstance(attention, DotProduct):
        q, k, _ = attention.project(x)
        return softmax_of_scores(q / math.sqrt(q.shape[-1]), k, None, is_causal=True)
    weights: Tensor = attention(x, x, x, average_attn_weights=False)[1]
    return weights


def _attention(config: ModelConfig, index: int) -> nn.Module:
    """Make the attention of a layer; frequencies differ between layers."""
    if config.attention != "ghrr":
        return DotProduct(config, rotary=config.attention == "rope")
    return Attention.from_config(dataclasses.replace(config, seed=1000 * config.seed + index))


def _sinusoids(length: int, width: int) -> Tensor:
    angles = torch.arange(length)[:, None] * 10000 ** (-torch.arange(0, width, 2) / width)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


@names_errors
def match_parameters(config: ModelConfig, count: int) -> ModelConfig:
    """Choose ``ffn_dim`` so that a model has about ``count`` parameters.

    Examples
    --------
    >>> import ghrr_lab.lm
    >>> config = ghrr_lab.lm.ModelConfig(vocab_size=1000, embed_dim=64, num_layers=2, max_len=32)
    >>> matched = ghrr_lab.lm.match_parameters(config, 200_000)
    >>> with torch.device("meta"): abs(ghrr_lab.lm.Model(matched).parameter_count - 200_000) < 200
    True
    """
    probe = dataclasses.replace(config, ffn_dim=1)
    with torch.random.fork_rng(devices=[]):  # building a model must not change the caller's random numbers
        least = Model(probe).parameter_count
    per_unit = config.num_layers * (2 * config.embed_dim + 1)
    units = 1 + round((count - least) / per_unit)
    if units < 1:
        raise value_error(
            f"count must be at least {least:,}, the parameters of the model with ffn_dim=1, got {count:,}"
        )
    return dataclasses.replace(config, ffn_dim=units)
