"""Ridge regression from sums: equal to scikit-learn's, whatever the batches, weights and form."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from ghrr.learn import HDClassifier, ridge
from ghrr.learn.ridge import NormalEquations, RidgeSolution, solve_dual, solve_sparse


def samples(n: int, features: int, outputs: int = 2, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, features, generator=generator, dtype=torch.float64)
    y = torch.randn(n, outputs, generator=generator, dtype=torch.float64)
    return x, y, torch.rand(n, generator=generator, dtype=torch.float64) + 0.1


def primal(x: Tensor, y: Tensor, w: Tensor, alphas: list[float], parts: int = 1) -> RidgeSolution:
    sums = NormalEquations(x.shape[1], y.shape[1])
    for batch in zip(x.chunk(parts), y.chunk(parts), w.chunk(parts), strict=True):
        sums.add(*batch)
    return sums.solve(alphas)


def unit(x: Tensor, w: Tensor) -> float:
    mean = (w @ x) / w.sum()
    return float((w @ (x - mean).square().sum(dim=1)) / w.sum())


@pytest.mark.parametrize(("n", "features"), [(50, 7), (12, 40)])
@pytest.mark.parametrize("form", ["primal", "dual"])
def test_solution_equals_that_of_scikit_learn(n: int, features: int, form: str) -> None:
    x, y, w = samples(n, features)
    got = primal(x, y, w, [0.1]) if form == "primal" else solve_dual([(x, y, w)], [0.1])
    other = Ridge(alpha=0.1 * unit(x, w)).fit(x.numpy(), y.numpy(), sample_weight=w.numpy())
    torch.testing.assert_close(got.weights, torch.from_numpy(other.coef_).T, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(got.intercept, torch.from_numpy(other.intercept_), rtol=1e-8, atol=1e-10)
    wrong = Ridge(alpha=0.2 * unit(x, w)).fit(x.numpy(), y.numpy(), sample_weight=w.numpy())  # negative control
    assert (got.weights - torch.from_numpy(wrong.coef_).T).abs().max() > 1e-3


def test_batches_do_not_change_the_solution() -> None:
    x, y, w = samples(60, 9)
    one, many = primal(x, y, w, [0.01, 1.0]), primal(x, y, w, [0.01, 1.0], parts=7)
    assert one.alpha == many.alpha
    torch.testing.assert_close(one.weights, many.weights)


@pytest.mark.parametrize("form", [primal, lambda x, y, w, alphas: solve_dual([(x, y, w)], alphas)])
def test_weight_of_two_equals_a_repeated_sample(form: object) -> None:
    assert callable(form)
    x, y, _ = samples(15, 30)
    counts = torch.tensor([1, 2, 3] * 5)
    alphas = [1e-3, 1e-2, 1e-1, 1.0]
    weighted = form(x, y, counts.double(), alphas)
    repeated = form(
        x.repeat_interleave(counts, dim=0), y.repeat_interleave(counts, dim=0), torch.ones(30).double(), alphas
    )
    assert weighted.alpha == repeated.alpha
    torch.testing.assert_close(weighted.weights, repeated.weights)
    assert weighted.shrinkage == pytest.approx(repeated.shrinkage)


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0, 30.0])
def test_penalty_has_the_lowest_error_of_all(noise: float) -> None:
    x, y, w = samples(40, 10, outputs=1, seed=3)
    alphas = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0]
    targets = x[:, :1] + noise * y
    errors = {alpha: solve_dual([(x, targets, w)], [alpha]).error for alpha in alphas}
    assert solve_dual([(x, targets, w)], alphas).alpha == min(alphas, key=errors.__getitem__)


def test_cross_validation_error_equals_its_definition() -> None:
    """The chosen penalty minimises RSS / N / (1 - tr(H) / N)², computed from the hat matrix H."""
    x, y, w = samples(40, 10, outputs=1, seed=3)
    w = torch.ones_like(w)
    y = x[:, :1] + 0.5 * y
    alphas = [1e-3, 1e-1, 1.0, 10.0, 100.0]

    def hat_matrix(alpha: float) -> Tensor:
        centred = x - x.mean(dim=0)
        gram = centred.mT @ centred + alpha * unit(x, w) * torch.eye(10, dtype=x.dtype)
        hat: Tensor = centred @ torch.linalg.solve(gram, centred.mT) + 1 / 40
        return hat

    def error(alpha: float) -> float:
        hat = hat_matrix(alpha)
        return float((y - hat @ y).square().sum() / 40 / (1 - hat.trace() / 40) ** 2)

    assert primal(x, y, w, alphas).alpha == min(alphas, key=error)
    assert len({round(error(alpha), 6) for alpha in alphas}) == len(alphas)
    for got in (primal(x, y, w, [0.1]), solve_dual([(x, y, w)], [0.1])):
        assert got.shrinkage == pytest.approx(float(hat_matrix(0.1).trace()) / 40)


def test_penalty_too_small_for_singular_equations_is_refused() -> None:
    x = torch.ones(5, 3, dtype=torch.float64)
    x[:, 0] = torch.arange(5)
    with pytest.raises(ValueError, match="larger"):
        primal(torch.cat([x, x], dim=1), x, torch.ones(5).double(), [-1.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.1, 0.3, 123456.7])
def test_constant_features_predict_the_mean(value: float, dtype: torch.dtype) -> None:
    x, y, w = torch.full((200, 3), value, dtype=dtype), torch.arange(200.0)[:, None], torch.ones(200)
    sums = NormalEquations(3, 1)
    sums.add(x, y, w)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether rounding leaves a matrix that is not definite depends on the value
        assert sums.solve([1e-6, 1.0])(x[:1]).item() == pytest.approx(99.5, rel=1e-3)


def test_constant_features_are_reported_and_varying_ones_are_not() -> None:
    x, y, w = torch.full((200, 3), 0.1), torch.arange(200.0)[:, None], torch.ones(200)
    constant, varying = NormalEquations(3, 1), NormalEquations(3, 1)
    constant.add(x, y, w)
    varying.add(x + 1e-3 * y, y, w)  # negative control
    with pytest.warns(UserWarning, match="constant within rounding"):
        assert constant.solve([1e-6]).weights.abs().max() == 0
    assert varying.solve([1e-6]).weights.abs().max() > 1


def test_equations_of_features_that_are_not_numbers_are_refused() -> None:
    sums = NormalEquations(3, 1)
    sums.add(torch.full((9, 3), torch.nan), torch.ones(9, 1), torch.ones(9))
    with pytest.raises(ValueError, match="cannot be solved"):
        sums.solve([1.0])


FORMS = {
    "primal": lambda x, y, w, alphas: primal(x, y, w, alphas, parts=3),
    "dual": lambda x, y, w, alphas: solve_dual([(x, y, w)], alphas),
    "dual in blocks": lambda x, y, w, alphas: solve_dual(zip(x.chunk(3), y.chunk(3), w.chunk(3), strict=True), alphas),
    "sparse": lambda x, y, w, alphas: solve_sparse(scipy.sparse.csr_matrix(x.numpy()), y, w, alphas),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "features"), [(20, 60), (60, 20)])
def test_all_forms_give_one_solution_and_one_error(
    form: str, n: int, features: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ridge, "_BLOCK", 16)
    x, y, _ = samples(n, features)
    w = torch.ones(n, dtype=torch.float64)
    x = x * (x > 0.5)  # mostly 0
    y = x[:, :2] + 0.3 * y
    alphas = [1e-3, 1e-2, 1e-1, 1.0, 10.0]
    got = FORMS[form](x, y, w, alphas)

    def by_definition(alpha: float) -> tuple[float, float]:
        centred = x - x.mean(dim=0)
        gram = centred @ centred.mT
        hat = gram @ torch.linalg.inv(gram + alpha * unit(x, w) * torch.eye(n, dtype=x.dtype)) + 1 / n
        shrinkage = float(hat.trace()) / n
        return float((y - hat @ y).square().sum()) / n / (1 - shrinkage) ** 2, shrinkage

    errors = {alpha: by_definition(alpha) for alpha in alphas}
    best = min(alphas, key=lambda alpha: errors[alpha][0])
    assert got.alpha == best
    assert (got.error, got.shrinkage) == pytest.approx(errors[best], rel=1e-8)
    other = Ridge(alpha=best * unit(x, w)).fit(x.numpy(), y.numpy())
    np.testing.assert_allclose(got.weights.numpy(), other.coef_.T, atol=1e-9)
    np.testing.assert_allclose(got.intercept.numpy(), other.intercept_, atol=1e-9)
    assert len({round(error, 6) for error, _ in errors.values()}) == len(alphas)  # negative control


@pytest.mark.parametrize("form", ["dual", "sparse"])
def test_weights_count_alike_in_all_forms(form: str) -> None:
    x, y, w = samples(20, 60)
    got, expected = FORMS[form](x, y, w, [0.1]), primal(x, y, w, [0.1])
    torch.testing.assert_close(got.weights, expected.weights)
    torch.testing.assert_close(got.intercept, expected.intercept)


def test_dual_in_single_precision_is_the_same_to_rounding() -> None:
    x, y, w = samples(50, 200)
    exact, single = (solve_dual([(x, y, w)], [1e-2, 1.0], dtype=dtype) for dtype in (torch.float64, torch.float32))
    assert exact.alpha == single.alpha
    torch.testing.assert_close(single.weights, exact.weights, rtol=1e-4, atol=1e-6)
    assert single.error == pytest.approx(exact.error, rel=1e-5)


def test_sparse_features_of_few_samples_stay_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = scipy.sparse.random(40, 500, density=0.05, format="csr", random_state=0)
    labels = np.arange(40) % 3
    dense = HDClassifier("passthrough").fit(rows.toarray(), labels)
    widths: list[int] = []
    features = HDClassifier._features

    def recorded(model: HDClassifier, part: Any) -> Tensor:
        widths.append(part.shape[0])
        return features(model, part)

    monkeypatch.setattr(HDClassifier, "_features", recorded)
    model = HDClassifier("passthrough")
    solution = model._solve_ridge(model._fit_encoder(rows, labels, np.ones(40)), np.eye(3)[labels], np.ones(40))
    assert set(widths) == {1}  # only to find the number of features
    found = HDClassifier("passthrough").fit(rows, labels)
    assert solution.alpha == found.alpha_ == dense.alpha_
    np.testing.assert_allclose(found.decision_function(rows), dense.decision_function(rows), atol=1e-5)
    np.testing.assert_allclose(found.predict_proba(rows), dense.predict_proba(rows), atol=1e-4)
