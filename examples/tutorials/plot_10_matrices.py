"""
Which panel comes next? Rules over hypervectors
===============================================

A matrix of nine panels follows hidden rules, and the ninth panel is missing. In this tutorial you solve one step by
step: levels become
powers of a hypervector, rules become products of panels, and Bayes' rule weighs them. Then you learn the
rules from right answers alone.
"""

import matplotlib.pyplot as plt
import torch

import ghrr
from ghrr.reasoning import Matrices, Numbers, Reasoner, draw_panel, read_raven
from ghrr.reasoning.codes import number_code

plt.style.use("seaborn-v0_8-colorblind")

# %%
# The matrix
# ----------
# A panel holds one shape with a type, a size and a grey. Here are the eight known panels, and eight answers.

context = [[2, 1, 3], [5, 2, 4], [1, 3, 7], [5, 0, 2], [1, 1, 6], [2, 2, 8], [1, 2, 5], [2, 3, 1]]
answers = [[5, 4, 6], [5, 3, 6], [5, 4, 5], [1, 4, 6], [5, 3, 5], [1, 3, 6], [1, 4, 5], [2, 5, 6]]
panels = [[{"layout": "Center_Single", "entities": [[0, *levels, 3]]}] for levels in (*context, *answers)]


def show(axis, panel, title=""):
    axis.imshow(draw_panel(panel), cmap="gray", vmin=0, vmax=255)
    axis.set(xticks=[], yticks=[], title=title)


figure = plt.figure(figsize=(8, 3.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(3, 4))
cells = left.subplots(3, 3).flat
for axis, panel in zip(cells, panels[:8], strict=False):
    show(axis, panel)
last = left.axes[-1]
last.set(xticks=[], yticks=[], box_aspect=1)
last.text(0.5, 0.5, "?", ha="center", va="center", fontsize=24)
for index, axis in enumerate(right.subplots(2, 4).flat):
    show(axis, panels[8 + index], chr(65 + index))
plt.show()

# %%
# Levels are powers
# -----------------
# The level v is the power B^v of one base. Binding adds levels, and the similarity of two powers is 1 if they are equal
# and 0 if not, exactly: the base has as many slots as the range of the levels needs.

code = number_code(10, columns=3)
three, four, seven, eight = code.powers([3, 4, 7, 8])
print("slots:", code.dim)
print(f"3 + 4 is 7: {ghrr.similarity(ghrr.bind(three, four), seven):.3f}")
print(f"3 + 4 is 8: {ghrr.similarity(ghrr.bind(three, four), eight):.3f}")

# %%
# A bundle of powers is a distribution. Binding two bundles gives the distribution of the sum.

unsure = 0.5 * three + 0.5 * four
total = ghrr.bind(unsure, unsure)
shares = ghrr.pairwise_similarity(total, code.powers(range(6, 9)))
print({level: round(float(share), 3) for level, share in zip(range(6, 9), shares, strict=True)})

assert torch.allclose(shares, torch.tensor([0.25, 0.5, 0.25]), atol=1e-5)

# %%
# A rule is a product of panels
# -----------------------------
# The greys of the first row are 3, 4 and 7. "The third is the sum of the first two" predicts x1 * x2; "one step more"
# predicts x2 * B. The similarity of the prediction and the panel is the probability that they agree.

greys = code.powers([levels[2] for levels in context])
for row in (greys[:3], greys[3:6]):
    x1, x2, x3 = row
    total, step = ghrr.bind(x1, x2), ghrr.bind(x2, code.powers([1])[0])
    print(f"x1 * x2: {ghrr.similarity(total, x3):.3f}   x2 * B: {ghrr.similarity(step, x3):.3f}")

predicted = ghrr.pairwise_similarity(ghrr.bind(greys[6], greys[7]), code.table(10))
print("grey of the missing panel:", int(predicted.argmax()))

assert int(predicted.argmax()) == 6

# %%
# All attributes together
# -----------------------
# :class:`~ghrr.reasoning.Reasoner` scores all rules on all rows, and multiplies the attributes.

matrices, _ = read_raven([{"panels": panels, "target": 0}])
reasoner = Reasoner()
solution = reasoner.solve(matrices)
for explanation in reasoner.explain(matrices)[0]:
    print(explanation)
print("answer", chr(65 + int(solution.guesses)), f"with probability {float(solution.probabilities.max()):.3f}")

assert int(solution.guesses) == 0

# %%
# Without the right answer
# ------------------------
# If the right answer is missing, no answer is confident.

wrong, _ = read_raven([{"panels": [*panels[:8], panels[9], *panels[9:]], "target": 0}])
print(f"confident: {bool(reasoner.solve(wrong).confident())}, none is right: {float(reasoner.solve(wrong).none):.2f}")

assert not bool(reasoner.solve(wrong).confident())

# %%
# Learning the rules
# ------------------
# A rule says how the first, middle and last panels of a row follow from others: there are more than a thousand. From
# right answers alone, without the names of rules, learning finds out which ones are used. Here rows of numbers either
# grow by one, or repeat their first number, or end with the sum of the first two.

generator = torch.Generator().manual_seed(0)


def make_rows(kind):
    a, b = torch.randint(0, 10, (2, 3), generator=generator)
    ends = {"grow": (a, a + 1, a + 2), "repeat": (a, a, a), "sum": (a, b, a + b)}[kind]
    return torch.stack(ends, dim=1).flatten()


kinds = ["grow", "repeat", "sum"] * 20
rows = torch.stack([make_rows(kind) for kind in kinds])
wrong = (rows[:, -1:] + torch.randint(1, 19, (len(rows), 7), generator=generator)) % 20
values = torch.cat([rows, wrong], dim=1)[..., None]  # the right answer comes first
examples = Matrices({"number": Numbers(values, torch.ones(values.shape), 20)})

learnt = Reasoner().fit([examples], [torch.zeros(len(rows), dtype=torch.int64)])
rules = learnt.prior.most_probable("value", 0.05)
for rule, probability in rules.items():
    print(f"{probability:.2f}  {rule}")

assert {"progression +1", "constant", "arithmetic x1 + x2"} <= {str(rule) for rule in rules}

# %%
figure, axis = plt.subplots(figsize=(6, 2.6), layout="constrained")
axis.barh([str(rule) for rule in rules], list(rules.values()), color="#0072B2")
axis.invert_yaxis()
axis.set(xlabel="probability of the rule", title="Rules that were learnt")
plt.show()
