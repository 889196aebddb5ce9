"""A decoder-only transformer whose attention is a choice: everything about the model is on this page."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ghrr._checks import check_choice, check_integer, check_real, describe
from ghrr.nn import Attention, AttentionCache

ATTENTION = ("vanilla", "rope", "ghrr-feature", "ghrr-row", "ghrr-bundle")


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a model, JSON-able.

    The fields from ``kv_heads`` to ``phase_seed`` are those of :class:`ghrr.nn.Attention`; ``"vanilla"`` (sinusoidal
    positions added to the input) and ``"rope"`` (rotary positions) have none of them. ``qk_gain`` scales the weights of
    queries and keys before training, for these two and for ``"ghrr-feature"`` with relaxed weights.
    """

    vocabulary: int
    width: int = 256
    layers: int = 6
    heads: int = 4
    feed_forward: int = 512
    context: int = 64
    dropout: float = 0.2
    attention: str = "ghrr-feature"
    kv_heads: int | None = None
    m: int | None = None
    position_sharing: str = "all"
    position_trainable: bool = False
    position_values: bool = False
    phases_trainable: bool = False
    spread: float = 1.0
    split_inputs: bool = False
    mix_slots: bool = True
    window: int = 1
    weights: str = "relaxed"
    unit_rows: bool = False
    phase_seed: int = 0
    qk_gain: float = 1.0

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "layers", "heads", "feed_forward", "context"):
            check_integer("ModelConfig", name, getattr(self, name), least=1)
        check_real("ModelConfig", "dropout", self.dropout, low=0.0, high=1.0)
        check_real("ModelConfig", "qk_gain", self.qk_gain, low=0.0, high=math.inf, open_ends=True)
        check_choice("ModelConfig", "attention", self.attention, ATTENTION)
        if self.width % (2 * self.heads):
            raise ValueError(f"ModelConfig: width {self.width} must be a multiple of 2 x heads = {2 * self.heads}")
        if not self.attention.startswith("ghrr"):
            for field in dataclasses.fields(self):
                if field.name in _OF_GHRR and getattr(self, field.name) != field.default:
                    raise ValueError(
                        f"ModelConfig: {field.name}={getattr(self, field.name)!r} is a setting of GHRR's attention, "
                        f"not of {self.attention!r}; leave it out"
                    )


class Model(nn.Module):
    """A transformer that predicts the next token: embeddings, layers of attention and feed-forward, tied output.

    Shapes
    ------
    tokens: ``(batch, n)``, whole numbers; output: logits ``(batch, n, vocabulary)``

    Examples
    --------
    >>> import torch, ghrr.lm
    >>> _ = torch.manual_seed(0)
    >>> model = ghrr.lm.Model(ghrr.lm.ModelConfig(vocabulary=100, width=32, layers=2, feed_forward=64, context=16))
    >>> model(torch.randint(100, (2, 16))).shape
    torch.Size([2, 16, 100])
    """

    sinusoids: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        _check_memory(config)
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.output_bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("sinusoids", _sinusoids(config.context, config.width), persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        nn.init.normal_(self.embedding.weight, std=0.02)
        for name, module in self.named_modules():
            if not isinstance(module, nn.Linear):
                continue
            nn.init.zeros_(module.bias)
            if name.endswith(("out_proj", "shrink")):  # what is added to the stream, kept small in sum over layers
                nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * self.config.layers))
            elif name.endswith("in_proj"):
                nn.init.normal_(module.weight, std=1 / math.sqrt(self.config.width))
                with torch.no_grad():
                    module.weight[: 2 * self.config.width] *= float(self.config.qk_gain)
            else:
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Tensor, cache: Sequence[AttentionCache] | None = None) -> Tensor:
        """Logits for the token after each of these."""
        return nn.functional.linear(self.hidden(tokens, cache), self.embedding.weight, self.output_bias)

    def hidden(self, tokens: Tensor, cache: Sequence[AttentionCache] | None = None) -> Tensor:
        """What the last layer knows at each token: ``(batch, n, width)``."""
        if tokens.ndim != 2 or tokens.is_floating_point():
            raise ValueError(f"Model: tokens must be whole numbers of shape (batch, n), got {describe(tokens)}")
        start = cache[0].length if cache is not None else 0
        end = start + tokens.shape[1]
        if end > self.config.context:
            raise ValueError(
                f"Model: {end} tokens, but the context is {self.config.context}; cut the text, or make a model with a "
                "longer context"
            )
        x = self.embedding(tokens) * math.sqrt(self.config.width)
        if self.config.attention == "vanilla":
            x = x + self.sinusoids[start:end]
        x = self.dropout(x)
        for i, layer in enumerate(self.layers):
            x = layer(x, None if cache is None else cache[i])
        out: Tensor = self.norm(x)
        return out

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Sum of the cross-entropies of the targets, in nats; targets of -1 are not scored."""
        logits = self(tokens)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum", ignore_index=-1)

    def new_cache(self) -> list[AttentionCache]:
        """Empty caches, one per layer, for tokens that come piece by piece."""
        return [AttentionCache() for _ in self.layers]

    @property
    def parameter_count(self) -> int:
        """How many numbers are trained; fixed frequencies and positions are not among them."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def _check_memory(config: ModelConfig) -> None:
    """Raise for a model that is larger than the memory of this machine, before anything is allocated."""
    if torch.get_default_device().type == "meta" or not hasattr(os, "sysconf"):
        return
    width, context = config.width, config.context
    numbers = config.vocabulary * width + config.layers * width * (width + 2 * config.feed_forward) + context * width
    needed, there = 4 * numbers, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise ValueError(
            f"Model: the weights need at least {needed >> 30:,} GiB, this machine has {there >> 30:,} GiB of memory; "
            "reduce width, layers, feed_forward or context"
        )


