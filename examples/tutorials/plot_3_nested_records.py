"""
Nested records
==============

A document is a tree: dicts in dicts, lists in dicts, numbers and words at the ends. Most vector models flatten it first
and lose which value belonged to which path. :class:`ghrr.Record` keeps the paths, in one vector of fixed width.

This tutorial follows a small library catalogue: encode the books, ask questions, change an entry, choose a size, save
everything, and find books by example among thousands.
"""

import random
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt

import ghrr
from ghrr.structures import CapacityWarning, Record, Scale

plt.style.use("seaborn-v0_8-colorblind")

books = [
    {
        "title": "Frankenstein",
        "author": {"first": "Mary", "last": "Shelley"},
        "year": 1818,
        "subjects": ["science", "horror"],
    },
    {
        "title": "Emma",
        "author": {"first": "Jane", "last": "Austen"},
        "year": 1815,
        "subjects": ["society", "marriage"],
    },
    {
        "title": "The Time Machine",
        "author": {"first": "Herbert", "last": "Wells"},
        "year": 1895,
        "subjects": ["science", "travel"],
    },
]

# %%
# Encode and query
# ----------------
# The value at ``author.last`` becomes ``author * last * value``, and a record is the sum of its values. Keys are on the
# left, so a query unbinds from the left, the outermost key first. You do not have to remember that: give the path.

space = ghrr.Space(dim=500, m=3, seed=0)
record = Record(space)
vectors = record.encode_many(books)
print(vectors.shape)

emma = vectors[1]
print(record.query(emma, "title"))
print(record.query(emma, ["author", "last"]))
print(record.query(emma, ["subjects", 0]))

assert record.query(emma, ["author", "last"]).label == "Austen"

# %%
# A path that ends at a dict or a list is answered with everything below it, as a ``Reading``.

print(record.query(emma, "author"))

# %%
# Decode, and what the numbers of an answer mean
# ----------------------------------------------
# ``decode`` reads all paths that the record has seen. It starts with the values that are certain, subtracts them, and
# reads the rest with less noise. ``unexplained`` is the energy that is left: about the number of values that were *not*
# read.

reading = record.decode(emma)
print(reading)

assert reading.value == books[1]
assert reading.confident

# %%
# Each value has a :class:`ghrr.Match`. ``score`` is about 1 for a correct answer; ``noise`` is the standard deviation
# that theory expects for it; ``probability`` follows from both and from the number of candidates.

match = reading.matches["author", "last"]
print(f"score {match.score:.3f}, noise {match.noise:.3f}, {match.candidates} candidates")
print(f"probability that it is correct {match.probability:.6f}, that nothing is there {match.probability_unknown:.6f}")

# %%
# A path that does not exist has a score of about 0, and ``label`` is None. In a space that is far too small nothing can
# be distinguished. Then the record gives an answer, but the answer is not confident. Encoding warns of that.

warnings.simplefilter("ignore", CapacityWarning)
tiny = Record(ghrr.Space(dim=1, m=3, seed=0))
for place, answer in (
    ("missing path", record.query(emma, "publisher")),
    ("tiny space", tiny.query(tiny.encode_many(books)[1], "title")),
):
    print(f"{place:13} {answer}")

assert record.query(emma, "publisher").unknown

# %%
# How large must the space be?
# ----------------------------
# Count the values in your largest document, and how many different values one path can have. ``Record.suggest`` returns
# the smallest space in which 99 % of the answers are correct and confident. The size grows with the number of values in
# a document, and only slowly with the number of candidates.

leaves = [4, 8, 16, 32, 64]
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
for values, marker in ((10, "o-"), (1_000, "s--"), (100_000, "^:")):
    axis.plot(leaves, [Record.suggest(n, values=values).total_dim for n in leaves], marker, label=f"{values:,} values")
axis.set_xscale("log", base=2)
axis.set_yscale("log", base=2)
axis.set_xticks(leaves, [str(n) for n in leaves])
axis.set_yticks([128, 512, 2048, 8192], ["128", "512", "2048", "8192"])
axis.set(xlabel="values in the largest document", ylabel="complex numbers per record")
axis.set_title("Size of the space for 99 % correct and confident answers")
axis.legend(title="different values at one path")
plt.show()

# %%
# The other direction works too. ``capacity`` says how many values a given space holds.

print(space.capacity(candidates=1_000), "values in", space)

