"""RelationChains: hypervectors of relations, learned from chains, that compose chains of any length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from ghrr.checks import check_choice, check_integer, check_real, names_errors, value_error
from ghrr.memory import Answer, ItemMemory
from ghrr.memory.match import CONFIDENCE, check_confidence
from ghrr.relations.chains.calibration import chart_features
from ghrr.relations.chains.composer import Composer
from ghrr.relations.chains.derivation import Derivation
from ghrr.relations.chains.examples import LengthGroup, check_chain, check_examples, group_by_length, to_indices
from ghrr.relations.chains.held_out import NO_CALIBRATION, fit_calibration
from ghrr.relations.chains.products import cosines, multiply_chains
from ghrr.relations.chains.training import ChainProgress, TrainingConfig, train_vectors
from ghrr.space import Space

NUMBERS = {"real": torch.float32, "complex": torch.complex64}
METHODS = ("chart", "left-to-right", "product")


@dataclass(frozen=True, repr=False, kw_only=True)
class ComposedMatch(Answer):
    """Relation that a chain composes to, with its probability and derivation.

    The score is the similarity of the last composition of the derivation with the guess, and the margin is its distance
    to the score of the runner-up. The probability is low if another relation is nearly as good, or if the chain has no
    name among the relations; these two are not told apart.

    Examples
    --------
    >>> from ghrr.relations.chains import RelationChains, kinship_rules
    >>> match = RelationChains(epochs=100).fit(kinship_rules(), calibrate=False).compose(["father", "son", "sister"])
    >>> match.guess, match.derivation.steps
    ('sister', [('father', 'son', 'brother'), ('brother', 'sister', 'sister')])
    """

    derivation: Derivation


@names_errors
class RelationChains:
    r"""Learn how relations compose, and compose chains of them.

    Every relation is one hypervector, the same for a step of a chain and for an answer. A chain is the ordered product
    of its relations, compared with all relations (:mod:`ghrr.relations.chains.products`). The order matters for m > 1:
    the mother of a father is not the father of a mother. Long chains are reduced step by step, with clean-up, in the
    best of all orders (:mod:`ghrr.relations.chains.chart`), so that a model trained on chains of two or three steps
    answers chains of a hundred.

    Parameters
    ----------
    dim, m
        Number and size of the slots: a relation has dim · m² numbers. With m = 1 order cannot be learned.
    numbers
        ``"real"`` or ``"complex"`` slots. The slots are not unitary; see :mod:`ghrr.relations.chains.products`.
    epochs, learning_rate, scale, batch_size, patience
        Settings of the training; see :class:`TrainingConfig`.
    seed
        Seed of the random numbers. The same seed and data give the same vectors to the bit, on a CPU with the same
        number of threads.

    Attributes
    ----------
    relations
        Names of the relations, sorted.
    composer
        The learned hypervectors and their composition table, by index.

    Examples
    --------
    >>> from ghrr.relations.chains import RelationChains, kinship_rules
    >>> model = RelationChains(epochs=100).fit(kinship_rules())
    >>> model.compose(["father", "sister"]).label
    'aunt'
    >>> print(model.compose(["son", "uncle", "daughter", "brother"]).derivation)
    nephew (0.95)
    ├─ brother (0.97)
    │  ├─ son
    │  └─ uncle
    └─ son (0.95)
       ├─ daughter
       └─ brother
    """

    relations: tuple[str, ...]
    composer: Composer

    def __init__(
        self,
        *,
        dim: int = 8,
        m: int = 8,
        numbers: str = "real",
        epochs: int = 15,
        learning_rate: float = 0.05,
        scale: float = 7.4,
        batch_size: int = 256,
        patience: int = 3,
        seed: int = 0,
    ) -> None:
        self.dim = check_integer("dim", dim, least=1)
        self.m = check_integer("m", m, least=1)
        check_choice("numbers", numbers, tuple(NUMBERS))
        self.numbers = numbers
        self.config = TrainingConfig(
            epochs=check_integer("epochs", epochs, least=1),
            learning_rate=check_real("learning_rate", learning_rate, low=0.0, high=10.0, open_ends=True),
            scale=check_real("scale", scale, low=0.0, high=1000.0, open_ends=True),
            batch_size=check_integer("batch_size", batch_size, least=1),
            patience=check_integer("patience", patience, least=1),
        )
        self.seed = check_integer("seed", seed, least=0)

    def __repr__(self) -> str:
        learned = f"{len(self.relations)} relations" if hasattr(self, "composer") else "not fitted"
        return f"RelationChains({learned}, dim={self.dim}, m={self.m}, numbers={self.numbers!r})"

    # ------------------------------------------------------------------------------------------------------- training

    def fit(
        self,
        examples: Iterable[Any],
        *,
        validation: Iterable[Any] | None = None,
        calibrate: bool = True,
        progress: Callable[[ChainProgress], None] | None = None,
    ) -> Self:
        """Learn the hypervectors of all relations in the examples.

        Parameters
        ----------
        examples
            Pairs ``(chain, target)``, such as ``(["father", "sister"], "aunt")``. Chains can have any length.
        validation
            More pairs, to stop training when their loss rises. Their relations must occur in the examples.
        calibrate
            Measure how far the answers to unseen chains can be trusted, by learning a second set of hypervectors from
            a part of the chains (``ghrr.relations.chains.held_out``). Without it training takes half the time, and
            the probability of an answer is a softmax over the two best relations.
        progress
            Function that is called with a :class:`ChainProgress` after each epoch.
        """
        checked = check_examples(examples)
        judged = [] if validation is None else check_examples(validation, "validation example")
        relations = tuple(sorted({name for chain, target in checked for name in (*chain, target)}))
        groups, judged_groups = (_group(pairs, relations) for pairs in (checked, judged))
        longest = max(len(chain) for chain, _ in checked)
        shape = (len(relations), self.dim, self.m, self.m)

        def train(groups: Sequence[LengthGroup], report: Callable[[ChainProgress], None] | None = None) -> Composer:
            generator = torch.Generator().manual_seed(self.seed)
            start = torch.randn(shape, dtype=NUMBERS[self.numbers], generator=generator)
            settings = {"generator": generator, "validation": judged_groups, "progress": report}
            return Composer(train_vectors(groups, start, self.config, **settings), self.config.scale, longest)  # type: ignore[arg-type]

        composer = train(groups, progress)
        weights = fit_calibration(groups, train, seed=self.seed) if calibrate else NO_CALIBRATION
        self.relations, self.composer, self.calibration = relations, composer, weights
        return self

    # -------------------------------------------------------------------------------------------------------- answers

    def compose(self, chain: Sequence[str], *, confidence: float = CONFIDENCE) -> ComposedMatch:
        """Find the relation that a chain composes to, with its probability and derivation.

        Parameters
        ----------
        chain
            Names of relations, at least one. The first is the step from the first person.
        confidence
            Probability from which the match is ``confident``.

        Raises
        ------
        ValueError
            The chain is empty or has an unknown relation.
        """
        return self.compose_many([chain], confidence=confidence)[0]

    def compose_many(self, chains: Iterable[Sequence[str]], *, confidence: float = CONFIDENCE) -> list[ComposedMatch]:
        """Compose many chains of any lengths; see :meth:`compose`. Chains of one length are computed together."""
        confidence = check_confidence(confidence)
        groups, count = self._groups(chains)
        matches: list[ComposedMatch | None] = [None] * count
        for group in groups:
            scores, derivations = self.composer.compose(group.chains, self.relations)
            features = chart_features(scores, self.composer.weakest_steps(group.chains))
            probabilities = torch.sigmoid(features @ self.calibration)
            if group.chains.shape[1] == 1:
                probabilities = torch.ones_like(probabilities)  # nothing is composed
            order = scores.argsort(dim=1, descending=True, stable=True)[:, :2].tolist()
            for row, position in enumerate(group.positions.tolist()):
                matches[position] = self._match(order[row], derivations[row], float(probabilities[row]), confidence)
        return [match for match in matches if match is not None]

    def _match(self, best: list[int], derivation: Derivation, probability: float, confidence: float) -> ComposedMatch:
        last = [part.relation for part in derivation.parts] or [derivation.relation]
        indices = torch.tensor([[self.relations.index(name) for name in last]])
        similarities = cosines(multiply_chains(self.composer.vectors, indices), self.composer.vectors)[0]
        score = float(similarities[best[0]])
        has_second = len(best) > 1
        return ComposedMatch(
            guess=self.relations[best[0]],
            score=score,
            runner_up=self.relations[best[1]] if has_second else None,
            margin=score - float(similarities[best[1]]) if has_second else score,
            candidates=len(self.relations),
            probability=probability,
            required_confidence=confidence,
            derivation=derivation,
        )

    def predict(self, chains: Iterable[Sequence[str]], *, method: str = "chart") -> list[str]:
        """Return the most probable relation of each chain, without probabilities and derivations.

        Parameters
        ----------
        chains
            Lists of names.
        method
            ``"chart"``: the best of all bracketings, as in :meth:`compose`. ``"left-to-right"``: clean-up after each
            step, from the first to the last. ``"product"``: one product, without clean-up.
        """
        check_choice("method", method, METHODS)
        groups, count = self._groups(chains)
        answers = torch.empty(count, dtype=torch.int64)
        for group in groups:
            if method == "left-to-right":
                answers[group.positions] = self.composer.left_to_right(group.chains)
            else:
                scores = self.composer.chart_scores if method == "chart" else self.composer.product_scores
                answers[group.positions] = scores(group.chains).argmax(dim=1)
        return [self.relations[answer] for answer in answers.tolist()]

    def product(self, chain: Sequence[str]) -> Tensor:
        """Return the product of a chain as a complex hypervector of norm √(m · dim), without clean-up.

        Shapes
        ------
        output: ``(dim, m, m)``
        """
        return self.product_many([chain])[0]

    def product_many(self, chains: Iterable[Sequence[str]]) -> Tensor:
        """Return the products of many chains of any lengths; see :meth:`product`.

        Shapes
        ------
        output: ``(n, dim, m, m)``
        """
        groups, count = self._groups(chains)
        products = torch.empty(count, self.dim, self.m, self.m, dtype=torch.complex64)
        for group in groups:
            products[group.positions] = multiply_chains(self.composer.vectors, group.chains).to(torch.complex64)
        return products

    def probabilities(self) -> Tensor:
        """Return the probability that relations a and b compose to c: the composition table.

        Shapes
        ------
        output: ``(relations, relations, relations)``, by a, b, c, in the order of ``relations``
        """
        self._check_fitted()
        return self.composer.table.exp()

    def item_memory(self) -> ItemMemory:
        """Return the relations as an item memory, to compare any product with them."""
        self._check_fitted()
        vectors = self.composer.vectors.to(torch.complex64)
        return ItemMemory(Space(self.dim, self.m), list(self.relations), vectors)

    def _groups(self, chains: Iterable[Sequence[str]]) -> tuple[list[LengthGroup], int]:
        self._check_fitted()
        checked = [check_chain(chain) for chain in chains]
        return group_by_length(_indices(checked, self.relations)), len(checked)

    def _check_fitted(self) -> None:
        if not hasattr(self, "composer"):
            raise value_error("the model is not fitted; call fit(examples) or load a saved model")


def _indices(chains: Sequence[tuple[str, ...]], relations: Sequence[str]) -> list[list[int]]:
    return to_indices(chains, {name: position for position, name in enumerate(relations)})


def _group(examples: Sequence[Any], relations: Sequence[str]) -> list[LengthGroup]:
    chains = _indices([chain for chain, _ in examples], relations)
    targets = _indices([(target,) for _, target in examples], relations)
    return group_by_length(chains, [target for (target,) in targets])
