"""
Numbers and kernels
===================

Names are either equal or not. Numbers are different: 20.1 °C is almost 20.0 °C and far from 35 °C. An encoder for
numbers should give near numbers similar hypervectors, and *you* should decide what near means.

This tutorial encodes temperatures, shapes the similarity with a kernel, reads a number back from a noisy bundle, and
stores a whole curve in two hypervectors. In the last part, what counts as near depends on the number itself.
"""

import matplotlib.pyplot as plt
import torch

import ghrr
from ghrr.encoding import AdaptiveEncoder, FractionalPower

plt.style.use("seaborn-v0_8-colorblind")

space = ghrr.Space(dim=1000, m=2, seed=0)

# %%
# Fractional power encoding
# -------------------------
# :class:`ghrr.encoding.FractionalPower` writes a number x into the phases of a hypervector,
#
# .. math:: \phi(x)_j = Q_j\,\mathrm{diag}(e^{i w_{j1} x}, \dots, e^{i w_{jm} x}) ,
#
# with random frequencies w. The similarity of two encodings then depends on the difference of the two numbers only, and
# approximates a *kernel*. The *bandwidth* is its width, in the units of your data.
#
# An input has one or more features, so numbers come in a last axis: ``(n, 1)``.

temperatures = torch.linspace(0, 40, 201)[:, None]
figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for bandwidth, line in ((2.0, "-"), (5.0, "--"), (10.0, ":")):
    encoder = FractionalPower(space, n_features=1, bandwidth=bandwidth)
    measured = ghrr.similarity(encoder([[20.0]]), encoder(temperatures))
    exact = encoder.kernel([20.0], temperatures)
    axis.plot(temperatures, measured, line, label=f"bandwidth {bandwidth:g} °C")
    axis.plot(temperatures, exact, color="grey", lw=4, alpha=0.3, label="exact kernel" if bandwidth == 10 else None)
    assert (measured - exact).abs().max() < 6 / (2 * space.dim * space.m) ** 0.5
axis.set(xlabel="temperature in °C", ylabel="similarity with 20 °C")
axis.set_title("The bandwidth decides which temperatures are near")
axis.legend()
plt.show()

# %%
# A narrow kernel separates close numbers; a wide one generalises over larger distances. Choose the bandwidth as you
# would in a support vector machine or a Gaussian process: about the distance over which your quantity changes.
#
# Other kernels
# -------------
# The distribution of the frequencies determines the shape. ``"rbf"`` is smooth, ``"laplace"`` has a sharp peak,
# ``"cauchy"`` long tails, and ``"sinc"`` oscillates. A slot has m diagonal entries, and each can have a kernel of its
# own: the similarity is their mean.

figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for kernel, line in (("rbf", "-"), ("laplace", "--"), ("cauchy", "-."), ("sinc", ":"), (["rbf", "laplace"], "k-")):
    encoder = FractionalPower(space, n_features=1, kernel=kernel, bandwidth=5.0, sampling="qmc")
    label = kernel if isinstance(kernel, str) else "mean of " + " and ".join(kernel)
    axis.plot(temperatures, ghrr.similarity(encoder([[20.0]]), encoder(temperatures)), line, label=label)
axis.set(xlabel="temperature in °C", ylabel="similarity with 20 °C")
axis.set_title("Kernels of bandwidth 5 °C")
axis.legend()
plt.show()

# %%
# ``sampling="qmc"`` spreads the frequencies evenly instead of drawing them at random, which lowers the error. A
# kernel name that does not exist is an error that lists the ones that do.

try:
    FractionalPower(space, n_features=1, kernel="gauss")
except ValueError as error:
    print(error)

# %%
# Read a number back
# ------------------
# A number can be bound to a key and bundled with others, like any value. To read it, unbind the key, and search for the
# number whose encoding is most similar to the answer. ``decode`` does this and returns a standard error, estimated from
# the noise.

encoder = FractionalPower(space, n_features=1, bandwidth=5.0)
inside, outside, cellar = space.vectors(["inside", "outside", "cellar"])
house = ghrr.bind_bundle(torch.stack([inside, outside, cellar]), encoder([[21.5], [-3.0], [12.0]]))

for name, key, truth in (("inside", inside, 21.5), ("outside", outside, -3.0), ("cellar", cellar, 12.0)):
    found = encoder.decode(ghrr.unbind(house, key, side="left"), low=-40, high=60)
    value, std = found.value.item(), found.std.item()
    print(f"{name:8} {value:6.2f} ± {std:.2f} °C, stored {truth}")
    assert abs(value - truth) < 5 * std

# %%
# :class:`ghrr.Record` does the same with its ``numbers`` argument, see :doc:`plot_3_nested_records`.
#
# A curve in two hypervectors
# ---------------------------
# Kernel regression predicts y at a new x by the average of the known values, weighted by the kernel of x and the known
# x:
#
# .. math:: \hat y(x) = \frac{\sum_i y_i K(x, x_i)}{\sum_i K(x, x_i)} .
#
# A similarity with a bundle is a sum of similarities. So both sums are similarities with one hypervector each: the
# bundle of all :math:`y_i \phi(x_i)`, and the bundle of all :math:`\phi(x_i)`. The data are not needed any more. New
# measurements can be added, and old ones subtracted, at any time.

day = torch.Generator().manual_seed(0)
hours = 24 * torch.rand(300, 1, generator=day)
readings = 12 - 8 * torch.cos(2 * torch.pi * (hours[:, 0] - 3) / 24) + 1.5 * torch.randn(300, generator=day)

