"""The same steps in another order are not independent; yet what is confident is right, for m = 2 and 3 as well.

Words of few symbols are asked for that are there, and all their other orders, most of which are not. In the controls
:class:`Orders` tells no words apart and a chain does not look at how a beginning begins: answers are then read by plain
scores.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch

from ghrr import Space, bundle, multibind, pairwise_similarity, similarity
from ghrr.memory.match import Match, answer_noise, make_matches
from ghrr.memory.orders import Solution, overlaps
from ghrr.structures import Automaton, Chain, Graph, NGrams, Record, Set, Tree
from ghrr.structures.orders import Orders, Word
from tests.structures.common import is_even, tell_nothing_apart

Answer = tuple[bool, bool, bool]  # confident, right, there


def all_orders(words: Iterable[Sequence[Any]]) -> list[Word]:
    return sorted({order for word in words for order in itertools.permutations(word)})


def judged(there: dict[Word, str], asked: Sequence[Word], matches: Iterable[Match]) -> list[Answer]:
    pairs = zip(asked, matches, strict=True)
    return [(match.confident, match.guess == there.get(word), word in there) for word, match in pairs]


def ask_tree(space: Space, rng: random.Random) -> list[Answer]:
    def grow(place: Word, depth: int) -> list[Any]:
        nodes[place] = rng.choice("pqr")
        children = rng.randint(1, 2) if depth else 0
        return [nodes[place], *(grow((*place, child), depth - 1) for child in range(children))]

    model, nodes = Tree(space), dict[Word, str]()
    h = model.encode(grow((), 2 + space.m))
    asked = all_orders(nodes)
    return judged(nodes, asked, [model.label(h, *place) for place in asked])


def ask_record(space: Space, rng: random.Random) -> list[Answer]:
    codec, document = Record(space), dict[str, Any]()
    paths = {tuple(rng.choices("ab", k=1 + space.m)): rng.choice("pqr") for _ in range(12)}
    for path, value in paths.items():
        at = document
        for step in path[:-1]:
            at = at.setdefault(step, {})
        at[path[-1]] = value
    asked = all_orders(paths)
    return judged(paths, asked, codec.query_many(codec.encode(document), asked))


def ask_set(space: Space, rng: random.Random) -> list[Answer]:
    model = Set(space)
    members = {tuple(rng.choices("ab", k=1 + space.m)) for _ in range(10)}
    h, asked = model.encode(sorted(members)), all_orders(members)
    return [(model.contains(h, word).confident, word in members, word in members) for word in asked]


def ask_ngrams(space: Space, rng: random.Random) -> list[Answer]:
    model, text = NGrams(space, 1 + space.m), rng.choices("ab", k=9)
    runs = {tuple(text[start : start + model.n]) for start in range(len(text) - model.n + 1)}
    found = model.decode(model.encode(text))
    return [(word in found, word in runs, word in runs) for word in all_orders(runs)]


def ask_chain(space: Space, rng: random.Random) -> list[Answer]:
    model, chain = Chain(space), rng.choices("ab", k=8)
    follows = {tuple(chain[:place]): chain[place] for place in range(2, 7)}
    h, asked = model.encode(chain), all_orders(follows)
    return judged(follows, asked, [model.next(h, beginning) for beginning in asked])


def ask_graph(space: Space, rng: random.Random) -> list[Answer]:
    model = Graph(space)
    edges = {(rng.choice("abcdef"), "to", rng.choice("abcdef")) for _ in range(10)}
    found = model.decode(model.encode(sorted(edges)))
    return [(e in found, e in edges, e in edges) for u, to, v in edges for e in ((u, to, v), (v, to, u))]


def ask_automaton(space: Space, rng: random.Random) -> list[Answer]:
    model, asked = Automaton(space), list(itertools.product("pqrs", "ab"))
    moves: dict[Word, str] = {pair: rng.choice("pqrs") for pair in asked if rng.random() < 0.6}
    h = model.encode({(state, symbol): after for (state, symbol), after in moves.items()}, start="p")
    return judged(moves, asked, [model.step(h, *pair) for pair in asked])


ASK: dict[str, Callable[[Space, random.Random], list[Answer]]] = {
    "tree": ask_tree,
    "record": ask_record,
    "set": ask_set,
    "ngrams": ask_ngrams,
    "chain": ask_chain,
    "graph": ask_graph,
    "automaton": ask_automaton,
}
REVERSED = ("graph", "automaton")  # the only other order is the reversal


def answers(structure: str, m: int, count: int) -> torch.Tensor:
    """At least so many answers, from spaces that are too small to spaces that are large: ``(count, 3)``."""
    found: list[Answer] = []
    for seed in itertools.count():
        # With fixed rotations some pairs of atoms nearly commute: then an edge and its reversal share much too.
        rotation = ("varying", "fixed")[seed % 2]
        space = Space.from_total((200, 500, 1200)[seed % 3], m, rotation=rotation, seed=seed)
        found += ASK[structure](space, random.Random(seed))
        if len(found) >= count:
            break
    return torch.tensor(found)


def is_calibrated(found: torch.Tensor) -> bool:
    """Whether of the confident answers at least 98 % are right, and no word is confident that is not there."""
    confident, right, there = found.T
    return float(right[confident].double().mean()) >= 0.98 and not (confident & ~there).any()


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("structure", ASK)
def test_confident_answers_are_right(structure: str, m: int) -> None:
    found = answers(structure, m, 2000)
    confident, _, there = found.T
    assert is_calibrated(found)
    assert (~there).sum() > 200
    assert confident[there].double().mean() > 0.5


# For m = 3 one reversal shares so little that plain scores of edges and transitions will do.
@pytest.mark.parametrize(
    ("structure", "m"), [(name, m) for name in ASK for m in (2, 3) if name not in REVERSED or m == 2]
)
def test_by_plain_scores_they_are_not(structure: str, m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tell_nothing_apart(monkeypatch)
    monkeypatch.setattr("ghrr.structures.chain._odds_against", lambda *_: 0.0)
    assert not is_calibrated(answers(structure, m, 800))


def words_of(space: Space) -> Orders:
    return Orders(space, lambda words: multibind([space.vectors(names) for names in zip(*words, strict=True)]))


def test_only_words_that_may_be_there_are_told_apart() -> None:
    orders = words_of(Space(200, 2, dtype=torch.complex128))
    ab, ba, cd, dc = ("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")
    words = orders.vectors([ab, ba])

    def others_share(**how: Any) -> bool:
        """Whether ba has anything in common with what is read for ab."""
        return bool(similarity(orders.apart([ab], **how).vectors[0], words[1]).abs() > 0.01)

    assert others_share()  # ba was never met
    orders.add([ba, cd])
    assert not others_share()
    assert others_share(without={ba})
    both = orders.apart([cd, ab, dc, ab])
    assert both.gain[0] == 1  # dc was asked for, but is not known
    assert both.gain[1] == both.gain[3] > 1
    assert (orders.apart([cd, dc], together=True).gain > 1).all()
    assert both.leak.max() < 1e-6


def test_similarities_are_computed_once_for_each_pair_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(50, 2, dtype=torch.complex128)
    orders, fresh = words_of(space), words_of(space)
    words: list[Word] = list(itertools.permutations("abc"))
    sizes: list[int] = []

    def counted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x) * len(y))
        return overlaps(x, y)

    monkeypatch.setattr("ghrr.structures.orders.overlaps", counted)
    orders.add(words[:4])
    orders.apart(words[:2])
    orders.add(words[4:])
    got = orders.apart(words)
    assert sum(sizes) == 4 * 4 + 4 * 2 + 2 * 2
    again = orders.apart(words)
    assert sum(sizes) == 4 * 4 + 4 * 2 + 2 * 2
    fresh.add(words)
    want = fresh.apart(words)
    for one in (got, again):
        torch.testing.assert_close(one.vectors, want.vectors)
        torch.testing.assert_close(one.gain, want.gain)
        torch.testing.assert_close(one.leak, want.leak)


def test_the_groups_asked_for_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(50, 2)
    monkeypatch.setattr("ghrr.structures.orders._ROOM", 7 * space.total_dim)
    orders = words_of(space)
    words: list[Word] = list(itertools.permutations("abcdef", 2))
    orders.add(words)
    want = orders.apart(words)
    assert [set(group.place) for group in orders._kept.values()] == [
        {tuple(pair), tuple(reversed(pair))} for pair in ("de", "df", "ef")
    ]
    torch.testing.assert_close(orders.apart(words).vectors, want.vectors)


def test_words_that_are_too_many_count_as_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(200, 2)
    words: list[Word] = list(itertools.permutations("abc"))
    whole = words_of(space)
    whole.add(words)
    monkeypatch.setattr("ghrr.structures.orders._MOST", 4)
    few = words_of(space)
    few.add(words)
    h = whole.vectors(words).sum(dim=0)
    for word in (words[0], words[5]):  # one of those told apart, and one of the others
        assert whole.apart([word]).leak[0] < 1e-6
        apart = few.apart([word])
        assert apart.leak[0] > 0.01
        assert (similarity(h, apart.vectors[0]) - 1).abs() < 2 * apart.leak[0].sqrt()
        _, noise, bias = few.counts(h, [word], torch.zeros(()))
        assert noise[0] >= bias[0] >= apart.leak[0].sqrt()
    gone = set(words[:2])
    assert few.apart([words[2]], without=gone).leak[0] > 0.01


def skewed(letters: str, most: int, seed: int) -> dict[Word, int]:
    """Counts of all orders: half of them 0, a few up to ``most``."""
    rng = random.Random(seed)
    return {word: int(rng.random() < 0.5) * max(1, int(most * rng.random() ** 4)) for word in all_orders([letters])}


@pytest.mark.parametrize("most", [3, 10, 40])
@pytest.mark.parametrize("letters", ["abcd", "aabbc", "aabcd"])
def test_no_count_among_dependent_words_is_made_up(letters: str, most: int) -> None:
    for seed in range(3):
        model, counts = Set(Space.from_total(8000, 2, seed=seed)), skewed(letters, most, seed)
        h = model.encode(dict(counts))
        assert not any(model.contains(h, word).confident for word, count in counts.items() if not count)
        assert model.decode(h).items() <= counts.items()


def test_with_each_word_once_they_are_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: were the others there once each, with either sign, many an absent one would be certain."""
    monkeypatch.setattr(Solution, "bias", lambda self, _: self.leak.sqrt())
    counts = skewed("aabbc", 40, 0)
    model = Set(Space.from_total(8000, 2))
    h = model.encode(dict(counts))
    assert any(model.contains(h, word).confident for word, count in counts.items() if not count)


