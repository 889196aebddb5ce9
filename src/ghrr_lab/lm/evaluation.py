"""Perplexity of a model on a text; every token is scored exactly once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.checks import check_integer, describe, names_errors, type_error, value_error
from ghrr_lab.lm.model import Model


@names_errors
@dataclass(frozen=True)
class Score:
    """Loss of a model on a text.

    Attributes
    ----------
    loss
        Sum over all scored tokens, in nats.
    tokens
        Number of scored tokens.
    words
        Number of words and newlines of the text.

    Examples
    --------
    >>> from ghrr_lab.lm import Score
    >>> score = Score(loss=30.0, tokens=20, words=10)
    >>> round(score.perplexity, 2), round(score.word_perplexity, 2)
    (4.48, 20.09)
    """

    loss: float
    tokens: int
    words: int

    @property
    def perplexity(self) -> float:
        """Perplexity per token."""
        return _exp(self.loss / self.tokens)

    @property
    def word_perplexity(self) -> float:
        """Perplexity per word, counting a newline as a word; comparable between tokenizers."""
        return _exp(self.loss / self.words)


@names_errors
def evaluate(
    model: Model, tokens: Tensor, *, words: int | None = None, stride: int | None = None, batch: int = 64
) -> Score:
    """Score a text, predicting every token but the first exactly once.

    Windows as long as the model's context start every ``stride`` tokens. A window scores only the tokens that earlier
    windows have not scored. A smaller stride gives every token more context (at least ``context - stride`` tokens
    after the first window), and so a lower perplexity, but takes longer.

    Parameters
    ----------
    model
        Model to score. It runs in evaluation mode; its mode is restored.
    tokens
        Token ids of the text, on any device.
    words
        Number of words of the text, for the word perplexity. Default: the number of scored tokens.
    stride
        Tokens between the starts of windows. Default: the context.
    batch
        Windows per batch.

    Shapes
    ------
    tokens: ``(n,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr_lab import lm
    >>> model = lm.Model(lm.ModelConfig(vocab_size=50, embed_dim=32, num_layers=1, ffn_dim=8, max_len=16))
    >>> lm.evaluate(model, torch.arange(40) % 50, stride=4).tokens
    39
    """
    context = model.config.max_len
    stride = context if stride is None else check_integer("stride", stride, least=1)
    if stride > context:
        raise value_error(
            f"stride must not exceed the model's context ({context}), got {stride}; tokens between windows "
            "would not be scored"
        )
    check_integer("batch", batch, least=1)
    if words is not None:
        check_integer("words", words, least=1)
    if tokens.ndim != 1 or len(tokens) < 2:
        raise value_error(f"tokens must have shape (n,) with n at least 2, got shape {tuple(tokens.shape)}")
    check_tokens(tokens, model.config.vocab_size)
    tokens = tokens.to(model.embedding.weight.device, torch.long)
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


def check_tokens(tokens: Tensor, vocab_size: int) -> None:
    """Raise unless ``tokens`` are ids of a vocabulary of this size."""
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise type_error(f"tokens must be whole numbers, got {describe(tokens)}")
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= vocab_size:
        raise value_error(f"tokens must lie in [0, {vocab_size - 1}], got {low} to {high}")


def _exp(x: float) -> float:
    return math.inf if x > 700 else math.exp(x)


def _windows(tokens: Tensor, context: int, stride: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets ``(windows, context)``; targets scored by an earlier window are -1."""
    count = len(tokens) - 1
    starts = torch.arange(0, max(1, count - (context - stride)), stride, device=tokens.device)
    indices = starts[:, None] + torch.arange(context, device=tokens.device)
    inputs = tokens[indices.clamp(max=count - 1)]
    targets = torch.where(indices < count, tokens[(indices + 1).clamp(max=count)], -1)
    targets[1:, : context - stride] = -1
    return inputs, targets
