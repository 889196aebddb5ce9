"""
Link two messy tables
=====================

Two shops sell the same products, under other names, with other prices and with fields missing. In this tutorial you
index one table, search it with the records of the other, see why a record was found, learn weights from known pairs,
and find duplicates.
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
# The products are generated, so that the correct answer is known. The second shop leaves out the model in many names,
# makes typing errors, changes prices by a few percent, and lacks some fields. Both have notes with the name of
# someone in the shop, which say nothing about the product.

rng = random.Random(0)
brands = ["Sony", "Bose", "Canon", "Philips", "Yamaha", "Panasonic"]
things = ["turntable", "speaker system", "digital camera", "headphones", "stereo receiver", "flat panel television"]
colours = ["black", "silver", "white"]
staff = ["Ada", "Alan", "Carl", "Emmy", "Grace", "Kurt", "Lise", "Mary", "Paul", "Sofia"]
phrases = ["free delivery in two days", "best price of the week", "new in our shop", "last items in stock"]


def note():
    return f"ask for {rng.choice(staff)}, {rng.choice(phrases)}"


def product():
    brand, thing = rng.choice(brands), rng.choice(things)
    model = f"{brand[:2].upper()}{rng.choice('XDKR')}-{rng.randrange(100, 999)}{rng.choice('BSW')}"
    return {
        "name": f"{brand} {thing} - {model}",
        "details": {"colour": rng.choice(colours), "weight": round(rng.uniform(0.5, 30), 1)},
        "price": round(rng.uniform(20, 900), 2),
        "note": note(),
    }


def without_a_letter(text):
    at = rng.randrange(len(text))
    return text[:at] + text[at + 1 :]


def other_shop(record):
    name = record["name"].lower().replace("-", "").replace("digital ", "").replace(" system", "")
    if rng.random() < 0.4:
        name = name.rpartition(" ")[0]  # without the model
    if rng.random() < 0.5:
        name = without_a_letter(name)
    price = round(record["price"] * rng.uniform(0.93, 1.07), 2)
    copy = {"name": name, "details": dict(record["details"]), "price": price, "note": note()}
    if rng.random() < 0.3:
        del copy["price"]
    if rng.random() < 0.3:
        del copy["details"]["weight"]
    return copy


shop_a = [product() for _ in range(600)]
shop_b = [other_shop(record) for record in shop_a]
print(shop_a[0])
print(shop_b[0])

# %%
# Index one table
# ---------------
# Kinds and weights of fields are found in the data. ``*`` is the text of all fields.

ids = [f"a{i}" for i in range(len(shop_a))]
index = RecordIndex()
index.add(shop_a, ids=ids)
for field in index.fields:
    print(f"{field.name:15} {field.kind:9} weight {field.weight:.2f}")

# %%
# Search with the other
# ---------------------
# Each hit has a score and a probability, the stored document, and the score of each field that both have.

hits = index.search_many(shop_b, k=3)
best = hits[0][0]
print(f"{best.guess}: score {best.score:.2f}, probability {best.probability:.2f}")
print(best.document)
print({name: round(score, 2) for name, score in best.fields.items()})


def share_right(found, first=0):
    """Return the share of searches whose best hit is the partner."""
    return np.mean([own[0].guess == f"a{first + i}" for i, own in enumerate(found)])


print(f"the partner is first for {share_right(hits):.1%}")

# %%
# Why was a record found?
# -----------------------
# ``explain`` compares an example with any record, also with one that was not found. Here is an example whose partner
# is not first: the notes of another product happen to agree better. Names in notes are rare, so their agreement counts.

number = next(i for i, own in enumerate(hits) if own[0].guess != f"a{i}")
for name, why in {
    "partner": index.explain(f"a{number}", shop_b[number]),
    "found": index.explain(hits[number][0].guess, shop_b[number]),
}.items():
    print(f"{name:8} score {why.score:.2f}  {why.fields}")

# %%
# You know that notes say nothing: leave this field out.

without_notes = RecordIndex(kinds={"note": "ignore"})
without_notes.add(shop_a, ids=ids)
print(f"without notes: {share_right(without_notes.search_many(shop_b, k=1)):.1%}")
assert share_right(without_notes.search_many(shop_b, k=1)) > share_right(hits) + 0.05

# %%
# Learn from known pairs
# ----------------------
# If you do not know which fields to trust, learn the weights from known pairs, here 200. Probabilities are calibrated
# on the same pairs. The other 400 pairs measure the result.

before = share_right(index.search_many(shop_b[200:], k=1), first=200)
index.learn_weights(shop_b[:200], ids[:200])
after = share_right(index.search_many(shop_b[200:], k=1), first=200)
print(f"the partner is first for {before:.1%} before, {after:.1%} after")
print({field.name: round(field.weight, 2) for field in index.fields})
assert after > before + 0.05

# %%
# Does a product have a partner?
# ------------------------------
# Some products are sold by one shop only. The probability of the best hit is then low. To show this, we remove every
# second record from the index.

index.remove(ids[::2])
found = index.search_many(shop_b[200:], k=1)
present = [own[0].probability for i, own in enumerate(found) if i % 2]
absent = [own[0].probability for i, own in enumerate(found) if not i % 2]
figure, axis = plt.subplots(figsize=(6, 2.8), layout="constrained")
axis.hist([present, absent], bins=20, label=["partner is in the index", "partner was removed"])
axis.set(title="Probability of the best hit", xlabel="probability", ylabel="examples")
axis.legend()
print(f"mean probability {np.mean(present):.2f} with the partner, {np.mean(absent):.2f} without")
assert np.mean(present) > np.mean(absent) + 0.3

# %%
# Duplicates
# ----------
# Both tables in one index: each product is there twice. ``duplicates`` connects pairs that are probably the same thing,
# by default with a probability of at least 0.5. A higher threshold gives fewer pairs, nearly all of them correct;
# ``rate=`` takes the expected number of pairs per record instead.

both = RecordIndex(ghrr.Space(dim=256, m=2, seed=0), kinds={"note": "ignore"})
both.add(shop_a[:200] + shop_b[:200])
true_pairs = {(str(i), str(200 + i)) for i in range(200)}
for threshold in (0.999, 0.9, None):
    pairs = {(a, b) for cluster in both.duplicates(threshold) for a, b, _ in cluster.pairs}
    print(f"threshold {threshold}: {len(pairs)} pairs, {len(pairs & true_pairs)} of them correct")

# %%
# Try this
# --------
# - Give ``index.search`` a part of a document, such as ``{"name": "sony camera"}``, with
#   ``must={"details": {"colour": "black"}}`` or a range, ``{"price": ghrr.search.Range(100, 200)}``.
# - Search with ``candidates=0``: vectors alone, without comparing documents. How many partners are lost?
#
# The guide :doc:`Searching records </guides/search>` continues with conditions, files, tables and engines.
