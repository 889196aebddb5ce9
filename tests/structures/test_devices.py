"""Devices and gradients: structures compute where their vocabulary is, and results keep the gradients of h."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ghrr.structures import Automaton, Chain, Graph, HashTable, NGrams, Record, Scale, Sequence, Set, Stack, Tree
from tests.structures.common import SPACE

STRUCTURES: dict[str, tuple[Callable[..., Any], Callable[[Any], torch.Tensor]]] = {
    "Record": (
        lambda **settings: Record(SPACE, numbers={"age": Scale(0, 100, 5)}, lists={"tags": "set"}, **settings),
        lambda s: s.encode({"name": "Ada", "age": 36, "born": {"city": "London"}, "tags": ["a", "b"]}),
    ),
    "Tree": (lambda **settings: Tree(SPACE, **settings), lambda s: s.encode("(S (NP she) (VP runs))")),
    "Set": (lambda **settings: Set(SPACE, **settings), lambda s: s.encode(["a", ("b", "c"), ("c", "b"), "a"])),
    "NGrams": (lambda **settings: NGrams(SPACE, 2, **settings), lambda s: s.encode("abcba")),
    "Chain": (lambda **settings: Chain(SPACE, **settings), lambda s: s.encode(["a", "b", "c"])),
    "Sequence": (lambda **settings: Sequence(SPACE, **settings), lambda s: s.encode(["a", "b", "c"])),
    "Stack": (lambda **settings: Stack(SPACE, **settings), lambda s: s.encode(["a", "b", "c"])),
    "HashTable": (lambda **settings: HashTable(SPACE, **settings), lambda s: s.encode({"a": "x", "b": "y"})),
    "Graph": (lambda **settings: Graph(SPACE, **settings), lambda s: s.encode([("a", "b"), ("b", "a"), ("b", "c")])),
    "Automaton": (
        lambda **settings: Automaton(SPACE, **settings),
        lambda s: s.encode({("p", "x"): "q", ("q", "x"): "p"}, start="p", final=["q"]),
    ),
}
# Methods that return a tensor which is linear in h.
CHANGES: dict[str, tuple[str, Callable[[Any, torch.Tensor], torch.Tensor]]] = {
    "Record.update": ("Record", lambda s, h: s.update(h, "name", "Charles")),
    "Record.delete": ("Record", lambda s, h: s.delete(h, ["born", "city"])),
    "Tree.add_leaf": ("Tree", lambda s, h: s.add_leaf(h, [2], "fast")),
    "Tree.part": ("Tree", lambda s, h: s.part(h, [1])),
    "Set.add": ("Set", lambda s, h: s.add(h, "d")),
    "Set.remove": ("Set", lambda s, h: s.remove(h, "a")),
    "Chain.rest": ("Chain", lambda s, h: s.rest(h, ["a"])),
    "Sequence.append": ("Sequence", lambda s, h: s.append(h, "d")),
    "Sequence.pop": ("Sequence", lambda s, h: s.pop(h)[1]),
    "Sequence.cut": ("Sequence", lambda s, h: s.cut(h, 1)),
    "Stack.push": ("Stack", lambda s, h: s.push(h, "d")),
    "Stack.pop": ("Stack", lambda s, h: s.pop(h)[1]),
    "HashTable.put": ("HashTable", lambda s, h: s.put(h, "a", "z")),
    "HashTable.remove": ("HashTable", lambda s, h: s.remove(h, "a")),
    "Automaton.add": ("Automaton", lambda s, h: s.add(h, {("q", "y"): "p"})),
}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def labels_of(decoded: Any) -> Any:
    if hasattr(decoded, "matches"):
        return {path: match.label for path, match in decoded.matches.items() if match.error is None}
    return [match.label for match in decoded] if isinstance(decoded, list) else list(decoded)


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_differentiable_with_respect_to_the_hypervector(name: str) -> None:
    kind, change = CHANGES[name]
    make, encode = STRUCTURES[kind]
    structure = make()
    h = encode(structure).requires_grad_()
    energy = change(structure, h).abs().square().sum()
    energy.backward()
    assert h.grad is not None
    assert h.grad.abs().max() > 0


@pytest.mark.parametrize("name", STRUCTURES)
def test_decode_accepts_a_hypervector_that_requires_gradients(name: str) -> None:
    make, encode = STRUCTURES[name]
    structure = make()
    h = encode(structure)
    assert labels_of(structure.decode(h.clone().requires_grad_())) == labels_of(structure.decode(h))


def test_a_given_hypervector_that_requires_gradients_is_refused() -> None:
    vector = SPACE.random(generator=SPACE.generator("given")).requires_grad_()
    with pytest.raises(ValueError, match="stores constants, got a hypervector that requires gradients"):
        Graph(SPACE).encode([("a", "to", vector)])


@pytest.mark.parametrize("bad", ["meta", 3])
def test_devices_without_numbers_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=rf"Graph: device {bad!r} .*; try 'cpu'"):
        Graph(SPACE, device=bad)


def test_a_hypervector_on_another_device_is_refused() -> None:
    graph = Graph(SPACE)
    graph.encode([("a", "b")])
    with pytest.raises(ValueError, match="is on the device 'meta', expected 'cpu'"):
        graph.decode(SPACE.zeros().to("meta"))


@needs_cuda
@pytest.mark.parametrize("permute", [None, True])
@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_work_on_a_gpu(name: str, permute: bool | None) -> None:
    make, encode = STRUCTURES[name]
    settings = {} if name in ("Sequence", "Stack") else {"permute": permute}
    on_cpu, on_gpu = make(**settings), make(device="cuda", **settings)
    h, g = encode(on_cpu), encode(on_gpu)
    assert g.device == torch.device("cuda", torch.cuda.current_device())
    torch.testing.assert_close(g.cpu(), h, atol=1e-4, rtol=0)
    assert labels_of(on_gpu.decode(g)) == labels_of(on_cpu.decode(h))


@needs_cuda
@pytest.mark.parametrize("name", CHANGES)
def test_changes_work_on_a_gpu(name: str) -> None:
    kind, change = CHANGES[name]
    make, encode = STRUCTURES[kind]
    on_cpu, on_gpu = make(), make(device="cuda")
    changed = change(on_gpu, encode(on_gpu))
    torch.testing.assert_close(changed.cpu(), change(on_cpu, encode(on_cpu)), atol=1e-4, rtol=0)


@needs_cuda
def test_a_file_is_loaded_to_a_gpu(tmp_path: Any) -> None:
    graph = Graph(SPACE)
    graph.save(tmp_path / "x", graph.encode([("a", "b")]))
    loaded, h = Graph.load(tmp_path / "x", device="cuda")
    assert h.is_cuda
    assert [match.label for match in loaded.neighbours(h, "a")] == ["b"]
