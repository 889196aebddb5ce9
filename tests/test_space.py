"""Space: rotation regimes, atoms, sampling; noise and crosstalk equal theory."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.seeding import labelled_keys, labelled_uniform, slot_uniform
from ghrr.unitary import orthonormalize
from tests.helpers import assert_mean, assert_std, generator, haar_product, unitary

REGIMES: dict[str, dict[str, Any]] = {
    "varying": {},
    "fixed": {"rotation": "fixed"},
    "shared": {"rotation": "shared"},
    "given, one for all slots": {"rotation": unitary(m=3)},
    "given, one per slot": {"rotation": unitary(20, m=3, dtype=torch.complex64)},
    "diagonality 0": {"diagonality": 0.0},
    "diagonality 0.4": {"diagonality": 0.4},
    "diagonality 1": {"diagonality": 1.0},
    "diagonality 0.7, shared": {"diagonality": 0.7, "rotation": "shared"},
    "diagonality 0.7, fixed": {"diagonality": 0.7, "rotation": "fixed"},
    "signs": {"phases": 2},
    "signs, shared": {"phases": 2, "rotation": "shared"},
    "five roots, shared": {"phases": 5, "rotation": "shared"},
}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_hypervectors_are_unitary_in_every_regime(regime: str, dtype: torch.dtype) -> None:
    if dtype == torch.complex128 and regime == "given, one per slot":
        with pytest.raises(ValueError, match="a rotation in complex64 is not unitary to the precision of"):
            Space(20, 3, dtype=dtype, **REGIMES[regime])
        return
    space = Space(20, 3, dtype=dtype, **REGIMES[regime])
    for x in (space.vectors(["a", "b"]), space.random(2, generator=generator())):
        assert x.shape == (2, 20, 3, 3)
        assert x.dtype == dtype
        assert ghrr.unitary.is_unitary(x)


@pytest.mark.parametrize("regime", REGIMES)
def test_noise_and_crosstalk_equal_theory(regime: str) -> None:
    space = Space(20, 3, **REGIMES[regime])
    k1, k2, v, w = space.random(4, 2000, generator=generator(3))
    for values, std in (
        (ghrr.similarity(v, w), space.noise_std),
        (ghrr.similarity(v, ghrr.bind(v, w)), None),
        (ghrr.similarity(ghrr.multibind([ghrr.adjoint(k1), k2, v]), w), space.crosstalk_std),
    ):
        assert_mean(values, 0.0)
        if std is not None:
            assert_std(values, std)


@pytest.mark.parametrize("phases", ["uniform", 2, 3])
def test_noise_of_fhrr_equals_theory(phases: str | int) -> None:
    space = Space(100, 1, phases=phases)
    x, y = space.random(2, 4000, generator=generator())
    assert_std(ghrr.similarity(x, y), space.noise_std)
    assert space.noise_std == pytest.approx(1 / math.sqrt(100 if phases == 2 else 200))


def test_crosstalk_of_shared_rotation_uses_that_rotation() -> None:
    average = math.sqrt(4 / 3 / 10 / 2) / 2
    spaces = [Space(10, 2, rotation="shared", seed=seed) for seed in range(10)]
    shared = max(spaces, key=lambda space: abs(space.crosstalk_std - average))
    given = Space(10, 2, rotation=shared.rotations(["any"])[0], seed=1)
    assert shared.crosstalk_std == pytest.approx(given.crosstalk_std, rel=1e-6)
    k1, k2, v, w = shared.random(4, 20_000, generator=generator())
    values = ghrr.similarity(ghrr.multibind([ghrr.adjoint(k1), k2, v]), w)
    assert_std(values, shared.crosstalk_std)
    with pytest.raises(AssertionError):  # negative control: the average over all rotations is visibly another number
        assert_std(values, average)


def test_noise_is_cheap_to_predict_for_large_matrices() -> None:
    assert 0 < Space(1, 300, diagonality=0.3).noise_std < 1


def test_own_rotations_make_noise_depend_on_the_total_dimension_only() -> None:
    assert len({round(Space.from_total(3600, m).noise_std, 12) for m in (1, 2, 3, 5, 6)}) == 1
    own, shared = Space(100, 4), Space(100, 4, rotation="shared")
    assert shared.noise_std / own.noise_std == pytest.approx(2)  # the square root of m
    with pytest.raises(AssertionError):  # negative control: the laws cannot be swapped
        x, y = shared.random(2, 4000, generator=generator())
        assert_std(ghrr.similarity(x, y), own.noise_std)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_fixed_against_varying_rotations_with_shared_phases(m: int) -> None:
    dim = 60
    for slots in (1, dim):
        q, r = unitary(2, 4000, slots, m=m)
        assert_std(ghrr.similarity(q, r), 1 / (m * math.sqrt(2 * slots)))


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_commutativity_has_mean_one_over_m_squared(m: int) -> None:
    a, b = Space(30, m, dtype=torch.complex128).random(2, 3000, generator=generator())
    values = ghrr.commutativity(a, b)
    if m == 1:
        torch.testing.assert_close(values, torch.ones_like(values))
    else:
        assert_mean(values, 1 / m**2)


@pytest.mark.parametrize("regime", ["varying", "diagonality 0.4"])
def test_commutativity_given_the_rotations(regime: str) -> None:
    """Averaged over phases it is (1/m) Re sum of conj(Q_bb) R_bb (R^H Q)_bb, for every pair of rotations."""
    m, pairs, draws = 3, 20, 4000
    space = Space(1, m, dtype=torch.complex128, **REGIMES[regime])
    q, r = space.random(2, pairs, generator=generator(1))
    diagonal = [torch.diagonal(x[:, 0], dim1=-2, dim2=-1) for x in (q, r, r.mH @ q)]
    law = (diagonal[0].conj() * diagonal[1] * diagonal[2]).real.mean(dim=-1)
    angles = 2 * math.pi * torch.rand(2, pairs, draws, 1, 1, m, dtype=torch.float64, generator=generator(3))
    phases = torch.polar(torch.ones_like(angles), angles)
    measured = ghrr.commutativity(q[:, None] * phases[0], r[:, None] * phases[1])
    assert measured.shape == (pairs, draws)
    for values, expected in zip(measured, law.tolist(), strict=True):
        assert_mean(values, expected)
    with pytest.raises(AssertionError):  # negative control: the law of another pair does not do
        for values, expected in zip(measured, law.roll(1).tolist(), strict=True):
            assert_mean(values, expected)


def test_diagonality_one_commutes_and_others_do_not() -> None:
    a, b = Space(50, 3, diagonality=1.0).vectors(["a", "b"])
    torch.testing.assert_close(ghrr.bind(a, b), ghrr.bind(b, a))
    a, b = Space(50, 3, diagonality=0.9).vectors(["a", "b"])
    assert not torch.allclose(ghrr.bind(a, b), ghrr.bind(b, a), atol=1e-2)


def test_rotation_regimes_share_rotations_as_documented() -> None:
    def rotation(space: Space, name: str) -> torch.Tensor:
        """Q, as far as it can be seen: A_1^H A_0 between two atoms' slots cancels the phases up to a diagonal."""
        return space.vectors([name])[0].abs()

    fixed, shared, varying = (Space(20, 3, rotation=word) for word in ("fixed", "shared", "varying"))
    assert torch.allclose(rotation(fixed, "a"), rotation(fixed, "a")[:1], atol=1e-6)
    assert not torch.allclose(rotation(fixed, "a"), rotation(fixed, "b"), atol=1e-2)
    assert torch.allclose(rotation(shared, "a"), rotation(shared, "b"), atol=1e-6)
    assert not torch.allclose(rotation(shared, "a"), rotation(shared, "a")[:1], atol=1e-2)
    assert not torch.allclose(rotation(varying, "a"), rotation(varying, "b"), atol=1e-2)
    given = unitary(20, m=3)
    assert torch.allclose(rotation(Space(20, 3, rotation=given), "a"), given.abs().float(), atol=1e-6)


