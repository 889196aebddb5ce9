"""
Find products by name, price and season together
================================================

:class:`ghrr.encoding.Multimodal` bundles encodings of different kinds: a category, a price on a scale, a time of the
year on a circle. The similarity of two products is the weighted mean of the similarities of their parts, and each
part can be read from the bundle again.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnails/multimodal_records.svg"

import ghrr
from ghrr.encoding import Circular, Codebook, FractionalPower, Multimodal

space = ghrr.Space(dim=1000, m=2, seed=0)
products = {
    "sandals": ("shoes", 30.0, 6),
    "ski boots": ("shoes", 220.0, 12),
    "sun hat": ("hats", 20.0, 7),
    "woolly hat": ("hats", 25.0, 1),
    "parka": ("coats", 180.0, 12),
}

encoder = Multimodal(
    {
        "kind": Codebook(space, ["shoes", "hats", "coats"]),
        "price": FractionalPower(space, n_features=1, bandwidth=40.0, name="price"),
        "month": Circular(space, period=12, bandwidth=1.5, name="month"),
    },
    weights={"kind": 2, "price": 1, "month": 1},
)
kinds, prices, months = zip(*products.values(), strict=True)
vectors = encoder({"kind": list(kinds), "price": [[price] for price in prices], "month": list(months)})
memory = ghrr.ItemMemory(space, products, vectors)

# %%
# A query for a cheap hat in February. Months are on a circle: February is near January, and near December too.

wanted = encoder({"kind": "hats", "price": [15.0], "month": 2})
labels, scores = memory.cleanup(wanted, k=5)
for label, score in zip(labels, scores, strict=True):
    print(f"{score:+.2f}  {label:11} {products[label]}")
assert labels[:2] == ["woolly hat", "sun hat"]

# %%
# Read one part: unbind its key from the left, and decode it with its own encoder.

part = ghrr.unbind(memory.vectors("parka"), encoder.key("price"), side="left")
price = encoder.encoders["price"].decode(part, low=0, high=500)
print(f"price of the parka: {price.value.item():.0f} ± {price.std.item():.0f}")
assert abs(price.value.item() - 180) < 30

# %%
# For your own data: one encoder per column, each with a different name, and weights for the importance of columns.
