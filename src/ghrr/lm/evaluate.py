"""Perplexity: every token scored once, the losses summed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.lm.model import Model


@dataclass(frozen=True)
class Score:
    """The loss of a text in nats, over how many tokens and words it is spread."""

    loss: float
    tokens: int
    words: int

    @property
    def perplexity(self) -> float:
        """Per token."""
        return _exp(self.loss / self.tokens)

    @property
    def word_perplexity(self) -> float:
        """Per word, the end of a line counted as one: comparable between vocabularies."""
        return _exp(self.loss / self.words)


def evaluate(
    model: Model, tokens: Tensor, *, words: int | None = None, stride: int | None = None, batch: int = 64
) -> Score:
    """Score a text of tokens: each but the first, which nothing comes before, is predicted exactly once.

    The text is cut into windows of the model's context that begin ``stride`` tokens apart. In each window only those
    tokens are scored that no window before it has scored, so with a stride below the context each is predicted from at
    least ``context - stride`` tokens, those of the first window excepted.

    Parameters
    ----------
    model
        Used in evaluation mode; its mode is restored.
    tokens
        The text, on any device.
    words
        How many words the text has, for word perplexity; by default as many as tokens.
    stride
        By default the whole context: fastest, and the highest perplexity.
    batch
        Windows at a time.

    Shapes
    ------
    tokens: ``(length,)``, whole numbers

    Examples
    --------
    >>> import torch, ghrr.lm
    >>> model = ghrr.lm.Model(ghrr.lm.ModelConfig(vocab_size=50, embed_dim=32, num_layers=1, ffn_dim=8, max_len=16))
    >>> ghrr.lm.evaluate(model, torch.arange(40) % 50, stride=4).tokens
    39
    """
    context = model.config.max_len
    stride = context if stride is None else check_integer("evaluate", "stride", stride, least=1)
    if stride > context:
        raise ValueError(
            f"evaluate: with a stride of {stride} and a context of {context} some tokens would be left out"
        )
    check_integer("evaluate", "batch", batch, least=1)
    if words is not None:
        check_integer("evaluate", "words", words, least=1)
    if tokens.ndim != 1 or len(tokens) < 2:
        raise ValueError(f"evaluate: needs a text of at least two tokens, got shape {tuple(tokens.shape)}")
    check_tokens("evaluate", tokens, model.config.vocab_size)
    device = model.embedding.weight.device
    tokens = tokens.to(device, torch.long)
    inputs, targets = _windows(tokens, context, stride)
    training = model.training
    model.eval()
    total = 0.0
    try:
        with torch.inference_mode():
            for first in range(0, len(inputs), batch):
                total += model.loss(inputs[first : first + batch], targets[first : first + batch]).item()
    finally:
        model.train(training)
    return Score(total, len(tokens) - 1, len(tokens) - 1 if words is None else words)


def check_tokens(operation: str, tokens: Tensor, vocabulary: int) -> None:
    """Raise unless these are tokens of a vocabulary of this size."""
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise TypeError(f"{operation}: tokens are whole numbers, got {describe(tokens)}")
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= vocabulary:
        raise ValueError(f"{operation}: the model has tokens 0 to {vocabulary - 1}, got {low} to {high}")


def _exp(x: float) -> float:
    return math.inf if x > 700 else math.exp(x)


def _windows(tokens: Tensor, context: int, stride: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets ``(windows, context)``; targets that another window scores are -1."""
    count = len(tokens) - 1
    starts = torch.arange(0, max(1, count - (context - stride)), stride, device=tokens.device)
    places = starts[:, None] + torch.arange(context, device=tokens.device)
    inside = places < count
    inputs = tokens[places.clamp(max=count - 1)]
    targets = torch.where(inside, tokens[(places + 1).clamp(max=count)], -1)
    targets[1:, : context - stride] = -1
    return inputs, targets
