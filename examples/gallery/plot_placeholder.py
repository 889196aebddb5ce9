"""
Placeholder
===========

A figure.
"""

import matplotlib.pyplot as plt

plt.plot([0, 1], [0, 1])
plt.title("A line")
plt.show()
