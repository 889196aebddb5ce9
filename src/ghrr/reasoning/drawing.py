"""Draw panels from their entities, with Pillow: grey shapes with a black outline in the slots of a layout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.checks import install_hint, names_errors

try:
    from PIL import Image, ImageDraw
except ModuleNotFoundError as error:  # pragma: no cover (Pillow comes with matplotlib)
    raise ModuleNotFoundError(f"drawing: Pillow is missing; {install_hint('paper')}") from error

__all__ = ["GREYS", "LAYOUTS", "SIZES", "draw_panel"]

PIXELS = 80
_FINE = 160  # drawn at this size, then averaged over 2 x 2 pixels
WIDTH = 3  # of outlines, before averaging
SIZES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
GREYS = (255, 224, 196, 168, 140, 112, 84, 56, 28, 0)
ANGLES = (-135, -90, -45, 0, 45, 90, 135, 180)
_CORNERS = {1: 3, 2: 4, 3: 5, 4: 6}  # type 5 is a circle


def _square_grid(count: int, centre: float, step: float, size: float) -> tuple[tuple[float, ...], ...]:
    places = [centre + step * (i - (count - 1) / 2) for i in range(count)]
    return tuple((row, column, size, size) for row in places for column in places)


_THIRDS = (0.16, 0.5, 0.83)
# Slots by layout: row centre, column centre, height and width, as shares of the panel.
LAYOUTS: dict[str, tuple[tuple[float, ...], ...]] = {
    "Center_Single": ((0.5, 0.5, 1, 1),),
    "Distribute_Four": _square_grid(2, 0.5, 0.5, 0.5),
    "Distribute_Nine": tuple((row, column, 0.33, 0.33) for row in _THIRDS for column in _THIRDS),
    "Left_Center_Single": ((0.5, 0.25, 0.5, 0.5),),
    "Right_Center_Single": ((0.5, 0.75, 0.5, 0.5),),
    "Up_Center_Single": ((0.25, 0.5, 0.5, 0.5),),
    "Down_Center_Single": ((0.75, 0.5, 0.5, 0.5),),
    "Out_Center_Single": ((0.5, 0.5, 1, 1),),
    "In_Center_Single": ((0.5, 0.5, 0.33, 0.33),),
    "In_Distribute_Four": _square_grid(2, 0.5, 0.16, 0.15),
}
_DIVIDERS = {"Left_Center_Single": (80, 0, 80, 160), "Up_Center_Single": (0, 80, 160, 80)}


@names_errors
def draw_panel(panel: Sequence[Mapping[str, Any]], *, line_width: int = WIDTH) -> NDArray[np.uint8]:
    """Draw a panel, ``(80, 80)``: a list of components with a ``layout`` and ``entities`` as in I-RAVEN.

    An entity is ``[slot, type, size, color, angle]``, in levels.

    Examples
    --------
    >>> from ghrr.reasoning import draw_panel
    >>> draw_panel([{"layout": "Center_Single", "entities": [[0, 2, 5, 9, 3]]}]).shape
    (80, 80)
    """
    image = Image.new("L", (_FINE, _FINE), 255)
    pen = ImageDraw.Draw(image)
    for component in panel:
        if component["layout"] in _DIVIDERS:
            pen.line(_DIVIDERS[component["layout"]], fill=0, width=1)
        for entity in component["entities"]:
            _draw_entity(pen, component["layout"], entity, line_width)
    fine = np.asarray(image, dtype=np.float64).reshape(PIXELS, 2, PIXELS, 2)
    averaged: NDArray[np.uint8] = np.rint(fine.mean(axis=(1, 3))).astype(np.uint8)
    return averaged


def _draw_entity(pen: ImageDraw.ImageDraw, layout: str, entity: Sequence[int], line_width: int) -> None:
    slot, kind, level, color, angle = entity
    size, grey = SIZES[level], GREYS[color]
    row, column, height, width = LAYOUTS[layout][slot]
    y, x = int(row * _FINE), int(column * _FINE)
    radius = int(min(height, width) * _FINE / 2 * size)
    if kind not in _CORNERS:
        edge = radius + line_width // 2
        pen.ellipse((x - edge, y - edge, x + edge, y + edge), fill=grey, outline=0, width=line_width)
        return
    corners = _CORNERS[kind]
    turn = -math.radians(ANGLES[angle]) + (math.pi / 4 if corners == 4 else 0)
    turns = [turn + 2 * math.pi * i / corners for i in range(corners)]
    points = [(x + int(radius * math.sin(t)), y - int(radius * math.cos(t))) for t in turns]
    pen.polygon(points, fill=grey)
    pen.line([*points, points[0], points[1]], fill=0, width=line_width)
