"""
Predict a quantity on a map by kernel regression
================================================

Fractional power encoding turns a position into a hypervector whose similarity is a kernel. Ridge regression on
hypervectors is then kernel regression, with a model of fixed size: one hypervector of weights. Here it predicts a
temperature from 300 noisy measurements at random positions.
"""

import matplotlib.pyplot as plt
import torch

import ghrr

generator = torch.Generator().manual_seed(0)


def temperature(position):
    x, y = position.unbind(dim=-1)
    return 15 + 5 * torch.sin(x / 15) * torch.cos(y / 10)


positions = torch.tensor([100.0, 50.0]) * torch.rand(300, 2, generator=generator)
measured = temperature(positions) + torch.randn(300, generator=generator)

# %%
# One bandwidth per axis, in kilometres. The weights are W = Σ aᵢ φ(xᵢ), so the model is a single hypervector.

space = ghrr.Space(dim=500, m=2, seed=0)
encoder = ghrr.encoding.FractionalPower(space, n_features=2, bandwidth=[12.0, 8.0], sampling="qmc")
encoded, mean = encoder(positions), measured.mean()
kernel = ghrr.pairwise_similarity(encoded, encoded)
weights = torch.linalg.solve(kernel + 0.3 * torch.eye(300), measured - mean)
model = (weights[:, None, None, None] * encoded).sum(dim=0)

grid = torch.stack(torch.meshgrid(torch.linspace(0, 100, 61), torch.linspace(0, 50, 31), indexing="xy"), dim=-1)
predicted = mean + ghrr.similarity(encoder(grid), model)
error = (predicted - temperature(grid)).square().mean().sqrt()
print(f"error of the map {error:.2f} °C, of one measurement 1 °C")
assert error < 0.8

figure, axes = plt.subplots(2, 1, figsize=(6.4, 6), sharex=True, layout="constrained")
for axis, values, title in ((axes[0], temperature(grid), "True temperature"), (axes[1], predicted, "Predicted")):
    image = axis.imshow(values.numpy(), extent=(0, 100, 0, 50), origin="lower", vmin=9, vmax=21, cmap="cividis")
    axis.set(ylabel="north in km", title=title)
axes[1].plot(*positions.T, ".", color="white", ms=3, label="measurements")
axes[1].set_xlabel("east in km")
axes[1].legend(loc="upper right", framealpha=0.6, facecolor="black", labelcolor="white")
figure.colorbar(image, ax=axes, label="temperature in °C")
plt.show()

# %%
# For your own data: set ``bandwidth`` to the distance over which your quantity changes, and the ridge (0.3) to its
# noise.
