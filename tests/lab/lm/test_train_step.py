"""One training step: schedule, weight decay, gradient clipping."""

from __future__ import annotations

import math

import pytest
import torch

from ghrr.training import set_learning_rate
from ghrr_lab.lm import Model
from ghrr_lab.lm.train_step import make_optimizer, make_step, schedule
from tests.lab.lm.common import ATTENTIONS, new_model, random_tokens, small_config

CONTEXT = 8


def test_schedule_is_linear_warmup_times_cosine() -> None:
    assert schedule(0, 100, 0) == 1
    assert schedule(50, 100, 0) == pytest.approx(0.51)
    assert schedule(100, 100, 0) == pytest.approx(0.02)
    cosine = [schedule(step, 100, 0) for step in range(101)]
    assert cosine == sorted(cosine, reverse=True)
    for step in range(101):
        factor = min(1, (step + 1) / 10)
        assert schedule(step, 100, 10) == pytest.approx(factor * cosine[step])


@pytest.mark.parametrize("name", ATTENTIONS)
def test_only_matrices_have_weight_decay(name: str) -> None:
    model = Model(small_config(name))
    decayed, others = make_optimizer(model, learning_rate=0.1, weight_decay=0.3, betas=(0.9, 0.98)).param_groups
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.3, 0.0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed_names, other_names = ({names[id(p)] for p in group["params"]} for group in (decayed, others))
    assert decayed_names | other_names == set(names.values())
    assert not decayed_names & other_names
    for layer in range(2):
        matrices = {f"layers.{layer}.{part}.weight" for part in ("grow", "shrink", "attention.out_proj")}
        assert matrices <= decayed_names
        assert f"layers.{layer}.first_norm.weight" in other_names
    assert {"embedding.weight", "output_bias", "norm.weight"} <= other_names
    assert all(p.ndim > 1 for p in decayed["params"])
    assert not [name for name in decayed_names if "positions" in name or name.endswith(("taps", "log_scale"))]


def test_step_clips_gradients_and_sets_learning_rate() -> None:
    norms, moved = [], []
    for clip, rate in ((1e9, 0.01), (0.1, 0.01), (0.1, 0.0), (0.1, None)):
        model = new_model()
        optimizer = make_optimizer(model, learning_rate=0.02, weight_decay=0.0, betas=(0.9, 0.98))
        before = model.embedding.weight.clone()
        step = make_step(model.loss, model, optimizer, clip=clip, bf16=False)
        if rate is not None:
            set_learning_rate(optimizer, rate)
        loss = step(random_tokens(4, CONTEXT), random_tokens(4, CONTEXT, seed=1))
        assert loss.item() == pytest.approx(4 * CONTEXT * math.log(20), rel=0.1)
        norms.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm().item())
        moved.append((model.embedding.weight - before).abs().max().item())
    assert norms[0] > 1
    assert norms[1:] == pytest.approx([0.1] * 3, rel=1e-4)
    assert moved == pytest.approx(
        [0.01, 0.01, 0.0, 0.02], rel=1e-2
    )  # the first step of Adam moves by the learning rate