def test_roots_of_unity() -> None:
    x = Space(200, 1, phases=4).vectors(["a"]).flatten()
    torch.testing.assert_close(x**4, torch.ones_like(x))
    assert len(torch.unique(torch.round(x.angle(), decimals=3).abs())) == 3  # 0, ±90°, 180°


def test_hypervectors_for_m_1_are_phases() -> None:
    x = Space(500, 1).random(100, generator=generator())
    torch.testing.assert_close(x.abs(), torch.ones_like(x.abs()))
    assert_mean(x.real, 0.0)
    assert_std(x.real, math.sqrt(0.5))


# --------------------------------------------------------------------------------------------------------------- atoms


def test_atoms_depend_on_seed_and_name_only() -> None:
    space = Space(64, 3, seed=5)
    one = space.vectors(["b", "a", "c"])
    two = Space(64, 3, seed=5).vectors(["a"])
    assert torch.equal(one[1], two[0])
    assert torch.equal(one[1], space.atoms("a")[0].tensor)
    assert not torch.allclose(one[1], Space(64, 3, seed=6).vectors(["a"])[0], atol=1e-2)
    assert not torch.allclose(one[0], one[1], atol=1e-2)


def test_atoms_of_smaller_space_are_prefixes() -> None:
    large, small = Space(100, 3).vectors(["a"]), Space(30, 3).vectors(["a"])
    assert torch.equal(large[:, :30], small)