clock = FractionalPower(space, n_features=1, bandwidth=1.5, name="hour")
encoded = clock(hours)
weighted = (readings[:, None, None, None] * encoded).sum(dim=0)
count = ghrr.bundle(encoded)

grid = torch.linspace(1, 23, 100)[:, None]
predicted = ghrr.similarity(weighted, clock(grid)) / ghrr.similarity(count, clock(grid))
truth = 12 - 8 * torch.cos(2 * torch.pi * (grid[:, 0] - 3) / 24)

figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axis.plot(hours, readings, ".", color="grey", alpha=0.5, label="300 measurements")
axis.plot(grid, truth, color="black", lw=1, label="truth")
axis.plot(grid, predicted, lw=2, label="read from two hypervectors")
axis.set(xlabel="hour of the day", ylabel="temperature in °C")
axis.set_title("Kernel regression from two hypervectors")
axis.legend()
plt.show()

print(f"error of the prediction {(predicted - truth).square().mean().sqrt():.2f} °C, of one measurement 1.5 °C")

assert (predicted - truth).square().mean().sqrt() < 1.2

# %%
# For hours a :class:`ghrr.encoding.Circular` encoder would be better still: it makes 23:30 and 0:30 neighbours.
#
# Rotations that adapt
# --------------------
# One bandwidth for all x is not always right. The signal below is slow on the left and fast on the right: a bandwidth
# that is small enough for the fast part fits the noise in the slow part.
#
# GHRR has more than phases: it has the rotation Q, and for m > 1 the rotation can depend on the input.
# :class:`ghrr.encoding.AdaptiveEncoder` learns a small network that makes Q depend on x. Where Q changes quickly,
# similarity falls quickly. We fit both encoders at the same total dimension with the same method, kernel ridge
# regression. The criterion is the leave-one-out error, which has a closed form: predict each point from all others.

wave = torch.Generator().manual_seed(0)


def chirp(x):
    return torch.sin(2 * torch.pi * (x[:, 0] + 5 * x[:, 0] ** 4))


x, x_new = torch.rand(200, 1, generator=wave), torch.linspace(0, 1, 400)[:, None]
y = chirp(x) + 0.2 * torch.randn(200, generator=wave)
flat, small = (ghrr.Space.from_total(64, m=m, seed=0) for m in (1, 2))


def leave_one_out(encoder, ridge):
    encoded = encoder(x)
    inverse = torch.linalg.inv(ghrr.pairwise_similarity(encoded, encoded) + ridge * torch.eye(len(x)))
    return (inverse @ y / inverse.diagonal()).square().mean()


def predict(encoder, ridge):
    with torch.no_grad():
        encoded = encoder(x)
        weights = torch.linalg.solve(ghrr.pairwise_similarity(encoded, encoded) + ridge * torch.eye(len(x)), y)
        return ghrr.pairwise_similarity(encoder(x_new), encoded) @ weights


# %%
# For the fixed bandwidth we try a grid of bandwidths and ridge strengths and keep the best pair.

fixed = {b: FractionalPower(flat, n_features=1, bandwidth=b, sampling="qmc") for b in (0.01, 0.014, 0.02, 0.03, 0.06)}
pairs = [(leave_one_out(fixed[b], ridge).item(), b, ridge) for b in fixed for ridge in (0.01, 0.03, 0.1, 0.3)]
loss, bandwidth, ridge = min(pairs)
print(f"best fixed bandwidth {bandwidth}, ridge {ridge}: leave-one-out error {loss:.3f}")

# %%
# The adaptive encoder starts with a wide kernel and learns where to be narrower. Like other small networks it can get
# stuck, so we train four times from different starts, which ``name`` chooses, and keep the one with the smallest
# leave-one-out error.


def train(name):
    encoder = AdaptiveEncoder(small, n_features=1, bandwidth=0.3, name=name)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        leave_one_out(encoder, 0.1).backward()
        optimizer.step()
    return encoder


trained = [train(f"start {i}") for i in range(4)]
losses = [leave_one_out(encoder, 0.1).item() for encoder in trained]
adaptive = trained[losses.index(min(losses))]
print("leave-one-out errors of the starts:", *(f"{loss:.3f}" for loss in losses))

curves = {"Fixed bandwidth": predict(fixed[bandwidth], ridge), "Adaptive rotations": predict(adaptive, 0.1)}
figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
for axis, (name, curve) in zip(axes, curves.items(), strict=True):
    axis.plot(x, y, ".", color="grey", alpha=0.4, label="measurements")
    axis.plot(x_new, chirp(x_new), color="black", lw=1, label="signal")
    axis.plot(x_new, curve, lw=1.5, label="prediction")
    axis.set(xlabel="time x", title=name)
axes[0].set_ylabel("signal y")
axes[0].legend(loc="lower left", fontsize=8)
plt.show()

errors = {name: (curve - chirp(x_new)).square().mean().sqrt().item() for name, curve in curves.items()}
for name, error in errors.items():
    print(f"{name}: distance from the signal {error:.3f}")

assert errors["Adaptive rotations"] < errors["Fixed bandwidth"]

# %%
# The study behind this example, with cross-validated competitors and a second problem, is
# ``examples/adaptive_kernel.py``; it also says when training fails.
#
# Try this
# --------
# - Decode a number from a bundle with ten other pairs, then with fifty. Does the standard error grow before the
#   number is wrong?
# - Replace ``FractionalPower`` by ``ghrr.encoding.Circular(space, period=24)`` in the curve of the day, and predict
#   0 to 24 hours.
# - Encode positions on a map, ``n_features=2``, with one bandwidth per axis.
#
# Next: :doc:`plot_5_memory_and_cleanup`.
