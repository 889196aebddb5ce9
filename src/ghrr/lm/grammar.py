"""Sentences of a small grammar, like English, whose entropy is known: the best perplexity that any model can have.

Verbs agree in number with their noun over relative clauses and phrases with nouns of the other number, and over clauses
inside these, so that a model has to find the noun. Every text has one derivation only: the next word always decides the
rule (the grammar is LL(1)). So the probability of a text is the product of those of its rules, and no model has a lower
expected loss than the grammar itself.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ghrr._checks import check_integer, describe
from ghrr._random import labelled_uniform

START = "Sentence"
_BLOCK = 1 << 14  # random numbers that are drawn at a time

_NOUNS = """
    dog cat teacher doctor farmer king queen singer bird horse boy girl sailor painter lawyer bear soldier writer nurse
    baker duck goat frog whale tiger lion camel eagle rabbit turtle lizard actor student guard pilot judge banker dancer
    neighbour hunter poet house garden river car boat train letter picture table door window bridge tower mountain
    forest road village school island castle market kitchen song lamp clock ship wheel stone flower tree cloud storm
"""
_SEE = """
    see like chase follow know admire hear find help call remember visit love trust avoid fear greet meet want need
    hide lift leave move keep draw choose count welcome surprise
"""
_SLEEP = "sleep run sing dance smile wait swim jump travel fall shine grow disappear return work laugh listen arrive"
_SAY = "say believe think hope claim dream pretend insist"
_OLD = """
    old small big young red green happy strange quiet brave tall dark clever slow famous lonely proud angry gentle
    golden wise tired hungry silent bright cold broken curious noble lazy
