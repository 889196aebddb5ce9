"""PermutedPaths: reading and counting products without the contribution of permuted products."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import torch

from ghrr import Space, bundle, multibind, pairwise_similarity, similarity
from ghrr.memory.decorrelation import Decorrelation, gram_matrix
from ghrr.memory.match import Match, answer_noise, make_matches
from ghrr.structures import Automaton, Chain, Graph, NGrams, Record, Set, Tree
from ghrr.structures.base import Structure
from ghrr.structures.permuted_paths import Path, PermutedPaths
from tests.structures.common import counts_of, is_even

STRUCTURES = ("tree", "record", "set", "ngrams", "chain", "graph", "automaton")


def all_permutations(paths: Iterable[Sequence[Any]]) -> list[Path]:
    return sorted({order for path in paths for order in itertools.permutations(path)})


def paths_of(space: Space) -> PermutedPaths:
    return PermutedPaths(space, lambda paths: multibind([space.vectors(names) for names in zip(*paths, strict=True)]))


def test_only_seen_paths_are_decorrelated() -> None:
    permuted = paths_of(Space(200, 2, dtype=torch.complex128))
    ab, ba, cd, dc = ("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")
    paths = permuted.vectors([ab, ba])

    def others_share(**how: Any) -> bool:
        """Return whether the key of ab is similar to ba."""
        return bool(similarity(permuted.decorrelated_keys([ab], **how).vectors[0], paths[1]).abs() > 0.01)

    assert others_share()  # ba was never added
    permuted.add([ba, cd])
    assert not others_share()
    assert others_share(removed={ba})
    both = permuted.decorrelated_keys([cd, ab, dc, ab])
    assert both.variance_gain[0] == 1  # dc was queried, but never added
    assert both.variance_gain[1] == both.variance_gain[3] > 1
    assert (permuted.decorrelated_keys([cd, dc], all_present=True).variance_gain > 1).all()
    assert both.leakage.max() < 1e-6


def test_similarities_are_computed_once_for_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(50, 2, dtype=torch.complex128)
    permuted, new = paths_of(space), paths_of(space)
    paths: list[Path] = list(itertools.permutations("abc"))
    sizes: list[int] = []

    def counted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x) * len(y))
        return gram_matrix(x, y)

    monkeypatch.setattr("ghrr.structures.permuted_paths.gram_matrix", counted)
    permuted.add(paths[:4])
    permuted.decorrelated_keys(paths[:2])
    permuted.add(paths[4:])
    got = permuted.decorrelated_keys(paths)
    assert sum(sizes) == 4 * 4 + 4 * 2 + 2 * 2
    again = permuted.decorrelated_keys(paths)
    assert sum(sizes) == 4 * 4 + 4 * 2 + 2 * 2
    new.add(paths)
    want = new.decorrelated_keys(paths)
    for one in (got, again):
        torch.testing.assert_close(one.vectors, want.vectors)
        torch.testing.assert_close(one.variance_gain, want.variance_gain)
        torch.testing.assert_close(one.leakage, want.leakage)


def test_cache_keeps_the_groups_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(50, 2)
    monkeypatch.setattr("ghrr.structures.permuted_paths._CACHED_NUMBERS", 7 * space.total_dim)
    permuted = paths_of(space)
    paths: list[Path] = list(itertools.permutations("abcdef", 2))
    permuted.add(paths)
    want = permuted.decorrelated_keys(paths)
    assert [set(group.row_of) for group in permuted._cache.values()] == [
        {tuple(pair), tuple(reversed(pair))} for pair in ("de", "df", "ef")
    ]
    torch.testing.assert_close(permuted.decorrelated_keys(paths).vectors, want.vectors)


def test_paths_beyond_the_limit_count_as_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(200, 2)
    paths: list[Path] = list(itertools.permutations("abc"))
    whole = paths_of(space)
    whole.add(paths)
    monkeypatch.setattr("ghrr.structures.permuted_paths._MAX_DECORRELATED", 4)
    few = paths_of(space)
    few.add(paths)
    h = whole.vectors(paths).sum(dim=0)
    for path in (paths[0], paths[5]):  # one within the limit, and one beyond it
        assert whole.decorrelated_keys([path]).leakage[0] < 1e-6
        keys = few.decorrelated_keys([path])
        assert keys.leakage[0] > 0.01
        assert (similarity(h, keys.vectors[0]) - 1).abs() < 2 * keys.leakage[0].sqrt()
        _, noise, bias = few.counts(h, [path], torch.zeros(()))
        assert noise[0] >= bias[0] >= keys.leakage[0].sqrt()
    gone = set(paths[:2])
    assert few.decorrelated_keys([paths[2]], removed=gone).leakage[0] > 0.01


def skewed(letters: str, most: int, seed: int) -> dict[Path, int]:
    """Return counts of all permutations: half of them 0, a few up to ``most``."""
    rng = random.Random(seed)
    return {
        path: int(rng.random() < 0.5) * max(1, int(most * rng.random() ** 4)) for path in all_permutations([letters])
    }


@pytest.mark.filterwarnings("ignore::ghrr.structures.CapacityWarning")  # the largest counts are too many on purpose
@pytest.mark.parametrize("most", [3, 10, 40])
@pytest.mark.parametrize("letters", ["abcd", "aabbc", "aabcd"])
def test_dependent_paths_give_no_wrong_counts(letters: str, most: int) -> None:
    for seed in range(3):
        model, counts = Set(Space.from_total(8000, 2, seed=seed)), skewed(letters, most, seed)
        h = model.encode(dict(counts))
        assert not any(model.contains(h, path).confident for path, count in counts.items() if not count)
        assert counts_of(model.decode(h)).items() <= counts.items()


def test_leakage_alone_gives_wrong_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: if each other path is assumed to be present once, many absent ones are certain."""
    monkeypatch.setattr(Decorrelation, "bias", lambda self, _: self.leakage.sqrt())
    counts = skewed("aabbc", 40, 0)
    model = Set(Space.from_total(8000, 2))
    h = model.encode(dict(counts))
    assert any(model.contains(h, path).confident for path, count in counts.items() if not count)


