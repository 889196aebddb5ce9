"""Scores: the formula and its gradient, ComplEx and RotatE as special cases, and the loss over all entities."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ghrr.ops import reference
from ghrr.relations import RelationModel
from ghrr.relations.loss import cross_entropy_gradients, softmax_error
from ghrr.relations.regularizers import dura, n3
from ghrr.relations.scoring import to_hypervectors, to_rows, triple_scores
from ghrr.relations.train_step import answer_weights, make_step
from ghrr.unitary import is_unitary
from tests.relations.common import random_graph, random_model, small_config


def vectors(*batch: int, dim: int, m: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, dim, m, m, dtype=torch.complex128, generator=generator)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_model_scores_equal_the_reference(m: int) -> None:
    model = random_model(m)
    heads, relations = torch.tensor([0, 3, 7]), torch.tensor([0, 2, 5])
    found = model.scores(heads, relations)
    h, r = model.entity_vectors(heads), model.relation_vectors()[relations]
    expected = reference.pairwise_similarity(reference.bind(h, r), model.entity_vectors(torch.arange(12)))
    torch.testing.assert_close(found, expected)
    wrong_order = reference.pairwise_similarity(reference.bind(r, h), model.entity_vectors(torch.arange(12)))
    assert torch.allclose(found, wrong_order, atol=1e-5) == (m == 1)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_gradient_of_the_score_equals_that_of_the_reference(m: int) -> None:
    inputs = [vectors(4, dim=3, m=m, seed=i).requires_grad_() for i in range(3)]
    found = torch.autograd.grad(triple_scores(*inputs).sum(), inputs)
    h, r, t = inputs
    expected = torch.autograd.grad(reference.bind_similarity(h, r, t).sum(), inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_m_1_is_the_score_of_complex() -> None:
    h, r, t = (vectors(6, dim=10, m=1, seed=i) for i in range(3))
    expected = (h * r * t.conj()).sum(dim=(1, 2, 3)).real
    torch.testing.assert_close(10 * triple_scores(h, r, t), expected)


def test_unitary_m_1_is_the_score_of_rotate_up_to_the_norms_of_entities() -> None:
    h, r, t = (vectors(6, dim=10, m=1, seed=i) for i in range(3))
    unitary = r / r.abs()
    norms = (h.abs().square() + t.abs().square()).sum(dim=(1, 2, 3)) / 2
    rotate = -(h * unitary - t).abs().square().sum(dim=(1, 2, 3)) / 2
    torch.testing.assert_close(10 * triple_scores(h, unitary, t) - norms, rotate)
    relaxed = -(h * r - t).abs().square().sum(dim=(1, 2, 3)) / 2
    assert not torch.allclose(10 * triple_scores(h, r, t) - norms, relaxed)  # the identity needs unitary relations


@pytest.mark.parametrize("m", [1, 2, 3])
def test_relations_have_their_form(m: int) -> None:
    assert is_unitary(random_model(m, relation_form="unitary").relation_vectors())
    assert not is_unitary(random_model(m).relation_vectors())
    scaled = random_model(m, relation_form="scaled")
    with torch.no_grad():
        scaled.log_scale.fill_(0.5)
    vectors = scaled.relation_vectors()
    assert not is_unitary(vectors)
    assert is_unitary(vectors / torch.exp(torch.tensor(0.5)))


def test_path_is_one_product() -> None:
    model = random_model(3)
    head, first, second = (torch.tensor([i]) for i in (2, 0, 4))
    r = model.relation_vectors()
    expected = reference.bind(reference.bind(model.entity_vectors(head), r[first]), r[second])
    torch.testing.assert_close(model.compose(head, first, second), expected)
    torch.testing.assert_close(model.compose(head), model.entity_vectors(head))


def test_names_and_reciprocals_have_indices() -> None:
    model = random_model(2)
    assert [model.relation_index(name) for name in ("r0", "r2", "~r0", "~r2")] == [0, 2, 3, 5]
    assert [model.relation_name(i) for i in (0, 2, 3, 5)] == ["r0", "r2", "~r0", "~r2"]
    with pytest.raises(ValueError, match="unknown relation 'x', expected one of 3 names such as 'r0'"):
        model.relation_index("~x")
    with pytest.raises(ValueError, match="unknown entity 'x'"):
        model.entity_index("x")
    named = RelationModel(("Ada", "Byron", "John"), ("parent",), dim=1, m=1)
    with pytest.raises(ValueError, match="unknown entity 'Jon', expected one of 3 names such as 'John'"):
        named.entity_index("Jon")
    with pytest.raises(TypeError, match="must be a string"):
        model.entity_index(3)  # type: ignore[arg-type]


def test_rows_and_hypervectors_are_inverse() -> None:
    x = vectors(2, 4, dim=3, m=2, seed=0)
    assert torch.equal(to_hypervectors(to_rows(x), 2), x)
    torch.testing.assert_close(to_rows(x.mH), to_rows(x.mH.clone()))


@pytest.mark.parametrize("length_penalty", [0.0, 0.3])
@pytest.mark.parametrize("weights", [None, torch.tensor([1.0, 0.1, 2.0, 0.0, 0.5, 3.0], dtype=torch.float64)])
@pytest.mark.parametrize("max_scores", [1, 40, 59, 60, 1000])
def test_loss_and_gradients_equal_autograd_in_any_chunks(
    max_scores: int, weights: Tensor | None, length_penalty: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    queries, entities = (
        torch.randn(n, 7, dtype=torch.float64, generator=generator, requires_grad=True) for n in (6, 20)
    )
    targets = torch.tensor([0, 19, 3, 3, 8, 0])
    logits = queries @ entities.T - length_penalty * entities.square().sum(dim=1)
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    expected = losses.mean() if weights is None else (weights * losses).sum() / weights.sum()
    gradients = torch.autograd.grad(expected, (queries, entities))
    found = cross_entropy_gradients(
        queries.detach(),
        entities.detach(),
        targets,
        max_scores=max_scores,
        weights=weights,
        length_penalty=length_penalty,
    )
    for one, other in zip(found, (expected.detach(), *gradients), strict=True):
        torch.testing.assert_close(one, other)


def test_no_more_scores_than_allowed_exist_at_a_time() -> None:
    sizes = []

    def recorded(logits: Tensor, targets: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        sizes.append(logits.numel())
        return softmax_error(logits, targets, shares)

    queries, entities, targets = torch.ones(6, 2), torch.ones(20, 2), torch.zeros(6, dtype=torch.int64)
    cross_entropy_gradients(queries, entities, targets, max_scores=79, softmax=recorded)
    assert sizes == [60, 60]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("max_scores", [1 << 20, 1000])
def test_gradients_on_a_gpu_differ_by_the_rounding_of_bfloat16(max_scores: int) -> None:
    generator = torch.Generator().manual_seed(0)
    queries, entities = (torch.randn(n, 64, generator=generator) for n in (50, 301))
    targets, weights = torch.randint(301, (50,), generator=generator), torch.rand(50, generator=generator)
    expected = cross_entropy_gradients(
        queries.double(),
        entities.double(),
        targets,
        max_scores=max_scores,
        weights=weights.double(),
        length_penalty=0.1,
    )
    found = cross_entropy_gradients(
        queries.cuda(),
        entities.cuda(),
        targets.cuda(),
        max_scores=max_scores,
        weights=weights.cuda(),
        length_penalty=0.1,
    )
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert one.shape == other.shape
        error = (one.cpu() - other).norm() / other.norm()
        assert 1e-5 < error < 2**-6  # logits of size 8 are exact to about 2**-7, the rounding of both factors


def test_loss_of_improbable_targets_is_exact() -> None:
    queries, entities = torch.tensor([[300.0]]), torch.tensor([[1.0], [0.0]])
    loss, *_ = cross_entropy_gradients(queries, entities, torch.tensor([1]), max_scores=10)
    assert loss == 300.0


@pytest.mark.parametrize("regularizer", ["dura", "n3"])
@pytest.mark.parametrize("relation_form", ["relaxed", "unitary", "scaled"])
def test_step_has_the_gradients_of_the_whole_loss(regularizer: str, relation_form: str) -> None:
    """With a step of plain gradient descent, the change of each parameter is its gradient."""
    model = random_model(2, relation_form=relation_form).double()
    config = small_config(m=2, regularizer=regularizer, regularizer_weight=0.1, max_scores=50)
    triples = random_graph().train
    h, r, t = (
        model.entity_vectors(triples[:, 0]),
        model.relation_vectors()[triples[:, 1]],
        model.entity_vectors(triples[:, 2]),
    )
    product = reference.bind(h, r)
    logits = to_rows(product) @ model.entity_table.T
    penalty = {"dura": dura, "n3": n3}[regularizer](h, r, t, product)
    whole = torch.nn.functional.cross_entropy(logits, triples[:, 2]) + 0.1 * penalty
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    gradients = dict(zip(before, torch.autograd.grad(whole, list(model.parameters())), strict=True))
    loss = make_step(model, torch.optim.SGD(model.parameters(), lr=1.0), config)(triples)
    torch.testing.assert_close(loss, whole.detach() - 0.1 * penalty.detach())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(before[name] - parameter, gradients[name], msg=name)


@pytest.mark.parametrize("m", [1, 2])
def test_step_adds_the_weighted_loss_of_relations_and_products(m: int) -> None:
    model = random_model(m).double()
    config = small_config(m=m, regularizer_weight=0.1, product_weight=3.0, relation_weight=0.5)
    triples = random_graph().train
    relations = model.relation_vectors()
    h, r, t = model.entity_vectors(triples[:, 0]), relations[triples[:, 1]], model.entity_vectors(triples[:, 2])
    product = reference.bind(h, r)
    by_relation = torch.stack([triple_scores(h, relation, t) * m * model.dim for relation in relations], dim=1)
    whole = (
        torch.nn.functional.cross_entropy(to_rows(product) @ model.entity_table.T, triples[:, 2])
        + 0.1 * dura(h, r, t, product, product_weight=3.0)
        + 0.5 * torch.nn.functional.cross_entropy(by_relation, triples[:, 1])
    )
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    gradients = dict(zip(before, torch.autograd.grad(whole, list(model.parameters())), strict=True))
    make_step(model, torch.optim.SGD(model.parameters(), lr=1.0), config)(triples)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(before[name] - parameter, gradients[name], msg=name)


def test_step_weights_questions_by_their_answers_and_penalises_lengths() -> None:
    model = random_model(2, length_penalty=0.2).double()
    graph, config = random_graph(), small_config(m=2, regularizer_weight=0.0)
    heads, relations, tails = graph.train.unbind(1)
    counts = torch.tensor([(graph.train[:, [0, 2]] == entity).sum() for entity in range(12)])
    weights = (0.25 + 0.75 * counts / counts.max())[tails].double()
    logits = model.scores(heads, relations) * 2 * model.dim
    losses = torch.nn.functional.cross_entropy(logits, tails, reduction="none")
    whole = (weights * losses).sum() / weights.sum()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    gradients = dict(zip(before, torch.autograd.grad(whole, list(model.parameters())), strict=True))
    answers = answer_weights(graph, 0.75)
    assert answers is not None
    step = make_step(model, torch.optim.SGD(model.parameters(), lr=1.0), config, answers.double())
    torch.testing.assert_close(step(graph.train), whole.detach())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(before[name] - parameter, gradients[name], msg=name)
    assert not torch.allclose(losses.mean(), whole)  # equal weights give another loss


def test_half_a_length_penalty_ranks_by_distance() -> None:
    model = random_model(3, length_penalty=0.5)
    heads, relations = torch.tensor([0, 3, 7]), torch.tensor([0, 2, 5])
    tails = model.entity_vectors(torch.arange(12))
    distances = (model.compose(heads, relations)[:, None] - tails).abs().square().sum(dim=(-1, -2, -3))
    ranked = model.scores(heads, relations).argsort(dim=1, descending=True)
    assert torch.equal(ranked, distances.argsort(dim=1))
    model.length_penalty = 0.0
    assert not torch.equal(model.scores(heads, relations).argsort(dim=1, descending=True), ranked)


def test_equal_weights_are_none() -> None:
    assert answer_weights(random_graph(), 0.0) is None


@pytest.mark.parametrize("m", [1, 3])
def test_regularizers_equal_their_formulas(m: int) -> None:
    h, r, t = (vectors(4, dim=3, m=m, seed=i) for i in range(3))
    squares = [x.abs().square().sum() for x in (h, t, reference.bind(h, r), reference.bind(t, r.mH))]
    torch.testing.assert_close(dura(h, r, t, reference.bind(h, r)), sum(squares) / 4)
    weighted = squares[0] + squares[1] + 3 * (squares[2] + squares[3])
    torch.testing.assert_close(dura(h, r, t, reference.bind(h, r), product_weight=3.0), weighted / 4)
    cubes = [torch.linalg.matrix_norm(x).pow(3).sum() for x in (h, r, t)]
    torch.testing.assert_close(n3(h, r, t, reference.bind(h, r)), sum(cubes) / 4)


def test_n3_has_a_finite_gradient_at_zero() -> None:
    zero = torch.zeros(1, 2, 2, 2, dtype=torch.complex128, requires_grad=True)
    (gradient,) = torch.autograd.grad(n3(zero, zero, zero, zero), zero)
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "dim must be a whole number of at least 1"),
        ({"m": 2.5}, "m must be a whole number"),
        ({"relation_form": "orthogonal"}, "relation_form must be one of 'relaxed', 'unitary', 'scaled'"),
        ({"init_std": 0.0}, r"init_std must lie in \(0"),
        ({"length_penalty": -1.0}, r"length_penalty must lie in \[0"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
    ],
)
def test_bad_settings_of_a_model_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"RelationModel: {message}"):
        RelationModel(("a", "b"), ("r",), **{"dim": 2, "m": 2, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 0},
        {"optimizer": "sgd"},
        {"regularizer": "l2"},
        {"regularizer_weight": -1.0},
        {"product_weight": 2.0, "regularizer": "n3"},
        {"relation_weight": -1.0},
        {"frequency_share": 1.5},
        {"length_penalty": -0.1},
        {"learning_rate": float("nan")},
        {"compile": "yes"},
        {"patience": 0},
    ],
)
def test_bad_settings_of_training_are_named(changes: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"RelationConfig: {next(iter(changes))} must"):
        small_config(**changes)
