"""
Memory and clean-up
===================

Every answer that comes out of a hypervector is noisy: it is the correct item plus a bit of everything else. *Clean-up*
replaces it by the stored item that is most similar. This tutorial shows how :class:`ghrr.ItemMemory` does this, when
you can trust the result, how to add items and save them, and what to do when the answer is a product of several unknown
factors.
"""

import importlib.util
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import ghrr

plt.style.use("seaborn-v0_8-colorblind")

space = ghrr.Space(dim=200, m=3, seed=0)

# %%
# Clean-up
# --------
# A memory holds labels and hypervectors. Without vectors it takes the atoms of the labels. We fill it with 5000 words
# and query it with a noisy version of one of them: the word, bundled with nine unrelated hypervectors.

words = [f"word {i}" for i in range(5000)]
memory = ghrr.ItemMemory(space, words)
print(memory)

noise = space.random(9, generator=space.generator("noise"))
noisy = memory.vectors("word 42") + ghrr.bundle(noise)
labels, scores = memory.cleanup(noisy, k=3)
for label, score in zip(labels, scores, strict=True):
    print(f"{score:.2f}  {label}")

assert labels[0] == "word 42"

# %%
# The search is exact: every item is compared. Approximate indexes are fast for near neighbours, but a noisy answer is
# far from *all* items, and only a little less far from the correct one.
#
# Queries come in batches of any shape; labels and scores have the same shape with k at the end.

queries = memory.vectors(["word 1", "word 2"]) + space.random(2, generator=space.generator("more noise"))
found = memory.cleanup(queries, k=2)
print([best for best, second in found.labels], found.scores.shape)

assert [best for best, second in found.labels] == ["word 1", "word 2"]

# %%
# Can the answer be trusted?
# --------------------------
# ``cleanup`` always returns something. ``match`` also says how probable it is that the item is in the query. It
# estimates the noise from the space and from the energy of the query, so give it the bundle as it is, not normalised.

print(memory.match(noisy))
print(memory.match(ghrr.bundle(noise)))

assert memory.match(noisy).confident
assert memory.match(ghrr.bundle(noise)).unknown

# %%
# The second query contains no word. Its best score is simply the largest of 5000 random numbers, and the answer is
# ``unknown``. A threshold on the score could not do this, because a good threshold depends on the size of the
# space, the load of the query and the number of items.
#
# We add more and more noise and watch the score, the best wrong score, and the probability.

loads = [5, 20, 40, 80, 160, 320]
targets = [f"word {i}" for i in range(60)]
right_scores, wrong_scores, correct, confident, wrong_confident = [], [], [], [], []
for load in loads:
    clutter = torch.stack([ghrr.bundle(space.random(load)) for _ in targets])
    matches = memory.match(memory.vectors(targets) + clutter)
    everything = ghrr.pairwise_similarity(memory.vectors(targets) + clutter, memory.vectors())
    is_target = torch.arange(5000) == torch.arange(60)[:, None]
    right_scores.append(everything[is_target].mean())
    wrong_scores.append(everything.masked_fill(is_target, -1).amax(dim=1).mean())
    hits = [match.guess == target for match, target in zip(matches, targets, strict=True)]
    correct.append(sum(hits) / 60)
    confident.append(sum(match.confident for match in matches) / 60)
    wrong_confident.append(sum(match.confident and not hit for match, hit in zip(matches, hits, strict=True)))

figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
axes[0].plot(loads, right_scores, "o-", label="correct word")
axes[0].plot(loads, wrong_scores, "s--", label="best wrong word")
axes[0].set(ylabel="similarity with the query", title="The best wrong score rises", ylim=(0, 1.3))
axes[1].plot(loads, correct, "o-", label="correct")
axes[1].plot(loads, confident, "^:", label="confident")
axes[1].set(ylabel="share of queries", title="Confidence falls before errors occur", ylim=(0, 1.05))
for axis in axes:
    axis.set(xscale="log", xlabel="unrelated vectors in the query")
    axis.set_xticks(loads, [str(load) for load in loads])
    axis.minorticks_off()
    axis.legend()
plt.show()

print("confident but wrong:", sum(wrong_confident), "of", 60 * len(loads))

assert correct[0] == 1
assert confident[-1] < 0.2
assert sum(wrong_confident) <= 4

# %%
# A memory that grows
# -------------------
# Items are added and removed at any time. A label can occur once; a second one is an error, and nothing is added.

memory.add("tea", space.vectors(["tea"]))
memory.remove("word 4999")
print(len(memory), "tea" in memory.labels)

try:
    memory.add(["coffee", "tea"])
except ValueError as error:
    print(error)

assert "coffee" not in memory.labels

# %%
# Files
# -----
# ``save`` writes one file. ``load`` reads it into memory; ``open`` leaves the items on disk and reads them in pieces
# for each search, so a memory can be larger than your RAM. ``commit`` writes only what changed, to a folder.
#
# A smaller number type saves space. With ``storage="int8"`` an item takes a quarter of the bytes, and for clean-up the
# rounding is small compared with the noise.

compact = ghrr.ItemMemory(space, words, storage="int8")
with tempfile.TemporaryDirectory() as folder:
    for name, one in (("float32", memory), ("int8", compact)):
        path = Path(folder) / f"{name}.safetensors"
        one.save(path)
        on_disk = ghrr.ItemMemory.open(path)
        print(f"{name:8} {path.stat().st_size / 2**20:5.1f} MiB", on_disk.match(noisy))
        assert on_disk.match(noisy).guess == "word 42"
        del on_disk  # close the file before the folder is removed

# %%
# Backends
# --------
# The default backend is PyTorch, on the CPU or a GPU (``device="cuda"``). ``backend="faiss"`` uses faiss on one
# machine and ``backend="milvus"`` a file, a server or a cluster. All search exactly, so they find the same items.

if importlib.util.find_spec("faiss"):
    with_faiss = ghrr.ItemMemory(space, words, backend="faiss")
    print(with_faiss)
    assert with_faiss.cleanup(noisy).labels == memory.cleanup(noisy).labels
else:
    print("faiss is not installed: pip install 'ghrr[index]'")

# %%
# When the answer is a product
# ----------------------------
# Clean-up needs the candidates in memory. For a product of three unknown factors with 40 candidates each there are
# 64,000 candidates. :func:`ghrr.resonator` does not list them: it guesses all factors, improves one guess at a time
# by unbinding the others from both sides, and repeats.

colours, shapes, places = (space.vectors([f"{kind} {i}" for i in range(40)]) for kind in ("colour", "shape", "place"))
scene = ghrr.multibind([colours[3], shapes[14], places[15]])

factors = ghrr.resonator(scene, [colours, shapes, places])
print(factors.indices.tolist(), "found:", bool(factors.found), "after", int(factors.iterations), "iterations")

assert factors.indices.tolist() == [3, 14, 15]

# %%
# Order matters here too. The same factors in another order are another product, and are not found. The resonator says
# so instead of returning the nearest wrong combination.

swapped = ghrr.resonator(ghrr.multibind([shapes[14], colours[3], places[15]]), [colours, shapes, places])
print(swapped.indices.tolist(), "found:", bool(swapped.found))

assert not swapped.found

# %%
# Try this
# --------
# - Halve ``dim``. At which load do the first errors appear? Compare with ``space.capacity(candidates=5000)``.
# - Fill a memory with encoded records and search with a part of one: :doc:`plot_3_nested_records`.
# - Give the resonator codebooks of 200 entries. ``found`` becomes False when the space is too small;
#   ``examples/resonator_limits.py`` measures where.
#
# Next: :doc:`plot_6_attention`.