def test_independent_words_are_counted_however_often_they_are_there() -> None:
    counts = skewed("abcd", 10, 0)
    model = Set(Space.from_total(8000, 3))
    h = model.encode(dict(counts))
    assert model.decode(h) == {word: count for word, count in counts.items() if count}


@pytest.mark.parametrize("times", [1, 5])
def test_even_orders_are_half_of_all_orders(times: int) -> None:
    """For m = 2 five times the even orders of four steps is 2.5 times all of them: nothing is certain."""
    space = Space.from_total(8000, 2)
    orders = all_orders(["abcd"])
    model, grams = Set(space), NGrams(space, 4)
    h = model.encode({word: times * is_even(word) for word in orders})
    assert not any(model.contains(h, word).confident for word in orders)
    assert model.decode(h) == {}
    runs = {word: grams.encode(word) for word in orders}
    assert grams.decode(times * bundle(torch.stack([runs[word] for word in orders if is_even(word)]))) == {}
    lone = model.encode({orders[0]: times})
    assert model.decode(lone) == {orders[0]: times}  # the control: alone it is certain
    assert grams.decode(times * runs[orders[0]]).keys() == {orders[0]}


def noise_of(structure: str, space: Space) -> tuple[Match, torch.Tensor, torch.Tensor]:
    """The match of a word that others share, what was read, and the hypervectors of the word and of these."""
    if structure == "set":
        model = Set(space)
        words: list[Word] = all_orders(["aab"])
        h = model.encode(words)
        return model.contains(h, words[0]), h, model.orders.vectors(words)
    if structure == "ngrams":
        grams, h = NGrams(space, 3), space.empty()
        for word in all_orders(["aab"]):
            h = h + grams.encode(word)
        return grams.after(h, "aa")[0], h, grams.orders.vectors(all_orders(["aab"]))
    if structure == "graph":
        graph = Graph(space)
        h = graph.encode([("a", "b"), ("b", "a")])
        return graph.neighbours(h, "a")[0], h, graph.orders.vectors([("a", "edge", "b"), ("b", "edge", "a")])
    if structure == "automaton":
        machine = Automaton(space)
        h = machine.encode({("p", "a"): "q", ("q", "a"): "p"}, start="p")
        return machine.step(h, "p", "a"), h, machine.orders.vectors([("p", "a", "q"), ("q", "a", "p")])
    if structure == "chain":
        chain = Chain(space)
        h = chain.encode([["a", "b"], ["b", "a"]]).sum(dim=0)
        return chain.next(h, ["a"]), h, chain.orders.vectors([("a", "b"), ("b", "a")])
    if structure == "tree":
        tree = Tree(space)
        h = tree.encode(["r", ["s", ["t", "u", "v"], ["w", "x"]], ["y", ["z", "u"]]])
        return tree.label(h, 0, 0, 1), h, tree.layout.path_vectors([(0, 0, 1), (0, 1, 0), (1, 0, 0)])
    codec = Record(space)
    h = codec.encode({"a": {"a": {"b": "x"}, "b": {"a": "z"}}, "b": {"a": {"a": "y"}}})
    paths: list[Word] = all_orders(["aab"])
    return codec.query_many(h, paths)[0], h, codec.layout.path_vectors(paths)


