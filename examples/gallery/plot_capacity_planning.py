"""
How large a space do I need?
============================

More data in one vector means more noise in each answer. Theory predicts this noise, so you can choose the size before
you store anything. ``Space.suggest`` returns the smallest space for a number of key-value pairs, ``capacity`` returns
the number of pairs that a space holds, and every structure has its own ``suggest``.
"""

import matplotlib.pyplot as plt
import torch

import ghrr
from ghrr.capacity import recall_error

plt.style.use("seaborn-v0_8-colorblind")

# 40 pairs per vector, values from a list of 1000, at most 1 % wrong answers.
space = ghrr.Space.suggest(items=40, m=3, candidates=1000, error=0.01, seed=0)
print(space, "with", space.total_dim, "numbers; it holds", space.capacity(candidates=1000), "pairs")

# %%
# Check the prediction: store pairs, read them, and count the wrong answers.

values = space.vectors([f"value {i}" for i in range(1000)])
loads, wrong, theory = [10, 20, 40, 80, 160], [], []
for load in loads:
    picks = torch.randint(1000, (max(5, 400 // load), load), generator=space.generator("picks"))
    keys = space.random(*picks.shape, generator=space.generator("keys"))
    bundles = ghrr.bind_bundle(keys, values[picks])
    answers = ghrr.unbind(bundles[:, None], keys, side="left")
    wrong.append((ghrr.pairwise_similarity(answers, values).argmax(dim=-1) != picks).float().mean().item())
    theory.append(recall_error(load, 1000, space.noise_std, space.crosstalk_std))
    print(f"{load:4} pairs: {wrong[-1]:6.2%} wrong, theory {theory[-1]:6.2%}")

figure, axis = plt.subplots(figsize=(6.4, 3), layout="constrained")
axis.plot(loads, theory, "-", color="grey", label="theory")
axis.plot(loads, wrong, "o", label="measured")
axis.axvline(40, color="C2", ls=":", label="planned load")
axis.set_xscale("log")
axis.set_xticks(loads, [str(load) for load in loads])
axis.minorticks_off()
axis.set(xlabel="pairs in one hypervector", ylabel="share of wrong answers")
axis.set_title(f"Errors in a space planned for 40 pairs ({space.total_dim} numbers)")
axis.legend()
plt.show()
assert all(abs(a - b) < 0.06 for a, b in zip(wrong, theory, strict=True))
assert wrong[2] < 0.04

# %%
# For your own data: count the pairs of your largest vector and the values to choose from. For nested documents use
# ``ghrr.Record.suggest``, which also asks for confident answers.
