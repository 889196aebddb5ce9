"""
Filling a gap in a table by analogy
===================================

A price list grows by the same rules from year to year, and one entry is missing. Each row of the table is a product,
each panel a dict of numbers and words; :func:`ghrr.reasoning.complete` finds one rule per key and says how sure it is.
"""

import matplotlib.pyplot as plt

from ghrr.reasoning import complete

small = [{"price": 12, "weight": 200, "colour": "red"}, {"price": 14, "weight": 200, "colour": "green"}]
large = [{"price": 30, "weight": 500, "colour": "red"}, {"price": 32, "weight": 500, "colour": "green"}]
bulky = [{"price": 45, "weight": 800, "colour": "red"}, None]

found = complete([small, large, bulky])
for key, answer in found.items():
    print(f"{key:7} {answer.guess!s:6} {answer.probability:.3f}  {answer.rule}")

assert {key: answer.guess for key, answer in found.items()} == {"price": 47, "weight": 800, "colour": "green"}

# %%
# "a is to b as c is to what?" is a table of two rows. Nothing confirms the rule, and the probability says so.

print(complete([[1, 5], [20, None]]))
print(complete([["x", "y"], ["z", None]]))

# %%
# With every row that follows the rule, the probability rises.

rows = [[10, 14], [35, 39], [52, 56], [7, 11], [21, 25]]
sizes = range(1, len(rows) + 1)
answers = [complete([*rows[:count], [80, None]]) for count in sizes]
assert all(answer.guess == 84 for answer in answers)

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.plot(sizes, [answer.probability for answer in answers], "o-", color="#0072B2")
axis.axhline(0.99, color="grey", linestyle="--", label="confident")
axis.set(
    title="Certainty of an analogy",
    xlabel="rows that are known",
    ylabel="probability of 84",
    xticks=list(sizes),
    ylim=(0.8, 1.01),
)
axis.legend()
plt.show()
