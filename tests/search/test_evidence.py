"""Evidence for duplicates: agreement that is rare by chance counts, and fields that differ count against."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ghrr.search import RecordIndex

FIRST = ["Ada", "Alan", "Grace", "Kurt", "Emmy", "John", "Mary", "Rosa", "Paul", "Hedy", "Niels", "Lise"]
LAST = ["Stone", "Rivers", "Marsh", "Field", "Brook", "Hill", "Wood", "Lake", "Frost", "Snow", "Moor", "Vale"]


def people(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return people with a name that some share, a salary, a date of birth and a telephone number."""
    rng = random.Random(seed)
    return [
        {
            "name": f"{rng.choice(FIRST)} {rng.choice(LAST)}",
            "salary": rng.randrange(20_000, 120_000),
            "born": f"{rng.randrange(1940, 2005)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
            "phone": f"+44 {rng.randrange(10**8, 10**9)}",
            "city": rng.choice(["London", "York", "Bath"]),
        }
        for _ in range(count)
    ]


def pairs(documents: list[dict[str, Any]], **settings: Any) -> set[tuple[str, ...]]:
    index = RecordIndex(**settings)
    index.add(documents)
    return {cluster.ids for cluster in index.duplicates()}


@pytest.mark.parametrize("count", [30, 150])
def test_no_pairs_are_found_where_there_are_none(count: int) -> None:
    assert pairs(people(count)) == set()


def test_copies_with_another_salary_and_misspelt_names_are_found() -> None:
    documents = people(200)
    copies = [{**one, "salary": round(one["salary"] * 1.05), "name": one["name"][:-1]} for one in documents[:10]]
    right = {(str(n), str(200 + n)) for n in range(10)}
    assert pairs(documents + copies) == right
    assert pairs(documents + copies, kinds={"salary": "number"}) == right


def test_a_number_that_only_two_records_share_counts_where_others_are_never_shared() -> None:
    documents = people(200)
    copy = {"phone": documents[7]["phone"], "city": documents[7]["city"]}
    assert pairs([*documents, copy]) == {("7", "200")}
    shared = [{**one, "phone": documents[n // 2]["phone"]} for n, one in enumerate(documents)]  # couples have one phone
    assert pairs([*shared[:199], {"phone": documents[-1]["phone"], "city": "York"}]) == set()


def test_date_of_another_year_is_similar() -> None:
    documents = [{"born": one["born"], "city": one["city"], "salary": one["salary"]} for one in people(200)]
    year = int(documents[3]["born"][:4])
    copy = {**documents[3], "born": f"{year - 10}{documents[3]['born'][4:]}"}
    assert pairs([*documents, copy]) == {("3", "200")}


def test_same_thing_is_found_among_four_records() -> None:
    names = ["Grace Hopper", "Alan Turing", "Grace Hoper", "Kurt Gödel"]
    assert pairs([{"name": name, "city": "London"} for name in names]) == {("0", "2")}
    assert pairs([{"name": name, "city": "London"} for name in names[:2] + names[3:]]) == set()


def households(count: int) -> list[dict[str, Any]]:
    """Return three people of each household, who share all but their own name, date of birth and member id."""
    rng = random.Random(1)
    homes = [
        {
            "family": f"{rng.choice(LAST)}{rng.randrange(99)}",
            "street": f"{rng.randrange(200)} {rng.choice(LAST)} Road",
            "zip": f"{rng.randrange(10**4, 10**5)}-{rng.choice(LAST)}",
            "doctor": f"Dr {rng.choice(FIRST)} {rng.choice(LAST)}{rng.randrange(99)}",
        }
        for _ in range(count)
    ]
    born = [
        f"{rng.randrange(1940, 2005)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}" for _ in range(3 * count)
    ]
    members = [{"name": name, **home} for home in homes for name in rng.sample(FIRST, 3)]
    return [
        {**one, "born": date, "member id": rng.randrange(10**6, 10**7)} for one, date in zip(members, born, strict=True)
    ]


def test_people_of_one_household_are_different_and_their_copies_are_found() -> None:
    documents = households(40)
    assert pairs(documents) == set()
    copies = [{**one, "name": one["name"] + "a", "street": one["street"].lower()[1:]} for one in documents[::30]]
    assert pairs(documents + copies) == {(str(30 * n), str(120 + n)) for n in range(4)}


def test_countries_of_a_region_with_names_in_many_languages_are_different() -> None:
    rng = random.Random(2)
    parts = ["ba", "ke", "li", "mo", "nu", "ra", "so", "ti", "da", "ge", "xu", "vin"]
    regions = [{"region": one, "currency": one[:3], "language": one + "ish"} for one in LAST]
    endings = ["".join(rng.choices(parts, k=2)) for _ in range(30)]
    documents = []
    for _ in range(120):
        name, region = "".join(rng.choices(parts, k=3)).title(), rng.choice(regions)
        translations = {f"name {n}": f"{name}{ending}" for n, ending in enumerate(endings)}
        documents.append({"name": name, "capital": "".join(rng.choices(parts, k=3)), **region, **translations})
    assert pairs(documents) == set()
    copies = [{**documents[n], "name": documents[n]["name"][1:], "name 7": "?"} for n in (3, 50)]
    assert pairs(documents + copies) == {("3", "120"), ("50", "121")}


def test_many_copies_with_many_errors_are_one_thing() -> None:
    rng = random.Random(3)
    documents = people(60)
    groups = [[n] for n in range(60)]
    for n in range(60):
        for _ in range(6):
            changed = {**documents[n], "salary": rng.randrange(20_000, 120_000), "name": documents[n]["name"][:-2]}
            gone = rng.choice(["phone", "city", "name"])
            groups[n].append(len(documents))
            documents.append({key: value for key, value in changed.items() if key != gone})
    right = {tuple(map(str, own)) for own in groups}
    assert len(pairs(documents) & right) >= 57


def test_fields_that_repeat_each_other_count_less() -> None:
    rng = random.Random(0)
    names = ["".join(rng.choices(["ba", "ke", "li", "mo", "nu", "ra", "so", "ti"], k=4)) for _ in range(120)]
    words = [f"{'Republic' if rng.random() < 0.3 else 'Kingdom'} of {name}" for name in names]
    index = RecordIndex()
    index.add([{"name": word, **{f"language {n}": f"{word}{n}" for n in range(40)}} for word in words])
    assert len(index.duplicates()) <= 1
