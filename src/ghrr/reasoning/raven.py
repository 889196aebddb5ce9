"""Problems of I-RAVEN and I-RAVEN-X, read from JSON lines with their attributes.

A line of I-RAVEN has ``panels``: sixteen lists of components, each with a ``layout`` and ``entities`` ``[slot, type,
size, color, angle]``. A line of I-RAVEN-X has ``n``, ``attributes``, ``context`` and ``answers``; a value is a number
or, with uncertainty, ``[value, left, centre, right]`` with three weights in hundredths. Both have ``target``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ghrr.reasoning.panels import Attribute, Entities, Matrices, Numbers, Slots

__all__ = ["CONFIGURATIONS", "LEVELS", "from_components", "read_raven", "read_raven_x"]

LEVELS = {"type": 6, "size": 6, "color": 10}  # numbers of levels; type 0 never occurs
CONFIGURATIONS = {
    "center_single": ("Center_Single",),
    "distribute_four": ("Distribute_Four",),
    "distribute_nine": ("Distribute_Nine",),
    "left_center_single_right_center_single": ("Left_Center_Single", "Right_Center_Single"),
    "up_center_single_down_center_single": ("Up_Center_Single", "Down_Center_Single"),
    "in_center_single_out_center_single": ("Out_Center_Single", "In_Center_Single"),
    "in_distribute_four_out_center_single": ("Out_Center_Single", "In_Distribute_Four"),
}
SLOTS = {"Distribute_Four": 4, "In_Distribute_Four": 4, "Distribute_Nine": 9}


def read_raven(problems: Sequence[Mapping[str, Any]]) -> tuple[Matrices, Tensor]:
    """Return the problems of one configuration of I-RAVEN, and the indices of the right answers.

    Angles are left out: they follow no rule.
    """
    layouts = [component["layout"] for component in problems[0]["panels"][0]]
    panels = len(problems[0]["panels"])
    attributes: dict[str, Attribute] = {}
    for index, layout in enumerate(layouts):
        slots = SLOTS.get(layout, 1)
        presence = torch.zeros(len(problems), panels, slots)
        levels = {kind: torch.zeros(len(problems), panels, slots, count) for kind, count in LEVELS.items()}
        for b, problem in enumerate(problems):
            for p, panel in enumerate(problem["panels"]):
                for slot, *values, _ in panel[index]["entities"]:
                    presence[b, p, slot] = 1
                    for (kind, given), value in zip(levels.items(), values, strict=True):
                        given[b, p, slot, value] = 1
        attributes |= from_components(layout.lower(), presence, levels)
    return Matrices(attributes), torch.tensor([problem["target"] for problem in problems])


def from_components(name: str, presence: Tensor, levels: Mapping[str, Tensor]) -> dict[str, Attribute]:
    """Return the attributes of one component: its slots, if it has several, and the levels of its entities."""
    found: dict[str, Attribute] = {f"{name}/slots": Slots(presence)} if presence.shape[-1] > 1 else {}
    return found | {f"{name}/{kind}": Entities(presence, values) for kind, values in levels.items()}


def read_raven_x(problems: Sequence[Mapping[str, Any]], size: int | None = None) -> tuple[Matrices, Tensor]:
    """Return problems of I-RAVEN-X, and the indices of the right answers. ``size``: of the range, by default range + 1.

    All attributes are treated alike, including confounders and angles.
    """
    size = problems[0]["range"] + 1 if size is None else size
    values = torch.tensor([[*problem["context"], *problem["answers"]] for problem in problems])
    if values.ndim == 3:
        weights = torch.ones(*values.shape, 1)
        values = values[..., None]
    else:
        weights = values[..., 1:] / 100
        values = (values[..., :1] + torch.tensor([-1, 0, 1])) % (size - 1)
    names = problems[0]["attributes"]
    attributes: dict[str, Attribute] = {
        name.lower(): Numbers(values[:, :, i], weights[:, :, i], size) for i, name in enumerate(names)
    }
    columns = problems[0]["n"]
    matrices = Matrices(attributes, columns, (len(problems[0]["context"]) + 1) // columns)
    return matrices, torch.tensor([problem["target"] for problem in problems])
