"""
Find the factors of a product with a resonator
==============================================

A scene is the product ``colour * shape * place``. Which factors does a given product have? Trying all combinations is
slow: three lists of 50 have 125,000. :func:`ghrr.resonator` starts with an estimate of every factor, improves one
estimate after the other, and reports if it found no product.
"""

import matplotlib.pyplot as plt
import torch

import ghrr

plt.style.use("seaborn-v0_8-colorblind")

space = ghrr.Space(dim=200, m=3, seed=0)
books = [space.vectors([f"{kind} {i}" for i in range(50)]) for kind in ("colour", "shape", "place")]

truth = torch.randint(50, (20, 3), generator=torch.Generator().manual_seed(0))
scenes = ghrr.multibind(torch.stack([book[truth[:, k]] for k, book in enumerate(books)], dim=1))
factors = ghrr.resonator(scenes, books)
print(f"{int(factors.found.sum())} of 20 products factorised, in {factors.iterations.float().mean():.1f} iterations")
assert torch.equal(factors.indices[factors.found], truth[factors.found])
assert factors.found.float().mean() > 0.9

# %%
# Noise makes it harder. We bundle each scene with unrelated vectors. When the noise is too strong, ``found`` is False,
# and wrong factors are not reported.

loads, found, wrong = [0, 1, 2, 4, 8, 16, 32], [], []
for load in loads:
    clutter = space.random(20, load, generator=space.generator("clutter")).sum(dim=1)
    factors = ghrr.resonator(scenes + clutter, books, iterations=30)
    hit = (factors.indices == truth).all(dim=1)
    found.append((factors.found & hit).float().mean().item())
    wrong.append((factors.found & ~hit).float().mean().item())

figure, axis = plt.subplots(figsize=(6.4, 3), layout="constrained")
axis.plot(loads, found, "o-", label="correct factors found")
axis.plot(loads, wrong, "s--", label="wrong factors reported")
axis.set(xlabel="unrelated vectors bundled with the product", ylabel="share of products", ylim=(-0.05, 1.05))
axis.set_title("A resonator finds factors in noise, or says that it did not")
axis.legend()
plt.show()
assert found[0] > found[-1] + 0.3
assert max(wrong) < 0.1

# %%
# For your own data: give one codebook per factor, in the order of the product; a larger ``dim`` allows larger
# codebooks.
