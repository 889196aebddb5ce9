r"""
Attention
=========

Attention asks, for every token, which other tokens matter. In GHRR this is two bindings and a softmax,
:math:`\sigma(Q * K^\dagger) * V`, and positions are bound to the tokens like keys to values.
:class:`ghrr.nn.Attention` is this operation as a PyTorch layer.

We train a model of one layer on a task that depends on order, look at what it attends to, check that it does not use
later tokens, and put the layer into an ordinary transformer.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import ghrr

plt.style.use("seaborn-v0_8-colorblind")

# %%
# A task in which order matters
# -----------------------------
# The input is a list of pairs, a letter and a digit, and then one of the letters again. The answer is the digit
# *after* that letter: ``c4 a7 f1 b0 a`` has the answer 7. A model that only sees which tokens are present cannot do
# better than guess among the digits it sees.

letters, digits, pairs = "abcdefgh", "01234567", 4
names = letters + digits


def make_batch(size, generator):
    keys = torch.rand(size, len(letters), generator=generator).argsort(dim=1)[:, :pairs]
    values = torch.randint(len(digits), (size, pairs), generator=generator)
    asked = torch.randint(pairs, (size, 1), generator=generator)
    sequence = torch.stack([keys, len(letters) + values], dim=-1).flatten(1)
    return torch.cat([sequence, keys.gather(1, asked)], dim=1), values.gather(1, asked)[:, 0]


tokens, answers = make_batch(3, torch.Generator().manual_seed(0))
for row, answer in zip(tokens, answers, strict=True):
    print(" ".join(names[i] for i in row), "->", digits[answer])

# %%
# A model of one layer
# --------------------
# An embedding, one attention layer, and a linear read-out at the last token. The layer takes the arguments of
# ``torch.nn.MultiheadAttention``, plus ``max_len``, the longest sequence.
#
# ``window`` is the setting that makes the difference here. With ``window=2`` each row of Q, K and V is a bundle of two
# bound tokens: its own and the one before. So the row of a digit also contains its letter, and one layer is enough to
# find "the digit after a". With ``window=1`` a row contains only its own token.


class Model(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.embedding = nn.Embedding(len(names), 32)
        self.attention = ghrr.nn.Attention(
            embed_dim=32, num_heads=2, max_len=2 * pairs + 1, window=window, is_causal=True
        )
        self.read_out = nn.Linear(32, len(digits))

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.read_out((x + self.attention(x))[:, -1])


def train(window, steps=300):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model, accuracy = Model(window), []
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        tokens, answers = make_batch(128, generator)
        scores = model(tokens)
        optimizer.zero_grad()
        nn.functional.cross_entropy(scores, answers).backward()
        optimizer.step()
        accuracy.append((scores.argmax(dim=1) == answers).float().mean().item())
    return model, accuracy


models = {window: train(window) for window in (1, 2)}

figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for (window, (_, accuracy)), line in zip(models.items(), ("--", "-"), strict=True):
    smooth = torch.tensor(accuracy).unfold(0, 10, 1).mean(dim=1)
    axis.plot(smooth, line, label=f"window {window}")
axis.axhline(1 / len(digits), color="grey", ls=":", label="guessing among all digits")
axis.set(xlabel="training step", ylabel="share of correct answers", ylim=(0, 1.05))
axis.set_title("Binding the previous token lets one layer find the digit after a letter")
axis.legend(loc="center right", bbox_to_anchor=(1, 0.65))
plt.show()

assert sum(models[2][1][-20:]) / 20 > 0.95
assert sum(models[1][1][-20:]) / 20 < 0.7

# %%
# What it attends to
# ------------------
# Called with query, key and value, the layer also returns the weights, as ``nn.MultiheadAttention`` does. Look at the
# last row, for the queried letter.

model = models[2][0].eval()
tokens, answers = make_batch(1, torch.Generator().manual_seed(2))
shown = [names[i] for i in tokens[0]]
with torch.no_grad():
    x = model.embedding(tokens)
    _, weights = model.attention(x, x, x, average_attn_weights=False)

figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for head, axis in enumerate(axes):
    image = axis.imshow(weights[0, head].numpy(), vmin=0, vmax=1, cmap="cividis")
    axis.set_xticks(range(len(shown)), shown)
    axis.set_yticks(range(len(shown)), shown)
    axis.set(xlabel="attended token", ylabel="token", title=f"Head {head + 1}")
figure.colorbar(image, ax=axes, label="attention weight")
figure.suptitle(f"Attention weights; the last letter is {shown[-1]}, the correct answer {digits[answers[0]]}")
plt.show()

# %%
# Averaged over many sequences, most of the weight of the last token is on the digit after the letter, and little on the
# other digits.

tokens, answers = make_batch(500, torch.Generator().manual_seed(3))
with torch.no_grad():
    x = model.embedding(tokens)
    _, weights = model.attention(x, x, x)
place = (tokens[:, :-1] == tokens[:, -1:]).float().argmax(dim=1) + 1
on_answer = weights[:, -1].gather(1, place[:, None]).mean()
print(f"weight on the right digit {on_answer:.2f}, if spread evenly {1 / tokens.shape[1]:.2f}")

assert on_answer > 3 / tokens.shape[1]

# %%
# It does not use later tokens
# ----------------------------
# With ``is_causal=True`` the output at token t must not depend on later tokens. Such a property is easily broken by
# accident, so check it: the gradient of an output with respect to later inputs must be exactly zero.

layer = ghrr.nn.Attention(embed_dim=32, num_heads=2, max_len=16, window=2, is_causal=True)
x = torch.randn(1, 10, 32, requires_grad=True)
layer(x)[0, 4].sum().backward()
size = x.grad[0].abs().sum(dim=1)
print("gradient of output 4 with respect to inputs 0 to 9:")
print(" ".join(f"{value:.2f}" for value in size))

assert (size[:5] > 0).all()
assert (size[5:] == 0).all()

# %%
# One mode of the paper binds dense position matrices, which mix all tokens before any mask is applied. It cannot be
# causal, and raises an error.

try:
    ghrr.nn.Attention(embed_dim=32, num_heads=2, max_len=16, mode="dense", is_causal=True)
except ValueError as error:
    print(error)

# %%
# In a transformer of your own
# ----------------------------
# The layer fits where ``nn.MultiheadAttention`` is. To try it in an existing model, replace ``self_attn``. Masks keep
# their meaning: True hides a key.

encoder = nn.TransformerEncoderLayer(d_model=32, nhead=2, dim_feedforward=64, batch_first=True)
encoder.self_attn = ghrr.nn.Attention(embed_dim=32, num_heads=2, max_len=16)

x = torch.randn(4, 10, 32)
padding = torch.zeros(4, 10, dtype=torch.bool)
padding[:, 8:] = True
encoder.eval()
with torch.no_grad():
    out = encoder(x, src_key_padding_mask=padding)
    x[:, 8:] = 0  # the content of the padding does not matter
    same = encoder(x, src_key_padding_mask=padding)
print(out.shape)

assert torch.allclose(out[:, :8], same[:, :8], atol=1e-5)

# %%
# Try this
# --------
# - Stack two layers with ``window=1``. Can they solve the task? This is how ordinary transformers do it.
# - Remove ``is_causal=True`` from the gradient check. Which inputs have an influence now?
# - Use eight pairs instead of four (``letters`` has eight), and more training steps.
#
# For language models see ``ghrr lm train --help`` and :mod:`ghrr_lab.lm`. For the modes of the layer see
# :class:`ghrr.nn.AttentionConfig`.
#
# Next: :doc:`plot_7_learning`.
