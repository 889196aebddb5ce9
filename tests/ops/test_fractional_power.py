"""Fractional power encoding: PyTorch in chunks, with derivatives, and CPU kernels equal the reference."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from ghrr import ops
from ghrr.ops import operations, torch_implementation
from ghrr.ops.cpu import phasors
from tests.helpers import generator, rounding, unitary
from tests.ops.test_parity import value_and_gradients
from tests.processes import HANG, needs_fork

DIM, FEATURES = 5, 3
BATCHES = [(), (7,), (2, 3), (0,), (40,)]


def arguments(m: int, batch: tuple[int, ...], scale: float = 1.0) -> list[Tensor]:
    frequencies = torch.randn(DIM, m, FEATURES, dtype=torch.float64, generator=generator(1))
    x = scale * torch.randn(*batch, FEATURES, dtype=torch.float64, generator=generator(2))
    return [unitary(DIM, m=m), frequencies, x]


def single(inputs: list[Tensor]) -> list[Tensor]:
    return [x.to(torch.complex64 if x.is_complex() else torch.float32) for x in inputs]


def expected(inputs: list[Tensor]) -> Tensor:
    with ops.backend("reference"):
        return ops.fractional_power(*[x.to(torch.complex128 if x.is_complex() else torch.float64) for x in inputs])


def assert_equal(got: Tensor, inputs: list[Tensor]) -> None:
    want = expected(inputs)
    assert got.shape == want.shape
    assert got.dtype == inputs[0].dtype
    angles = (inputs[1].double() * inputs[2].double()[..., None, None, :]).abs().sum(dim=-1)
    scale = 1.0 + float(angles.max()) if angles.numel() else 1.0
    torch.testing.assert_close(got.to(want.dtype), want, atol=rounding(got.dtype, terms=8, scale=scale), rtol=0)


@pytest.fixture
def numba_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use numba's loops for tensors of any size, in chunks of a few rows, with two threads."""
    monkeypatch.setattr(operations, "_MIN_PHASES", 1)
    monkeypatch.setattr(torch_implementation, "_CHUNK_PHASES", 50)
    torch.set_num_threads(2)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("m", range(1, 9))
def test_pytorch_equals_reference(m: int, batch: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_implementation, "_CHUNK_PHASES", 50)
    with ops.backend("torch"):
        for inputs in (arguments(m, batch), single(arguments(m, batch))):
            assert_equal(ops.fractional_power(*inputs), inputs)


@pytest.mark.parametrize("m", range(1, 9))
def test_gradients_equal_reference(m: int) -> None:
    inputs = arguments(m, (2, 3))
    with ops.backend("reference"):
        want = value_and_gradients(ops.fractional_power, inputs)
    got = value_and_gradients(ops.fractional_power, inputs)
    torch.testing.assert_close(got, want)


@pytest.mark.usefixtures("numba_for_all")
@pytest.mark.parametrize("batch", BATCHES[1:], ids=str)
@pytest.mark.parametrize("m", range(1, 9))
def test_kernel_equals_reference(m: int, batch: tuple[int, ...]) -> None:
    inputs = single(arguments(m, batch))
    assert operations._cpu_supports_encoding(*inputs) == (0 not in batch)
    torch.use_deterministic_algorithms(True)  # new memory holds NaN
    try:
        assert_equal(ops.fractional_power(*inputs), inputs)
    finally:
        torch.use_deterministic_algorithms(False)
    conjugated = [inputs[0].conj().resolve_conj().conj(), inputs[1], inputs[2].mT.contiguous().mT]
    assert_equal(ops.fractional_power(*conjugated), inputs)


