"""Random sentences of a small English-like grammar of known entropy.

The entropy gives the lowest perplexity that any model can reach. Verbs agree in number with their noun across relative
clauses and prepositional phrases, so a model has to find the correct noun. The grammar is LL(1): the next word always
determines the rule, so every text has exactly one derivation. The probability of a text is the product of the
probabilities of its rules, and no model has a lower expected loss than the grammar itself.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ghrr.checks import check_integer, describe, names_errors, type_error, value_error
from ghrr.seeding import labelled_uniform

START = "Sentence"
_BLOCK = 1 << 14  # random numbers drawn at a time

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


# Words of one class. The k-th has a probability proportional to 1 / (k + 2), similar to the frequencies of real words.
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

# The rules of each symbol: right-hand sides and their probabilities. Symbols begin with a capital letter; everything
# else is a word. A symbol that ends in _n stands for two symbols, singular (_sg) and plural (_pl).
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


class _Expansion(NamedTuple):
    """One expansion of a symbol down to its first word."""

    word: str  # empty if the symbol expands to nothing
    rest: tuple[str, ...]  # symbols after the word, the next one last
    probability: float


class _Table(NamedTuple):
    """All expansions of a symbol."""

    expansions: list[_Expansion]
    bounds: list[float]  # cumulative probabilities
    by_word: dict[str, _Expansion]


@names_errors
def generate_grammar_text(sentences: int, *, seed: int) -> str:
    """Generate random sentences of the grammar, one per line.

    The text depends only on the seed and is the same on every machine. A shorter text is the beginning of a longer one
    with the same seed.

    Parameters
    ----------
    sentences
        Number of sentences.
    seed
        Seed of the random numbers. Texts with different seeds are independent.

    Examples
    --------
    >>> from ghrr_lab.lm import generate_grammar_text
    >>> print(generate_grammar_text(4, seed=4), end="")
    some teachers like the car under this writer with many lions !
    no cat is strange .
    because few birds which this nurse that sleeps follows are small , one teacher that likes felix calls two clouds .
    do the quiet goats that are young love these horses ?
    """
    sentences = check_integer("sentences", sentences, least=0)
    seed = check_integer("seed", seed)
    tables, numbers = _tables(), _random_numbers(seed)
    lines = []
    for _ in range(sentences):
        stack, words = [START], []
        while stack:
            table = tables[stack.pop()]
            expansion = table.expansions[bisect(table.bounds, next(numbers))]
            if expansion.word:
                words.append(expansion.word)
            stack.extend(expansion.rest)
        lines.append(" ".join(words) + "\n")
    return "".join(lines)


@names_errors
def grammar_perplexity(text: str | None = None) -> float:
    r"""Return the perplexity of the grammar itself per word and newline, a lower bound for every model.

    Over all texts it is :math:`e^{H/L}`, where H is the entropy of a sentence in nats and L its expected number of
    words and newlines. Both solve linear equations: the entropy of a symbol is the entropy of its rule plus the
    expected entropy of the symbols in the rule. For one text it is :math:`p(\text{text})^{-1/n}`, where n is its number
    of words and newlines.

    Parameters
    ----------
    text
        A text of the grammar. Default: the exact value over all texts.

    Raises
    ------
    ValueError
        The text is not a text of the grammar.

    Examples
    --------
    >>> from ghrr_lab.lm import generate_grammar_text, grammar_perplexity
    >>> print(f"{grammar_perplexity():.2f}")
    17.02
    >>> print(f"{grammar_perplexity(generate_grammar_text(10_000, seed=1)):.2f}")
    17.06
    """
    if text is None:
        entropy, length = _entropy_and_length()
        return math.exp(entropy / length)
    if not isinstance(text, str):
        raise type_error(f"text must be a str, got {describe(text)}")
    if not text:
        raise value_error("text must not be empty; leave it out for the exact value")
    sentences = [line.split() for line in text.removesuffix("\n").split("\n")]
    return math.exp(-sum(map(_log_probability, sentences)) / sum(len(words) + 1 for words in sentences))


def _random_numbers(seed: int) -> Iterator[float]:
    block = 0
    while True:
        yield from labelled_uniform(_BLOCK, seed, "grammar", str(block)).tolist()
        block += 1


def _log_probability(words: list[str]) -> float:
    """Return the log-probability of a sentence, following its only derivation."""
    tables, stack, total = _tables(), [START], 0.0
    for index, word in enumerate(words):
        expansion = None
        while expansion is None or not expansion.word:  # some symbols expand to nothing
            by_word = tables[stack.pop()].by_word if stack else {}
            expansion = by_word.get(word) or by_word.get("")
            if expansion is None:
                raise value_error(
                    f"text must consist of sentences of the grammar, got {words[index:]!r:.100} "
                    f"after {words[:index][-5:]!r}"
                )
            total += math.log(expansion.probability)
            stack.extend(expansion.rest)
    if stack:
        raise value_error(f"a sentence of the text is incomplete, it ends with {words[-5:]!r}")
    return total


def _entropy_and_length() -> tuple[float, float]:
    """Return the entropy of a sentence in nats and its expected number of words and newlines."""
    tables = _tables()
    index = {symbol: i for i, symbol in enumerate(tables)}
    inside = np.zeros((len(tables), len(tables)))
    of_choice = np.zeros((len(tables), 2))
    for symbol, table in tables.items():
        for word, rest, p in table.expansions:
            of_choice[index[symbol]] += [-p * math.log(p), p * bool(word)]
            for other in rest:
                inside[index[symbol], index[other]] += p
    entropy, length = np.linalg.solve(np.eye(len(tables)) - inside, of_choice)[index[START]]
    return float(entropy), float(length) + 1


@functools.cache
def _tables() -> dict[str, _Table]:
    """Return the expansions of every symbol and word that occurs after the first word of an expansion."""
    rules = _rules()
    tables: dict[str, _Table] = {}
    pending = [START]
    while pending:
        symbol = pending.pop()
        expansions = _expand(symbol, rules)
        bounds = list(accumulate(expansion.probability for expansion in expansions))[:-1]  # the last takes the rest
        tables[symbol] = _Table(expansions, bounds, {expansion.word: expansion for expansion in expansions})
        pending.extend({other for expansion in expansions for other in expansion.rest} - tables.keys())
    return tables


def _expand(symbol: str, rules: dict[str, dict[str, float]]) -> list[_Expansion]:
    if symbol not in rules:
        return [_Expansion(symbol, (), 1.0)]
    expansions = []
    for body, probability in rules[symbol].items():
        if not body:
            expansions.append(_Expansion("", (), probability))
            continue
        first, *rest = body.split()
        for word, first_rest, p in _expand(first, rules):
            expansions.append(_Expansion(word, (*reversed(rest), *first_rest), probability * p))
    return expansions


def _rules() -> dict[str, dict[str, float]]:
    """Return the rules of all symbols, singular and plural, including those that choose a word of a class."""
    rules = {}
    for symbol, bodies in RULES.items():
        for number in ("_sg", "_pl"):
            rules[symbol.replace("_n", number)] = {body.replace("_n", number): p for body, p in bodies.items()}
    for symbol, words in WORDS.items():
        weights = {word: 1 / (k + 2) for k, word in enumerate(words.split())}
        rules[symbol] = {word: weight / sum(weights.values()) for word, weight in weights.items()}
    return rules
