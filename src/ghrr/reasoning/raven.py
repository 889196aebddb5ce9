"""Problems of I-RAVEN with their attributes.

A problem has ``panels``, sixteen lists of components, each with a ``layout`` and ``entities`` ``[slot, type, size,
color, angle]``, and ``target``, the index of the right answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import check_known, names_errors, value_error
from ghrr.reasoning.panels import Attribute, Entities, Matrices, Slots

__all__ = ["CONFIGURATIONS", "LEVELS", "from_components", "read_raven"]

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
PANELS = 16
SLOTS = {"Distribute_Four": 4, "In_Distribute_Four": 4, "Distribute_Nine": 9}


@names_errors
def read_raven(problems: Sequence[Mapping[str, Any]]) -> tuple[Matrices, Tensor]:
    """Return the problems of one configuration of I-RAVEN, and the indices of the right answers.

    Angles are left out: they follow no rule.

    Raises
    ------
    ValueError
        If a problem has not sixteen panels, another configuration than the first, or an entity that does not exist.

    Examples
    --------
    >>> from ghrr.reasoning import read_raven
    >>> panels = [[{"layout": "Center_Single", "entities": [[0, 2, 5, 9, 3]]}]] * 16
    >>> matrices, targets = read_raven([{"panels": panels, "target": 3}])
    >>> list(matrices.attributes), targets
    (['center_single/type', 'center_single/size', 'center_single/color'], tensor([3]))
    """
    if not problems:
        raise value_error("problems must not be empty")
    layouts = [component["layout"] for component in problems[0]["panels"][0]]
    slots_of = {layout: SLOTS.get(layout, 1) for layout in layouts}
    for layout in layouts:
        check_known("layout", layout, {name for c in CONFIGURATIONS.values() for name in c})
    shape = (len(problems), PANELS)
    presence = {layout: torch.zeros(*shape, slots) for layout, slots in slots_of.items()}
    levels = {
        layout: {kind: torch.zeros(*shape, slots, count) for kind, count in LEVELS.items()}
        for layout, slots in slots_of.items()
    }
    for b, problem in enumerate(problems):
        name = problem.get("id", f"number {b}")
        if len(problem["panels"]) != PANELS:
            raise value_error(f"problem {name} must have {PANELS} panels, got {len(problem['panels'])}")
        for p, panel in enumerate(problem["panels"]):
            if [component["layout"] for component in panel] != layouts:
                raise value_error(
                    f"panel {p} of problem {name} has other components than {layouts}; read one configuration at a time"
                )
            for layout, component in zip(layouts, panel, strict=True):
                for slot, *values, _ in component["entities"]:
                    limits = (slots_of[layout], *LEVELS.values())
                    if len(values) != len(LEVELS) or not all(
                        0 <= x < n for x, n in zip((slot, *values), limits, strict=True)
                    ):
                        raise value_error(
                            f"panel {p} of problem {name} has the entity {[slot, *values]}, expected a "
                            f"slot, type, size and color below {list(limits)}"
                        )
                    presence[layout][b, p, slot] = 1
                    for given, value in zip(levels[layout].values(), values, strict=True):
                        given[b, p, slot, value] = 1
    attributes: dict[str, Attribute] = {}
    for layout in layouts:
        attributes |= from_components(layout.lower(), presence[layout], levels[layout])
    targets = torch.tensor([problem["target"] for problem in problems])
    if bool(((targets < 0) | (targets > 7)).any()):
        raise value_error(f"target must be from 0 to 7, got {targets.min()} to {targets.max()}")
    return Matrices(attributes), targets


def from_components(name: str, presence: Tensor, levels: Mapping[str, Tensor]) -> dict[str, Attribute]:
    """Return the attributes of one component: its slots, if it has several, and the levels of its entities."""
    found: dict[str, Attribute] = {f"{name}/slots": Slots(presence)} if presence.shape[-1] > 1 else {}
    return found | {f"{name}/{kind}": Entities(presence, values) for kind, values in levels.items()}