# %%
# Numbers on a scale, lists as sets
# ---------------------------------
# So far 1815 and 1818 were two names, as different as *Emma* and *Frankenstein*. A :class:`ghrr.structures.Scale` makes
# near numbers similar. Scales are given per path. The *bandwidth* is the distance at which the similarity falls.
#
# The order of the subjects means nothing in this catalogue. ``lists={"subjects": "set"}`` stores them without
# positions.

record = Record(space, numbers={"year": Scale(1500, 2000, bandwidth=5)}, lists={"subjects": "set"})
vectors = record.encode_many(books)

print(record.query(vectors[0], "year"))
print(record.query(vectors[0], "subjects"))

assert abs(record.query(vectors[0], "year").label - 1818) < 2
assert set(record.query(vectors[0], "subjects").value) == {"science", "horror"}

# %%
# A number is read with its standard error. The similarity of two whole records now counts what they share: a subject
# counts 1, and years close together count up to 1.

frankenstein, emma, time_machine = vectors
print(f"Frankenstein and Emma (near years):           {ghrr.similarity(frankenstein, emma):.2f}")
print(f"Frankenstein and The Time Machine (science):  {ghrr.similarity(frankenstein, time_machine):.2f}")
print(f"Emma and The Time Machine (nothing):          {ghrr.similarity(emma, time_machine):+.2f}")

assert min(ghrr.similarity(frankenstein, x) for x in (emma, time_machine)) > 0.5
assert abs(ghrr.similarity(emma, time_machine)) < 0.3

# %%
# A set has no first element, so asking for one is an error.

try:
    record.query(frankenstein, ["subjects", 0])
except ValueError as error:
    print(error)

# %%
# Change a record
# ---------------
# ``update``, ``delete`` and ``merge`` return a changed vector. The old value is read and subtracted; nothing has to be
# encoded again.

changed = record.update(frankenstein, ["author", "first"], "Mary W.")
changed = record.delete(changed, "year")
print(record.decode(changed).value)

assert record.query(changed, ["author", "first"]).label == "Mary W."

# %%
# Save and load
# -------------
# One file holds the vectors together with everything that is needed to read them: the space, the paths, the values, the
# scales. It is a safetensors file with a checksum, and loading it never runs code.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "catalogue.safetensors"
    record.save(path, {"frankenstein": frankenstein, "emma": emma})
    print(path.stat().st_size // 1024, "KiB")
    later, saved = Record.load(path)

print(later.query(saved["emma"], "title"))

assert later.query(saved["emma"], "title").label == "Emma"

# %%
# Search by example
# -----------------
# A record with a few fields is similar to every record that contains these fields. So a search for "books like this" is
# a comparison of hypervectors: put the records into an :class:`ghrr.ItemMemory`, and query with an incomplete document.
# We make up a larger catalogue.

draw = random.Random(0)
firsts, lasts = ["Anna", "Ben", "Carla", "David", "Eva"], [f"author {i}" for i in range(200)]
subjects = ["science", "horror", "society", "marriage", "travel", "history", "music", "sea"]
catalogue = {
    f"book {i}": {
        "title": f"title {i}",
        "author": {"first": draw.choice(firsts), "last": draw.choice(lasts)},
        "year": draw.randrange(1800, 1951),
        "subjects": draw.sample(subjects, 2),
    }
    for i in range(3000)
}
vectors = record.encode_many(catalogue.values())
memory = ghrr.ItemMemory(space, catalogue, vectors)
print(memory)

# %%
# The example has an author, a year and one subject. The year is wrong by five years, but near years are
# similar on a scale.

target = catalogue["book 1234"]
example = {"author": target["author"], "year": target["year"] + 5, "subjects": target["subjects"][:1]}
print("looking for", example)

found = memory.cleanup(record.encode(example), k=5)
for label, score in zip(found.labels, found.scores, strict=True):
    print(f"{score:.2f} of {4}  {catalogue[label]}")

assert found.labels[0] == "book 1234"

# %%
# The score counts the fields in common. Missing fields cost nothing, and wrong ones only lower the score: no query
# language is needed, and no index per field.
#
# Try this
# --------
# - Leave the author out of the example. How many books have the same score? Is the first one still the correct one?
# - Encode the catalogue with ``lists="positions"`` and search for the second subject only. Why is it not found?
# - Use ``Record(space, permute=True)`` and m = 2. When is that better? (See :class:`ghrr.structures.Record`.)
#
# Next: :doc:`plot_4_numbers_and_kernels` explains what a bandwidth is, and :doc:`plot_5_memory_and_cleanup` what a
# memory can do.