"""


def _with_s(words: str) -> str:
    return " ".join(f"{word}s" for word in words.split())


# Words of one class: the k-th has a share in proportion to 1 / (k + 2), since frequencies of real words fall like that.
WORDS = {
    "Noun_sg": _NOUNS,
    "Noun_pl": _with_s(_NOUNS),
    "See_sg": _with_s(_SEE),
    "See_pl": _SEE,
    "Sleep_sg": _with_s(_SLEEP),
    "Sleep_pl": _SLEEP,
    "Say_sg": _with_s(_SAY),
    "Say_pl": _SAY,
    "Is_sg": "is was seems",
    "Is_pl": "are were seem",
    "Itself_sg": "itself",
    "Itself_pl": "themselves",
    "A_sg": "this every one no each",
    "A_pl": "some these many two few",
    "Old": _OLD,
    "Often": "quickly often here slowly again alone there early happily everywhere badly together",
    "Anna": "anna peter maria john alice paul clara david emma henry laura simon julia oscar martha felix",
    "Near": "near behind with under beside from above without",
    "Today": "yesterday today sometimes now tomorrow later",
    "Although": "although because when if while",
    "And": "and but so",
    "Which": "that which",
    "Very": "very not quite too",
    "Stop": ". !",
}

# The rules of each symbol: what it becomes, and with which probability. Symbols begin with a capital letter, all else
# is words. Where a symbol ends in _n there is one of it for each number, sg and pl.
RULES = {
    "Sentence": {
        "Clause More Stop": 0.68,
        "Today , Clause More Stop": 0.12,
        "Although Clause , Clause Stop": 0.10,
        "does Phrase_sg Act_pl ?": 0.05,
        "do Phrase_pl Act_pl ?": 0.05,
    },
    "More": {"": 0.85, ", And Clause": 0.15},
    "Clause": {
        "A_sg Nominal_sg Predicate_sg": 0.25,
        "A_pl Nominal_pl Predicate_pl": 0.20,
        "the Subject": 0.40,
        "Anna Predicate_sg": 0.15,
    },
    "Subject": {"Old Subject": 0.25, "Noun_sg Post_sg Predicate_sg": 0.40, "Noun_pl Post_pl Predicate_pl": 0.35},
    "Phrase": {"A_sg Nominal_sg": 0.30, "A_pl Nominal_pl": 0.20, "the Nominal": 0.35, "Anna": 0.15},
    "Nominal": {"Old Nominal": 0.25, "Noun_sg Post_sg": 0.40, "Noun_pl Post_pl": 0.35},
    "Phrase_n": {"the Nominal_n": 0.5, "A_n Nominal_n": 0.5},
    "Nominal_n": {"Old Nominal_n": 0.25, "Noun_n Post_n": 0.75},
    "Post_n": {"": 0.64, "Which Relative_n": 0.22, "Near Phrase": 0.14},
    "Relative_n": {
        "Predicate_n": 0.5,
        "A_sg Nominal_sg See_sg": 0.12,
        "A_pl Nominal_pl See_pl": 0.12,
        "the Seer": 0.16,
        "Anna See_sg": 0.10,
    },
    "Seer": {"Old Seer": 0.25, "Noun_sg Post_sg See_sg": 0.40, "Noun_pl Post_pl See_pl": 0.35},
    "Predicate_n": {"Act_n": 0.75, "Is_n Quality": 0.25},
    "Act_n": {"Sleep_n Manner": 0.35, "See_n Object_n": 0.50, "Say_n that Clause": 0.15},
    "Object_n": {"Phrase": 0.92, "Itself_n": 0.08},
    "Manner": {"": 0.7, "Often": 0.3},
    "Quality": {"Old": 0.7, "Very Old": 0.3},
}


class _Step(NamedTuple):
    """One way to go on from a symbol: a word, or none, and the symbols that come after it, the next one last."""

    word: str
    rest: tuple[str, ...]
    probability: float


class _Table(NamedTuple):
    steps: list[_Step]
    bounds: list[float]
    by_word: dict[str, _Step]


def generate_grammar_text(sentences: int, *, seed: int) -> str:
    """Sentences of the grammar, one in each line.

    The text depends on the seed alone, on every machine; that of fewer sentences is the beginning of that of more.

    Parameters
    ----------
    sentences
        How many.
    seed
        Texts of different seeds are independent.

    Examples
    --------
    >>> print(generate_grammar_text(4, seed=4), end="")
    some teachers like the car under this writer with many lions !
    no cat is strange .
    because few birds which this nurse that sleeps follows are small , one teacher that likes felix calls two clouds .
    do the quiet goats that are young love these horses ?
    """
    sentences = check_integer("generate_grammar_text", "sentences", sentences, least=0)
    seed = check_integer("generate_grammar_text", "seed", seed)
    tables, numbers = _tables(), _numbers(seed)
    lines = []
    for _ in range(sentences):
        stack, words = [START], []
        while stack:
            table = tables[stack.pop()]
            step = table.steps[bisect(table.bounds, next(numbers))]
            if step.word:
                words.append(step.word)
            stack.extend(step.rest)
        lines.append(" ".join(words) + "\n")
    return "".join(lines)


def grammar_perplexity(text: str | None = None) -> float:
    r"""The perplexity of the grammar itself, per word and end of line: no model can be expected to have a lower one.

    Over all texts it is :math:`e^{H/L}`, with the entropy H of a sentence in nats and its expected length L, the end of
    its line included. Both solve linear equations, since a symbol's entropy is that of the choice of its rule and, on
    average, that of the symbols in it. Of one text it is :math:`p(\text{text})^{-1/n}`, n its number of words and
    ends of lines.

    Parameters
    ----------
    text
        A text of the grammar; without it, the exact value over all texts.

    Raises
    ------
    ValueError
        The grammar does not give this text.

    Examples
    --------
    >>> print(f"{grammar_perplexity():.2f}")
    17.02
    >>> print(f"{grammar_perplexity(generate_grammar_text(10_000, seed=1)):.2f}")
    17.06
    """
    if text is None:
        entropy, length = _entropy_and_length()
        return math.exp(entropy / length)
    if not isinstance(text, str):
        raise TypeError(f"grammar_perplexity: text must be a str, got {describe(text)}")
    if not text:
        raise ValueError("grammar_perplexity: the text is empty; leave it out for the exact value")
    split = [line.split() for line in text.removesuffix("\n").split("\n")]
    return math.exp(-sum(map(_log_probability, split)) / sum(len(words) + 1 for words in split))


def _numbers(seed: int) -> Iterator[float]:
    block = 0
    while True:
        yield from labelled_uniform(_BLOCK, seed, "grammar", str(block)).tolist()
        block += 1


def _log_probability(words: list[str]) -> float:
    """Of one sentence, by following the only derivation that it can have."""
    tables, stack, total = _tables(), [START], 0.0
    for place, word in enumerate(words):
        step = None
        while step is None or not step.word:  # some symbols give way without a word
            by_word = tables[stack.pop()].by_word if stack else {}
            step = by_word.get(word) or by_word.get("")
            if step is None:
                raise ValueError(f"grammar_perplexity: not a sentence of the grammar from {words[place:]!r:.100} on")
            total += math.log(step.probability)
            stack.extend(step.rest)
    if stack:
        raise ValueError(f"grammar_perplexity: a sentence of the grammar does not end after {words[-5:]!r}")
    return total


def _entropy_and_length() -> tuple[float, float]:
    """Entropy in nats and expected number of tokens of a sentence with the end of its line."""
    tables = _tables()
    place = {symbol: i for i, symbol in enumerate(tables)}
    inside = np.zeros((len(tables), len(tables)))
    own = np.zeros((len(tables), 2))
    for symbol, table in tables.items():
        for step in table.steps:
            own[place[symbol]] += [-step.probability * math.log(step.probability), step.probability * bool(step.word)]
            for other in step.rest:
                inside[place[symbol], place[other]] += step.probability
    entropy, length = np.linalg.solve(np.eye(len(tables)) - inside, own)[place[START]]
    return float(entropy), float(length) + 1


@functools.cache
def _tables() -> dict[str, _Table]:
    """For every symbol and word, all ways to go on: rules are followed down to the word that they begin with."""
    rules = _rules()
    tables: dict[str, _Table] = {}
    waiting = [START]
    while waiting:
        symbol = waiting.pop()
        steps = _steps(symbol, rules)
        bounds = list(accumulate(step.probability for step in steps))[:-1]  # what rounding leaves falls to the last
        tables[symbol] = _Table(steps, bounds, {step.word: step for step in steps})
        waiting.extend({other for step in steps for other in step.rest} - tables.keys())
    return tables


def _steps(symbol: str, rules: dict[str, dict[str, float]]) -> list[_Step]:
    if symbol not in rules:
        return [_Step(symbol, (), 1.0)]
    found = []
    for body, probability in rules[symbol].items():
        if not body:
            found.append(_Step("", (), probability))
            continue
        first, *rest = body.split()
        for word, more, share in _steps(first, rules):
            found.append(_Step(word, (*reversed(rest), *more), probability * share))
    return found


def _rules() -> dict[str, dict[str, float]]:
    """The rules of all symbols, for both numbers, those that choose a word of a class among them."""
    rules = {}
    for symbol, bodies in RULES.items():
        for number in ("_sg", "_pl"):
            rules[symbol.replace("_n", number)] = {body.replace("_n", number): p for body, p in bodies.items()}
    for symbol, words in WORDS.items():
        shares = {word: 1 / (k + 2) for k, word in enumerate(words.split())}
        rules[symbol] = {word: share / sum(shares.values()) for word, share in shares.items()}
    return rules
