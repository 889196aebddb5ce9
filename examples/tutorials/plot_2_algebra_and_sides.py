"""
Algebra and sides
=================

All structures of this library are built from a handful of operations: bind, unbind, bundle, similarity, normalize,
shift and power. This tutorial shows what each of them does, what remains as noise, and what happens on the wrong side.

Here we use plain tensors and functions, as you would in a program. The operators ``a * b`` and ``a + b`` of
:doc:`plot_1_start` are shorthand for ``ghrr.bind`` and ``ghrr.bundle``.
"""

import matplotlib.pyplot as plt
import torch

import ghrr

plt.style.use("seaborn-v0_8-colorblind")

space = ghrr.Space(dim=1000, m=3, seed=0)
a, b, c, d = space.vectors(["a", "b", "c", "d"])
print(a.shape, a.dtype)

# %%
# Similarity, and the noise of unrelated vectors
# ----------------------------------------------
# Everything you read from a hypervector is a similarity,
#
# .. math:: \delta(A, B) = \frac{1}{mD} \mathrm{Re}\,\mathrm{tr} \sum_j A_j B_j^\dagger .
#
# It is 1 for a unitary hypervector with itself. For two independent ones the expected value is 0, with the standard
# deviation
#
# .. math:: \sigma = \frac{1}{\sqrt{2 D m^2}} .
#
# Only the total dimension :math:`D m^2`, the number of complex numbers in a hypervector, occurs in this formula: 100
# slots of 3 × 3 matrices have the same noise as 900 slots of single numbers. We measure it.

figure, axes = plt.subplots(1, 3, figsize=(8, 2.8), sharey=True, layout="constrained")
for axis, m in zip(axes, (1, 2, 3), strict=True):
    small = ghrr.Space.from_total(900, m=m, seed=0)
    x, y = small.random(2, 4000, generator=small.generator("noise"))
    similarities = ghrr.similarity(x, y)
    assert abs(similarities.std() / small.noise_std - 1) < 0.06

    grid = torch.linspace(-0.1, 0.1, 200)
    density = torch.exp(-0.5 * (grid / small.noise_std) ** 2) / (small.noise_std * (2 * torch.pi) ** 0.5)
    axis.hist(similarities, bins=40, density=True, alpha=0.6, label="measured")
    axis.plot(grid, density, color="black", label="theory")
    axis.set(xlabel="similarity", title=f"{small.dim} slots, m = {m}", ylim=(0, 27))
axes[0].set_ylabel("density")
axes[2].legend(loc="upper right", fontsize=8)
figure.suptitle("Unrelated hypervectors: the noise depends on the total dimension only")
plt.show()

# %%
# Bind
# ----
# ``bind`` multiplies the matrices of each slot. The product is dissimilar to both factors. The brackets do not matter,
# binding distributes over sums, and binding both sides of a comparison with the same atom changes nothing.

ab = ghrr.bind(a, b)
print(f"a * b with a:       {ghrr.similarity(ab, a):+.3f}")
print(f"a * b with b:       {ghrr.similarity(ab, b):+.3f}")

assert torch.allclose(ghrr.bind(ab, c), ghrr.bind(a, ghrr.bind(b, c)), atol=1e-5)
assert torch.allclose(ghrr.bind(a, b + c), ab + ghrr.bind(a, c), atol=1e-5)
assert torch.isclose(ghrr.similarity(ghrr.bind(d, a), ghrr.bind(d, a + b)), ghrr.similarity(a, a + b), atol=1e-5)

# %%
# What does matter is the order. For independent rotations the similarity of ``a * b`` and ``b * a`` is :math:`1/m^2` on
# average: for m ≥ 2 the two orders are different hypervectors. FHRR, m = 1, cannot distinguish them.

sizes = [1, 2, 3, 4, 5, 6]
measured = []
for m in sizes:
    x, y = ghrr.Space.from_total(9000, m=m, seed=0).vectors(["x", "y"])
    measured.append(ghrr.commutativity(x, y).item())

figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.plot(sizes, [1 / m**2 for m in sizes], color="grey", label="1/m²")
axis.plot(sizes, measured, "o", label="measured, one pair")
axis.set(xlabel="m, size of the matrix in a slot", ylabel="similarity of a * b and b * a")
axis.set_title("The larger the slots, the more the order matters")
axis.legend()
plt.show()

assert all(abs(value - 1 / m**2) < 0.06 for m, value in zip(sizes, measured, strict=True))

# %%
# Unbind, on the correct side
# ---------------------------
# The slots of an atom are unitary, so the conjugate transpose of each slot is its inverse: ``ghrr.adjoint``. To remove
# a key, multiply with its adjoint on the side where the key is. There is no default side, because a wrong side
# does not raise an error but returns noise.

key, value = space.vectors(["key", "value"])
x = ghrr.bind(key, value)

for side in ("left", "right"):
    answer = ghrr.unbind(x, key, side=side)
    print(f"{side:5}: similarity with the value {ghrr.similarity(answer, value):+.3f}")

assert ghrr.similarity(ghrr.unbind(x, key, side="left"), value) > 0.999
assert ghrr.similarity(ghrr.unbind(x, key, side="right"), value) < 0.25

# %%
# The value on the right can be removed too; then the key remains. One product can be read in both directions.

print(f"unbind the value: similarity with the key {ghrr.similarity(ghrr.unbind(x, value, side='right'), key):+.3f}")

# %%
# For longer products remove the outermost factor first. In ``a * b * c`` the factor ``a`` is at the left end, and ``b``
# is at an end only after ``a`` is gone.

