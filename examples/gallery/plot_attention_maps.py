"""
Attention weights in a task that depends on order
=================================================

Two sentences consist of the same words in different orders, and end differently. A model with one
:class:`ghrr.nn.Attention` layer learns to predict the ending. If the layer is called with query, key and value, it
returns its weights as ``torch.nn.MultiheadAttention`` does. They show on which words the last word depends.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import ghrr

torch.manual_seed(0)
sentences = ["the cat saw the dog and", "the dog saw the cat and"]
endings = ["ran", "slept"]
names = sorted(set(" ".join(sentences).split()))
tokens = torch.tensor([[names.index(word) for word in sentence.split()] for sentence in sentences])

embedding, read_out = nn.Embedding(len(names), 32), nn.Linear(32, len(endings))
attention = ghrr.nn.Attention(embed_dim=32, num_heads=2, max_len=8, window=2, is_causal=True)
optimizer = torch.optim.Adam(nn.ModuleList([embedding, attention, read_out]).parameters(), lr=1e-2)
for _ in range(60):
    x = embedding(tokens)
    scores = read_out((x + attention(x))[:, -1])
    optimizer.zero_grad()
    nn.functional.cross_entropy(scores, torch.arange(2)).backward()
    optimizer.step()
assert scores.argmax(dim=1).tolist() == [0, 1]

# %%
# The weights, averaged over the heads. The last row belongs to the word from which the ending is predicted.

with torch.no_grad():
    x = embedding(tokens)
    _, weights = attention(x, x, x)

figure, axes = plt.subplots(1, 2, figsize=(8.5, 4), layout="constrained")
for axis, sentence, ending, image_weights in zip(axes, sentences, endings, weights, strict=True):
    words = sentence.split()
    image = axis.imshow(image_weights.numpy(), vmin=0, vmax=1, cmap="cividis")
    axis.set_xticks(range(len(words)), words, rotation=45)
    axis.set_yticks(range(len(words)), words)
    axis.set(xlabel="attended word", ylabel="word", title=f"{sentence} {ending}")
figure.colorbar(image, ax=axes, label="attention weight")
figure.suptitle("Attention weights in two sentences of the same words")
plt.show()

assert not weights.triu(diagonal=1).any()  # no word attends to a later one

# %%
# For your own data: replace the embedding and the layer by your trained ones; ``average_attn_weights=False``
# gives one map per head.
