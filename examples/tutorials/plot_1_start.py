"""
Start: from a first binding to a nested record
==============================================

This page takes about ten minutes. It starts with two hypervectors, stores a nested document in one of them, asks
questions about it, and ends where the method fails: with too much in one vector.

You need to know Python and a little PyTorch, and matplotlib for the figure. Every output was made by the code above it.
"""

import warnings

import matplotlib.pyplot as plt

import ghrr
from ghrr.capacity import recall_error
from ghrr.structures import CapacityWarning

plt.style.use("seaborn-v0_8-colorblind")

# %%
# A space and its atoms
# ---------------------
# A *hypervector* is a long list of small matrices, called *slots*. Here there are 1024 slots, and each is a unitary
# 3 × 3 matrix. A :class:`ghrr.Space` describes such hypervectors; it holds no data.

space = ghrr.Space(dim=1024, m=3, seed=0)
print(space, "with", space.total_dim, "complex numbers per hypervector")

# %%
# An *atom* is the random hypervector of a name. The name and the seed determine it: ``space.atoms("tea")`` gives the
# same numbers tomorrow, and on another machine.
#
# Hypervectors are compared with ``similarity``. It is 1 for a hypervector with itself and almost 0 for two different
# atoms. How close to 0 is known from theory: ``space.noise_std``.

home, work, tea, coffee = space.atoms("home", "work", "tea", "coffee")

print(f"tea with itself:   {tea.similarity(tea):.3f}")
print(f"tea with coffee:   {tea.similarity(coffee):+.3f}")
print(f"expected noise:    {space.noise_std:.3f}")

assert abs(tea.similarity(coffee)) < 5 * space.noise_std

# %%
# Bind and unbind
# ---------------
# *Binding* joins two hypervectors to one of the same size: a key and its value, for example. It multiplies the matrices
# of each slot. The result is similar to neither of the two, and *unbinding* the key gives the value back.
#
# A matrix product has two sides, so ``unbind`` must know on which side the key is. We wrote the key first: it is on the
# left.

pair = home * tea
value = pair.unbind(home, side="left")

print(f"the pair with tea:      {pair.similarity(tea):+.3f}")
print(f"the answer with tea:    {value.similarity(tea):+.3f}")
print(f"the answer with coffee: {value.similarity(coffee):+.3f}")

assert value.similarity(tea) > 0.999

# %%
# Bundle
# ------
# *Bundling* is a sum. One hypervector can hold several pairs, and is as large as before. Unbinding a key now gives its
# value plus some noise, which comes from the other pairs. The value is still easy to recognise.

day = home * tea + work * coffee
answer = day.unbind(work, side="left")

print(day)
for drink in (tea, coffee):
    print(f"at work: {drink.expression:6} {answer.similarity(drink):+.3f}")

assert answer.similarity(coffee) > 0.9
assert abs(answer.similarity(tea)) < 0.1

# %%
# Order matters
# -------------
# The matrix product does not commute. So "the work that I do at home" is not "the home that I have at work". In older
# models, such as FHRR, a slot is a single number and both orders are the same. You get FHRR with ``m=1``.

for m in (1, 2, 3):
    a, b = ghrr.Space.from_total(9000, m=m, seed=0).atoms("home", "work")
    print(f"m = {m}: similarity of home * work and work * home is {(a * b).similarity(b * a):.2f}")

# %%
# The remaining similarity is about 1/m² on average. It is small enough to distinguish the two orders, and the library
# corrects for it when it reads nested data.

# %%
# A nested record
# ---------------
# In practice you rarely bind by hand. :class:`ghrr.Record` encodes a nested document in one hypervector. The value at
# ``born.city`` is bound to the product ``born * city``, and all values are bundled.

person = {"name": "Ada", "born": {"year": 1815, "city": "London"}, "tags": ["poet", "countess"]}

record = ghrr.Record(space)
h = record.encode(person)
print(h.shape, h.dtype)

# %%
# The result is a plain PyTorch tensor of the size of a single atom. Now ask a question. The answer is a
# :class:`ghrr.Match`: the most similar value, its score (about 1 if correct), the margin over the second best, and
# whether the answer is *confident*. Confident means that the answer is correct with a probability of at least 99 %,
# computed from the noise.

city = record.query(h, ["born", "city"])
print(city)

assert city.label == "London"
assert city.confident

# %%
# The same keys in the other order are another path. Nothing was stored there, so the answer is unknown. So is a field
# that the document does not have.

print(record.query(h, ["city", "born"]))
print(record.query(h, "email"))