abc = ghrr.multibind([a, b, c])
in_order = ghrr.unbind(ghrr.unbind(abc, a, side="left"), b, side="left")
too_early = ghrr.unbind(ghrr.unbind(abc, b, side="left"), a, side="left")
print(f"first a, then b: {ghrr.similarity(in_order, c):+.3f}")
print(f"first b, then a: {ghrr.similarity(too_early, c):+.3f}")

assert ghrr.similarity(in_order, c) > 0.999
assert ghrr.similarity(too_early, c) < 0.25

# %%
# The same rule in one line: the adjoint of a product reverses the order.

assert torch.allclose(ghrr.adjoint(ab), ghrr.bind(ghrr.adjoint(b), ghrr.adjoint(a)), atol=1e-5)

# %%
# A side that does not exist, and shapes that do not fit, are errors.

for wrong in (lambda: ghrr.unbind(x, key, side="top"), lambda: ghrr.bind(x, key[:500])):
    try:
        wrong()
    except ValueError as error:
        print(error)

# %%
# Bundle
# ------
# ``bundle`` is a sum. A bundle of n atoms has a similarity of about 1 with each of them. It is longer than an atom: its
# similarity with itself is about n. The library uses this *energy* to estimate how much was stored, and with it the
# noise of an answer.

names = [f"item {i}" for i in range(20)]
items = space.vectors(names)
total = ghrr.bundle(items)

inside = ghrr.pairwise_similarity(total, items)
outside = ghrr.pairwise_similarity(total, space.vectors([f"other {i}" for i in range(1000)]))
print(f"items in the bundle:  {inside.mean():.2f} ± {inside.std():.2f}")
print(f"other items:          {outside.mean():+.2f} ± {outside.std():.2f}")
print(f"energy of the bundle: {ghrr.similarity(total, total):.1f}")

assert inside.min() > outside.max()

# %%
# Bundling never normalises. For a fixed length, call ``normalize``. ``normalize(x)`` divides by the norm; this
# changes all scores by one factor and loses nothing. ``normalize(x, to="unitary")`` replaces each slot by the nearest
# unitary matrix, so that the bundle can be a key. This is a real change: the items stand out less from the noise.


def contrast(bundle):
    """Return the mean score of the items, in standard deviations of the scores of other items."""
    others = ghrr.pairwise_similarity(bundle, space.vectors([f"other {i}" for i in range(1000)]))
    return (ghrr.pairwise_similarity(bundle, items).mean() / others.std()).item()


print(f"sum:     items stand out by {contrast(total):.1f} standard deviations")
print(f"norm:    items stand out by {contrast(ghrr.normalize(total)):.1f}")
print(f"unitary: items stand out by {contrast(ghrr.normalize(total, to='unitary')):.1f}")

assert abs(contrast(ghrr.normalize(total)) / contrast(total) - 1) < 1e-3
assert contrast(ghrr.normalize(total, to="unitary")) < contrast(total)

# %%
# Shift
# -----
# ``shift`` moves every slot to the next position, and the last slot to the front. A shifted atom is unrelated to the
# atom, and shifting back restores it. This is the classical way to represent order where binding commutes: for m = 1,
# shift the second factor before binding. For m > 1 it also removes the remaining :math:`1/m^2`.

flat = ghrr.Space(dim=9000, m=1, seed=0)
u, v = flat.vectors(["u", "v"])
plain = ghrr.similarity(ghrr.bind(u, v), ghrr.bind(v, u))
shifted = ghrr.similarity(ghrr.bind(u, ghrr.shift(v)), ghrr.bind(v, ghrr.shift(u)))
print(f"m = 1, u * v with v * u:               {plain:+.3f}")
print(f"m = 1, u * shift(v) with v * shift(u): {shifted:+.3f}")

assert plain > 0.999
assert abs(shifted) < 0.1
assert torch.equal(ghrr.shift(ghrr.shift(u), -1), u)

# %%
# Power
# -----
# ``power(a, 3)`` is ``a * a * a``. Exponents may be any real number: the half power, bound to itself, is ``a``.
# Powers of one atom are useful as positions, because :math:`A^s * A^t = A^{s+t}`.

half = ghrr.power(a, 0.5)
assert torch.allclose(ghrr.bind(half, half), a, atol=1e-4)

exponents = torch.linspace(-4, 4, 161)
curve = ghrr.similarity(ghrr.power(u, exponents), flat.identity())

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.plot(exponents, torch.sinc(exponents), color="grey", lw=4, alpha=0.5, label="sinc(x), theory for m = 1")
axis.plot(exponents, curve, label="measured")
axis.set(xlabel="exponent x", ylabel="similarity with the power 0")
axis.set_title("Powers of one atom: near exponents are similar")
axis.legend()
plt.show()

assert (curve - torch.sinc(exponents)).abs().max() < 0.06

# %%
# Near exponents have similar powers: this turns numbers into hypervectors. :doc:`plot_4_numbers_and_kernels` shows
# how to choose the shape and the width of this curve.
#
# Try this
# --------
# - Store ``a * b + b * a`` for m = 2 and read the value of ``a`` and of ``b`` from the left. Which wrong answer has a
#   score above the noise, and why?
# - Unbind a *bundle* of two keys from a pair. Compare ``exact=False`` and ``exact=True``.
# - How many items can ``total`` hold before ``inside.min() > outside.max()`` fails? Compare with
#   ``space.capacity(candidates=1000)``.
#
# Next: :doc:`plot_3_nested_records` puts these operations together.
