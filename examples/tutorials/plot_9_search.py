"""
Link two messy tables
=====================

Two shops sell the same products, with other names, prices and fields. In this tutorial you index one table, search it
with the records of the other, look at the scores of fields, learn weights from a few known pairs, and find duplicates.
"""

import random

import matplotlib.pyplot as plt
import numpy as np

import ghrr
from ghrr.search import RecordIndex

plt.style.use("seaborn-v0_8-colorblind")

# %%
# Two tables
# ----------
# The products are generated, so that the right answer is known. The second shop abbreviates names, changes prices by a
# few percent, and lacks some fields.

rng = random.Random(0)
brands = ["Sony", "Bose", "Canon", "Philips", "Yamaha", "Panasonic"]
things = ["turntable", "speaker system", "digital camera", "headphones", "stereo receiver", "flat panel television"]
colours = ["black", "silver", "white"]


def product(number):
    brand, thing = rng.choice(brands), rng.choice(things)
    model = f"{brand[:2].upper()}{rng.choice('XDKR')}-{rng.randrange(100, 999)}{rng.choice('BSW')}"
    return {
        "name": f"{brand} {thing} - {model}",
        "details": {"colour": rng.choice(colours), "weight": round(rng.uniform(0.5, 30), 1)},
        "price": round(rng.uniform(20, 900), 2),
    }


def other_shop(record):
    name = record["name"].replace("-", "").lower().replace("digital ", "").replace(" system", "")
    if rng.random() < 0.3:
        at = rng.randrange(len(name))
        name = name[:at] + name[at + 1 :]
    copy = {
        "name": name,
        "details": dict(record["details"]),
        "price": round(record["price"] * rng.uniform(0.93, 1.07), 2),
    }
    if rng.random() < 0.5:
        del copy["price"]
    if rng.random() < 0.3:
        del copy["details"]["weight"]
    return copy


shop_a = [product(i) for i in range(600)]
shop_b = [other_shop(record) for record in shop_a]
print(shop_a[0])
print(shop_b[0])

# %%
# Index one table
# ---------------
# Kinds and weights of fields are found in the data. ``*`` is the text of all fields.

index = RecordIndex()
index.add(shop_a, ids=[f"a{i}" for i in range(len(shop_a))])
for field in index.fields:
    print(f"{field.name:15} {field.kind:9} weight {field.weight:.2f}")

# %%
# Search with the other
# ---------------------
# Each hit has a score, a probability, the stored document and the score of each field.

hits = index.search_many(shop_b, k=3)
best = hits[0][0]
print(best, best.fields)
right = np.array([own[0].guess == f"a{i}" for i, own in enumerate(hits)])
print(f"the partner is first for {right.mean():.1%}")
assert right.mean() > 0.95

# %%
# The probability separates right answers from wrong ones. Products that only the other shop has should have a low one:
# here the partners of some records are removed first.

removed = [f"a{i}" for i in range(0, 600, 2)]
index.remove(removed)
found = index.search_many(shop_b, k=1)
present = [own[0].probability for i, own in enumerate(found) if i % 2]
absent = [own[0].probability for i, own in enumerate(found) if not i % 2]
figure, axis = plt.subplots(figsize=(6, 2.8), layout="constrained")
axis.hist([present, absent], bins=20, label=["partner is in the index", "partner was removed"])
axis.set(title="Probability of right and wrong hits", xlabel="probability of the best hit", ylabel="examples")
axis.legend()

# %%
# Learn from known pairs
# ----------------------
# With some known pairs, the weights of the fields are learned, and probabilities are calibrated on real examples.

index.add([shop_a[i] for i in range(0, 600, 2)], ids=removed)
index.learn_weights(shop_b[:200], [f"a{i}" for i in range(200)])
print({field.name: round(field.weight, 2) for field in index.fields})
held_out = index.search_many(shop_b[200:], k=1)
print(f"{np.mean([own[0].guess == f'a{200 + i}' for i, own in enumerate(held_out)]):.1%} of the other 400")

# %%
# Why
# ---

print(index.explain("a1", shop_b[1]))

# %%
# Duplicates
# ----------
# Both tables in one index: each product is there twice.

both = RecordIndex(ghrr.Space(dim=256, m=2, seed=0))
both.add(shop_a[:200] + shop_b[:200])
clusters = both.duplicates(rate=0.5)
pairs = {(first, second) for cluster in clusters for first, second, _ in cluster.pairs}
print(len(pairs), "pairs,", len(pairs & {(str(i), str(200 + i)) for i in range(200)}), "of 200 right")

# %%
# Next: the guide *Search* has conditions, ranges, files, tables and engines.