assert record.query(h, ["city", "born"]).unknown

# %%
# To get everything back, decode.

reading = record.decode(h)
print(reading)

assert reading.value == person

# %%
# When the input is wrong
# -----------------------
# Errors name the operation, what it got and what it expected. Hypervectors of two spaces, for example, do not mix.

other = ghrr.Space(dim=500, m=3, seed=0)
try:
    home * other.atoms("tea")[0]
except ValueError as error:
    print(error)

# %%
# Too much in one vector
# ----------------------
# Every stored value adds noise to the answers about all others. A hypervector of fixed size cannot hold everything, so
# where is the limit? We take a small space and store more and more fields. There are 10 documents; each field takes
# each of 10 values once, so an answer is one of 10.

small = ghrr.Space(dim=40, m=3, seed=0)
values = [f"value {i}" for i in range(10)]


def shares(space, fields):
    """Return the share of correct answers, and the share of confident ones, when documents have this many fields."""
    record = ghrr.Record(space)
    names = [f"field {i}" for i in range(fields)]
    documents = [{name: values[(n + i) % 10] for i, name in enumerate(names)} for n in range(10)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)  # the largest documents are too large for the space
        answers = record.query_many(record.encode_many(documents), names)
    pairs = [(answers[n][i], document[name]) for n, document in enumerate(documents) for i, name in enumerate(names)]
    correct = sum(match.guess == value for match, value in pairs) / len(pairs)
    confident = sum(match.confident for match, _ in pairs) / len(pairs)
    sure_and_wrong = sum(match.confident and match.guess != value for match, value in pairs) / len(pairs)
    return correct, confident, sure_and_wrong


counts = [2, 5, 10, 20, 40, 80, 160]
correct, confident, sure_and_wrong = zip(*(shares(small, n) for n in counts), strict=True)
theory = [1 - recall_error(n, 10, small.noise_std, small.crosstalk_std) for n in counts]

figure, axis = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axis.plot(counts, correct, "o", label="correct, measured")
axis.plot(counts, theory, "-", color="C0", label="correct, theory")
axis.plot(counts, confident, "s--", color="C2", label="confident")
axis.axvline(small.capacity(candidates=10), color="grey", ls=":", label="capacity at 1 % errors")
axis.set_xscale("log")
axis.set_xticks(counts, [str(n) for n in counts])
axis.set(xlabel="fields in one hypervector", ylabel="share of answers", ylim=(0, 1.05))
axis.set_title(f"A record of {small.total_dim} numbers fills up")
axis.legend(loc="lower left")
plt.show()

# %%
# Three things to notice. The measured points lie on the curve of theory, so the limit can be computed before anything
# is stored. The share of confident answers falls *before* the share of correct ones: the method says when it starts to
# guess. And answers that are confident but wrong stay rare, however full the record is.

print(f"confident but wrong, at most: {max(sure_and_wrong):.2%}")

assert all(abs(a - b) < 0.06 for a, b in zip(correct, theory, strict=True))
assert confident[0] > 0.9
assert confident[-1] < 0.05
assert max(sure_and_wrong) < 0.02

# %%
# So choose the size from the data. ``Record.suggest`` returns the smallest space in which 99 % of the answers are
# correct and confident.

enough = ghrr.Record.suggest(leaves=160, values=10, m=3)
print(enough)
right_now, confident_now, _ = shares(enough, 160)
print(f"correct {right_now:.1%}, confident {confident_now:.1%}")

assert confident_now > 0.97

# %%
# Try this
# --------
# - Encode a document of your own and query it. Which paths are unknown?
# - Change ``m`` of the small space and keep ``dim * m**2`` about equal (``ghrr.Space.from_total(360, m=2)``). The curve
#   hardly moves: only the total dimension counts for noise.
# - Set ``m=1`` and ``permute=False`` in ``ghrr.Record``, and look at ``["born", "city"]`` and ``["city", "born"]``
#   again.
#
# What to read next
# -----------------
# - :doc:`plot_2_algebra_and_sides`: the operations one by one, and why the side matters.
# - :doc:`plot_3_nested_records`: numbers, lists, changes, files, and search over many records.
# - :doc:`plot_4_numbers_and_kernels`: numbers as hypervectors.
# - :doc:`plot_5_memory_and_cleanup`: from a noisy answer to the correct item.
# - :doc:`plot_6_attention`: the attention layer.
# - :doc:`plot_7_learning`: a classifier for a table.
# - :doc:`plot_8_relations`: how relations compose.
# - :doc:`plot_9_search`: search in nested records by example.
