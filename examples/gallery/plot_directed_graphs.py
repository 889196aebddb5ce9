"""
Classify graphs by the direction of their edges
===============================================

Two kinds of teams exchange the same messages between the same people. In the first, bosses ask and staff answers; in
the second it is the other way round. Only the direction of the edges differs. An edge is the product ``source * label
* target``: for m = 1 the factors commute, and the two kinds of teams look alike. For m > 1 their order matters.
"""

import matplotlib.pyplot as plt
import numpy as np

import ghrr
from ghrr.learn import GraphFeatures, HDClassifier

plt.style.use("seaborn-v0_8-colorblind")
rng = np.random.default_rng(0)

# 400 teams of two bosses and four staff, with twelve messages each. Three in four go in the direction of the kind.
kinds = np.tile(["boss asks", "staff asks"], 200)
bosses, staff = rng.integers(0, 2, (400, 12)), rng.integers(2, 6, (400, 12))
asks = rng.random((400, 12)) < 0.5
down = asks ^ (kinds == "staff asks")[:, None] ^ (rng.random((400, 12)) < 0.25)
source, target = np.where(down, bosses, staff), np.where(down, staff, bosses)

# %%
# Encode each team by binding and bundling alone, learn from 200 teams, and predict the others.

people = np.array([0, 0, 1, 1, 1, 1])  # row of each person in the table of atoms
model = HDClassifier("passthrough", random_state=0)
found = {}
for m in (1, 2, 3):
    atoms = ghrr.Space.from_total(900, m=m, seed=0).vectors(["boss", "staff", "asks", "answers"])
    edges = ghrr.multibind([atoms[people[source]], atoms[np.where(asks, 2, 3)], atoms[people[target]]])
    x = ghrr.bundle(edges).flatten(start_dim=1).numpy().view(np.float32)
    found[f"m = {m}"] = model.fit(x[:200], kinds[:200]).score(x[200:], kinds[200:])

# %%
# :class:`ghrr.learn.GraphFeatures` takes node labels, edges and edge labels; for m = 1 it marks the order by shifting.

roles, labels = ["boss"] * 2 + ["staff"] * 4, np.where(asks, "asks", "answers")
teams = [(roles, np.stack(pairs, axis=1), names) for *pairs, names in zip(source, target, labels, strict=True)]
ready = HDClassifier(GraphFeatures(100, m=3, radius=0, directed=True, random_state=0))
found["GraphFeatures"] = ready.fit(teams[:200], kinds[:200]).score(teams[200:], kinds[200:])
assert found["m = 1"] < 0.6
assert min(found["m = 3"], found["GraphFeatures"]) > 0.9

figure, axis = plt.subplots(figsize=(5.5, 3), layout="constrained")
axis.bar_label(axis.bar(list(found), list(found.values())), fmt="{:.1%}")
axis.axhline(0.5, color="black", lw=1, ls=":", label="chance")
axis.set(ylim=(0, 1.1), xlabel="encoding", ylabel="accuracy on 200 new teams")
axis.set_title("For m = 1 the direction of edges is lost")
axis.legend(loc="upper left")
plt.show()

# %%
# For your own data: give ``GraphFeatures`` a list of ``(labels, edges, edge_labels)`` or of networkx graphs.
