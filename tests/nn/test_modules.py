"""The layer as a module: training, saving, copying, precision, compilation."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ghrr.nn import Attention
from ghrr.nn.phases import Phases
from ghrr.unitary import is_unitary
from tests.helpers import generator, saved
from tests.nn.common import (
    DIFFERENT,
    HEADS,
    LENGTH,
    PLAIN,
    TOGETHER,
    VARIANTS,
    form_of,
    label,
    literal_weights,
    make,
    tokens,
)


def loss(attention: Attention, x: Tensor) -> Tensor:
    out: Tensor = attention(x)
    return (out * torch.randn(out.shape, dtype=torch.float64, generator=generator(5)).to(out.dtype)).sum()


# ------------------------------------------------------------------------------------------------------------- training


def reached(attention: Attention, name: str, parameter: Tensor) -> Tensor:
    """Which entries of a parameter are used: mode "bundle" ignores positions of rows before their token."""
    numbers = torch.ones_like(parameter, dtype=torch.bool)
    if name == "form.positions" and attention.config.mode == "bundle":
        numbers &= torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()[:, :, None, None]
    return numbers


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_gradients_reach_every_parameter(variant: dict[str, Any]) -> None:
    attention = make(variant)
    loss(attention, tokens()).backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if "parametrizations" in name:  # torch reads half of such a matrix
            assert (parameter.grad.abs().amax(dim=(-1, -2)) > 0).all(), name
        else:
            numbers = reached(attention, name, parameter)
            assert (parameter.grad[numbers].abs() > 1e-12).all(), name
            assert (parameter.grad[~numbers] == 0).all(), name


@pytest.mark.parametrize("variant", DIFFERENT, ids=label)
def test_settings_decide_which_parameters_are_trained(variant: dict[str, Any]) -> None:
    names = {name for name, _ in make(variant).named_parameters()}
    assert ("phases.frequencies" in names) == ("phases.offsets" in names) == variant.get("trainable_phases", False)
    positions = {"form.positions", "form.positions.frequencies"} & names
    assert bool(positions) == variant["trainable_positions"]
    assert ("form.taps" in names) == ("window" in variant)
    assert "log_scale" in names


@pytest.mark.parametrize("variant", [v for v in DIFFERENT if v.get("weights") == "unitary"], ids=label)
def test_unitary_weights_stay_unitary_in_training(variant: dict[str, Any]) -> None:
    attention, x = make(variant, scrambled=False), tokens()
    before = [literal_weights(attention, part) for part in range(3)]
    optimiser = torch.optim.Adam(attention.parameters(), lr=0.05)
    for _ in range(5):
        optimiser.zero_grad()
        loss(attention, x).backward()
        optimiser.step()
    for part in range(3):
        w = literal_weights(attention, part)
        slots = w.shape[1]
        assert is_unitary(w * slots**0.5)
        assert not torch.allclose(w, before[part], atol=0.01)  # and they moved


def test_relaxed_weights_are_not_unitary() -> None:
    assert not is_unitary(literal_weights(make({"mode": "row"}), 0))


# ----------------------------------------------------------------------------------------------------- saved and copied


@pytest.mark.parametrize("variant", DIFFERENT, ids=label)
def test_loaded_state_dict_gives_the_same_outputs(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    other = make(variant, scrambled=False, seed=7)
    assert not torch.allclose(other(x), attention(x), atol=0.01)
    other.load_state_dict(saved(attention))
    torch.testing.assert_close(other(x), attention(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("variant", DIFFERENT, ids=label)
def test_deep_copy_is_independent(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    want = attention(x).detach()
    other = copy.deepcopy(attention)
    assert torch.equal(other(x).detach(), want)
    with torch.no_grad():
        for parameter in [*other.parameters(), *other.buffers()]:
            parameter.zero_()
    assert torch.equal(attention(x).detach(), want)
    assert not torch.allclose(other(x), want, atol=0.01)


def test_trained_parameters_start_from_the_generator_of_torch() -> None:
    variants: list[dict[str, Any]] = [{}, {"weights": "unitary"}]
    for variant in variants:
        torch.manual_seed(1)
        one, two = (Attention(16, HEADS, max_len=LENGTH, **variant) for _ in range(2))
        torch.manual_seed(1)
        again = Attention(16, HEADS, max_len=LENGTH, **variant)
        x = tokens(dtype=torch.float32)
        assert torch.equal(again(x), one(x))
        assert not torch.allclose(two(x), one(x), atol=1e-3)
        assert torch.equal(two.phases.frequencies, one.phases.frequencies)


# ------------------------------------------------------------------------------------------------------------ precision


@pytest.mark.parametrize("variant", DIFFERENT, ids=label)
def test_autocast_is_close_to_single_precision(variant: dict[str, Any]) -> None:
    attention, x = make(variant, scrambled=False, dtype=torch.float32), tokens(dtype=torch.float32)
    want = attention(x)
    with torch.autocast("cpu", torch.bfloat16):
        out = attention(x)
        loss(attention, x).backward()
    assert out.dtype == torch.bfloat16
    assert (out - want).abs().max() < 4 * torch.finfo(torch.bfloat16).eps * want.abs().max()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in attention.parameters())
    assert all(p.dtype == p.grad.dtype for p in attention.parameters() if p.grad is not None)


@pytest.mark.parametrize("variant", PLAIN, ids=label)
def test_single_precision_is_close_to_double(variant: dict[str, Any]) -> None:
    double, x = make(variant, scrambled=False), tokens()
    single = make(variant, scrambled=False, dtype=torch.float32)
    single.load_state_dict({name: value.float() for name, value in double.state_dict().items()})
    out = single(x.float())
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), double(x), rtol=0, atol=1e-5)


def test_phases_and_positions_have_full_precision_under_autocast() -> None:
    attention, x = (
        make({"trainable_positions": True}, dtype=torch.float32, max_len=2000),
        100 * tokens(dtype=torch.float32),
    )
    want = attention.phases(x), form_of(attention).positions(1000, LENGTH)
    with torch.autocast("cpu", torch.bfloat16):
        got = attention.phases(x), form_of(attention).positions(1000, LENGTH)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == torch.float32
        assert torch.equal(a, b)
    coarse = (x.bfloat16() @ attention.phases.frequencies.bfloat16().T).float().cos()  # negative control
    assert not torch.allclose(coarse, want[0].chunk(2, dim=-1)[0], atol=0.1)


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_first_and_second_derivatives_of_phases(shape: tuple[int, ...], learned: bool, slots: int) -> None:
    phases = Phases(6, 4, slots=slots, trainable=learned, dtype=torch.float64)
    x = torch.randn(*shape, 6, dtype=torch.float64, generator=generator(), requires_grad=True)
    given = [x, *phases.parameters()]
    if phases.offsets is not None:
        phases.offsets.data += 0.3

    def compute(*_: Tensor) -> Tensor:
        out: Tensor = phases(x, 0.4)
        return out

    assert torch.autograd.gradcheck(compute, given)
    assert torch.autograd.gradgradcheck(compute, given)
    angles = x @ torch.block_diag(*phases.frequencies.chunk(slots)).T
    angles = angles if phases.offsets is None else angles + phases.offsets
    torch.testing.assert_close(compute(), torch.cat((angles.cos() - 0.4, angles.sin()), dim=-1))
    jacobian = torch.func.jacrev(lambda z: phases(z).unflatten(-1, (2, -1)).sum(dim=-1))(x.detach())
    torch.testing.assert_close(
        jacobian, torch.func.jacfwd(lambda z: phases(z).unflatten(-1, (2, -1)).sum(dim=-1))(x.detach())
    )


def test_offsets_have_gradients_when_frequencies_are_frozen() -> None:
    phases = Phases(5, 4, trainable=True, dtype=torch.float64)
    phases.frequencies.requires_grad_(False)
    phases(torch.randn(3, 5, dtype=torch.float64, generator=generator()))[..., 4:].sum().backward()
    assert phases.offsets is not None
    assert phases.offsets.grad is not None
    assert phases.frequencies.grad is None


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # of torch's own attention
@pytest.mark.parametrize("variant", DIFFERENT, ids=label)
def test_layer_supports_vmap_and_grad(variant: dict[str, Any]) -> None:
    attention, x = make(variant), torch.stack((tokens(), tokens(seed=9)))
    torch.testing.assert_close(torch.vmap(attention)(x), torch.stack([attention(one) for one in x]))
    leaf = x[0].clone().requires_grad_()
    attention(leaf).square().sum().backward()
    torch.testing.assert_close(torch.func.grad(lambda z: attention(z).square().sum())(x[0]), leaf.grad)


def test_layer_on_meta_device_loads_weights() -> None:
    with torch.device("meta"):
        attention = make({"window": 2}, scrambled=False)
    other = make({"window": 2}, seed=5)
    attention.load_state_dict(other.state_dict(), assign=True)
    torch.testing.assert_close(attention(tokens()), other(tokens()))


def test_autocast_leaves_double_precision_alone() -> None:
    attention, x = make({"window": 2}), tokens()
    want = attention(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(attention(x), want)


def test_table_of_fixed_positions_is_computed_once_and_not_stored() -> None:
    shared, separate = (make({"position_sharing": sharing}, max_len=100) for sharing in ("all", "head"))
    assert form_of(shared).positions.table.numel() == 100 * 2 * shared.m
    assert form_of(separate).positions.table.shape == (2 * HEADS, 100, 2 * separate.m)
    assert "form.positions.table" not in separate.state_dict()
    exact = form_of(separate).positions.table
    single = make({"position_sharing": "head"}, max_len=100, dtype=torch.float32).double()
    frequencies = form_of(single).positions.frequencies  # rounded once; the table is made from these numbers
    angles = torch.arange(100)[:, None] * frequencies[0, :, None]
    assert torch.equal(form_of(single).positions.table[:HEADS, :, : separate.m], angles.cos())
    assert not torch.equal(form_of(single).positions.table, exact)


@pytest.mark.parametrize("variant", DIFFERENT, ids=label)
def test_16_bit_layer_keeps_phases_in_32_bits(variant: dict[str, Any]) -> None:
    attention: Any = make(variant, scrambled=False, dtype=torch.float32)
    x = tokens(dtype=torch.float32)
    want, frequencies = attention(x).detach(), attention.phases.frequencies.clone()
    casts: list[Any] = [copy.deepcopy(attention) for _ in range(3)]
    casts = [casts[0].bfloat16(), casts[1].to(torch.bfloat16), nn.Sequential(casts[2]).bfloat16()[0]]
    for cast in casts:
        assert cast.phases.frequencies.dtype == torch.float32
        assert torch.equal(cast.phases.frequencies, frequencies)
        if variant["mode"] == "feature":
            assert cast.form.positions.frequencies.dtype == torch.float32
        assert cast.out_proj.weight.dtype == torch.bfloat16
        out = cast(x.bfloat16())
        assert out.dtype == torch.bfloat16
        assert (out.float() - want).abs().max() < 8 * torch.finfo(torch.bfloat16).eps * want.abs().max()


@pytest.mark.parametrize("how", ["to", "double"])
@pytest.mark.parametrize("variant", DIFFERENT, ids=label)
def test_layer_converts_to_double_precision(variant: dict[str, Any], how: str) -> None:
    attention, x = make(variant, dtype=torch.float32), tokens()
    want = attention(x.float())
    out = (attention.double() if how == "double" else attention.to(torch.float64))(x)
    assert out.dtype == torch.float64
    torch.testing.assert_close(out.float(), want, rtol=0, atol=1e-4)


# ------------------------------------------------------------------------------------------------------------- compiled


@pytest.mark.parametrize("variant", [{"mode": "feature", **TOGETHER}, {"mode": "dense"}], ids=label)
def test_compiled_layer_with_masks_equals_eager_layer(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    padding = torch.tensor([[False] * 4 + [True] * 2, [False] * LENGTH])
    torch.compiler.reset()
    compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
    gradients = []
    for call in (compiled, attention):
        attention.zero_grad()
        out, weights = call(x, x, x, key_padding_mask=padding)
        out.square().sum().backward()
        gradients.append([out.detach(), weights.detach(), *(p.grad for p in attention.parameters())])
    torch.compiler.reset()
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want)