def test_large_counts_of_independent_paths_are_right() -> None:
    counts = skewed("abcd", 10, 0)
    model = Set(Space.from_total(8000, 3))
    h = model.encode(dict(counts))
    assert counts_of(model.decode(h)) == {path: count for path, count in counts.items() if count}


@pytest.mark.parametrize("times", [1, 5])
def test_even_permutations_are_not_confident_for_m_2(times: int) -> None:
    """For m = 2 the even permutations of four factors sum to half of all permutations, so none is certain."""
    space = Space.from_total(8000, 2)
    permuted = all_permutations(["abcd"])
    model, grams = Set(space), NGrams(space, 4)
    h = model.encode({path: times * is_even(path) for path in permuted})
    assert not any(model.contains(h, path).confident for path in permuted)
    assert model.decode(h) == {}
    runs = {path: grams.encode(path) for path in permuted}
    assert grams.decode(times * bundle(torch.stack([runs[path] for path in permuted if is_even(path)]))) == {}
    single = model.encode({permuted[0]: times})
    assert counts_of(model.decode(single)) == {permuted[0]: times}  # negative control: a single one is certain
    assert grams.decode(times * runs[permuted[0]]).keys() == {permuted[0]}


def permuted_of(model: Structure) -> PermutedPaths:
    """Return the permuted paths of a structure that has them."""
    assert model.permuted is not None
    return model.permuted


