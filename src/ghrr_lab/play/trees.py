"""Trees: nested dictionaries with two keys, decoded leaf by leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure

import ghrr
from ghrr_lab.paper.style import BLUE, GREY, RED
from ghrr_lab.paper.theory.trees import decode_tree, encode_tree, share_decoded, theory
from ghrr_lab.play.pictures import draw_figure, paragraph
from ghrr_lab.play.tab import Choice, Failure, Slider, Tab, Values, View

TREES = 10
YES, NO = "with permutation", "without permutation"


def draw(values: Values, _: Any = None) -> View:
    """Decode a tree, draw it, and compare the share of correct leaves with the expected one."""
    depth, dim, m, permuted = values["depth"], values["dim"], values["m"], values["permutation"] == YES
    space = ghrr.Space(dim, m)
    keys, leaves = space.vectors(["left", "right"]), space.vectors([f"leaf {n}" for n in range(2**depth)])
    decoded = decode_tree(keys, encode_tree(keys, leaves, permuted=permuted), depth, permuted=permuted)
    answers = ghrr.pairwise_similarity(decoded, leaves).argmax(dim=-1).tolist()
    correct = [answer == leaf for leaf, answer in enumerate(answers)]
    generator = space.generator("trees")
    shares = [
        share_decoded(
            space.random(2, generator=generator), space.random(2**depth, generator=generator), permuted=permuted
        )
        for _ in range(TREES)
    ]
    measured, expected = sum(shares) / TREES, theory(depth, dim, m, permuted=permuted)
    summary = f"{sum(correct)} of {len(correct)} leaves are correct"
    code = f"""\
import ghrr

space = ghrr.Space(dim={dim}, m={m})
keys = space.vectors(["left", "right"])
leaves = space.vectors([f"leaf {{n}}" for n in range({2**depth})])
tree = leaves
while len(tree) > 1:  # a node is left * (left child) + right * (right child)
    pairs = tree.reshape(-1, 2, *space.shape)
    tree = ghrr.bind_bundle(keys, {"ghrr.shift(pairs)" if permuted else "pairs"})
decoded = tree
for _ in range({depth}):  # unbind the keys, outermost first
    decoded = ghrr.unbind(decoded[:, None], keys, side="left").flatten(0, 1)
{"    decoded = ghrr.shift(decoded, -1)" if permuted else ""}
answers = ghrr.pairwise_similarity(decoded, leaves).argmax(dim=-1)
correct = sum(answer == leaf for leaf, answer in enumerate(answers.tolist()))
print(f"{{correct}} of {{len(leaves)}} leaves are correct")
""".replace("\n\nanswers", "\nanswers")
    description = (
        f"A binary tree of depth {depth} in a space of dim {dim}, m {m}: {summary}. Wrong leaves: {_wrong(answers)}."
    )
    picture = draw_figure(lambda figure: _draw_tree(figure, answers), height=2.9, description=description)
    text = f"{summary}. Mean of {TREES} random trees: {measured:.3f}, theory {expected:.3f}."
    return View(picture + paragraph(text), code)


def _wrong(answers: Sequence[int]) -> str:
    wrong = [f"{leaf} reads as {answer}" for leaf, answer in enumerate(answers) if leaf != answer]
    return ", ".join(wrong) or "none"


def _draw_tree(figure: Figure, answers: Sequence[int]) -> None:
    """Draw the tree; correct leaves are discs, wrong leaves are crosses with the answer below."""
    axis = figure.subplots()
    depth = (len(answers) - 1).bit_length()
    level = torch.arange(len(answers), dtype=torch.float64)
    for height in range(depth):
        above = level.reshape(-1, 2).mean(dim=1)
        for child, x in enumerate(level.tolist()):
            axis.plot([x, above[child // 2].item()], [height, height + 1], color=GREY, lw=1)
        level = above
    for kind, marker, colour in (("correct leaf", "o", BLUE), ("wrong leaf", "X", RED)):
        shown = [leaf for leaf, answer in enumerate(answers) if (leaf == answer) == (kind == "correct leaf")]
        axis.plot(shown, [0] * len(shown), marker, color=colour, ms=7, ls="none", label=kind)
    size = {1: 10, 2: 10, 3: 10, 4: 8}.get(depth, 5.5)
    for leaf, answer in enumerate(answers):
        text = f"{answer}" if leaf == answer else f"{answer}\n≠{leaf}"
        axis.annotate(text, (leaf, 0), (0, -8), textcoords="offset points", ha="center", va="top", fontsize=size)
    axis.set(ylim=(-0.2 * depth - 0.5, depth + 0.2), xlim=(-0.8, len(answers) - 0.2))
    axis.set_axis_off()
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


TAB = Tab(
    name="trees",
    title="Trees",
    notice="One vector holds the whole tree, and every leaf is read from it. Slots of one number (m = 1) forget the "
    "order of the turns: left, right is the same leaf as right, left.",
    controls=(
        Slider("depth", "depth", 1, 5, 4),
        Slider("m", "m, size of a slot", 1, 4, 3),
        Slider("dim", "dim, number of slots", 10, 300, 100, 10),
        Choice("permutation", "shift each level", (NO, YES), NO),
    ),
    draw=draw,
    failure=Failure("Make it fail: m = 1 without permutation", {"m": 1, "dim": 300, "depth": 4, "permutation": NO}),
    terms="A node is the bundle of its children, each bound to the key left or right; a leaf is read by unbinding the "
    "keys of its path. For m = 1 binding commutes, so paths with the same keys are one path, unless each level is "
    "shifted, a permutation of the slots.",
)
