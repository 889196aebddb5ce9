r"""
Path attention: follow the cups
===============================

Three cups, one ball. Somebody swaps cups again and again, and at the end you say where the ball is. The swaps alone are
not enough: the same swaps in another order can leave the ball elsewhere. Rotary positions tell attention *how far*
apart two tokens are. Path attention, ``mode="path"``, tells it *what happened* in between: every token is a unitary
hypervector, and attention binds tokens to the product of all hypervectors so far.

We train one layer of attention on the permutations of three cups (the group S3), with at most 32 of them, and test it
on many more. It takes less than a minute on a CPU. :doc:`Tracking state </concepts/state>` explains the idea.
"""

import itertools

import matplotlib.pyplot as plt
import torch
from torch import nn

import ghrr

plt.style.use("seaborn-v0_8-colorblind")
torch.set_num_threads(1)  # with tensors this small, several threads would only wait for each other

# %%
# The task
# --------
# A token is one of the six permutations, and the target at each token is the product of all permutations so far: a
# state. A sequence begins with a token of its own, which marks the start.

cups = list(itertools.permutations(range(3)))
product = torch.tensor([[cups.index(tuple(a[i] for i in b)) for b in cups] for a in cups])
start = len(cups)


def shuffles(batch, length, generator):
    moves = torch.randint(len(cups), (batch, length), generator=generator)
    states = [moves[:, 0]]
    for t in range(1, length):
        states.append(product[moves[:, t], states[-1]])
    return nn.functional.pad(moves, (1, 0), value=start), torch.stack(states, dim=1)


moves, states = shuffles(1, 5, torch.Generator().manual_seed(0))
for move, state in zip(moves[0, 1:].tolist(), states[0].tolist(), strict=True):
    print(f"move {cups[move]} -> cups {cups[state]}")

# %%
# Two models that differ in one setting
# -------------------------------------
# Both are an embedding, one layer of attention, and an output. Slots of m = 2 suffice, because 2 × 2 matrices can
# represent the permutations of three things. ``transport="values"`` carries values along the path, where states are
# kept, and leaves the scores without positions. The other model has rotary positions.


class Model(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        self.embedding = nn.Embedding(start + 1, 32)
        self.attention = ghrr.nn.Attention(32, 1, max_len=1025, is_causal=True, mode="path", m=2, **settings)
        self.out = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, len(cups)))

    def forward(self, moves):
        return self.out(self.attention(self.embedding(moves)))[:, 1:]


def make(**settings):
    torch.manual_seed(0)
    return Model(**settings)


models = {
    "path": make(transport="values", reflections=2, angle_std=0.2),
    "rope": make(transport="none", rotary_scores=True),
}

# %%
# Training
# --------
# Sequences become longer during training. Smoothed targets matter: the ordinary loss vanishes as soon as all answers
# are right, while small errors of the angles are left, which add up in long sequences. With smoothed targets the loss
# is smallest when equal states give equal outputs.


def train(model, steps=800):
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    for step in range(steps):
        moves, states = shuffles(32, (4, 8, 16, 32)[4 * step // steps], generator)
        loss = loss_of(model(moves).flatten(0, 1), states.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


for model in models.values():
    train(model)

# %%
# Accuracy by length
# ------------------
# The share of right states at the last 8 of 8 to 256 moves. Guessing gives 1/6.

lengths = (8, 16, 32, 64, 128, 256)


@torch.no_grad()
def accuracy(model, length):
    moves, states = shuffles(32, length, torch.Generator().manual_seed(length))
    return float((model.eval()(moves).argmax(dim=-1) == states)[:, -8:].float().mean())


found = {name: [accuracy(model, length) for length in lengths] for name, model in models.items()}
print("length".ljust(8), *(f"{length:6d}" for length in lengths))
for name, shares in found.items():
    print(name.ljust(8), *(f"{share:6.2f}" for share in shares))

figure, axis = plt.subplots(figsize=(6, 3.2))
for name, shares in found.items():
    axis.plot(lengths, shares, "o-", label=name)
axis.axhline(1 / 6, color="grey", ls=":", label="guessing")
axis.axvspan(lengths[0], 32, color="grey", alpha=0.15, label="seen in training")
axis.set(xscale="log", xticks=lengths, xticklabels=lengths, xlabel="moves", ylabel="right states", ylim=(0, 1.05))
axis.set_title("Right states by the number of moves")
axis.legend(loc="center right")
figure.tight_layout()

assert min(found["path"][:4]) > 0.95
assert max(found["rope"][2:]) < 0.5

# %%
# More
# ----
# :class:`ghrr.nn.AttentionConfig` lists the settings of paths. A cache for generation needs one matrix per slot more.
# The results on larger groups are in :doc:`Path attention </results/path-attention>`.
