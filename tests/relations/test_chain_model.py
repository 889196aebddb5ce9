"""RelationChains: learning, answers, derivations, files and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import ghrr
from ghrr.relations.chains import (
    ChainProgress,
    RelationChains,
    generate_kinship_chains,
    kinship_rules,
    load_chains,
    save_chains,
)

RULES = kinship_rules()


def train(**settings: Any) -> RelationChains:
    return RelationChains(**{"dim": 16, "m": 4, "epochs": 80, **settings}).fit(RULES, calibrate=False)


@pytest.fixture(scope="module")
def model() -> RelationChains:
    return RelationChains(dim=16, m=4, epochs=80).fit(RULES)


def share_right(model: RelationChains, examples: Any, method: str = "chart") -> float:
    answers = model.predict([chain for chain, _ in examples], method=method)
    right = sum(answer == target for answer, (_, target) in zip(answers, examples, strict=True))
    return int(right) / len(answers)


def test_all_training_pairs_are_composed(model: RelationChains) -> None:
    assert share_right(model, RULES) == 1.0


def test_commutative_slots_cannot_learn_order() -> None:
    """Negative control, m = 1: the mother of a father and the father of a mother are one product."""
    commutative, answers = train(dim=256, m=1), dict(RULES)
    contradictions = sum(answers.get((b, a), target) != target for (a, b), target in RULES) / 2
    assert contradictions > 0
    assert share_right(commutative, RULES) <= 1 - contradictions / len(RULES)
    there, back = commutative.product_many([["father", "mother"], ["mother", "father"]])
    assert torch.allclose(there, back)


def test_long_chains_are_composed_by_the_chart(model: RelationChains) -> None:
    chains = generate_kinship_chains(40, 12, seed=0)
    assert share_right(model, chains) >= 0.95
    assert share_right(model, chains, "left-to-right") < 0.8


def test_complex_slots_learn_too() -> None:
    assert share_right(train(dim=8, numbers="complex"), RULES) == 1.0


def test_derivation_uses_the_chain_and_explains_the_score(model: RelationChains) -> None:
    chain = ("son", "uncle", "daughter", "brother", "sister")
    match = model.compose(chain)
    assert match.derivation.chain == chain
    assert match.derivation.relation == match.guess
    indices = torch.tensor([[model.relations.index(name) for name in chain]])
    assert match.derivation.log_probability == pytest.approx(
        float(model.composer.chart_scores(indices).max()), abs=1e-4
    )
    table, index = model.probabilities(), model.relations.index
    for node in match.derivation:
        if len(node.parts) == 2:
            a, b = (index(part.relation) for part in node.parts)
            assert node.probability == pytest.approx(float(table[a, b, index(node.relation)]), abs=1e-5)


def test_spans_of_training_length_can_be_read_as_one_product() -> None:
    examples = [(("a", "b", "c"), "d"), (("a", "a"), "a"), (("b", "b"), "b"), (("c", "c"), "c"), (("d", "d"), "d")]
    model = RelationChains(dim=8, m=4, epochs=200, batch_size=1).fit(examples, calibrate=False)
    match = model.compose(["a", "b", "c"])
    assert match.guess == "d"
    assert match.derivation.steps == [("a", "b", "c", "d")]


def test_batch_gives_the_same_answers_as_single_chains(model: RelationChains) -> None:
    chains = [["father", "sister"], ["son"], ["brother", "mother", "father"], ["mother", "sister"]]
    for chain, match in zip(chains, model.compose_many(chains), strict=True):
        alone = model.compose(chain)
        assert (alone.guess, alone.derivation.steps) == (match.guess, match.derivation.steps)
        assert alone.probability == pytest.approx(match.probability, abs=1e-5)
    assert model.predict(chains) == [match.guess for match in model.compose_many(chains)]
    assert model.compose_many([]) == []


def test_confidence_is_higher_for_seen_pairs_than_for_compositions_without_a_name(model: RelationChains) -> None:
    seen = model.compose(["father", "sister"])
    cousin = model.compose(["father", "sister", "son"])  # not a relation of the model
    assert 0.0 < cousin.probability < seen.probability < 1.0
    assert seen.runner_up != seen.guess
    assert seen.score > 0.5


def test_chains_without_a_name_are_improbable(model: RelationChains) -> None:
    named = {chain for chain, _ in RULES}
    steps = ("father", "mother", "son", "daughter", "brother", "sister", "husband", "wife", "uncle", "aunt")
    pairs = [(a, b) for a in steps for b in steps]
    matches = dict(zip(pairs, model.compose_many(pairs), strict=True))
    assert all(match.probability > 0.8 for pair, match in matches.items() if pair in named)
    unnamed = [match for pair, match in matches.items() if pair not in named]
    assert sum(match.probability < 0.2 for match in unnamed) > 0.7 * len(unnamed)
    plain = train().compose_many([pair for pair in pairs if pair not in named])  # negative control: the lead alone
    assert sum(match.probability < 0.2 for match in plain) == 0


def test_chain_of_one_relation_is_certain(model: RelationChains) -> None:
    assert model.compose(["son"]).probability == 1.0


def test_product_is_a_hypervector_that_the_item_memory_cleans_up(model: RelationChains) -> None:
    memory = model.item_memory()
    product = model.product(["mother", "brother"])
    assert product.dtype == torch.complex64
    assert memory.cleanup(product).labels == ["uncle"]
    vectors = memory.vectors(["mother", "brother"])
    expected = ghrr.bind(*vectors)
    torch.testing.assert_close(product / product.norm(), expected / expected.norm())


def test_same_seed_gives_same_vectors_to_the_bit() -> None:
    first, second, other = (train(epochs=3, seed=seed).composer.vectors for seed in (5, 5, 6))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_fit_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    train(epochs=1)
    assert torch.equal(before, torch.random.get_rng_state())


def test_saved_model_gives_identical_answers(model: RelationChains, tmp_path: Path) -> None:
    path = tmp_path / "kinship.safetensors"
    save_chains(path, model)
    loaded = load_chains(path)
    chains = [chain for chain, _ in generate_kinship_chains(5, 7)]
    assert loaded.compose_many(chains) == model.compose_many(chains)
    assert loaded.config == model.config


def test_complex_model_is_saved(tmp_path: Path) -> None:
    model = train(epochs=2, numbers="complex")
    save_chains(tmp_path / "model", model)
    assert torch.equal(load_chains(tmp_path / "model").composer.vectors, model.composer.vectors)


def test_damaged_file_is_refused(model: RelationChains, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_chains(path, model)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"load_chains\(.*checksum"):
        load_chains(path)
    path.write_bytes(content[:-100])
    with pytest.raises(ValueError, match=r"load_chains"):
        load_chains(path)


def test_only_models_of_chains_are_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="save_chains: model must be a RelationChains, got NoneType"):
        save_chains(tmp_path / "model", None)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_early_stopping_keeps_the_best_epoch() -> None:
    seen: list[ChainProgress] = []
    contradicting = [(chain, "wife" if target != "wife" else "husband") for chain, target in RULES]
    model = RelationChains(dim=16, m=4, epochs=50, patience=2)
    model.fit(RULES, validation=contradicting, calibrate=False, progress=seen.append)
    assert len(seen) < 50
    losses = [progress.validation_loss for progress in seen]
    assert losses.index(min(losses)) == len(losses) - 3  # type: ignore[type-var]


def test_progress_reports_every_epoch() -> None:
    seen: list[ChainProgress] = []
    RelationChains(epochs=4).fit(RULES, calibrate=False, progress=seen.append)
    assert [progress.epoch for progress in seen] == [1, 2, 3, 4]
    assert seen[-1].loss < seen[0].loss
    assert seen[0].validation_loss is None


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        ([], "the chain is empty"),
        (["father", "cousin"], "unknown relation 'cousin', expected one of aunt"),
        ("father", "must be a list of names"),
        ([1, 2], "must be a list of names"),
    ],
)
@pytest.mark.parametrize("method", ["compose", "product"])
def test_wrong_chains_are_explained(model: RelationChains, method: str, chain: Any, reason: str) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"RelationChains.{method}: .*{reason}"):
        getattr(model, method)(chain)


@pytest.mark.parametrize(
    ("examples", "reason"),
    [
        ([], "there are no examples"),
        ([(["father"], "father"), ([], "aunt")], "example 1: the chain is empty"),
        ([(["father"], "")], "the target of example 0 must be a name"),
        (["father"], "example 0 must be a pair"),
        ([(["father"],)], "example 0 must be a pair"),
    ],
)
def test_wrong_examples_are_explained(examples: Any, reason: str) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"RelationChains.fit: {reason}"):
        RelationChains().fit(examples)


def test_failed_fit_leaves_the_model_as_it_was() -> None:
    model = train(epochs=2)
    before = model.composer
    with pytest.raises(ValueError, match="unknown relation 'cousin'"):
        model.fit(RULES, validation=[(["cousin"], "aunt")])
    assert model.composer is before


@pytest.mark.parametrize("setting", [{"m": 0}, {"dim": 1.5}, {"numbers": "rational"}, {"scale": 0.0}, {"epochs": 0}])
def test_wrong_settings_are_named(setting: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"RelationChains: {next(iter(setting))}"):
        RelationChains(**setting)


@pytest.mark.parametrize("call", ["compose", "product", "predict"])
def test_model_must_be_fitted(call: str) -> None:
    with pytest.raises(ValueError, match="not fitted"):
        getattr(RelationChains(), call)(["father"])


def test_unknown_method_is_named(model: RelationChains) -> None:
    with pytest.raises(ValueError, match=r"method.*chart"):
        model.predict([["father"]], method="guess")
