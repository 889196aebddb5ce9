"""FractionalPower: kernels, rotations, weighted kernels, training, and types of input."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.encoding import FractionalPower, kernel_weights
from ghrr.ops import torch_implementation
from ghrr.unitary import is_unitary
from tests.encoding.common import KERNELS, slot_std, slots, wrong
from tests.helpers import assert_mean, assert_std, generator, rounding, unitary

REGIMES: dict[str, dict[str, Any]] = {
    "varying": {},
    "fixed": {"rotation": "fixed"},
    "shared": {"rotation": "shared"},
    "given, one for all slots": {"rotation": unitary(m=3)},
    "given, one per slot": {"rotation": unitary(40, m=3)},
    "diagonality 0": {"diagonality": 0.0},
    "diagonality 0.6": {"diagonality": 0.6},
    "diagonality 1": {"diagonality": 1.0},
    "diagonality 0.7, shared": {"diagonality": 0.7, "rotation": "shared"},
}
X, Y = torch.tensor([0.3, -0.5]), torch.tensor([-0.4, 0.1])


# -------------------------------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize("kernel", KERNELS)
def test_similarity_equals_kernel_with_predicted_error(kernel: str) -> None:
    encoder = FractionalPower(Space(5000, 3), 2, kernel=kernel, bandwidth=0.9)
    for scale in (0.3, 1.0, 4.0):
        values = slots(encoder(scale * X), encoder(scale * Y))
        value = encoder.kernel(scale * X, scale * Y).item()
        assert_mean(values, value)
        assert_std(values - value, slot_std(encoder, scale * X, scale * Y))
    with pytest.raises(AssertionError):  # negative control: another distance
        assert_mean(slots(encoder(X), encoder(Y)), encoder.kernel(1.2 * X, 1.2 * Y).item())
    with pytest.raises(AssertionError):
        assert_std(values - value, 1.2 * slot_std(encoder, scale * X, scale * Y))


def test_similarity_of_an_input_with_itself_is_one() -> None:
    encoder = FractionalPower(Space(30, 3), 2)
    x = torch.randn(10, 2, generator=generator())
    torch.testing.assert_close(ghrr.similarity(encoder(x), encoder(x)), torch.ones(10))


@pytest.mark.parametrize(
    "bandwidth",
    [0.5, [0.4, 2.0], [[0.4], [0.8], [1.6]], [[0.4, 2.0], [0.8, 1.0], [1.6, 0.5]], torch.tensor([[0.4, 2.0]])],
    ids=["one", "per feature", "per entry", "per entry and feature", "a row"],
)
def test_bandwidth_can_differ_between_features_and_entries(bandwidth: Any) -> None:
    encoder = FractionalPower(Space(6000, 3), 2, bandwidth=bandwidth)
    widths = torch.as_tensor(bandwidth).expand(3, 2)
    want = torch.exp(-((X - Y) / widths).square().sum(dim=-1) / 2).mean()
    torch.testing.assert_close(encoder.kernel(X, Y), want)
    assert_mean(slots(encoder(X), encoder(Y)), want.item())
    with pytest.raises(AssertionError):  # negative control: another difference
        assert_mean(
            slots(encoder(X), encoder(Y)), torch.exp(-((X - 2 * Y) / widths).square().sum(dim=-1) / 2).mean().item()
        )


def test_bandwidth_divides_the_input() -> None:
    space = Space(40, 3, dtype=torch.complex128)
    x = torch.randn(5, 2, dtype=torch.float64, generator=generator())
    wide = FractionalPower(space, 2, bandwidth=[0.5, 4.0])
    torch.testing.assert_close(wide(x), FractionalPower(space, 2)(x / torch.tensor([0.5, 4.0])))
    assert not torch.allclose(wide(x), FractionalPower(space, 2)(x / torch.tensor([4.0, 0.5])), atol=0.1)


def test_kernels_of_diagonal_entries_are_averaged() -> None:
    names = ["rbf", "laplace", "sinc"]
    encoder = FractionalPower(Space(6000, 3), 2, kernel=names, bandwidth=[[0.3], [1.0], [2.0]])
    alone = [
        FractionalPower(Space(2, 3), 2, kernel=name, bandwidth=width).kernel(X, Y)
        for name, width in zip(names, (0.3, 1.0, 2.0), strict=True)
    ]
    torch.testing.assert_close(encoder.kernel(X, Y), torch.stack(alone).mean())
    values = slots(encoder(X), encoder(Y))
    assert_mean(values, encoder.kernel(X, Y).item())
    for one in alone:
        with pytest.raises(AssertionError):
            assert_mean(values, one.item())


def test_entries_with_the_same_kernel_have_independent_frequencies() -> None:
    for kernels in ("rbf", ["rbf", "laplace", "rbf"]):
        frequencies = FractionalPower(Space(2000, 3), 1, kernel=kernels).frequencies[..., 0]
        assert frequencies.shape == (2000, 3)
        assert_mean(frequencies[:, 0] * frequencies[:, 2], 0.0)
        with pytest.raises(AssertionError):
            assert_mean(frequencies[:, 0] * frequencies[:, 0], 0.0)


# --------------------------------------------------------------------------------------- joint encoding and composition


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("n", [1, 4])
def test_joint_encoding_equals_composition_by_binding(dtype: torch.dtype, n: int) -> None:
    encoder = FractionalPower(Space(20, 3, dtype=dtype), n)
    x = torch.randn(2, 5, n, generator=generator())
    tolerance = rounding(dtype, terms=n)
    torch.testing.assert_close(encoder.compose(x), encoder(x), atol=tolerance, rtol=0)
    factors = encoder.factors(x)
    assert factors.shape == (2, 5, n, 20, 3, 3)
    assert (ghrr.unitary.diagonality(factors) == 1).all()
    rotation = encoder.rotation.expand(2, 5, 1, 20, 3, 3)
    shuffled = ghrr.multibind(torch.cat([rotation, factors.flip(2)], dim=2))
    torch.testing.assert_close(shuffled, encoder(x), atol=tolerance, rtol=0)
    wrong_side = ghrr.multibind(torch.cat([factors, rotation], dim=2))  # negative control
    assert not torch.allclose(wrong_side, encoder(x), atol=0.1)


def test_binding_encodings_without_rotation_adds_inputs() -> None:
    space = Space(20, 3, dtype=torch.complex128)
    x, y = torch.randn(2, 2, dtype=torch.float64, generator=generator())
    plain = FractionalPower(space, 2, rotation=torch.eye(3, dtype=torch.complex128))
    torch.testing.assert_close(ghrr.bind(plain(x), plain(y)), plain(x + y))
    rotated = FractionalPower(space, 2)
    assert not torch.allclose(ghrr.bind(rotated(x), rotated(y)), rotated(x + y), atol=0.1)


# ------------------------------------------------------------------------------------------------------------ rotations


@pytest.mark.parametrize("regime", REGIMES)
def test_encodings_are_unitary_and_similarities_do_not_depend_on_rotations(regime: str) -> None:
    space = Space(40, 3, dtype=torch.complex128, **REGIMES[regime])
    encoder = FractionalPower(space, 2)
    x = torch.randn(6, 2, dtype=torch.float64, generator=generator())
    assert is_unitary(encoder(x))
    plain = FractionalPower(space, 2, rotation=torch.eye(3, dtype=torch.complex128))
    torch.testing.assert_close(
        ghrr.pairwise_similarity(encoder(x), encoder(x)), ghrr.pairwise_similarity(plain(x), plain(x))
    )
    torch.testing.assert_close(encoder(torch.zeros(2)), encoder.rotation)
    if regime != "diagonality 1":
        assert not torch.allclose(encoder(x).abs(), plain(x).abs(), atol=0.1)


def test_rotation_regimes_share_rotations_as_documented() -> None:
    def rotation(regime: str, name: str) -> Tensor:
        return FractionalPower(Space(40, 3, dtype=torch.complex128, **REGIMES[regime]), 2, name=name).rotation

    for regime, same_slots, same_names in (
        ("varying", False, False),
        ("fixed", True, False),
        ("shared", False, True),
        ("given, one for all slots", True, True),
        ("given, one per slot", False, True),
        ("diagonality 0.7, shared", False, True),
    ):
        one, two = rotation(regime, "one"), rotation(regime, "two")
        assert torch.allclose(one, one[:1]) == same_slots, regime
        assert torch.allclose(one, two) == same_names, regime
    assert torch.equal(rotation("given, one per slot", "one"), REGIMES["given, one per slot"]["rotation"])
    measured = ghrr.unitary.diagonality(rotation("diagonality 0.6", "one"))
    torch.testing.assert_close(measured, torch.full_like(measured, 0.6), atol=1e-6, rtol=0)


def test_given_rotation_is_copied() -> None:
    space = Space(40, 3, dtype=torch.complex128)
    for given in (unitary(m=3, seed=1), unitary(40, m=3, seed=1)):
        encoder = FractionalPower(space, 2, rotation=given)
        before = encoder(X)
        torch.testing.assert_close(encoder.rotation, given.expand(40, 3, 3))
        given.zero_()
        assert torch.equal(encoder(X), before)  # a copy


def test_encoders_of_different_names_are_independent() -> None:
    space = Space(5000, 3)
    one, two = (FractionalPower(space, 2, name=name) for name in ("one", "two"))
    assert_mean(slots(one(X), two(X)), 0.0)
    assert_std(slots(one(X), two(X)), Space(1, 3).noise_std)
    assert_mean((one.frequencies * two.frequencies).flatten(), 0.0)
    # Negative control: with one rotation for all, the similarity is the product of K(x) and K(y).
    shared = Space(5000, 3, rotation="shared")
    one, two = (FractionalPower(shared, 2, name=name) for name in ("one", "two"))
    zero = torch.zeros(2)
    values = slots(one(X), two(Y))
    assert_mean(values, (one.kernel(X, zero) * two.kernel(Y, zero)).item())
    with pytest.raises(AssertionError):
        assert_mean(values, 0.0)


def test_encoder_depends_on_seed_and_name_only() -> None:
    torch.manual_seed(1)
    one = FractionalPower(Space(20, 3, seed=4), 2, name="price")
    torch.manual_seed(2)
    two = FractionalPower(Space(20, 3, seed=4), 2, name="price")
    assert torch.equal(one(X), two(X))
    for other in (FractionalPower(Space(20, 3, seed=5), 2, name="price"), FractionalPower(Space(20, 3, seed=4), 2)):
        assert not torch.allclose(one(X), other(X), atol=0.1)


# ----------------------------------------------------------------------------------------- the weighted-kernel equation


def weighted_kernel(weights: Tensor, encoder: FractionalPower, delta: Tensor) -> float:
    """Compute (1/m) Σ a_k K_k(delta) for rbf kernels with a bandwidth per entry."""
    kernels = torch.exp(-(delta / encoder.bandwidth).square().sum(dim=-1) / 2)
    return float((weights * kernels).mean())


def pair_of_rotations() -> tuple[Tensor, Tensor]:
    """Make rotations Q and R. The diagonal of R^H Q has angles of 3, 1.2 and 0.4, so one real part is negative."""
    q = unitary(m=3, seed=5)
    c, s = math.cos(0.6), math.sin(0.6)
    givens = torch.tensor([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=torch.complex128)
    phases = torch.polar(torch.ones(3, dtype=torch.float64), torch.tensor([3.0, 1.2, 0.4], dtype=torch.float64))
    return q @ givens @ torch.diag(phases), q


@pytest.mark.parametrize("how", ["one for all slots", "one per slot"])
def test_kernel_weights_of_different_rotations_are_signed(how: str) -> None:
    space = Space(8000, 3, dtype=torch.complex128)
    q, r = pair_of_rotations()
    if how == "one per slot":
        haar = unitary(8000, m=3, seed=6)
        q, r = haar @ q, haar @ r
    widths = torch.tensor([[0.5], [1.0], [2.0]])
    first, second = (FractionalPower(space, 2, bandwidth=widths, rotation=rotation) for rotation in (q, r))
    assert torch.equal(first.frequencies, second.frequencies)
    complex_weights = torch.diagonal(second.rotation.mH @ first.rotation, dim1=-2, dim2=-1).mean(dim=0)
    weights = kernel_weights(first.rotation, second.rotation)
    torch.testing.assert_close(weights, complex_weights.real)
    assert weights.min() < -0.5
    assert weights.max() > 0.5
    values = slots(first(X), second(Y))
    assert_mean(values, weighted_kernel(weights, first, X - Y))
    # Negative controls: magnitudes instead of signed real parts, and no weights at all.
    for unsigned in (weights.abs(), complex_weights.abs(), torch.ones(3)):
        with pytest.raises(AssertionError):
            assert_mean(values, weighted_kernel(unsigned, first, X - Y))


def test_kernel_weights_are_averaged_over_slots() -> None:
    """Slots of opposite sign cancel, unlike their magnitudes."""
    space = Space(8000, 2, dtype=torch.complex128)
    q = unitary(8000, m=2)
    signs = torch.ones(8000, 2, dtype=torch.complex128)
    signs[::2, 0] = -1  # change the sign of the first entry in half of the slots
    signs[1:6000:2, 1] = -1
    signs[:6000:2, 1] = -1  # and of the second entry in three quarters of them
    first, second = (FractionalPower(space, 2, rotation=r) for r in (q * signs[:, None, :], q))
    weights = kernel_weights(first.rotation, second.rotation)
    torch.testing.assert_close(weights, torch.tensor([0.0, -0.5], dtype=torch.float64))
    values = slots(first(X), second(Y))
    kernel = first.kernel(X, Y).item()
    assert_mean(values, -0.25 * kernel)
    for wrong_weight in (0.25, 0.5, 1.0):
        with pytest.raises(AssertionError):
            assert_mean(values, wrong_weight * kernel)


def test_kernel_weights_depend_on_the_order_of_factors() -> None:
    """They belong to R^H Q. Q R^H has the same trace, so the test uses a different kernel for each entry."""
    c, s = math.cos(0.9), math.sin(0.9)
    givens = torch.tensor([[c, -s], [s, c]], dtype=torch.complex128)
    flip = torch.diag(torch.tensor([1, -1], dtype=torch.complex128))
    q, r = flip @ givens @ givens, givens.mH
    space = Space(8000, 2, dtype=torch.complex128)
    first, second = (FractionalPower(space, 2, bandwidth=[[0.5], [2.0]], rotation=one) for one in (q, r))
    weights = kernel_weights(first.rotation, second.rotation)
    other = torch.diagonal(first.rotation @ second.rotation.mH, dim1=-2, dim2=-1).real.mean(dim=0)
    torch.testing.assert_close(weights.sum(), other.sum(), atol=1e-9, rtol=0)
    values = slots(first(X), second(Y))
    assert_mean(values, weighted_kernel(weights, first, X - Y))
    with pytest.raises(AssertionError):
        assert_mean(values, weighted_kernel(other, first, X - Y))


def test_kernel_weights_of_equal_rotations_are_one() -> None:
    q = unitary(5, 20, m=3)
    torch.testing.assert_close(kernel_weights(q, q), torch.ones(5, 3, dtype=torch.float64))
    assert kernel_weights(q[:, None], q).shape == (5, 5, 3)
    assert kernel_weights(q, -q).mean() < 0


# ----------------------------------------------------------------------------------------------- training and gradients


@pytest.mark.parametrize("keep_unitary", [True, False])
@pytest.mark.parametrize("m", [1, 3])
def test_trained_rotation_stays_unitary_with_keep_unitary_only(keep_unitary: bool, m: int) -> None:
    space = Space(20, m, dtype=torch.complex128)
    encoder = FractionalPower(space, 2, trainable_rotation=True, keep_unitary=keep_unitary)
    torch.testing.assert_close(encoder(X), FractionalPower(space, 2)(X))  # before training
    before, target = encoder(X).detach(), space.vectors(["target"])[0]
    optimiser = torch.optim.Adam(encoder.parameters(), lr=0.1)
    for _ in range(30):
        optimiser.zero_grad()
        loss = (encoder(X) - 1.5 * target).abs().square().mean()
        loss.backward()
        optimiser.step()
    after = encoder(X).detach()
    assert is_unitary(encoder.rotation.detach()) == keep_unitary
    assert is_unitary(after) == keep_unitary
    assert ghrr.similarity(after, target) > ghrr.similarity(before, target) + 0.5


def test_fixed_rotation_has_no_parameters() -> None:
    assert not list(FractionalPower(Space(4, 2), 2).parameters())
    assert (
        sum(
            p.numel() for p in FractionalPower(Space(4, 2), 2, trainable_rotation=True, keep_unitary=False).parameters()
        )
        == 16
    )


@pytest.mark.parametrize(("trainable", "keep_unitary"), [(False, True), (True, True), (True, False)])
def test_gradients_equal_finite_differences(trainable: bool, keep_unitary: bool) -> None:
    encoder = FractionalPower(
        Space(3, 2, dtype=torch.complex128), 2, trainable_rotation=trainable, keep_unitary=keep_unitary
    )
    x = torch.randn(2, 2, dtype=torch.float64, generator=generator(), requires_grad=True)
    parameters = tuple(encoder.parameters())
    assert len(parameters) == trainable

    def run(x: Tensor, *values: Tensor) -> Tensor:
        names = [name for name, _ in encoder.named_parameters()]
        out: Tensor = torch.func.functional_call(encoder, dict(zip(names, values, strict=True)), (x,))
        return torch.view_as_real(out)

    assert torch.autograd.gradcheck(run, (x, *parameters))


def test_gradient_ascent_finds_the_encoded_input() -> None:
    encoder = FractionalPower(Space(200, 2), 1)
    target, x = encoder([0.8]), torch.tensor([0.0], requires_grad=True)
    for _ in range(100):
        (gradient,) = torch.autograd.grad(ghrr.similarity(encoder(x), target), x)
        x = (x + 0.3 * gradient).detach().requires_grad_()
    assert abs(x.item() - 0.8) < 0.01


@pytest.mark.parametrize("chunk", [1, 200, 1000])
def test_encoding_in_chunks_equals_encoding_with_gradients(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = FractionalPower(Space(20, 3), 2)
    x = torch.randn(3, 17, 2, generator=generator())
    whole = encoder(x)
    with_gradients = encoder(x.clone().requires_grad_())
    assert with_gradients.requires_grad
    monkeypatch.setattr(torch_implementation, "_CHUNK_PHASES", chunk)
    pieces = encoder(x)
    assert not pieces.requires_grad
    assert not torch.equal(pieces, torch.zeros_like(pieces))
    torch.testing.assert_close(pieces, whole)
    torch.testing.assert_close(pieces, with_gradients.detach())
    with torch.no_grad():
        torch.testing.assert_close(encoder(x.clone().requires_grad_()), whole)


def test_encoder_supports_vmap_jvp_and_grad() -> None:
    encoder = FractionalPower(Space(20, 2, dtype=torch.complex128), 2)
    x = torch.randn(5, 2, dtype=torch.float64, generator=generator())
    torch.testing.assert_close(torch.vmap(encoder)(x), encoder(x))
    torch.testing.assert_close(torch.vmap(encoder)(x[:, None]), encoder(x[:, None]))
    derivative = torch.func.jvp(encoder, (x,), (torch.ones_like(x),))[1]
    step = 1e-6
    torch.testing.assert_close(derivative, (encoder(x + step) - encoder(x - step)) / (2 * step), atol=1e-7, rtol=0)
    gradients = torch.vmap(torch.func.grad(lambda x: ghrr.similarity(encoder(x), encoder.rotation)))(x)
    assert gradients.shape == (5, 2)


def test_autocast_does_not_round_angles() -> None:
    encoder = FractionalPower(Space(50, 2), 2, trainable_rotation=True, keep_unitary=False)
    x = 10 * torch.randn(5, 2, generator=generator())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lower = torch.mm(x, x.mT)
        got, again = encoder(x), encoder(x.clone().requires_grad_())
        found = encoder.decode(encoder(x).detach(), low=-40, high=40)
    assert lower.dtype == torch.bfloat16  # negative control: autocast is active
    assert torch.equal(got, encoder(x))
    assert torch.equal(again, encoder(x))
    assert torch.equal(found.value, encoder.decode(encoder(x).detach(), low=-40, high=40).value)


# --------------------------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_every_number_type_is_accepted(dtype: torch.dtype) -> None:
    encoder = FractionalPower(Space(10, 2, dtype=dtype), 2)
    want = encoder(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert want.dtype == dtype
    array = np.array([[1.0, 2.0], [3.0, 4.0]])
    read_only = array.copy()
    read_only.flags.writeable = False
    inputs: dict[str, Any] = {
        "list": [[1, 2], [3, 4]],
        "list of tensors": [torch.tensor([1, 2]), torch.tensor([3, 4])],
        "tuple": ((1.0, 2.0), (3.0, 4.0)),
        "float64": torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64),
        "float16": torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float16),
        "int64": torch.tensor([[1, 2], [3, 4]]),
        "uint8": torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8),
        "numpy": array,
        "numpy int": array.astype(int),
        "numpy float16": array.astype(np.float16),
        "numpy uint16": array.astype(np.uint16),
        "numpy backwards": array[::-1].copy()[::-1],
        "numpy Fortran": np.asfortranarray(array),
        "numpy read-only": read_only,
        "numpy big-endian": array.astype(">f8"),
        "not contiguous": torch.tensor([[1.0, 3.0], [2.0, 4.0]]).T,
    }
    for name, x in inputs.items():
        torch.testing.assert_close(encoder(x), want, msg=name)
        torch.testing.assert_close(encoder.compose(x), want, msg=name)
        torch.testing.assert_close(encoder.kernel(x, x), torch.ones_like(encoder.kernel(x, x)), msg=name)
    assert not torch.allclose(encoder([[1, 2], [4, 3]]), want, atol=0.1)


def test_double_precision_inputs_are_not_rounded_to_single_precision() -> None:
    encoder = FractionalPower(Space(50, 2), 1)
    x = torch.tensor([[1e6 + 0.1]], dtype=torch.float64)
    angles = x * encoder.frequencies.double()[..., 0]
    want = encoder.rotation * torch.polar(torch.ones_like(angles), angles).reshape(50, 1, 2).to(torch.complex64)
    torch.testing.assert_close(encoder(x)[0], want)
    assert not torch.allclose(encoder(x.float())[0], want, atol=1e-2)  # negative control


@pytest.mark.parametrize("batch", [(), (1,), (0,), (3, 4), (3, 0, 2)])
def test_results_have_the_batch_shape_of_the_input(batch: tuple[int, ...]) -> None:
    encoder = FractionalPower(Space(10, 2), 3)
    x = torch.randn(*batch, 3, generator=generator())
    assert encoder(x).shape == (*batch, 10, 2, 2)
    assert encoder.compose(x).shape == (*batch, 10, 2, 2)
    assert encoder.phases(x).shape == (*batch, 10, 2)
    assert encoder.kernel(x, x).shape == batch
    assert encoder(x.requires_grad_()).shape == (*batch, 10, 2, 2)


def test_fractional_power_passes_check_encoder() -> None:
    x = torch.randn(6, 2, generator=generator())
    ghrr.testing.check_encoder(FractionalPower(Space(10, 3), 2), x)
    with pytest.raises(AssertionError, match="not unitary"):
        ghrr.testing.check_encoder(lambda x: 2 * FractionalPower(Space(10, 3), 2)(x), x)


def test_kernel_broadcasts() -> None:
    encoder = FractionalPower(Space(10, 2), 2)
    x = torch.randn(7, 2, generator=generator())
    matrix = encoder.kernel(x[:, None], x)
    assert matrix.shape == (7, 7)
    torch.testing.assert_close(matrix, matrix.mT)


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([[1.0, 2.0], [3.0, math.nan]], ValueError, "feature 1 of input (1,) is not finite: nan"),
        ([math.inf, 0.0], ValueError, "feature 0 is not finite: inf"),
        (np.full((2, 3, 2), -np.inf), ValueError, "feature 0 of input (0, 0) is not finite: -inf"),
        (
            torch.zeros(4, 3),
            ValueError,
            "needs 2 features on the last axis, (*batch, 2); got a float32 tensor of shape (4, 3)",
        ),
        (3.0, ValueError, "needs 2 features on the last axis, (*batch, 2); got float 3.0"),
        ([], ValueError, "needs 2 features"),
        ("ab", TypeError, "needs numbers, got str 'ab'"),
        (None, TypeError, "needs numbers, got NoneType None"),
        ([[1.0, 2.0], [3.0]], TypeError, "needs numbers, got list"),
        ([torch.tensor(1.0, requires_grad=True), 2.0], TypeError, "needs numbers, got list"),
        (torch.zeros(2, dtype=torch.complex64), TypeError, "needs real numbers, got a complex64"),
        (np.zeros(2) * 1j, TypeError, "needs real numbers"),
    ],
)
def test_invalid_inputs_raise_and_are_named(x: Any, error: type[Exception], message: str) -> None:
    encoder = FractionalPower(Space(10, 3), 2)
    for run, name in (
        (encoder, "FractionalPower: "),
        (encoder.phases, "FractionalPower.phases: "),
        (encoder.compose, "FractionalPower.compose: "),
        (encoder.factors, "FractionalPower.factors: "),
    ):
        with pytest.raises(error, match=f"^{name}{re.escape(message)}"):
            run(x)
    with pytest.raises(error, match=re.escape("kernel(x, y)")):
        encoder.kernel([0.0, 0.0], x)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_features": 0}, ValueError, "n_features must be a whole number of at least 1"),
        ({"n_features": 2.5}, TypeError, "n_features must be a whole number, got float 2.5"),
        (
            {"kernel": "gauss"},
            ValueError,
            "'rbf', 'laplace', 'cauchy', 'sinc', 'matern-1/2', 'matern-3/2', 'matern-5/2'",
        ),
        ({"kernel": "gauss"}, ValueError, "got 'gauss'"),
        ({"kernel": ["rbf", "rbf", "gauss"]}, ValueError, "got 'gauss'"),
        ({"kernel": ["rbf", "rbf"]}, ValueError, "give one kernel, or m=3 of them, one per diagonal entry; got ['rbf'"),
        ({"kernel": []}, ValueError, "give one kernel, or m=3 of them"),
        ({"kernel": 3}, TypeError, "kernel must be a name, a Spectrum or a callable, got 3"),
        ({"bandwidth": 0}, ValueError, "bandwidth must be positive and finite, got 0.0 for feature 0"),
        ({"bandwidth": [1, -2]}, ValueError, "bandwidth must be positive and finite, got -2.0 for feature 1"),
        ({"bandwidth": [1, math.nan]}, ValueError, "bandwidth must be positive and finite, got nan for feature 1"),
        ({"bandwidth": math.inf}, ValueError, "bandwidth must be positive and finite, got inf for feature 0"),
        ({"bandwidth": [[1], [1], [0]]}, ValueError, "got 0.0 for feature 0 of diagonal entry 2"),
        ({"bandwidth": [1, 2, 3]}, ValueError, "one per feature (2,), or one per diagonal entry (3, 1) or (3, 2); got"),
        ({"bandwidth": "wide"}, TypeError, "bandwidth: needs numbers, got str 'wide'"),
        ({"bandwidth": None}, TypeError, "bandwidth: needs numbers, got NoneType None"),
        ({"sampling": "sobol"}, ValueError, "sampling must be one of 'random', 'orthogonal', 'qmc'; got 'sobol'"),
        ({"trainable_rotation": "unitary"}, TypeError, "trainable_rotation must be True or False, got str"),
        (
            {"rotation": torch.eye(2, dtype=torch.complex64)},
            ValueError,
            "of shape (3, 3) or (10, 3, 3), got a complex64",
        ),
        ({"rotation": torch.eye(3)}, ValueError, "rotation must be torch.complex64 of shape (3, 3)"),
        (
            {"rotation": 2 * torch.eye(3, dtype=torch.complex64)},
            ValueError,
            "rotation: slot 0 is not unitary",
        ),
    ],
)
def test_invalid_settings_raise_and_are_named(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match="FractionalPower.*" + re.escape(message)):
        FractionalPower(Space(10, 3), **({"n_features": 2} | settings))


def test_rotation_that_is_no_tensor_raises() -> None:
    with pytest.raises(ValueError, match="rotation must be"):
        FractionalPower(Space(10, 3), 2, rotation=wrong(np.eye(3)))


def test_too_large_numbers_and_too_small_bandwidths_raise() -> None:
    with pytest.raises(ValueError, match=r"numbers as large as 1e\+37 are not finite"):
        FractionalPower(Space(200, 2), 1, kernel="laplace")(torch.tensor([1e37]))
    with pytest.raises(ValueError, match=r"bandwidth 1e-40 is too small for torch.float32"):
        FractionalPower(Space(20, 2), 1, bandwidth=1e-40)


def test_mismatched_shapes_raise() -> None:
    encoder = FractionalPower(Space(20, 2), 1)
    with pytest.raises(ValueError, match=r"kernel\(x, y\): the batch shapes do not broadcast"):
        encoder.kernel(torch.zeros(3, 1), torch.zeros(4, 1))
    with pytest.raises(ValueError, match=r"rotation must be torch.complex64 of shape"):
        FractionalPower(Space(20, 2), 1, rotation=[[1, 0], [0, 1]])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"kernel_weights\(first, second\): first and second differ in m"):
        ghrr.encoding.kernel_weights(Space(5, 2).identity(), Space(5, 3).identity())
    with pytest.raises(ValueError, match="at most 21201 features, got 30000"):
        FractionalPower(Space(2, 1), 30_000, sampling="qmc")
