"""
The mother of a father: learning how relations compose
======================================================

The mother of a father is a grandmother; the father of a mother is a grandfather. Composing relations is a product in
which the order matters, which is what binding is for m > 1. In this tutorial you learn one hypervector per family
relation from short chains, compose chains of forty steps, and see how every answer was derived.
"""

import matplotlib.pyplot as plt
import torch

import ghrr
from ghrr.relations.chains import RelationChains, generate_kinship_chains, kinship_rules

plt.style.use("seaborn-v0_8-colorblind")

# %%
# Examples
# --------
# An example is a chain of relations and the relation that it composes to. Here they are made by rule: 84 pairs such as
# father, sister: aunt, and chains of three steps. Your own examples are a list of such pairs; ``load_clutrr`` reads the
# stories of the CLUTRR benchmark.

examples = [*kinship_rules(), *generate_kinship_chains(300, 3, seed=1)]
print(len(examples), "examples")
for chain, target in examples[::90]:
    print(" * ".join(chain), "=", target)

# %%
# Learning
# --------
# :class:`~ghrr.relations.chains.RelationChains` multiplies the hypervectors of a chain and compares the product with
# all relations. The same vectors serve as steps and as answers, so that a product can be a factor again.

model = RelationChains(dim=8, m=8, epochs=40, seed=0).fit(examples)
print(model)
print(model.compose(["father", "mother"]))
print(model.compose(["mother", "father"]))

assert model.compose(["father", "mother"]).guess == "grandmother"
assert model.compose(["mother", "father"]).guess == "grandfather"

# %%
# The slots are real matrices that need not be unitary. A brother's brother is a brother, so the vector must satisfy
# b * b = b up to scale. For a unitary matrix that leaves only the identity. The learned slots are far from unitary:
# their singular values, which would all be equal, fall to almost zero.

vectors = model.item_memory().vectors(["brother", "father"])
singular = torch.linalg.svdvals(vectors).mean(dim=1)
for name, values in zip(("brother", "father"), singular / singular[:, :1], strict=True):
    print(f"{name:8}", " ".join(f"{value:.2f}" for value in values))

b = model.product(["brother"])
print(f"similarity of b * b with b: {ghrr.similarity(model.product(['brother', 'brother']), b):.2f}")

assert ghrr.similarity(model.product(["brother", "brother"]), b) > 0.8

# %%
# The composition table
# ---------------------
# Which relation is nearest to the product of each pair? The table is read out of the vectors. Darker cells are more
# certain. Pale cells are pairs that no example has. Some have no name, like the spouse's spouse; others are correct
# although they were never seen: the son's mother is the wife.

shown = ["father", "mother", "son", "daughter", "brother", "sister", "husband", "wife"]
index = [model.relations.index(name) for name in shown]
probabilities, best = model.probabilities()[index][:, index].max(dim=2)

figure, axis = plt.subplots(figsize=(8, 4.6), layout="constrained")
axis.imshow(probabilities, cmap="Blues", vmin=0, vmax=1.8, aspect="auto")
for i in range(len(shown)):
    for j in range(len(shown)):
        name = model.relations[best[i, j]].replace("-in-law", "\n-in-law")
        axis.text(j, i, name, ha="center", va="center", fontsize=8)
axis.set_xticks(range(len(shown)), shown)
axis.set_yticks(range(len(shown)), shown)
axis.set(xlabel="second step", ylabel="first step", title="First step * second step")
plt.show()

assert model.relations[best[0, 5]] == "aunt"  # father * sister

# %%
# Long chains
# -----------
# A product of many factors drifts away from all relations. Clean-up after each step removes the drift, but going from
# left to right gets stuck where an intermediate relation has no name. Because binding is associative, any order of
# composition is allowed: the *chart* tries all bracketings and keeps the most probable one.

lengths = [2, 5, 10, 20, 40]
chains = {length: generate_kinship_chains(40, length, seed=length) for length in lengths}


def share_right(model, length, method):
    answers = model.predict([chain for chain, _ in chains[length]], method=method)
    return sum(answer == target for answer, (_, target) in zip(answers, chains[length], strict=True)) / len(answers)


commutative = RelationChains(dim=512, m=1, epochs=40, seed=0).fit(examples, calibrate=False)
curves = {
    "chart": [share_right(model, length, "chart") for length in lengths],
    "left to right": [share_right(model, length, "left-to-right") for length in lengths],
    "one product": [share_right(model, length, "product") for length in lengths],
    "chart, m = 1": [share_right(commutative, length, "chart") for length in lengths],
}

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, shares), style in zip(curves.items(), ("o-", "s--", "^:", "D-."), strict=True):
    axis.plot(lengths, shares, style, label=name)
axis.set(xscale="log", xlabel="steps", ylabel="share correct", ylim=(0, 1.05), title="Longer than in training")
axis.set_xticks(lengths, [str(length) for length in lengths])
axis.minorticks_off()
axis.legend()
plt.show()

assert min(curves["chart"]) >= 0.95
assert max(curves["chart, m = 1"]) < 0.9

# %%
# With m = 1 binding commutes: the vectors have as many numbers, but "mother of a father" and "father of a mother" are
# the same product, and the chart cannot help.
#
# How was it derived?
# -------------------
# ``compose`` returns a match with a probability and the derivation: which pairs were composed to what. The probability
# is calibrated on chains that were held out of training.

match = model.compose(["son", "uncle", "daughter", "brother", "grandfather"])
print(match, f"probability {match.probability:.2f}")
print(match.derivation)

assert match.derivation.chain == ("son", "uncle", "daughter", "brother", "grandfather")
assert match.guess == "father"

# %%
# Saving
# ------
# ``save_chains(path, model)`` and ``load_chains(path)`` store a model in one file. On the command line,
# ``ghrr chains train`` learns from a CLUTRR folder and ``ghrr chains compose`` answers.
#
# Try this
# --------
# - Leave a pair such as father, sister out of the examples. Is it still composed correctly?
# - Compose ``["father", "sister", "son"]``: a cousin, for which the model has no name. Look at the probability.
#
# :doc:`Results: chains of relations </results/relations-chains>` has the accuracy on CLUTRR, with baselines.
#
# Next: :doc:`plot_9_search`.
