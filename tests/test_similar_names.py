""" "Did you mean": near names are found, quickly also among very many."""

from __future__ import annotations

import difflib
import random
import time

import pytest

from ghrr._similar import did_you_mean, similar_names
from ghrr.checks import check_known
from ghrr.relations import RelationModel

LETTERS = "aaabcdeeefghiiklmnnooprrsstuvwz"


def made_up_names(count: int) -> list[str]:
    source = random.Random(0)
    words = ["".join(source.choices(LETTERS, k=source.randint(4, 9))) for _ in range(3000)]
    return list(dict.fromkeys(f"{source.choice(words)} {source.choice(words)}".title() for _ in range(count)))


def misspelled(name: str, source: random.Random) -> str:
    i = source.randrange(1, len(name) - 1)
    letter = source.choice(LETTERS)
    changes = (name[:i] + name[i + 1 :], name[:i] + letter + name[i:], name[:i] + letter + name[i + 1 :])
    return source.choice((*changes, name[:i] + name[i + 1] + name[i] + name[i + 2 :]))


def test_near_names_are_found_among_many() -> None:
    names, source = made_up_names(5000), random.Random(1)
    chosen = source.sample(names, 50)
    wrong = [misspelled(name, source) for name in chosen]
    found = [similar_names(name, names, n=3) for name in wrong]
    assert sum(name in near for name, near in zip(chosen, found, strict=True)) >= 49
    assert similar_names("QQQQQQ", names) == []


def test_the_best_name_is_nearly_as_similar_as_the_most_similar_of_all() -> None:
    names, source = [f"entity_{i:05d}" for i in range(0, 30_000, 3)], random.Random(1)
    for name in source.sample(names, 20):
        wrong = misspelled(name, source)
        (found,) = similar_names(wrong, names)
        ratios = [difflib.SequenceMatcher(None, wrong, other).ratio() for other in (found, name)]
        assert ratios[0] >= ratios[1] - 0.1


@pytest.mark.slow
def test_300_000_names_take_less_than_a_fifth_of_a_second() -> None:
    names = made_up_names(320_000)
    assert len(names) > 290_000
    times = []
    for _ in range(3):
        start = time.process_time()
        assert similar_names(f"{names[1234]}x", names) == [names[1234]]
        times.append(time.process_time() - start)
    assert min(times) < 0.2


def test_few_names_are_compared_as_difflib_does() -> None:
    names = made_up_names(100)
    for wrong in ("Anna", names[3][1:], "x", ""):
        for cutoff in (0.3, 0.6):
            assert similar_names(wrong, names, n=3, cutoff=cutoff) == difflib.get_close_matches(
                wrong, names, n=3, cutoff=cutoff
            )


@pytest.mark.parametrize("wrong", ["", "a", "İ" * 300, "\n\n", 7, "a" * 10**6], ids=lambda x: f"{x!s:.5}")
def test_unusual_names_are_accepted(wrong: object) -> None:
    names = [*made_up_names(300), "", "İstanbul", "two\nlines", "a" * 5000]
    assert set(similar_names(wrong, names, n=3)) <= set(names)


def test_names_that_are_not_strings_are_left_out() -> None:
    assert similar_names("12", [12, "123", None]) == ["123"]


def test_messages_name_the_nearest() -> None:
    assert did_you_mean("reltion", ["relation", "x"]) == "; did you mean 'relation'?"
    assert did_you_mean("q", ["relation", "x"]) == ""
    with pytest.raises(ValueError, match="did you mean 'hrr'"):
        check_known("model", "hrrr", ["fhrr", "hrr"])


def test_an_unknown_entity_among_many_is_reported_with_a_near_one() -> None:
    names = tuple(made_up_names(3000))
    model = RelationModel(names, ("r",), dim=1, m=1)
    with pytest.raises(ValueError, match=f"such as '{names[7]}'"):
        model.entity_index(names[7] + "x")
