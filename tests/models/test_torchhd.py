"""The models of torch-hd compute the same, except where torch-hd unbinds on the wrong side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchhd
from torch import Tensor

from ghrr import models
from ghrr.models.protocol import Architecture

PEERS: dict[str, tuple[Architecture, type]] = {
    "fhrr": (models.FHRR(100), torchhd.FHRRTensor),
    "hrr": (models.HRR(100), torchhd.HRRTensor),
    "map": (models.MAP(100), torchhd.MAPTensor),
    "bsc": (models.BSC(100), torchhd.BSCTensor),
    "sbc": (models.SBC(6400), torchhd.BSBCTensor),
    "vtb": (models.VTB(100), torchhd.VTBTensor),
}
peers = pytest.mark.parametrize("name", PEERS)


def as_peer(name: str, x: Tensor) -> Any:
    """Return a tensor of torch-hd with the same values."""
    kind = PEERS[name][1]
    if name != "sbc":
        return x.clone().as_subclass(kind)
    peer: Any = x.long().as_subclass(kind)
    peer.block_size = 64
    return peer


def plain(x: Tensor) -> Tensor:
    return x.as_subclass(Tensor)


def vectors(name: str, n: int) -> Tensor:
    return PEERS[name][0].random(n, generator=torch.Generator().manual_seed(0))


@peers
def test_bind_and_inverse_equal_torchhd(name: str) -> None:
    model = PEERS[name][0]
    a, b = vectors(name, 2)
    for ours, theirs in (
        (model.bind(a, b), as_peer(name, a).bind(as_peer(name, b))),
        (model.inverse(a), as_peer(name, a).inverse()),
        (model.shift(a, 3), as_peer(name, a).permute(3)),
    ):
        assert torch.allclose(ours.to(torch.complex64), plain(theirs).to(torch.complex64), atol=1e-5)


@peers
def test_bundle_of_an_odd_number_equals_torchhd(name: str) -> None:
    """The first item is repeated: ties are broken at random, or by torch-hd's block codes for the smallest index."""
    model = PEERS[name][0]
    items = vectors(name, 2)[[0, 1, 0]]
    theirs = plain(as_peer(name, items).multibundle())
    assert torch.allclose(model.bundle(items).to(torch.complex64), theirs.to(torch.complex64), atol=1e-5)


@peers
def test_similarity_is_torchhds_inner_product_scaled(name: str) -> None:
    model = PEERS[name][0]
    x = vectors(name, 5)
    ours = model.pairwise_similarity(x, x)
    theirs = plain(as_peer(name, x).dot_similarity(as_peer(name, x)))
    size = model.shape[0]
    scale: Callable[[Tensor], Tensor] = {
        "hrr": lambda dot: dot,
        "vtb": lambda dot: dot,
        "sbc": lambda dot: (64 * dot / size - 1) / 63,
    }.get(name, lambda dot: dot / size)
    assert torch.allclose(ours.float(), scale(theirs).float(), atol=1e-5)


def test_identity_of_vtb_equals_torchhd() -> None:
    theirs = plain(torchhd.VTBTensor.identity(1, 100))[0]
    assert torch.allclose(models.VTB(100).identity(), theirs, atol=1e-6)


def test_hash_table_of_torchhd_cannot_read_values_of_vtb() -> None:
    """torch-hd binds key and value and then removes the key on the right, where the value stands.

    By definition the product of key and value is K Vᵀ. Its factors are recovered by X V (right) and Xᵀ K (left).
    torch-hd computes X K, whose similarity with the value is noise; removing the key on the left recovers it.
    """
    model = models.VTB(900)
    generator = torch.Generator().manual_seed(0)
    keys, values = model.random(2, 20, generator=generator)
    found_by_peer, found = [], []
    for key, value in zip(keys, values, strict=True):
        peer_key, peer_value = key.clone().as_subclass(torchhd.VTBTensor), value.clone().as_subclass(torchhd.VTBTensor)
        table = torchhd.structures.HashTable(900, vsa="VTB")
        table.add(peer_key, peer_value)
        read = plain(table.get(peer_key)).reshape(-1)
        found_by_peer.append(model.similarity(model.normalize(read), value))
        back = model.unbind(model.bind(key, value), key, side="left")
        found.append(model.similarity(model.normalize(back), value))
    assert torch.stack(found_by_peer).abs().max() < 6 * model.noise_std
    assert torch.stack(found).min() > 0.6