def test_atoms_do_not_depend_on_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"name {i}" for i in range(20)]
    whole = Space(10, 3).vectors(names)
    monkeypatch.setattr("ghrr.space.sampling._BLOCK_NUMBERS", 500)
    assert torch.equal(Space(10, 3).vectors(names), whole)


@pytest.mark.slow
def test_atoms_are_the_same_in_another_process() -> None:
    code = (
        "import ghrr, torch; print(ghrr.Space(8, 2, seed=3, dtype=torch.complex128).vectors(['ä', 'b']).sum().item())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert complex(other) == Space(8, 2, seed=3, dtype=torch.complex128).vectors(["ä", "b"]).sum().item()


def philox_words(key: int, count: int) -> list[int]:
    """Philox4x64-10 from its definition (Salmon et al. 2011): the oracle for an atom."""
    mask = 2**64 - 1
    out: list[int] = []
    counter = 0
    while len(out) < count:
        counter += 1  # NumPy starts at one
        c = [counter & mask, counter >> 64 & mask, 0, 0]
        k0, k1 = key & mask, key >> 64
        for _ in range(10):
            p0, p1 = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
            c = [(p1 >> 64) ^ c[1] ^ k0, p1 & mask, (p0 >> 64) ^ c[3] ^ k1, p0 & mask]
            k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
        out += c
    return out[:count]


@pytest.mark.parametrize("version", [1, 2])
def test_atom_equals_documented_construction(version: int) -> None:
    """In plain Python: hash of seed and name, Philox stream, phases. No library version can change it unnoticed."""
    import cmath
    import hashlib

    digest = hashlib.sha256(b'["ghrr-1", 7, "phases", "Ada"]').digest()
    words = philox_words(int.from_bytes(digest[:16], "little"), 6)
    if version == 1:
        uniform = [(word >> 11) * 2.0**-53 for word in words]
    else:
        uniform = [half * 2.0**-32 for word in words[:3] for half in (word % 2**32, word >> 32)]
    want = torch.tensor([cmath.exp(2j * math.pi * u) for u in uniform], dtype=torch.complex128)
    space = Space(6, 1, seed=7, dtype=torch.complex128, atom_version=version)
    torch.testing.assert_close(space.vectors(["Ada"]).flatten(), want)


def test_eight_slots_share_the_blocks_of_a_stream() -> None:
    """In plain Python: number n of slot 8 g + h is the half word h of block 3 g + n, if a slot takes 3 numbers."""
    keys = labelled_keys(["Ada"], 7)
    words = philox_words(int(keys[0, 0]) + (int(keys[0, 1]) << 64), 4 * 3 * 3)
    halves = [half * 2.0**-32 for word in words for half in (word % 2**32, word >> 32)]
    want = [[halves[8 * (3 * (slot // 8) + n) + slot % 8] for n in range(3)] for slot in range(19)]
    assert slot_uniform(keys, 19, 3)[0].tolist() == want


@pytest.mark.parametrize("rotation", ["varying", "fixed", "shared"])
def test_random_uses_default_generator_of_torch(rotation: str) -> None:
    space = Space(10, 2, rotation=rotation)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        one, next_one = space.random(3), space.random(3)
        torch.manual_seed(5)
        again = space.random(3)
    assert torch.equal(one, again)
    assert not torch.equal(one, next_one)


@pytest.mark.parametrize("phases", ["uniform", 3])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_atoms_of_version_1_stay_the_same(m: int, phases: str | int) -> None:
    """The formula of ghrr 0.1: numbers of 53 bits, QR of Gaussian matrices."""
    space = Space(50, m, seed=2, phases=phases, dtype=torch.complex128, atom_version=1)
    u = labelled_uniform(2 * space.total_dim, 2, "rotation", "colour", "Zürich").reshape(space.dim, m, m, 2)
    turns = labelled_uniform(space.dim * m, 2, "phases", "colour", "Zürich").reshape(space.dim, m)
    turns = turns if isinstance(phases, str) else torch.floor(turns * phases) / phases
    gaussians = torch.polar(torch.sqrt(-2 * torch.log1p(-u[..., 0])), 2 * torch.pi * u[..., 1])
    rotation = orthonormalize(gaussians) if m > 1 else torch.ones(space.shape, dtype=torch.complex128)
    want = rotation * torch.polar(torch.ones_like(turns), 2 * torch.pi * turns)[:, None, :]
    got = space.vectors(["a", "Zürich"], namespace="colour")
    torch.testing.assert_close(got[1], want, rtol=0, atol=1e-11)
    assert not torch.allclose(got[0], want)  # negative control: another name
    torch.testing.assert_close(space.rotations(["Zürich"], namespace="colour")[0], rotation, rtol=0, atol=1e-11)


@pytest.mark.parametrize("phases", ["uniform", 3])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_large_atoms_equal_documented_construction(m: int, phases: str | int) -> None:
    """Numbers of 32 bits, the product of reflections: the same seed and name always give the same atom."""
    space = Space(1100, m, seed=2, phases=phases, dtype=torch.complex128)  # not a multiple of what a loop takes at once
    u = slot_uniform(labelled_keys(["Zürich"], 2, "rotation", "colour"), space.dim, m * m)[0]
    turns = slot_uniform(labelled_keys(["Zürich"], 2, "phases", "colour"), space.dim, m)[0]
    turns = turns if isinstance(phases, str) else torch.floor(turns * phases) / phases
    rotation = haar_product(u) if m > 1 else torch.ones(space.shape, dtype=torch.complex128)
    want = rotation * torch.polar(torch.ones_like(turns), 2 * torch.pi * turns)[:, None, :]
    got = space.vectors(["a", "Zürich"], namespace="colour")
    torch.testing.assert_close(got[1], want, rtol=0, atol=1e-14)
    assert not torch.allclose(got[0], want)  # negative control: another name
    torch.testing.assert_close(space.rotations(["Zürich"], namespace="colour")[0], rotation, rtol=0, atol=1e-14)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("regime", REGIMES)
def test_phases_of_an_atom_do_not_depend_on_its_rotation(regime: str, version: int) -> None:
    space = Space(20, 3, dtype=torch.complex64, atom_version=version, **REGIMES[regime])
    phases = ghrr.bind(ghrr.adjoint(space.rotations(["a"])), space.vectors(["a"]))
    torch.testing.assert_close(phases, torch.diag_embed(torch.diagonal(phases, dim1=-2, dim2=-1)), rtol=0, atol=1e-6)
    plain = Space(20, 3, phases=space.phases, atom_version=version)
    same = ghrr.bind(ghrr.adjoint(plain.rotations(["a"])), plain.vectors(["a"]))
    torch.testing.assert_close(phases, same, rtol=0, atol=2e-6)


@pytest.mark.parametrize("dim", [50, 1100])  # PyTorch, kernel
@pytest.mark.parametrize("m", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("version", [1, 2])
def test_atoms_in_single_precision_are_rounded_once(version: int, m: int, dim: int) -> None:
    single, double = (Space(dim, m, dtype=dtype, atom_version=version) for dtype in (torch.complex64, torch.complex128))
    assert torch.equal(single.vectors(["a", "b"]), double.vectors(["a", "b"]).to(torch.complex64))
    assert torch.equal(single.rotations(["a", "b"]), double.rotations(["a", "b"]).to(torch.complex64))


def test_random_depends_only_on_its_generator() -> None:
    space, state = Space(10, 2), torch.get_rng_state()
    one, two = (space.random(3, generator=space.generator("x")) for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, space.random(3, generator=space.generator("y")))
    assert not torch.equal(one, space.random(3, generator=Space(10, 2, seed=1).generator("x")))
    assert torch.equal(torch.get_rng_state(), state)
    again = space.generator("x")
    assert not torch.equal(space.random(3, generator=again), space.random(3, generator=again))
    assert space.random(generator=again).shape == (10, 2, 2)
    assert space.random(0, generator=again).shape == (0, 10, 2, 2)


def test_neutral_elements() -> None:
    space = Space(10, 3)
    a = space.vectors(["a"])[0]
    torch.testing.assert_close(ghrr.bind(space.identity(), a), a)
    torch.testing.assert_close(ghrr.bind(a, space.identity(2)), a.expand(2, 10, 3, 3))
    assert torch.equal(space.zeros() + a, a)
    assert space.zeros(4, 2).shape == (4, 2, 10, 3, 3)
    assert not torch.allclose(ghrr.bind(space.zeros(), a), a)


# ----------------------------------------------------------------------------------------------- description, equality


def test_from_total_rounds_to_the_nearest_and_reports_it() -> None:
    for total in range(49, 400):
        space = Space.from_total(total, 7)
        assert abs(space.total_dim - total) <= 49 / 2
        assert bool(space.rounding) == (space.total_dim != total)
    assert Space.from_total(600, 7).rounding == "total_dim 588, nearest to 600"
    assert Space.from_total(600, 7) == Space(12, 7)  # a note, not a property


def test_spaces_with_equal_settings_are_equal() -> None:
    q = unitary(m=3)
    same = [Space(5, 3, rotation=q), Space(5, 3, rotation=q.clone())]
    assert same[0] == same[1]
    assert hash(same[0]) == hash(same[1])
    others = [Space(5, 3), Space(5, 3, seed=1), Space(5, 3, rotation="fixed"), Space(6, 3), Space(5, 2)]
    others += [Space(5, 3, rotation=unitary(m=3, seed=1)), Space(5, 3, phases=4), Space(5, 3, diagonality=0.5)]
    others += [Space(5, 3, dtype=torch.complex128), Space(5, 3, atom_version=1)]
    assert len({same[0], *others}) == 11
    assert Space(5, 3) != "Space(dim=5, m=3, seed=0)"


def test_a_given_rotation_cannot_be_changed_from_outside() -> None:
    q = unitary(m=2)
    space = Space(5, 2, rotation=q)
    before = space.vectors(["a"])
    q.zero_()
    assert torch.equal(space.vectors(["a"]), before)


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({}, "Space(dim=5, m=2, seed=0)"),
        ({"rotation": "fixed", "seed": 4}, "Space(dim=5, m=2, rotation='fixed', seed=4)"),
        ({"diagonality": 0.5, "phases": 3}, "Space(dim=5, m=2, diagonality=0.5, phases=3, seed=0)"),
        ({"dtype": torch.complex128}, "Space(dim=5, m=2, seed=0, dtype=torch.complex128)"),
        ({"atom_version": 1}, "Space(dim=5, m=2, seed=0, atom_version=1)"),
        ({"atom_version": 2}, "Space(dim=5, m=2, seed=0)"),
        ({"rotation": unitary(m=2)}, "Space(dim=5, m=2, rotation=<a complex128 tensor of shape (2, 2)>, seed=0)"),
    ],
)
def test_repr(settings: dict[str, Any], shown: str) -> None:
    assert repr(Space(5, 2, **settings)) == shown


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dim": 0}, ValueError, "Space: dim must be a whole number of at least 1, got 0"),
        ({"m": 0}, ValueError, "Space: m must be a whole number of at least 1, got 0"),
        ({"m": 2.5}, TypeError, "Space: m must be a whole number, got float 2.5"),
        ({"m": True}, TypeError, "Space: m must be a whole number, got bool True"),
        ({"dim": 2**70}, ValueError, "Space: dim must be below 2**62 in size, got an integer of 71 bits"),
        ({"seed": 10**5000}, ValueError, "Space: seed must be below 2**62"),
        ({"phases": 2**70}, ValueError, "Space: phases must be below 2**62"),
        ({"diagonality": "0.5"}, TypeError, "Space: diagonality must be a real number, got str '0.5'"),
        ({"rotation": np.eye(3)}, ValueError, "Space: rotation (or a unitary tensor) must be one of"),
        ({"rotation": torch.eye(3, dtype=torch.complex64, device="meta")}, ValueError, "rotation must be a complex64"),
        ({"rotation": torch.eye(3, dtype=torch.complex64).to_sparse()}, ValueError, "rotation must be a complex64"),
        ({"seed": -1}, ValueError, "Space: seed must be a whole number of at least 0, got -1"),
        ({"rotation": "spinning"}, ValueError, "must be one of 'varying', 'fixed', 'shared'; got 'spinning'"),
        (
            {"rotation": unitary(m=2)},
            ValueError,
            "complex128 tensor of shape (3, 3) or (10, 3, 3); got a complex128",
        ),
        ({"rotation": torch.eye(3)}, ValueError, "complex128 tensor of shape (3, 3)"),
        ({"rotation": 2 * unitary(m=3)}, ValueError, "Space: rotation: slot 0 is not unitary"),
        ({"rotation": unitary(m=3) * math.nan}, ValueError, "holds a number that is not finite"),
        ({"rotation": unitary(m=3), "diagonality": 0.5}, ValueError, "has its own diagonality"),
        ({"diagonality": 1.5}, ValueError, "Space: diagonality must lie in [0.0, 1.0], got 1.5"),
        ({"diagonality": -0.1}, ValueError, "Space: diagonality must lie in [0.0, 1.0], got -0.1"),
        ({"diagonality": 0.5, "m": 1}, ValueError, "a 1x1 matrix has diagonality 1, so 0.5 needs m >= 2"),
        ({"atom_version": 3}, ValueError, "Space: atom_version must be 1 or 2, got 3"),
        ({"atom_version": "2"}, TypeError, "Space: atom_version must be a whole number, got str '2'"),
        ({"phases": "normal"}, ValueError, "must be one of 'uniform'; got 'normal'"),
        ({"phases": 1}, ValueError, "phases must be a whole number of at least 2, got 1"),
        ({"dtype": torch.float32}, ValueError, "dtype must be torch.complex64 or torch.complex128, got torch.float32"),
    ],
)
def test_bad_settings(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Space(**({"dim": 10, "m": 3} | arguments))


def test_bad_names_and_totals_are_rejected() -> None:
    for names in ("ab", 3, None):
        with pytest.raises(TypeError, match=r"give a list of names, as in \['a', 'b'\]"):
            Space(4, 2).vectors(names)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be a string that is not empty, got list \['a', 'b'\]"):
        Space(4, 2).atoms(["a", "b"])  # type: ignore[arg-type]
    assert Space(4, 2).vectors({"a": 1, "b": 2}.keys()).shape == (2, 4, 2, 2)  # type: ignore[arg-type]
    assert Space(4, 2).vectors([]).shape == Space(4, 2).rotations([]).shape == (0, 4, 2, 2)
    for method in ("identity", "zeros"):
        with pytest.raises(ValueError, match=rf"Space.{method}: a batch size must be a whole number of at least 0"):
            getattr(Space(4, 2), method)(-1)
    with pytest.raises(TypeError, match=r"Space.random: a batch size must be a whole number, got tuple \(2, 3\)"):
        Space(4, 2).random((2, 3), generator=generator())  # type: ignore[arg-type]
    for name in ("", 3, None):
        with pytest.raises(TypeError, match="must be a string that is not empty"):
            Space(4, 2).vectors([name])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="total_dim must be a whole number of at least 9, got 8"):
        Space.from_total(8, 3)
    with pytest.raises(TypeError, match=r"Space.random: generator must be a torch.Generator"):
        Space(4, 2).random(3, generator=0)  # type: ignore[arg-type]


def test_check_explains_mismatch() -> None:
    space = Space(4, 2)
    space.check(space.zeros(3))
    with pytest.raises(ValueError, match=r"shape \(3, 5, 2, 2\) does not fit Space\(dim=4, m=2, seed=0\)"):
        space.check(torch.zeros(3, 5, 2, 2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="dtype complex64"):
        space.check(space.zeros().to(torch.complex128))


@pytest.mark.parametrize(("dim", "m"), [(30, 3), (100, 3), (1000, 1), (400, 2)])
def test_atom_is_bit_identical_in_any_batch(dim: int, m: int) -> None:
    space = Space(dim, m)
    names = [f"name {number}" for number in range(100)]
    assert torch.equal(space.vectors(names)[:3], torch.cat([space.vectors([name]) for name in names[:3]]))
