"""A small network that reads the slots of drawn panels, as distributions of their attributes.

Every slot of a layout is cut out of the panel and scaled to 32 × 32 pixels. The network gives the probability that the
slot holds an entity, and the probabilities of its type, size and color. It is trained on panels drawn by
:mod:`ghrr.reasoning.drawing` from random entities, with small changes of line width, place and brightness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ghrr.checks import names_errors
from ghrr.reasoning.drawing import LAYOUTS, draw_panel
from ghrr.reasoning.panels import Attribute, Matrices
from ghrr.reasoning.raven import CONFIGURATIONS, LEVELS, from_components

__all__ = ["Perception", "train_perception"]

SIDE = 32
MARGIN = 1.15  # size of a cut-out, as a multiple of the slot
PANELS = 32  # of a step
RATE = 2e-3
LEAST_SIZE = {"Out_Center_Single": 3, "In_Distribute_Four": 2}
_WIDTHS = (1, *LEVELS.values())  # of the outputs
_KINDS = tuple(LAYOUTS)


@names_errors
class Perception(nn.Module):
    """Convolutional network from slots to distributions; train it with :func:`train_perception`.

    Examples
    --------
    >>> import torch
    >>> from ghrr.reasoning import Perception
    >>> images = torch.full((2, 16, 80, 80), 255)
    >>> Perception().read(images, "distribute_four").attributes["distribute_four/slots"].presence.shape
    torch.Size([2, 16, 4])
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in ((1, 16), (16, 32), (32, 64)):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        self.hidden = nn.Linear(64 * (SIDE // 8) ** 2 + len(_KINDS), 128)
        self.outputs = nn.Linear(128, sum(_WIDTHS))

    def forward(self, slots: Tensor, kinds: Tensor) -> tuple[Tensor, ...]:
        """Return logits of presence, type, size and color for cut-outs ``(n, 32, 32)`` of layouts ``(n,)``."""
        found = self.convolutions(slots[:, None] / 127.5 - 1)
        layouts = nn.functional.one_hot(kinds, len(_KINDS)).float()
        hidden = torch.relu(self.hidden(torch.cat([found, layouts], dim=1)))
        return tuple(self.outputs(hidden).split(_WIDTHS, dim=1))

    @torch.no_grad()
    def read(self, images: Tensor, configuration: str) -> Matrices:
        """Return the attributes of drawn problems as distributions.

        Parameters
        ----------
        images
            Panels, ``(batch, panels, 80, 80)``, from 0 to 255: the eight known ones, then the answers.
        configuration
            Name of the configuration, such as ``"distribute_four"``: a key of ``raven.CONFIGURATIONS``.
        """
        attributes: dict[str, Attribute] = {}
        flat = images.flatten(0, 1).float()
        for layout in CONFIGURATIONS[configuration]:
            slots = cut_slots(flat, layout)
            kinds = torch.full((slots.shape[:2].numel(),), _KINDS.index(layout))
            logits = self(slots.flatten(0, 1), kinds)
            shape = (*images.shape[:2], slots.shape[1])
            presence, *levels = (part.view(*shape, -1) for part in logits)
            q = torch.sigmoid(presence[..., 0]) if slots.shape[1] > 1 else torch.ones(shape)
            named = {name: torch.softmax(level, dim=-1) for name, level in zip(LEVELS, levels, strict=True)}
            attributes |= from_components(layout.lower(), q, named)
        return Matrices(attributes)


def cut_slots(images: Tensor, layout: str) -> Tensor:
    """Cut the slots of a layout out of panels ``(n, side, side)``, scaled: ``(n, slots, 32, 32)``."""
    line = (torch.arange(SIDE) + 0.5) / SIDE * 2 - 1
    found = []
    for row, column, height, width in LAYOUTS[layout]:
        y, x = 2 * row - 1 + MARGIN * height * line, 2 * column - 1 + MARGIN * width * line
        grid = torch.stack(torch.meshgrid(y, x, indexing="ij")[::-1], dim=-1)
        places = grid.expand(len(images), -1, -1, -1)
        inverted = 255 - images[:, None]  # outside of the panel is white
        cut = nn.functional.grid_sample(inverted, places, align_corners=False)
        found.append(255 - cut[:, 0])
    return torch.stack(found, dim=1)


def draw_random_panels(configuration: str, count: int, rng: np.random.Generator) -> tuple[Tensor, list[Tensor]]:
    """Draw random panels ``(count, 80, 80)``; also return their entities by component, ``(count, slots, 4)``.

    The four numbers are presence, type, size and color.
    """
    layouts = CONFIGURATIONS[configuration]
    images, truths = [], [torch.zeros(count, len(LAYOUTS[layout]), 4, dtype=torch.int64) for layout in layouts]
    for i in range(count):
        panel = []
        for layout, truth in zip(layouts, truths, strict=True):
            slots = len(LAYOUTS[layout])
            filled = rng.choice(slots, size=rng.integers(1, slots + 1), replace=False)
            outer, least = layout == "Out_Center_Single", LEAST_SIZE.get(layout, 0)
            entities = []
            for slot in sorted(filled.tolist()):
                color = 0 if outer else int(rng.integers(10))
                entities.append(
                    [slot, int(rng.integers(1, 6)), int(rng.integers(least, 6)), color, int(rng.integers(8))]
                )
                truth[i, slot] = torch.tensor([1, *entities[-1][1:4]])
            panel.append({"layout": layout, "entities": entities})
        images.append(draw_panel(panel, line_width=int(rng.integers(2, 5))))
    noisy = torch.from_numpy(np.stack(images)).float()
    noisy = noisy + 4 * torch.from_numpy(rng.standard_normal(noisy.shape)).float()
    shift = rng.integers(-1, 2, size=2)
    return noisy.roll(tuple(shift.tolist()), dims=(1, 2)).clamp(0, 255), truths


@names_errors
def train_perception(
    steps: int = 3000, *, seed: int = 0, on_step: Callable[[int, float], None] | None = None
) -> Perception:
    """Train on drawn panels: each step draws 32 of one configuration, the next configuration in the next step.

    Parameters
    ----------
    steps
        Steps of Adam.
    seed
        Seed of the weights and the panels.
    on_step
        Called with each step and its loss.

    Examples
    --------
    >>> from ghrr.reasoning import train_perception
    >>> network = train_perception(2)  # a good one needs thousands of steps, which take minutes
    """
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Perception()
    optimizer = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    names = list(CONFIGURATIONS)
    for step in range(steps):
        name = names[step % len(names)]
        images, truths = draw_random_panels(name, PANELS, rng)
        slots, kinds, truth = [], [], []
        for layout, entities in zip(CONFIGURATIONS[name], truths, strict=True):
            slots.append(cut_slots(images, layout).flatten(0, 1))
            kinds.append(torch.full((len(slots[-1]),), _KINDS.index(layout)))
            truth.append(entities.flatten(0, 1))
        loss = _loss(network(torch.cat(slots), torch.cat(kinds)), torch.cat(truth))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if on_step is not None:
            on_step(step, float(loss.detach()))
    return network.eval().requires_grad_(False)


def _loss(logits: Sequence[Tensor], truth: Tensor) -> Tensor:
    presence, *levels = logits
    filled = truth[:, 0] == 1
    total = nn.functional.binary_cross_entropy_with_logits(presence[:, 0], truth[:, 0].float())
    for level, right in zip(levels, truth.unbind(1)[1:], strict=True):
        total = total + nn.functional.cross_entropy(level[filled], right[filled])
    return total
