"""Hypervectors are plain tensors and work with the tools of PyTorch. For m = 1 they equal hypervectors of torch-hd."""

from __future__ import annotations

import copy
import io
import shutil
import warnings

import einops
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import ghrr
from ghrr import Space
from tests.helpers import generator

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # from torch-hd and its dependencies
    import torchhd
    from torchhd.tensors.fhrr import FHRRTensor

X = Space(12, 2).random(6, generator=generator())


def test_deepcopy_and_pickle_free_saving() -> None:
    assert torch.equal(copy.deepcopy(X), X)
    buffer = io.BytesIO()
    torch.save({"x": X}, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer, weights_only=True)["x"], X)


def test_hypervectors_in_state_dict_are_restored() -> None:
    class Memory(torch.nn.Module):
        def __init__(self, items: Tensor) -> None:
            super().__init__()
            self.items = torch.nn.Parameter(items.clone())
            self.register_buffer("keys", items.clone())

    source, target = Memory(X), Memory(torch.zeros_like(X))
    buffer = io.BytesIO()
    torch.save(source.state_dict(), buffer)
    buffer.seek(0)
    target.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(target.items, X)
    assert torch.equal(copy.deepcopy(target).items, X)


@pytest.mark.slow
def test_dataloader_workers_load_hypervectors() -> None:
    loader = DataLoader(TensorDataset(X), batch_size=2, num_workers=2, multiprocessing_context="spawn")
    assert torch.equal(torch.cat([batch for (batch,) in loader]), X)


class Atoms(torch.utils.data.Dataset[Tensor]):
    """A data set that makes its hypervectors in the worker."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Tensor:
        return self.space.vectors([str(index)])[0]


@pytest.mark.slow
def test_spaces_can_be_sent_to_dataloader_workers() -> None:
    space = Space(12, 2, rotation="shared")
    loader = DataLoader(Atoms(space), batch_size=2, num_workers=2, multiprocessing_context="spawn")
    assert torch.equal(torch.cat(list(loader)), space.vectors(["0", "1", "2", "3"]))


def test_einops_rearranges_hypervectors() -> None:
    flat = einops.rearrange(X, "n d i j -> n (d i j)")
    assert torch.equal(einops.rearrange(flat, "n (d i j) -> n d i j", i=2, j=2), X)
    torch.testing.assert_close(einops.einsum(X, X, "n d i k, n d k j -> n d i j"), ghrr.bind(X, X))


def test_vmap_over_memories() -> None:
    queries, items = X[:2], X.reshape(2, 3, 12, 2, 2)
    got = torch.vmap(ghrr.pairwise_similarity)(queries, items)
    torch.testing.assert_close(got, torch.stack([ghrr.pairwise_similarity(q, i) for q, i in zip(queries, items)]))  # noqa: B905


def test_forward_mode_derivatives() -> None:
    a, b = X[0].to(torch.complex128), X[1].to(torch.complex128)
    tangent = torch.func.jvp(lambda x: ghrr.similarity(ghrr.bind(x, a), b), (a,), (b,))[1]
    torch.testing.assert_close(tangent, ghrr.similarity(ghrr.bind(b, a), b))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None and shutil.which("clang++") is None, reason="inductor needs a compiler")
def test_inductor_compiles_a_whole_computation() -> None:
    torch.compiler.reset()

    def read(keys: Tensor, values: Tensor) -> Tensor:
        x = ghrr.normalize(ghrr.bind_bundle(keys, values))
        return ghrr.pairwise_similarity(ghrr.unbind(x, keys, side="left"), values)

    torch.testing.assert_close(torch.compile(read, fullgraph=True)(X, X.flip(0)), read(X, X.flip(0)))


def test_operations_work_on_other_devices() -> None:
    """Shapes and types go through on a device without memory, so nothing falls back to the CPU in silence."""
    x = X.to("meta")
    for out in (ghrr.bind(x, x), ghrr.adjoint(x), ghrr.shift(x), ghrr.bind_bundle(x, x), ghrr.similarity(x, x)):
        assert out.device.type == "meta"


# ---------------------------------------------------------------------------------------------------- FHRR by torch-hd


@pytest.fixture(scope="module")
def oracle() -> tuple[Tensor, FHRRTensor]:
    ours = Space(500, 1).random(8, generator=generator(1))
    return ours, ours[..., 0, 0].as_subclass(FHRRTensor)


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours[..., 0, 0], theirs.as_subclass(Tensor))


def test_m_one_equals_torchhd(oracle: tuple[Tensor, FHRRTensor]) -> None:
    ours, theirs = oracle
    a, b, x, y = ours[:4], ours[4:], theirs[:4], theirs[4:]
    assert torch.equal(ghrr.bind(a, b)[..., 0, 0], torchhd.bind(x, y).as_subclass(Tensor))  # to the bit
    same(ghrr.bundle([a, b]), torchhd.bundle(x, y))
    same(ghrr.bundle(ours), torchhd.multibundle(theirs))
    same(ghrr.multibind(ours), torchhd.multibind(theirs))
    same(ghrr.adjoint(a), torchhd.inverse(x))
    same(ghrr.shift(a, 3), torchhd.permute(x, shifts=3))
    same(ghrr.unbind(ghrr.bind(a, b), b, side="right"), torchhd.bind(torchhd.bind(x, y), torchhd.inverse(y)))
    torch.testing.assert_close(
        ghrr.pairwise_similarity(a, b), torchhd.cosine_similarity(x, y).as_subclass(Tensor), atol=1e-6, rtol=0
    )
    same(ghrr.bind_bundle(a, b), torchhd.hash_table(x, y))


def test_m_two_is_not_fhrr() -> None:
    """Negative control: the same numbers seen as 2 x 2 slots bind differently."""
    ours = Space(500, 2).random(2, generator=generator(1))
    flat = ours.flatten(-3).as_subclass(FHRRTensor)
    assert not torch.allclose(ghrr.bind(ours[0], ours[1]).flatten(), torchhd.bind(flat[0], flat[1]).as_subclass(Tensor))