def noise_of(structure: str, space: Space) -> tuple[Match, torch.Tensor, torch.Tensor]:
    """Return the match of a path with permutations, the hypervector that was read, and all encoded paths."""
    if structure == "set":
        model = Set(space)
        paths: list[Path] = all_permutations(["aab"])
        h = model.encode(paths)
        return model.contains(h, paths[0]), h, permuted_of(model).vectors(paths)
    if structure == "ngrams":
        grams, h = NGrams(space, 3), space.zeros()
        for path in all_permutations(["aab"]):
            h = h + grams.encode(path)
        return grams.after(h, "aa")[0], h, permuted_of(grams).vectors(all_permutations(["aab"]))
    if structure == "graph":
        graph = Graph(space)
        h = graph.encode([("a", "b"), ("b", "a")])
        return graph.neighbours(h, "a")[0], h, permuted_of(graph).vectors([("a", "edge", "b"), ("b", "edge", "a")])
    if structure == "automaton":
        machine = Automaton(space)
        h = machine.encode({("p", "a"): "q", ("q", "a"): "p"}, start="p")
        return machine.step(h, "p", "a"), h, permuted_of(machine).vectors([("p", "a", "q"), ("q", "a", "p")])
    if structure == "chain":
        chain = Chain(space)
        h = chain.encode([["a", "b"], ["b", "a"]]).sum(dim=0)
        return chain.next(h, ["a"]), h, permuted_of(chain).vectors([("a", "b"), ("b", "a")])
    if structure == "tree":
        tree = Tree(space)
        h = tree.encode(["r", ["s", ["t", "u", "v"], ["w", "x"]], ["y", ["z", "u"]]])
        return tree.label(h, [0, 0, 1]), h, tree.paths.vectors([(0, 0, 1), (0, 1, 0), (1, 0, 0)])
    codec = Record(space)
    h = codec.encode({"a": {"a": {"b": "x"}, "b": {"a": "z"}}, "b": {"a": {"a": "y"}}})
    paths = all_permutations(["aab"])
    return codec.query_many(h, paths)[0], h, codec.paths.vectors(paths)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_noise_of_a_match_includes_variance_gain(structure: str) -> None:
    gains = []
    for seed in range(6):  # the gain depends on the two rotations of a space; some are nearly 1
        space = Space(1000, 2, rotation="fixed", seed=seed)
        match, h, paths = noise_of(structure, space)
        gain = torch.linalg.inv(pairwise_similarity(paths, paths).double())[0, 0]
        plain = answer_noise(space, similarity(h, h), bound=structure != "set")
        assert match.noise == pytest.approx(float(gain.sqrt() * plain), rel=0.005)
        gains.append(float(gain.sqrt()))
    assert max(gains) > 1.01  # negative control: it differs from a single path


def test_rejudge_changes_only_paths_with_permutations() -> None:
    space = Space(200, 2, seed=1)
    permuted = paths_of(space)
    permuted.add([("a", "b"), ("b", "a"), ("c", "d")])
    h = permuted.vectors([("a", "b"), ("c", "d")]).sum(dim=0)
    score, noise = torch.tensor([[1.0], [0.6], [1.0]]), torch.tensor(0.05)
    plainly = make_matches([["b"], ["a"], ["d"]], score, candidates=1, noise=noise, odds=4.0)
    paths = [("a", "b"), ("b", "a"), ("c", "d")]
    right, absent, alone = permuted.rejudge(h, paths, plainly, odds=4.0)
    assert plainly[1].confident
    assert absent.unknown
    assert right.confident
    assert right.noise > 0.05
    assert alone is plainly[2]
    [row, empty] = permuted.rejudge_members(
        h, [plainly, []], lambda _, name: dict(zip("bad", paths, strict=True))[name], odds=4.0
    )
    assert [match.label for match in row] in [["b", "d"], ["d", "b"]]
    assert empty == []


def test_unseen_paths_are_not_confident_for_m_1_without_shifts() -> None:
    space = Space(10_000, 1, seed=2)
    graph = Graph(space, permute=False)
    h = graph.encode([("a", "l", "b"), ("c", "l", "a"), ("b", "k", "c")])
    other = Graph(space, permute=False)  # knows the names, but not which edges there are
    other.encode([("a", "l", "a"), ("b", "k", "b"), ("c", "k", "c")])
    assert other.decode(h) == {}
    assert len(graph.decode(h)) == 3  # negative control: these edges were seen
