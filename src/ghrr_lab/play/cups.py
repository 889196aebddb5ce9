"""Cups: shuffle three cups, and see whether attention follows.

Two small language models read the moves, one with path attention and one with rope. They have one layer, were trained
on at most 32 moves (``benchmarks/nn/play_models.py``) and come with the playground.
"""

from __future__ import annotations

import functools
import html
import itertools
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ghrr.files import read_tensors
from ghrr.training import restore_module
from ghrr_lab import lm
from ghrr_lab.paper.style import BLACK, BLUE, GREY, ORANGE
from ghrr_lab.play.pictures import draw_figure, mark, paragraph
from ghrr_lab.play.tab import Failure, Slider, Steps, Tab, Values, View

ORDERS = tuple(itertools.permutations(range(3)))
# A move by its name: which cup comes to each place.
MOVES = {
    "left-pair": (1, 0, 2),
    "right-pair": (0, 2, 1),
    "outer-pair": (2, 1, 0),
    "all-left": (1, 2, 0),
    "all-right": (2, 0, 1),
}
START = len(ORDERS)
MAX_MOVES, MAX_REPEATS = 12, 40
KINDS: dict[str, dict[str, Any]] = {
    "path": {"mode": "path", "m": 2, "slots": 8, "transport": "values", "reflections": 2, "angle_std": 0.2},
    "rope": {"attention": "rope"},
}
SIZE: dict[str, Any] = {"embed_dim": 32, "num_layers": 1, "num_heads": 1, "ffn_dim": 64, "dropout": 0.0}
TRAINED = Path(__file__).parent / "trained" / "cups"
FORMAT = "cups"  # of the files
_COLOURS = (BLUE, ORANGE, BLACK)


def model_config(kind: str) -> lm.ModelConfig:
    """Return the settings of one of the two models."""
    return lm.ModelConfig(vocab_size=START + 1, max_len=MAX_MOVES * MAX_REPEATS + 1, **SIZE, **KINDS[kind])


@functools.cache
def trained_model(kind: str) -> lm.Model:
    """Return a model that comes with the playground."""
    model = lm.Model(model_config(kind))
    _, tensors = read_tensors(TRAINED / f"{kind}.safetensors", kind=FORMAT, version=1)
    restore_module(model, tensors)
    return model.eval()


def follow(moves: list[str]) -> list[int]:
    """Return the number of the order of the cups after each move."""
    order: tuple[int, ...] = (0, 1, 2)
    found = []
    for move in moves:
        order = tuple(order[place] for place in MOVES[move])
        found.append(ORDERS.index(order))
    return found


@torch.inference_mode()
def beliefs(kind: str, moves: list[str]) -> Tensor:
    """Return the probability that a model gives to each order after each move, ``(moves, 6)``."""
    tokens = torch.tensor([[START, *(ORDERS.index(MOVES[move]) for move in moves)]])
    logits: Tensor = trained_model(kind)(tokens)
    return logits[0, 1:, :START].softmax(dim=-1)


def draw(values: Values, _: Any = None) -> View:
    """Draw the cups during the moves, and how much each model believes in the right order."""
    shown = values["moves"].split(" ")
    moves = shown * values["repeats"]
    orders = follow(moves)
    right = {kind: beliefs(kind, moves)[range(len(moves)), orders] for kind in KINDS}
    guesses = {kind: ORDERS[int(beliefs(kind, moves)[-1].argmax())] for kind in KINDS}

    def figure(figure: Figure) -> None:
        cups, curves = figure.subplots(2, 1, height_ratios=(1, 1.4))
        _draw_cups(cups, follow(shown), shown)
        for (kind, shares), colour in zip(right.items(), (BLUE, ORANGE), strict=True):
            curves.plot(range(1, len(moves) + 1), shares.tolist(), "o-", ms=3, color=colour, label=kind)
        curves.axhline(1 / START, color=GREY, ls=":", label="guessing")
        curves.set(ylim=(-0.05, 1.1), xlabel="moves", ylabel="belief in the right order")
        curves.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)

    truth = ORDERS[orders[-1]]
    said = " ".join(f"{kind}: {_named(guess)}." for kind, guess in guesses.items())
    description = f"{len(moves)} moves; the cups are now {_named(truth)}. {said}"
    lines = [f"After {len(moves)} moves the cups are <b>{html.escape(_named(truth))}</b>."]
    lines += [f"<br>{kind}: {mark(guess == truth, _named(guess))}" for kind, guess in guesses.items()]
    return View(draw_figure(figure, height=3.9, description=description) + paragraph(*lines), _code(values))


def _named(order: tuple[int, ...]) -> str:
    return " ".join("ABC"[cup] for cup in order)


def _draw_cups(axis: Axes, orders: list[int], moves: list[str]) -> None:
    states = [ORDERS[0], *(ORDERS[order] for order in orders)]
    for cup, colour in enumerate(_COLOURS):
        axis.plot([state.index(cup) for state in states], lw=3, color=colour)
        axis.text(-0.15, states[0].index(cup), "ABC"[cup], ha="right", va="center", color=colour)
    axis.set(yticks=[], ylim=(2.4, -0.4), xticks=range(1, len(moves) + 1))
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)


def _code(values: Values) -> str:
    return f"""\
from ghrr_lab.play.cups import ORDERS, beliefs, follow

moves = {values["moves"]!r}.split(" ") * {values["repeats"]}
for kind in ("path", "rope"):
    believed = ORDERS[int(beliefs(kind, moves)[-1].argmax())]
    is_correct = believed == ORDERS[follow(moves)[-1]]
    print(f"{{kind}}: {{' '.join('ABC'[cup] for cup in believed)}}, correct: {{is_correct}}")
"""


TAB = Tab(
    name="cups",
    title="Cups",
    notice="Shuffle three cups. One model knows how far apart two moves are, the other what happened between them.",
    controls=(
        Steps("moves", "moves", tuple(MOVES), "left-pair right-pair all-left right-pair outer-pair", MAX_MOVES),
        Slider("repeats", "repetitions of these moves", 1, MAX_REPEATS, 3),
    ),
    draw=draw,
    failure=Failure(
        "Make it fail: one move hundreds of times",
        {"moves": " ".join(["outer-pair"] * MAX_MOVES), "repeats": MAX_REPEATS},
    ),
    terms="Both models have one layer of attention and were trained on at most 32 moves. Rope rotates queries and keys "
    "by angles that grow with the position. Path attention binds values to the product of unitary matrices, one for "
    "each move. Small errors of their angles add up, most of all if one move is repeated, so it fails in the end too.",
)
