"""Capacity: how many key-value pairs one hypervector holds, measured and by theory."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure

import ghrr
from ghrr.capacity import recall_error
from ghrr_lab.paper.style import BLACK, BLUE, GREY, ORANGE
from ghrr_lab.play.pictures import draw_figure, paragraph
from ghrr_lab.play.tab import Choice, Failure, Slider, Tab, Values, View

CANDIDATES = 100
MAX_ITEMS = 300
_GRID = range(1, MAX_ITEMS + 1, 13)


def draw(values: Values, _: Any = None) -> View:
    """Read every pair of a bundle, and draw the share of correct answers beside the expected one."""
    items, dim, m, rotation = values["items"], values["dim"], values["m"], values["rotation"]
    space = ghrr.Space(dim, m, rotation=rotation)
    generator = space.generator("capacity")
    keys, codebook = (space.random(count, generator=generator) for count in (items, CANDIDATES))
    stored = torch.arange(items) % CANDIDATES
    bundle = ghrr.bind_bundle(keys, codebook[stored])
    answers = ghrr.pairwise_similarity(ghrr.unbind(bundle, keys, side="left"), codebook).argmax(dim=-1)
    measured = float((answers == stored).double().mean())
    expected = 1 - recall_error(items, CANDIDATES, space.noise_std, space.crosstalk_std)
    curve = [1 - recall_error(n, CANDIDATES, space.noise_std, space.crosstalk_std) for n in _GRID]
    holds = space.capacity(candidates=CANDIDATES)
    enough = ghrr.Space.suggest(items, m=m, candidates=CANDIDATES, rotation=rotation)

    def figure(figure: Figure) -> None:
        axis = figure.subplots()
        axis.plot(_GRID, curve, color=GREY, lw=1.5, label="theory")
        axis.axvline(items, color=BLACK, lw=1, ls=":", label="this load")
        axis.plot([items], [expected], "D", color=ORANGE, ms=9, label="theory, this load")
        axis.plot([items], [measured], "o", color=BLUE, ms=7, label="measured")
        axis.set(xlim=(0, MAX_ITEMS * 1.03), ylim=(0, 1.05), xlabel="key-value pairs in one hypervector")
        axis.set_ylabel("share of correct answers")
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

    summary = f"measured {measured:.3f}, theory {expected:.3f}"
    code = f"""\
import torch
import ghrr
from ghrr.capacity import recall_error

space = ghrr.Space(dim={dim}, m={m}, rotation={rotation!r})
generator = space.generator("capacity")
keys = space.random({items}, generator=generator)
codebook = space.random({CANDIDATES}, generator=generator)
stored = torch.arange({items}) % {CANDIDATES}  # the value of each key
bundle = ghrr.bind_bundle(keys, codebook[stored])
answers = ghrr.pairwise_similarity(ghrr.unbind(bundle, keys, side="left"), codebook).argmax(dim=-1)
measured = (answers == stored).double().mean()
theory = 1 - recall_error({items}, {CANDIDATES}, space.noise_std, space.crosstalk_std)
print(f"measured {{measured:.3f}}, theory {{theory:.3f}}")
print(ghrr.Space.suggest({items}, m={m}, candidates={CANDIDATES}, rotation={rotation!r}))
"""
    text = (
        f"Share of correct answers: {summary}. This space holds {holds} pairs with 1 % errors. How large a space do I "
        f"need? For {items} pairs with 1 % errors: <b>dim = {enough.dim}</b> (total dimension {enough.total_dim:,})."
    )
    description = f"Share of correct answers against the number of pairs. At {items} pairs: {summary}."
    return View(draw_figure(figure, height=3.4, description=description) + paragraph(text), code)


TAB = Tab(
    name="capacity",
    title="Capacity",
    notice="One vector holds many key-value pairs, and every pair adds noise to the answers of all others. The curve "
    "says how many fit.",
    controls=(
        Slider("items", "key-value pairs", 1, MAX_ITEMS, 60),
        Slider("dim", "dim, number of slots", 10, 500, 100, 10),
        Slider("m", "m, size of a slot", 1, 4, 3),
        Choice("rotation", "rotations", ("varying", "fixed", "shared"), "varying"),
    ),
    draw=draw,
    failure=Failure("Make it fail: share one rotation", {"rotation": "shared", "m": 4, "dim": 60, "items": 100}),
    terms="Only the total dimension dim · m² matters, not how it is divided between slots and their size, unless all "
    "hypervectors share one rotation: then their crosstalk is larger.",
)
