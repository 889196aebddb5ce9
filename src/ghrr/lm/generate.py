"""Text from a model, token by token."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr._checks import check_generator, check_integer, check_real
from ghrr.lm.evaluate import check_tokens
from ghrr.lm.model import Model


@torch.inference_mode()
def generate(
    model: Model,
    prompt: Tensor,
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator,
) -> Tensor:
    """Continue a prompt by ``count`` tokens.

    Earlier tokens are remembered by a cache, so each new one costs one step. Where the context is full, the later half
    of the tokens is read again and the earlier half forgotten.

    Parameters
    ----------
    model
        Used in evaluation mode; its mode is restored.
    prompt
        At least one token per row.
    count
        How many to add.
    temperature
        Divides the logits; 0 takes the most likely token.
    top_k
        Draw from the k most likely tokens alone.
    generator
        Source of randomness, on the CPU.

    Shapes
    ------
    prompt: ``(batch, n)``; output: ``(batch, n + count)``

    Examples
    --------
    >>> import torch, ghrr.lm
    >>> _ = torch.manual_seed(0)
    >>> model = ghrr.lm.Model(ghrr.lm.ModelConfig(vocab_size=50, embed_dim=32, num_layers=1, ffn_dim=8, max_len=16))
    >>> tokens = ghrr.lm.generate(model, torch.tensor([[1, 2]]), 30, generator=torch.Generator().manual_seed(0))
    >>> tokens.shape
    torch.Size([1, 32])
    """
    check_integer("generate", "count", count, least=0)
    check_real("generate", "temperature", temperature, low=0.0, high=float("inf"))
    check_generator("generate", generator)
    if top_k is not None:
        top_k = min(check_integer("generate", "top_k", top_k, least=1), model.config.vocab_size)
    if prompt.ndim != 2 or prompt.shape[0] < 1 or prompt.shape[1] < 1:
        raise ValueError(f"generate: the prompt must have shape (batch, n), both at least 1, got {tuple(prompt.shape)}")
    check_tokens("generate", prompt, model.config.vocab_size)
    device, context = model.embedding.weight.device, model.config.max_len
    tokens = prompt.to(device, torch.long)
    training = model.training
    model.eval()
    try:
        cache, unread = model.new_cache(), tokens[:, -context:]
        for _ in range(count):
            if cache[0].length + unread.shape[1] > context:
                cache, unread = model.new_cache(), tokens[:, -max(1, context // 2) :]
            logits = model(unread, cache)[:, -1].float().cpu()
            if not torch.isfinite(logits).all():
                raise ValueError("generate: the model's logits are not finite; its weights are damaged or diverged")
            unread = _draw(logits, temperature, top_k, generator).to(device)
            tokens = torch.cat((tokens, unread), dim=1)
    finally:
        model.train(training)
    return tokens


def _draw(logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator) -> Tensor:
    if temperature < 1e-6:  # from here on, the likeliest token is all that is left
        return logits.argmax(dim=-1, keepdim=True)
    scaled = logits / temperature
    if top_k is not None:
        least = logits.topk(top_k, dim=-1).values[:, -1:]
        scaled = scaled.masked_fill(logits < least, -torch.inf)
    return torch.multinomial(torch.softmax(scaled, dim=-1), 1, generator=generator)