class Layer(nn.Module):
    """Attention and a feed-forward net, each on normalised input and added to the stream."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        _check_memory(config)
        self.first_norm, self.second_norm = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = _attention(config, index)
        self.grow = nn.Linear(config.width, config.feed_forward)
        self.shrink = nn.Linear(config.feed_forward, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, cache: AttentionCache | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.first_norm(x), cache=cache))
        inner = self.dropout(nn.functional.gelu(self.grow(self.second_norm(x))))
        out: Tensor = x + self.dropout(self.shrink(inner))
        return out


class DotProduct(nn.Module):
    """The usual causal attention, with rotary positions or none."""

    turns: Tensor | None

    def __init__(self, config: ModelConfig, *, rotary: bool) -> None:
        super().__init__()
        self.heads, self.rate = config.heads, config.dropout
        self.in_proj = nn.Linear(config.width, 3 * config.width)
        self.out_proj = nn.Linear(config.width, config.width)
        size = config.width // config.heads
        angles = torch.arange(config.context)[:, None] * 10000 ** (-torch.arange(size // 2) / (size // 2))
        turns = torch.stack((angles.cos(), angles.sin())) if rotary else None
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, x: Tensor, cache: AttentionCache | None = None) -> Tensor:
        batch, n, width = x.shape
        q, k, v = self.in_proj(x).view(batch, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        start = cache.length if cache is not None else 0
        if self.turns is not None:
            q, k = (_turn(part, self.turns[:, start : start + n].to(part.dtype)) for part in (q, k))
        if cache is not None:
            if cache.keys is not None and cache.values is not None:
                k, v = torch.cat((cache.keys, k), dim=-2), torch.cat((cache.values, v), dim=-2)
            cache.keys, cache.values, cache.length = k, v, start + n
        mask = None
        if start and n > 1:
            mask = torch.ones(n, start + n, dtype=torch.bool, device=x.device).tril(start)
        rate = self.rate if self.training else 0.0
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate, is_causal=not start)
        out: Tensor = self.out_proj(y.transpose(1, 2).flatten(2))
        return out


def _attention(config: ModelConfig, index: int) -> nn.Module:
    kind, _, mode = config.attention.partition("-")
    if kind != "ghrr":
        return DotProduct(config, rotary=kind == "rope")
    return Attention(
        config.width,
        config.heads,
        max_len=config.context,
        mode=mode,
        dropout=config.dropout,
        is_causal=True,
        seed=config.phase_seed * 1000 + index,
        qk_gain=config.qk_gain,
        **{name: getattr(config, name) for name in _OF_GHRR},
    )


_OF_GHRR = (
    *("kv_heads", "m", "position_sharing", "position_trainable", "position_values"),
    *("phases_trainable", "spread", "split_inputs", "mix_slots", "window", "weights", "unit_rows"),
)


def _turn(x: Tensor, turns: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    cosines, sines = turns
    return torch.cat((a * cosines - b * sines, a * sines + b * cosines), dim=-1)


def _sinusoids(length: int, width: int) -> Tensor:
    angles = torch.arange(length)[:, None] * 10000 ** (-torch.arange(0, width, 2) / width)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def match_parameters(config: ModelConfig, count: int) -> ModelConfig:
    """The same model with the width of its feed-forward nets chosen so that it has about ``count`` parameters.

    Examples
    --------
    >>> import ghrr.lm
    >>> config = ghrr.lm.ModelConfig(vocabulary=1000, width=64, layers=2, context=32)
    >>> matched = ghrr.lm.match_parameters(config, 200_000)
    >>> with torch.device("meta"): abs(ghrr.lm.Model(matched).parameter_count - 200_000) < 200
    True
    """
    probe = dataclasses.replace(config, feed_forward=1)
    with torch.random.fork_rng(devices=[]):  # only to count; the caller's random numbers stay as they are
        least = Model(probe).parameter_count
    per_unit = config.layers * (2 * config.width + 1)
    units = 1 + round((count - least) / per_unit)
    if units < 1:
        raise ValueError(
            f"match_parameters: without feed-forward the model has {least:,} parameters already, not {count:,}"
        )
    return dataclasses.replace(config, feed_forward=units)


def config_from(state: dict[str, Any]) -> ModelConfig:
    """A configuration from a JSON object; raises for keys that it does not have."""
    known = {field.name for field in dataclasses.fields(ModelConfig)}
    unknown = sorted(set(state) - known)
    if unknown:
        raise ValueError(f"ModelConfig: unknown settings {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    return ModelConfig(**state)
