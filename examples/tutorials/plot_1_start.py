"""
Start
=====

Placeholder.
"""

import ghrr

space = ghrr.Space(dim=256, m=2, seed=0)
print(space)
