"""Generate tokens with a model, one at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.checks import check_generator, check_integer, check_real, names_errors, value_error
from ghrr_lab.lm.evaluation import check_tokens
from ghrr_lab.lm.model import Model


@names_errors
@torch.inference_mode()
def generate(
    model: Model,
    prompt: Tensor,
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Continue prompts by ``count`` tokens.

    A cache of keys and values makes each new token cost one step. When the context is full, generation starts again
    from the most recent half of the context.

    Parameters
    ----------
    model
        Model to sample from. It runs in evaluation mode; its mode is restored.
    prompt
        Token ids, at least one per row.
    count
        Number of tokens to add to each row.
    temperature
        Divisor of the logits. 0 always takes the most likely token.
    top_k
        Sample from the k most likely tokens only. Default: from all tokens.
    generator
        Random number generator on the CPU, by default torch's global one.

    Shapes
    ------
    prompt: ``(batch, n)``; output: ``(batch, n + count)``

    Examples
    --------
    >>> import torch
    >>> from ghrr_lab import lm
    >>> _ = torch.manual_seed(0)
    >>> model = lm.Model(lm.ModelConfig(vocab_size=50, embed_dim=32, num_layers=1, ffn_dim=8, max_len=16))
    >>> lm.generate(model, torch.tensor([[1, 2]]), 30, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([1, 32])
    """
    check_integer("count", count, least=0)
    check_real("temperature", temperature, low=0.0, high=float("inf"))
    source = torch.default_generator if generator is None else check_generator(generator)
    if top_k is not None:
        top_k = min(check_integer("top_k", top_k, least=1), model.config.vocab_size)
    if prompt.ndim != 2 or prompt.shape[0] < 1 or prompt.shape[1] < 1:
        raise value_error(f"prompt must have shape (batch, n), both at least 1, got {tuple(prompt.shape)}")
    check_tokens(prompt, model.config.vocab_size)
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
                raise value_error("the model's logits are not finite; its weights are damaged or its training diverged")
            unread = _draw(logits, temperature, top_k, source).to(device)
            tokens = torch.cat((tokens, unread), dim=1)
    finally:
        model.train(training)
    return tokens


def _draw(logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator) -> Tensor:
    if temperature < 1e-6:  # division would overflow; the most likely token has all the probability
        return logits.argmax(dim=-1, keepdim=True)
    scaled = logits / temperature
    if top_k is not None:
        least = logits.topk(top_k, dim=-1).values[:, -1:]
        scaled = scaled.masked_fill(logits < least, -torch.inf)
    return torch.multinomial(torch.softmax(scaled, dim=-1), 1, generator=generator)
