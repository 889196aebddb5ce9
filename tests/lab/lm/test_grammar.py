"""The grammar: one derivation per text, agreement in number, and its perplexity as a lower bound."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from typing import Any

import pytest
import torch

from ghrr_lab.lm import grammar
from ghrr_lab.lm.grammar import generate_grammar_text, grammar_perplexity
from tests.helpers import assert_mean

TRAIN = generate_grammar_text(4000, seed=0)
TEST = generate_grammar_text(1000, seed=1)


def tokens(text: str) -> list[str]:
    return text.replace("\n", " <eos> ").split()


def ngram_perplexity(order: int) -> float:
    """Return the perplexity of the test text under an n-gram model with add-one smoothing."""
    seen: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    words = tokens(TRAIN)
    vocabulary = set(words) | set(tokens(TEST))
    for i in range(order, len(words)):
        seen[tuple(words[i - order : i])][words[i]] += 1
    test, loss = tokens(TEST), 0.0
    for i in range(order, len(test)):
        counts = seen[tuple(test[i - order : i])]
        loss -= math.log((counts[test[i]] + 1) / (counts.total() + len(vocabulary)))
    return math.exp(loss / (len(test) - order))


def conflicts(rules: dict[str, dict[str, float]]) -> list[str]:
    """Return the symbols for which the next word does not determine the rule, from their FIRST and FOLLOW sets."""
    first: defaultdict[str, set[str]] = defaultdict(set)
    follow: defaultdict[str, set[str]] = defaultdict(set)

    def begins(symbols: list[str]) -> set[str]:
        """Return the words that a sequence of symbols can begin with, and "" if it can be empty."""
        found = {""}
        for symbol in symbols:
            found = (found - {""}) | (first[symbol] if symbol in rules else {symbol})
            if "" not in found:
                break
        return found

    for _ in range(len(rules) + 1):  # enough rounds to reach a fixed point
        for symbol, bodies in rules.items():
            for body in bodies:
                parts = body.split()
                first[symbol] |= begins(parts)
                for i, part in enumerate(parts):
                    after = begins(parts[i + 1 :])
                    follow[part] |= (after - {""}) | (follow[symbol] if "" in after else set())
    found = []
    for symbol, bodies in rules.items():
        starts = [begins(body.split()) for body in bodies]
        words = [word for start in starts for word in (start - {""}) | (follow[symbol] if "" in start else set())]
        if len(words) != len(set(words)):
            found.append(symbol)
    return found


def test_next_word_always_determines_the_rule() -> None:
    rules = grammar._rules()
    assert conflicts(rules) == []
    # Control: an ambiguous grammar. In "sees the dog near the house", the phrase could modify the dog or the verb.
    rules["Act_sg"] = {"See_sg Object_sg Where": 1.0}
    rules["Where"] = {"": 0.5, "Near Phrase": 0.5}
    assert {"Post_sg", "Post_pl"} <= set(conflicts(rules))


def test_rules_have_probabilities_and_no_unused_words() -> None:
    rules = grammar._rules()
    for symbol, bodies in rules.items():
        assert math.isclose(sum(bodies.values()), 1), symbol
        assert all(0 < p <= 1 for p in bodies.values()), symbol
        for part in (part for body in bodies for part in body.split()):
            assert part in rules or part.islower() or part in ",.?!", f"{part} in {symbol}"
    words = {word for table in grammar._tables().values() for word in table.by_word} - {""}
    assert 200 < len(words) < 500
    assert words == set(generate_grammar_text(20_000, seed=0).split())  # every word occurs


def test_text_depends_only_on_the_seed() -> None:
    state = torch.get_rng_state()
    text = generate_grammar_text(300, seed=3)
    assert text == generate_grammar_text(300, seed=3)
    assert torch.equal(state, torch.get_rng_state())
    assert text.startswith(generate_grammar_text(100, seed=3))
    assert text != generate_grammar_text(300, seed=4)
    assert text.count("\n") == 300
    assert generate_grammar_text(0, seed=3) == ""


def test_text_is_the_same_on_every_machine() -> None:
    """If this hash changes, earlier results on the grammar are not comparable."""
    digest = hashlib.sha256(TRAIN.encode()).hexdigest()
    assert digest == "2a404ebd709c9434bb2e44f6436970d5d7da6e331a8315f9c40642e132880a53"


def test_verbs_agree_with_the_subject_not_the_nearest_noun() -> None:
    nouns = {number: grammar.WORDS[f"Noun_{number}"].split() for number in ("sg", "pl")}
    verbs = {
        number: " ".join(grammar.WORDS[f"{verb}_{number}"] for verb in ("See", "Sleep", "Say", "Is")).split()
        for number in ("sg", "pl")
    }
    # the NOUN near these NOUNS VERB: the verb agrees with the first noun, although the second is nearer.
    between = r"^the (\w+) (?:{}) (?:the|{}|{}) (\w+) (\w+) ".format(
        *("|".join(grammar.WORDS[name].split()) for name in ("Near", "A_sg", "A_pl"))
    )
    agree = nearest = total = 0
    for noun, near, verb in re.findall(between, generate_grammar_text(20_000, seed=0), re.MULTILINE):
        if near not in nouns["sg"] + nouns["pl"] or verb not in verbs["sg"] + verbs["pl"]:
            continue
        agree += (noun in nouns["sg"]) == (verb in verbs["sg"])
        nearest += (near in nouns["sg"]) == (verb in verbs["sg"])
        total += 1
    assert agree == total > 100
    assert nearest < 0.8 * total  # control: agreement with the nearest noun


def test_exact_perplexity_equals_perplexity_of_long_texts() -> None:
    lines = generate_grammar_text(20_000, seed=5).splitlines()
    loss = torch.tensor([-grammar._log_probability(line.split()) for line in lines])
    length = torch.tensor([len(line.split()) + 1 for line in lines])
    rate = math.log(grammar_perplexity())
    assert_mean(loss - rate * length, 0.0)
    entropy, expected = grammar._entropy_and_length()
    assert_mean(loss, entropy)
    assert_mean(length, expected)
    with pytest.raises(AssertionError):  # control
        assert_mean(loss - 1.02 * rate * length, 0.0)


def test_perplexity_of_a_text_follows_from_its_probability() -> None:
    p = grammar._rules()
    text = "anna sleeps .\n"
    probability = p["Sentence"]["Clause More Stop"] * p["Clause"]["Anna Predicate_sg"] * p["Anna"]["anna"]
    probability *= p["Predicate_sg"]["Act_sg"] * p["Act_sg"]["Sleep_sg Manner"] * p["Sleep_sg"]["sleeps"]
    probability *= p["Manner"][""] * p["More"][""] * p["Stop"]["."]
    assert grammar_perplexity(text) == pytest.approx(probability ** (-1 / 4))
    assert grammar_perplexity(text.strip()) == pytest.approx(probability ** (-1 / 4))
    assert grammar_perplexity(text + text) == pytest.approx(probability ** (-1 / 4))
    assert grammar_perplexity("anna sleeps !\n") > grammar_perplexity(text)


def test_ngram_models_have_higher_perplexity_than_the_grammar() -> None:
    best, unigrams, bigrams = grammar_perplexity(TEST), ngram_perplexity(0), ngram_perplexity(1)
    assert best < bigrams < unigrams
    assert bigrams > 1.5 * best
    assert unigrams > 5 * best
    assert best < len(set(TRAIN.split()))  # control: the bound is not trivial


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the dog sleep .\n", "got ['sleep', '.'] after ['the', 'dog']"),
        ("the dogs that anna sees sleeps .\n", "got ['sleeps', '.'] after"),
        ("anna sleeps . .\n", "got ['.'] after"),
        ("anna sleeps\n", "incomplete, it ends with ['anna', 'sleeps']"),
        ("anna sleeps .\n\nanna sleeps .\n", "incomplete, it ends with []"),
        ("anna <unk> .\n", "got ['<unk>', '.'] after ['anna']"),
        ("", "text must not be empty"),
    ],
)
def test_grammar_perplexity_rejects_other_texts(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        grammar_perplexity(text)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: generate_grammar_text(-1, seed=0),
            ValueError,
            "sentences must be a whole number of at least 0, got -1",
        ),
        (lambda: generate_grammar_text(1.5, seed=0), TypeError, "sentences must be a whole number, got float 1.5"),  # type: ignore[arg-type]
        (lambda: generate_grammar_text(1, seed="a"), TypeError, "seed must be a whole number, got str 'a'"),  # type: ignore[arg-type]
        (lambda: grammar_perplexity(5), TypeError, "grammar_perplexity: text must be a str, got int 5"),  # type: ignore[arg-type]
    ],
)
def test_grammar_functions_reject_invalid_arguments(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()
