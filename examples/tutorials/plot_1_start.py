"""
Start
=====

Placeholder.
"""

import ghrr

space = ghrr.Space(dim=256, m=2, seed=0)
print(space)

# %%
# A second cell, with a formula :math:`\delta(A, B) \approx \frac{1}{m^2}`.
a, b = space.atoms("a", "b")
print(f"{(a * b).similarity(b * a):.2f}")
