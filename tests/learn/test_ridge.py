"""Ridge regression from sums: equal to scikit-learn's, whatever the batches, weights and form."""

from __future__ import annotations

import warnings

import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from ghrr.learn.ridge import NormalEquations, RidgeSolution, solve_dual


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