@pytest.mark.parametrize("structure", ASK)
def test_the_noise_of_a_match_is_that_of_its_words(structure: str) -> None:
    space = Space(1000, 2, rotation="fixed", seed=3)
    match, h, words = noise_of(structure, space)
    gain = torch.linalg.inv(pairwise_similarity(words, words).double())[0, 0]
    plain = answer_noise(space, similarity(h, h), bound=structure != "set")
    assert match.noise == pytest.approx(float(gain.sqrt() * plain), rel=0.005)
    assert gain.sqrt() > 1.01  # the control: it is not that of a word alone


def test_matches_are_judged_again_only_where_words_share() -> None:
    space = Space(200, 2, seed=1)
    orders = words_of(space)
    orders.add([("a", "b"), ("b", "a"), ("c", "d")])
    h = orders.vectors([("a", "b"), ("c", "d")]).sum(dim=0)
    score, noise = torch.tensor([[1.0], [0.6], [1.0]]), torch.tensor(0.05)
    plainly = make_matches([["b"], ["a"], ["d"]], score, candidates=1, noise=noise, odds=4.0)
    words = [("a", "b"), ("b", "a"), ("c", "d")]
    right, absent, alone = orders.rejudge(h, words, plainly, odds=4.0)
    assert plainly[1].confident
    assert absent.unknown
    assert right.confident
    assert right.noise > 0.05
    assert alone is plainly[2]
    [row, empty] = orders.sift(h, [plainly, []], lambda _, name: dict(zip("bad", words, strict=True))[name], odds=4.0)
    assert [match.label for match in row] in [["b", "d"], ["d", "b"]]
    assert empty == []