@pytest.mark.usefixtures("numba_for_all")
def test_transposed_rotation_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a rotation that is transposed does not pass."""
    inputs = single(arguments(2, (7,)))
    assert_equal(ops.fractional_power(*inputs), inputs)
    with pytest.raises(AssertionError):
        assert_equal(ops.fractional_power(inputs[0].mT.contiguous(), *inputs[1:]), inputs)


def test_loop_is_compiled_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    rotate = phasors.rotate_kernel.__wrapped__(2)
    angles, q = torch.zeros(3, 2), torch.randn(8, generator=generator())
    out = torch.empty(3, 8)
    rotate(angles.numpy(), q.numpy(), q.numpy(), out.numpy())
    assert torch.equal(out, q.expand(3, 8))


def test_cosines_and_sines_are_exact_to_rounding_over_their_whole_range() -> None:
    limit = phasors.LARGEST_ANGLE
    random = limit * (2 * torch.rand(1 << 20, generator=generator()) - 1)
    quarters = (torch.arange(-2000, 2001) * (torch.pi / 2)).float()
    angles = torch.cat([random, quarters, torch.tensor([0.0, limit, -limit, 1e-30])])
    cos, sin = torch.empty_like(angles), torch.empty_like(angles)
    phasors.cos_sin(angles.numpy(), cos.numpy(), sin.numpy())
    for got, exact in ((cos, torch.cos(angles.double())), (sin, torch.sin(angles.double()))):
        assert float((got - exact).abs().max()) < 2 * torch.finfo(torch.float32).eps


@pytest.mark.usefixtures("numba_for_all")
@pytest.mark.parametrize("size", [1e5, 1e30])
def test_huge_angles_go_to_pytorch(size: float) -> None:
    inputs = single(arguments(2, (7,), scale=size))
    with ops.backend("torch"):
        want = ops.fractional_power(*inputs)
    assert torch.equal(ops.fractional_power(*inputs), want)
    usual = single(arguments(2, (7,)))
    with ops.backend("torch"):
        want = ops.fractional_power(*usual)
    assert not torch.equal(
        ops.fractional_power(*usual), want
    )  # negative control: others are not, and round differently


@pytest.mark.usefixtures("numba_for_all")
def test_tensors_that_are_not_plain_go_to_pytorch() -> None:
    rotation, frequencies, x = single(arguments(2, (7,)))
    assert operations._cpu_supports_encoding(rotation, frequencies, x)
    assert not operations._cpu_supports_encoding(rotation, frequencies, x.double())
    trained = rotation.clone().requires_grad_()
    assert ops.fractional_power(trained, frequencies, x).requires_grad
    with torch.no_grad():
        assert torch.equal(
            ops.fractional_power(trained, frequencies, x), ops.fractional_power(rotation, frequencies, x)
        )
    assert ops.fractional_power(rotation, frequencies, torch.full_like(x, torch.nan)).isnan().all()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        assert forward_ad.unpack_dual(ops.fractional_power(rotation, frequencies, dual)).tangent is not None


@pytest.mark.usefixtures("numba_for_all")
def test_vmap_over_numbers_and_over_rotations() -> None:
    rotation, frequencies, x = single(arguments(2, (7,)))
    together = ops.fractional_power(rotation, frequencies, x)
    torch.testing.assert_close(torch.vmap(lambda row: ops.fractional_power(rotation, frequencies, row))(x), together)
    several = torch.stack([rotation, 1j * rotation])
    each = torch.vmap(lambda one: ops.fractional_power(one, frequencies, x))(several)
    torch.testing.assert_close(each, torch.stack([together, 1j * together]))


@pytest.mark.usefixtures("numba_for_all")
def test_encoding_from_several_threads() -> None:
    inputs = single(arguments(3, (40,)))
    want = ops.fractional_power(*inputs)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: ops.fractional_power(*inputs), range(20)))
    assert all(torch.equal(result, want) for result in results)


def _encode_in_child(inputs: list[Tensor], queue: multiprocessing.Queue[list[float]]) -> None:
    queue.put(torch.view_as_real(ops.fractional_power(*inputs)).flatten().tolist())


@needs_fork
@pytest.mark.usefixtures("numba_for_all")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_encoding_in_a_forked_process() -> None:
    """As the workers of a data loader do: the threads of the parent do not exist there."""
    inputs = single(arguments(2, (7,)))
    want = ops.fractional_power(*inputs)
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[list[float]] = context.Queue()
    child = context.Process(target=_encode_in_child, args=(inputs, queue))
    child.start()
    got = queue.get(timeout=HANG)
    child.join(timeout=HANG)
    assert got == torch.view_as_real(want).flatten().tolist()


WITHOUT_NUMBA = """
import sys, warnings
{prepare}
import torch
from ghrr import ops
from ghrr.ops import operations
operations._MIN_PHASES = 0
eye, frequencies = torch.eye(2, dtype=torch.complex64).repeat(4, 1, 1), torch.ones(4, 2, 3)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        out = ops.fractional_power(eye, frequencies, torch.zeros(5, 3))
assert torch.equal(out, eye.expand(5, -1, -1, -1))
print(len(caught), *[w.message for w in caught])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (
            "import importlib.util as u; find = u.find_spec; u.find_spec = lambda x: x != 'numba' and find(x) or None",
            "0",
        ),
        (
            "sys.modules['llvmlite'] = None",
            "1 numba backend failed (ModuleNotFoundError",
        ),
    ],
    ids=["missing", "broken"],
)
def test_encoding_without_numba(prepare: str, said: str) -> None:
    script = WITHOUT_NUMBA.format(prepare=prepare)
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.startswith(said)


@pytest.mark.slow
def test_numba_is_not_imported_for_small_batches() -> None:
    script = (
        "import sys, torch, ghrr; ghrr.encoding.FractionalPower(ghrr.Space(100, 2), 3)(torch.zeros(5, 3)); "
        "print('numba' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown == "False\n"
