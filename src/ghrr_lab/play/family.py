"""Family: walk from relative to relative, and see which relation the steps compose to.

Two models learn from the same rules for two steps, such as father, sister: aunt. One has matrices of size m, the other
has m = 1 and as many numbers. Some rules are left out of training, to see what the vectors imply about them.
"""

from __future__ import annotations

import html
import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ghrr.memory import Cleanup
from ghrr.relations.chains import (
    KINSHIP_NAMES,
    KINSHIPS,
    ComposedMatch,
    Derivation,
    Example,
    RelationChains,
    kinship_rules,
    possible_kinships,
)
from ghrr_lab.paper.style import BLACK, BLUE, GREY, ORANGE
from ghrr_lab.play.pictures import draw_figure, mark, paragraph
from ghrr_lab.play.tab import Failure, Slider, Steps, Tab, Values, View

MAX_STEPS = 8
EPOCHS = 100
NEAREST = 5
# By how many generations the person at the end of a step is older than the one before.
_GENERATIONS = {
    name: step
    for kinds, step in {
        ("grandparent",): 2,
        ("parent", "parent's sibling", "spouse's parent"): 1,
        ("sibling", "spouse"): 0,
        ("child", "sibling's child", "child's spouse"): -1,
        ("grandchild",): -2,
    }.items()
    for kind in kinds
    for name in KINSHIP_NAMES[kind]
}


def draw(values: Values, _: Any = None) -> View:
    """Compose the chain with both models; draw the walk and the relations that are nearest to its product."""
    chain, m, dim, left_out = values["chain"].split(" "), values["m"], values["dim"], values["left_out"]
    models = {size: trained_model(slots, size, left_out) for size, slots in ((m, dim), (1, dim * m * m))}
    matches = {size: model.compose(chain) for size, model in models.items()}
    nearest = {size: model.item_memory().cleanup(model.product(chain), k=NEAREST) for size, model in models.items()}
    answers = answers_of_rules(chain)
    walk_height = 0.8 + 0.3 * len(chain)

    def figure(figure: Figure) -> None:
        parts: Any = figure.subfigures(2, 1, height_ratios=(walk_height, 2))
        walk, bars = parts
        _draw_walk(walk.subplots(), chain, matches[m].guess)
        bars.suptitle("relations nearest to the product of the chain", fontsize=10)
        for axis, (size, found) in zip(bars.subplots(1, 2), nearest.items(), strict=True):
            _draw_nearest(axis, found.labels, found.scores.tolist())
            axis.set_title(f"m = {size}", fontsize=10)

    whose = "my " + "'s ".join(chain)
    summary = " ".join(f"m = {size}: {_answer(match)}." for size, match in matches.items())
    near = " ".join(f"m = {size}: {_listed(found)}." for size, found in nearest.items())
    description = f"A walk of {len(chain)} steps: {whose}. {summary} Relations nearest to the product, {near}"
    lines = [
        f"<b>{html.escape(whose)}</b>: {_known(answers)}",
        *(
            f"<br>m = {size}: {mark(match.guess in answers, _answer(match))}. {_unseen(models[size], left_out)}"
            for size, match in matches.items()
        ),
    ]
    tree = f'<ul class="ghrr-tree">{_tree(matches[m].derivation)}</ul>'
    picture = draw_figure(figure, height=walk_height + 2, description=description)
    steps = f"Derivation, m = {m}, with the probability of each step:" if len(chain) > 1 else ""
    return View(picture + paragraph(*lines) + paragraph(steps, tree), _code(chain, m, dim, left_out))


@lru_cache(maxsize=64)
def trained_model(dim: int, m: int, left_out: int) -> RelationChains:
    """Return a model that has learned the rules, except some; training takes a fraction of a second."""
    kept, _ = split_rules(left_out)
    return RelationChains(dim=dim, m=m, epochs=EPOCHS).fit(kept)


