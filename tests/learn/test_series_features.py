"""SeriesFeatures: the kernel of windows, order, positions, series of different lengths, wrong series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ghrr.learn import HDClassifier, SeriesFeatures

SHORT = np.random.default_rng(0).normal(size=(3, 2, 6)).cumsum(axis=2)


def windows_of(encoder: SeriesFeatures, series: Any, dilation: int) -> tuple[Any, Any]:
    """The windows of a series and their weights by their definition, one step at a time."""
    values = (series - encoder.means_) / encoder.scales_
    steps = np.diff(series, axis=1, prepend=series[:, :1]) / encoder.difference_scales_
    channels, length = np.concatenate([values, steps]), series.shape[1]
    windows, weights = [], []
    for t in range(length):
        places = [min(max(t + (k - encoder.window // 2) * dilation, 0), length - 1) for k in range(encoder.window)]
        window, weight = channels[:, places].T, 1.0
        if encoder.normalize:
            window = window - window.mean(axis=0)
            weight = float(np.linalg.norm(window))
            window = window / weight
        else:
            window = window / np.sqrt(window.size)
        windows.append(window)
        weights.append(weight)
    return np.array(windows), np.array(weights)


def exact_kernel(encoder: SeriesFeatures, series: Any) -> Any:
    kernel = np.zeros((len(series), len(series)))
    for dilation in encoder.dilations_:
        parts = [windows_of(encoder, one, dilation) for one in series]
        for i, (a, wa) in enumerate(parts):
            for j, (b, wb) in enumerate(parts):
                squares = ((a[:, None] - b) ** 2).sum(axis=(2, 3))
                values = np.exp(-squares / (2 * encoder.bandwidth**2))
                if encoder.positions == "powers":
                    shifts = np.arange(len(a))[:, None] / len(a) - np.arange(len(b)) / len(b)
                    values = values * np.exp(-(shifts**2) / (2 * encoder.position_bandwidth**2))
                kernel[i, j] += wa @ values @ wb
    roots = np.sqrt(np.diag(kernel))
    return kernel / np.outer(roots, roots)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("positions", ["neighbours", "powers"])
def test_inner_products_are_the_kernel_of_windows(positions: str, normalize: bool) -> None:
    encoder = SeriesFeatures(8000, window=3, positions=positions, normalize=normalize, random_state=0).fit(SHORT)
    assert encoder.dilations_ == [1, 2]
    z = encoder.transform(SHORT)
    error = 5 / np.sqrt(2 * 8000 / 2)
    np.testing.assert_allclose(z @ z.T, exact_kernel(encoder, SHORT), atol=error)
    wrong = SeriesFeatures(10, window=3, positions=positions, normalize=normalize, bandwidth=0.2).fit(SHORT)
    assert np.abs(z @ z.T - exact_kernel(wrong, SHORT)).max() > error  # negative control: another bandwidth


@pytest.mark.parametrize("positions", ["neighbours", "powers"])
def test_larger_slots_equal_their_definition(positions: str) -> None:
    encoder = SeriesFeatures(5, m=2, window=3, positions=positions, random_state=0).fit(SHORT)
    z = encoder.transform(SHORT)
    rotations, frequencies = encoder._rotations.numpy(), encoder.frequencies_[0].numpy()
    want = np.zeros((3, 5, 2, 2), dtype=complex)
    for row, series in enumerate(SHORT):
        for slot in range(5):
            windows, weights = windows_of(encoder, series, encoder.dilations_[slot % 2])
            for t, (window, weight) in enumerate(zip(windows, weights, strict=True)):
                position = float(encoder.position_frequencies_[slot]) * t / 6 * (positions == "powers")
                product = weight * np.exp(1j * position) * np.eye(2, dtype=complex)
                for value in window:
                    product = product @ rotations[slot] @ np.diag(np.exp(1j * frequencies[slot] @ value))
                want[row, slot] += product
    flat = np.stack([want.real, want.imag], axis=-1).reshape(3, -1)
    np.testing.assert_allclose(z, flat / np.linalg.norm(flat, axis=1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_order_inside_of_windows_matters(m: int) -> None:
    saw = np.tile(np.arange(5.0), 8)  # rises slowly and falls at once; its reversal falls slowly
    encoder = SeriesFeatures(720 // m**2, m=m, bandwidth=0.3, random_state=0)
    z = encoder.fit_transform(np.stack([saw, saw[::-1], np.roll(saw, 10)]))
    assert z[0] @ z[2] > 0.95 > 0.75 > z[0] @ z[1]


def test_position_counts_with_powers_only() -> None:
    bump = np.zeros((3, 100))
    for row, start in enumerate((20, 23, 70)):
        bump[row, start : start + 6] = 1.0
    free = SeriesFeatures(2000, random_state=0).fit_transform(bump)
    bound = SeriesFeatures(2000, positions="powers", position_bandwidth=0.1, random_state=0).fit_transform(bump)
    assert free[0] @ free[2] > 0.9
    assert bound[0] @ bound[1] > 0.8 > 0.3 > bound[0] @ bound[2]


def test_levels_count_without_normalisation_only() -> None:
    series = np.stack([np.sin(np.arange(40) / 2), np.sin(np.arange(40) / 2) + 3])
    shapes = SeriesFeatures(500, random_state=0).fit_transform(series)
    levels = SeriesFeatures(500, normalize=False, random_state=0).fit_transform(series)
    assert shapes[0] @ shapes[1] > 0.99
    assert levels[0] @ levels[1] < 0.5


@pytest.mark.parametrize("positions", ["neighbours", "powers"])
def test_series_of_different_lengths_equal_those_encoded_alone(positions: str) -> None:
    random = np.random.default_rng(0)
    series = [random.normal(size=(2, length)) for length in (5, 9, 30)]
    encoder = SeriesFeatures(50, window=3, positions=positions, random_state=0).fit(series)
    alone = np.concatenate([encoder.transform(one[None]) for one in series])
    np.testing.assert_allclose(encoder.transform(series), alone, atol=1e-5)


def test_one_channel_may_be_left_out() -> None:
    series = np.random.default_rng(0).normal(size=(4, 20))
    encoder = SeriesFeatures(50, random_state=0).fit(series)
    np.testing.assert_array_equal(encoder.transform(series), encoder.fit_transform(series[:, None]))
    ragged = [series[0], series[1, :15]]
    assert encoder.transform(ragged).shape == (2, 100)


def test_waves_of_different_shape_are_classified() -> None:
    random = np.random.default_rng(0)
    t, phases = np.arange(50), random.uniform(0, 6, size=(60, 1))
    X = np.concatenate([np.sin(t / 3 + phases[:30]), np.sign(np.sin(t / 3 + phases[30:]))])
    X += 0.3 * random.normal(size=X.shape)
    y = np.repeat([0, 1], 30)
    model = HDClassifier(SeriesFeatures(200, random_state=0)).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([[0.0, np.nan]]), "NaN"),
        ([np.zeros(3), np.array([0.0, np.inf])], "series 1 contains infinity"),
        ([np.zeros(3), np.zeros(3), np.array([0.0, 1.0, np.nan])], "series 2 contains NaN"),
        ([1.0, 2.0], "series 0 must be"),
        (np.zeros((2, 1, 1, 3)), "channels, length"),
        ([np.zeros(3), np.zeros(0)], "not empty"),
        (np.zeros((0, 3)), "0 sample"),
        (np.array([np.zeros(3), np.zeros(4)], dtype=object), "got a column of objects; give series .* as a list"),
        (pd.Series([np.zeros(3), np.zeros(4)]), "got a column of objects; give series .* as a list"),
        ([["a", "b"], ["c", "d"]], "could not convert string"),
    ],
)
def test_wrong_series_are_refused(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SeriesFeatures().fit(X)


def test_other_number_of_channels_is_refused() -> None:
    encoder = SeriesFeatures(10).fit(SHORT)
    with pytest.raises(ValueError, match="features"):
        encoder.transform(SHORT[:, :1])
    with pytest.raises(ValueError, match="expecting 2 channels"):
        encoder.transform([SHORT[0], SHORT[0, :1]])
    with pytest.raises(ValueError, match="Series 1 has 1 channels"):
        SeriesFeatures(10).fit([SHORT[0], SHORT[0, :1]])


def test_lists_have_series_of_any_length_and_arrays_a_fixed_one() -> None:
    random = np.random.default_rng(0)
    short, long = random.normal(size=(3, 20)), random.normal(size=(2, 25))
    encoder = SeriesFeatures(10, random_state=0).fit(short)
    both = encoder.transform([short[0], long[0], long[1]])
    np.testing.assert_allclose(encoder.transform(list(long)), both[1:], atol=1e-6)  # of equal length
    np.testing.assert_allclose(encoder.transform(short.tolist()), encoder.transform(short), atol=1e-6)
    with pytest.raises(ValueError, match="25 features, but SeriesFeatures is expecting 20"):
        encoder.transform(long)


def test_fit_to_a_list_forgets_the_width_of_an_array() -> None:
    series = np.random.default_rng(0).normal(size=(3, 20))
    encoder = SeriesFeatures(10, random_state=0).fit(series)
    assert encoder.n_features_in_ == 20
    for X in (list(series), [series[0], series[1, :15]]):
        encoder.fit(X)
        assert not hasattr(encoder, "n_features_in_")
        assert encoder.transform(series[:, :15]).shape == (3, 20)
