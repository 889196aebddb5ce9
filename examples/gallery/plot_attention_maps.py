"""
Look at attention maps, with and without a window
=================================================

:class:`ghrr.nn.Attention` returns its weights like ``torch.nn.MultiheadAttention``: call it with query, key and value.
This example draws the maps of two untrained layers for one sentence. With ``window=2`` a row is a bundle of a word and
the word before it, so the two occurrences of "the" are told apart by what precedes them.
"""

import matplotlib.pyplot as plt
import torch

import ghrr

torch.manual_seed(0)
words = ["the", "cat", "saw", "the", "dog", "and", "ran"]
embedding = torch.nn.Embedding(len(set(words)), 64)
order = {word: i for i, word in enumerate(dict.fromkeys(words))}
x = embedding(torch.tensor([order[word] for word in words]))[None].detach()

figure, axes = plt.subplots(1, 2, figsize=(8.5, 4), layout="constrained")
maps = {}
for axis, window in zip(axes, (1, 2), strict=True):
    layer = ghrr.nn.Attention(embed_dim=64, num_heads=4, max_len=16, window=window, is_causal=True)
    with torch.no_grad():
        _, weights = layer(x, x, x)  # averaged over the heads
    maps[window] = weights[0]
    image = axis.imshow(weights[0].numpy(), vmin=0, vmax=1, cmap="cividis")
    axis.set_xticks(range(len(words)), words, rotation=45)
    axis.set_yticks(range(len(words)), words)
    axis.set(xlabel="attended word", ylabel="word", title=f"Window {window}")
figure.colorbar(image, ax=axes, label="attention weight, mean of 4 heads")
figure.suptitle("Attention maps of two untrained causal layers")
plt.show()

# %%
# Every row sums to 1, and the upper triangle is exactly zero: no word attends to a later one.

for weights in maps.values():
    assert torch.allclose(weights.sum(dim=1), torch.ones(len(words)))
    assert not weights.triu(diagonal=1).any()

# %%
# For your own data: replace the embedding and the layer by those of your trained model; ``average_attn_weights=False``
# gives one map per head.