@lru_cache
def split_rules(left_out: int) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return the rules to train on, and some that are left out. Every relation stays in a rule to train on."""
    kept, aside = list(kinship_rules()), list[Example]()
    for rule in random.Random(0).sample(kept, len(kept)):  # noqa: S311 (not for secrets)
        others = [other for other in kept if other != rule]
        names = {name for chain, target in others for name in (*chain, target)}
        if len(aside) < left_out and names.issuperset([*rule.chain, rule.target]):
            kept = others
            aside.append(rule)
    return tuple(kept), tuple(aside)


def answers_of_rules(chain: Sequence[str]) -> list[str]:
    """Return all relations that a chain composes to by the rules: none, one, or several that contradict each other."""
    possible = possible_kinships(torch.tensor([[KINSHIPS.index(name) for name in chain]]))[0]
    return [name for name, is_possible in zip(KINSHIPS, possible.tolist(), strict=True) if is_possible]


def _known(answers: Sequence[str]) -> str:
    if not answers:
        return "the rules have no name for this relation, but the models have to choose one."
    if len(answers) > 1:
        return f"the rules contradict each other; by the order of steps it is {' or '.join(answers)}."
    return f"{answers[0]}, by the rules."


def _answer(match: ComposedMatch) -> str:
    return f"{match.guess}, probability {match.probability:.1%}"


def _listed(found: Cleanup) -> str:
    return ", ".join(f"{name} {score:.2f}" for name, score in zip(found.labels, found.scores.tolist(), strict=True))


def _unseen(model: RelationChains, left_out: int) -> str:
    if not left_out:
        return ""
    _, held_out = split_rules(left_out)
    answers = model.predict([chain for chain, _ in held_out])
    right = sum(answer == target for answer, (_, target) in zip(answers, held_out, strict=True))
    return f"Rules left out of training: {right} of {len(held_out)} right."


def _tree(node: Derivation) -> str:
    """Return a derivation as a nested list."""
    if not node.parts:
        return f"<li>{html.escape(node.relation)}</li>"
    parts = "".join(_tree(part) for part in node.parts)
    return f"<li><b>{html.escape(node.relation)}</b> {node.probability:.0%}<ul>{parts}</ul></li>"


def _draw_walk(axis: Axes, chain: Sequence[str], guess: str) -> None:
    """Draw the persons of a walk from top to bottom, older generations on the right, and what the last is to me."""
    levels = list(accumulate((_GENERATIONS[name] for name in chain), initial=0))
    rows, last = range(len(levels)), len(chain)
    axis.plot(levels, rows, "-o", color=GREY, lw=1.5, ms=7)
    axis.plot(levels[-1:], [last], "o", color=BLUE, ms=9)
    arrow = {"arrowstyle": "->", "color": BLUE, "ls": "--", "connectionstyle": "arc3,rad=0.45"}
    axis.annotate("", (levels[-1], last), (0, 0), arrowprops=arrow)
    for row, (name, level) in enumerate(zip(["me", *chain], levels, strict=True)):
        before = levels[row - 1] - level if row else 0
        after = levels[row + 1] - level if row < last else 0
        is_left = before > 0 and after > 0  # both lines are on the right
        shift = 5 if after > 0 else -5 if before > 0 else 0  # away from the line on the right
        style: dict[str, Any] = {"color": BLUE, "weight": "bold"} if row == last else {}
        axis.annotate(
            f"{name} = {guess}" if row == last else name,
            (level, row),
            (-8, 0) if is_left else (8, shift),
            textcoords="offset points",
            ha="right" if is_left else "left",
            va="center",
            **style,
        )
    low, high = min(levels), max(levels)
    axis.set(ylim=(last + 0.5, -0.5), xlim=(low - 1, max(high, levels[-1] + 1) + 1.2), yticks=[])
    axis.set_xticks(range(low, high + 1), [f"{level:+d}" if level else "mine" for level in range(low, high + 1)])
    axis.set_xlabel("generation, older to the right")
    axis.spines["left"].set_visible(False)


def _draw_nearest(axis: Axes, labels: Sequence[str], scores: Sequence[float]) -> None:
    colours = [ORANGE if place == 0 else GREY for place in range(len(labels))]
    bars = axis.barh(range(len(labels)), scores, color=colours)
    axis.bar_label(bars, [f"{score:.2f}" for score in scores], padding=3, fontsize=9, color=BLACK)
    axis.set_yticks(range(len(labels)), labels, fontsize=9)
    axis.set(xlim=(min(0.0, *scores), 1.3), ylim=(len(labels) - 0.4, -0.6), xlabel="similarity")
    axis.set_xticks([0, 0.5, 1])


def _code(chain: Sequence[str], m: int, dim: int, left_out: int) -> str:
    return f"""\
from ghrr_lab.play.family import split_rules
from ghrr.relations.chains import RelationChains

chain = {chain!r}
rules, unseen = split_rules({left_out})  # pairs such as (("father", "sister"), "aunt")
for dim, m in [({dim}, {m}), ({dim * m * m}, 1)]:  # as many numbers per relation
    model = RelationChains(dim=dim, m=m, epochs={EPOCHS}).fit(rules)
    match = model.compose(chain)
    print(f"m = {{m}}: {{match.guess}}, probability {{match.probability:.1%}}")
    print(match.derivation)
    print(model.item_memory().cleanup(model.product(chain), k={NEAREST}))
"""


TAB = Tab(
    name="family",
    title="Family",
    notice="Walk from relative to relative: who is the sister of my mother's father? The model has learned rules for "
    "two steps only, and composes longer walks from them.",
    controls=(
        Steps("chain", "steps of the walk", tuple(_GENERATIONS), "mother father son sister", MAX_STEPS),
        Slider("m", "m, size of a slot", 2, 8, 8),
        Slider("dim", "dim, number of slots", 1, 32, 8),
        Slider("left_out", "rules left out of training, of 84", 0, 60, 20),
    ),
    draw=draw,
    terms="A walk is the ordered product of the hypervectors of its steps. With m = 1 binding commutes, and the mother "
    "of a father is the father of a mother; a model with m = 1 and as many numbers is shown beside.",
    failure=Failure("Make it fail: leave out 60 of 84 rules", {"left_out": 60}),
)
