import numpy as np
import pytest
import torch

from ghrr.reasoning import Entities, Reasoner, Slots, train_perception
from ghrr.reasoning.drawing import draw_panel
from ghrr.reasoning.perception import Perception, cut_slots
from ghrr.reasoning.raven import CONFIGURATIONS


def _panel(*entity: int, layout: str = "Center_Single") -> list[dict[str, object]]:
    return [{"layout": layout, "entities": [[0, *entity]]}]


def test_drawing_fills_a_square_with_its_grey() -> None:
    picture = draw_panel(_panel(2, 5, 6, 3))
    assert picture[40, 40] == 84
    assert picture[0, 0] == 255


def test_larger_shapes_cover_more() -> None:
    dark = [int((draw_panel(_panel(5, size, 9, 3)) < 128).sum()) for size in range(6)]
    assert dark == sorted(dark)
    assert len(set(dark)) == 6


def test_a_turn_by_90_degrees_leaves_a_square_alike_and_changes_a_triangle() -> None:
    squares, triangles = ([draw_panel(_panel(kind, 4, 5, angle)) for angle in (3, 5)] for kind in (2, 1))
    assert np.abs(squares[0].astype(float) - squares[1]).mean() < 2
    assert np.abs(triangles[0].astype(float) - triangles[1]).mean() > 10


def test_slots_are_cut_where_their_entities_are() -> None:
    layout = "Distribute_Four"
    pictures = [draw_panel([{"layout": layout, "entities": [[slot, 5, 5, 9, 3]]}]) for slot in range(4)]
    cut = cut_slots(torch.from_numpy(np.stack(pictures)).float(), layout)
    assert torch.equal(cut.mean(dim=(2, 3)).argmin(dim=1), torch.arange(4))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_read_gives_distributions_of_every_attribute(name: str) -> None:
    matrices = Perception().read(torch.full((2, 16, 80, 80), 255), name)
    assert all(isinstance(attribute, Entities | Slots) for attribute in matrices.attributes.values())
    assert Reasoner().solve(matrices).probabilities.shape == (2, 8)


def test_training_repeats_and_lowers_the_loss() -> None:
    losses: list[list[float]] = [[], []]
    networks = [train_perception(20, seed=1, on_step=lambda _, loss, kept=kept: kept.append(loss)) for kept in losses]  # type: ignore[misc]
    assert losses[0] == losses[1]
    assert np.mean(losses[0][-7:]) < np.mean(losses[0][:7])
    assert torch.equal(networks[0].outputs.weight, networks[1].outputs.weight)
