"""TableFeatures: the kernel of mixed columns, kinds of columns, missing and unknown values, wrong input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from ghrr.learn import HDClassifier, HDRegressor, KernelFeatures, TableFeatures, TextFeatures, explain, load, save

TABLE: Any = pd.DataFrame(
    {
        "size": [1.0, 2.0, 4.0, 2.0, np.nan, 7.0],
        "colour": ["red", "blue", "red", None, "green", "blue"],
        "sold": [True, False, True, True, False, False],
    }
)


def small(**settings: Any) -> TableFeatures:
    return TableFeatures(**{"dim": 20, "random_state": 0, **settings})


def exact_kernel(table: Any, bandwidth: float, between_categories: float = 2.0) -> np.ndarray[Any, Any]:
    """The kernel of TABLE by its definition, one pair of rows at a time."""
    mean, std = table["size"].mean(), table["size"].std(ddof=0)
    kernel = np.empty((len(table), len(table)))
    for i, a in enumerate(table.itertuples()):
        for j, b in enumerate(table.itertuples()):
            sizes = [0.0 if np.isnan(row.size) else (row.size - mean) / std for row in (a, b)]
            square = (sizes[0] - sizes[1]) ** 2 + ((a.sold - b.sold) / table["sold"].std(ddof=0)) ** 2
            missing = pd.isna(a.colour) + pd.isna(b.colour)
            square += (0.0 if a.colour == b.colour else between_categories) if not missing else float(missing == 1)
            kernel[i, j] = np.exp(-square / (2 * bandwidth**2))
    return kernel


def test_inner_products_are_the_kernel_of_mixed_columns() -> None:
    z = TableFeatures(dim=5000, bandwidth=1.3, random_state=0).fit_transform(TABLE).astype(np.float64)
    error = 5 / np.sqrt(2 * 5000)
    np.testing.assert_allclose(z @ z.T, exact_kernel(TABLE, 1.3), atol=error)
    # negative control: a kernel in which categories are farther apart
    assert np.abs(z @ z.T - exact_kernel(TABLE, 1.3, between_categories=4.0)).max() > error


def test_laplace_kernel_is_a_product_of_exponentials() -> None:
    z = TableFeatures(dim=8000, kernel="laplace", bandwidth=1.3, random_state=0).fit_transform(TABLE)
    distances = np.zeros((6, 6))
    mean, std = TABLE["size"].mean(), TABLE["size"].std(ddof=0)
    sizes = ((TABLE["size"] - mean) / std).fillna(0.0).to_numpy()
    distances += np.abs(sizes[:, None] - sizes)
    sold = TABLE["sold"].to_numpy(dtype=float)
    distances += np.abs(sold[:, None] - sold) / sold.std()
    for i, a in enumerate(TABLE["colour"]):
        for j, b in enumerate(TABLE["colour"]):
            missing = pd.isna(a) + pd.isna(b)
            distances[i, j] += 0.0 if missing == 2 else 0.5**0.5 if missing else 2**0.5 * (a != b)
    np.testing.assert_allclose(z @ z.T, np.exp(-distances / 1.3), atol=5 / np.sqrt(2 * 8000))


@pytest.mark.parametrize(("kernel", "norm"), [("rbf", 2), ("laplace", 1)])
def test_slots_encode_a_share_of_the_columns_with_a_length_scale_for_them(kernel: str, norm: int) -> None:
    X = np.random.default_rng(0).normal(size=(40, 6))
    encoder = TableFeatures(dim=4000, kernel=kernel, column_share=0.3, bandwidth=2.0, random_state=0).fit(X)
    seen = (encoder.frequencies_ != 0).sum(dim=1)
    assert int(seen.min()) == 1
    assert float(seen.double().mean()) == pytest.approx(1.8 + 0.7**6, abs=0.1)  # none of six columns becomes one
    for count in (1, 2):  # medians of absolute frequencies, which Cauchy and normal distributions have
        expected = {"rbf": 0.6745, "laplace": 1.0}[kernel] / (2.0 * (count / 6) ** (1 / norm))
        own = encoder.frequencies_[seen == count].abs()
        assert float(own[own > 0].median()) == pytest.approx(expected, rel=0.1)
    everything = TableFeatures(dim=4000, kernel=kernel, bandwidth=2.0, random_state=0).fit(X)
    assert bool((everything.frequencies_ != 0).all())


def test_linear_part_predicts_linear_targets_beyond_the_training_data() -> None:
    x = np.linspace(-1, 1, 100)[:, None]
    far = np.array([[3.0]])
    linear, other = (
        HDRegressor(small(dim=100, kernel="laplace", linear=part), random_state=0).fit(x, 2 * x[:, 0] + 1)
        for part in (True, False)
    )
    errors = [abs(model.predict(far)[0] - 7.0) for model in (linear, other)]
    assert errors[0] < 1 < 3 < errors[1]


def test_columns_of_a_linear_part_add_up_to_the_change_of_the_prediction() -> None:
    table = TABLE[["size", "colour"]]
    model = HDRegressor(small(linear=True, bandwidth=1e6)).fit(table, [1.0, 2.0, 4.0, 2.0, 3.0, 7.0])
    found = explain(model, table[:1], reference=table).set_index("feature")["contribution"]
    change = model.predict(table[:1])[0] - model.predict(table).mean()
    assert found.sum() == pytest.approx(change, rel=1e-3)


def test_linear_part_leaves_out_columns_of_many_categories() -> None:
    table = pd.DataFrame({"many": [f"c{i % 101}" for i in range(400)], "few": [f"c{i % 100}" for i in range(400)]})
    encoder = small(linear=True, columns={"many": "category", "few": "category"})
    assert encoder.fit(table).transform(table).shape == (400, 2 * 20 + 100)


def test_weight_of_two_equals_a_repeated_row() -> None:
    counts = np.array([1, 2, 0, 3, 1, 2])
    encoder = small(kernel="laplace", columns={"colour": "category"})
    weighted = clone(encoder).fit(TABLE, sample_weight=counts)
    repeated = encoder.fit(TABLE.loc[np.repeat(TABLE.index, counts)])
    np.testing.assert_allclose(weighted.transform(TABLE[:2]), repeated.transform(TABLE[:2]), atol=1e-6)


def test_numbers_alone_equal_kernel_features_of_standardised_columns() -> None:
    X = np.random.default_rng(0).normal(3.0, 2.0, size=(40, 5))
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    encoder = small(dim=3000).fit(X)
    other = KernelFeatures(dim=3000, random_state=0).fit(standard)
    assert encoder.bandwidth_ == pytest.approx(other.bandwidth_[0, 0])
    z, w = encoder.transform(X), other.transform(standard)
    np.testing.assert_allclose(z @ z.T, w @ w.T, atol=0.05)


def test_kinds_are_inferred_and_can_be_overridden() -> None:
    table = pd.DataFrame(
        {
            "integer": pd.array([1, None, 3], dtype="Int64"),
            "objects": pd.Series([1.5, None, 2], dtype=object),
            "flag": [True, False, True],
            "level": pd.Categorical(["low", "high", "low"]),
            "day": pd.to_datetime(["2024-01-01", "NaT", "2024-03-01"]),
            "wait": pd.to_timedelta([1, 2, 3], unit="h"),
            "name": ["ann", "bob", "cid"],
            "letter": ["a", "b", "a"],
            "nothing": [np.nan, np.nan, np.nan],
        }
    )
    kinds = small().fit(table).columns_
    inferred = ["number"] * 2 + ["boolean", "category"] + ["date"] * 2 + ["text", "category", "number"]
    assert list(kinds.values()) == inferred
    chosen = {"integer": "category", "name": "text", "day": "ignore"}
    assert small(columns=chosen).fit(table).columns_ == {**kinds, **chosen}


def test_many_different_strings_are_text_and_few_are_categories() -> None:
    many = pd.DataFrame({"note": [f"note {i}" for i in range(150)], "city": [f"city {i % 120}" for i in range(150)]})
    few = pd.DataFrame({"city": [f"city {i % 12}" for i in range(150)]})
    assert small().fit(many).columns_ == {"note": "text", "city": "text"}
    assert small().fit(few).columns_ == {"city": "category"}


def test_dates_in_days_and_strings_of_dates() -> None:
    days = pd.DataFrame({"day": [0.0, 1.0, 31.0]})
    dates = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-02-01"])})
    want = small(bandwidth=1.0).fit_transform(days)
    np.testing.assert_allclose(small(bandwidth=1.0).fit_transform(dates), want, atol=1e-6)
    strings = small(bandwidth=1.0, columns={"day": "date"}).fit_transform(dates.astype(str))
    np.testing.assert_allclose(strings, want, atol=1e-6)


def test_missing_values_are_neutral() -> None:
    """A row with a missing value is closer to all others than two different values are, and equals no category."""
    table = pd.DataFrame({"colour": ["red", "blue", None]})
    columns = {"colour": "category"}
    z = TableFeatures(dim=4000, columns=columns, bandwidth=1.0, random_state=0).fit_transform(table)
    np.testing.assert_allclose(z[2] @ z[:2].T, np.exp(-1 / 2), atol=0.05)
    np.testing.assert_allclose(z[0] @ z[1], np.exp(-1), atol=0.05)
    numbers = small(bandwidth=1.0).fit(np.array([[1.0], [3.0], [np.nan]]))
    np.testing.assert_allclose(numbers.transform([[np.nan]]), numbers.transform([[2.0]]), atol=1e-6)


def test_unknown_category_is_an_error_or_missing() -> None:
    new = TABLE[:2].assign(colour=["pink", "red"])
    with pytest.raises(ValueError, match=r"Found unknown categories \['pink'\] in column 'colour'"):
        small().fit(TABLE).transform(new)
    ignoring = small(handle_unknown="ignore").fit(TABLE)
    np.testing.assert_array_equal(ignoring.transform(new), ignoring.transform(new.assign(colour=[np.nan, "red"])))
    declared = TABLE.assign(colour=pd.Categorical(TABLE["colour"], categories=["red", "blue", "green", "pink"]))
    assert small().fit(declared).transform(new).shape == (2, 40)


def test_text_columns_average_the_kernel_and_the_similarity_of_texts() -> None:
    table = pd.DataFrame({"size": [1.0, 1.0, 5.0], "note": ["the cat sat", "the cat ran", "un chat noir"]})
    settings: dict[str, Any] = {"dim": 8000, "random_state": 0}
    both = TableFeatures(columns={"note": "text"}, bandwidth=1.0, **settings).fit_transform(table)
    sizes = TableFeatures(columns={"note": "ignore"}, bandwidth=1.0, **settings).fit_transform(table)
    texts = TextFeatures(**settings).fit_transform(table["note"])
    np.testing.assert_allclose(both @ both.T, (sizes @ sizes.T + texts @ texts.T) / 2, atol=5 / np.sqrt(2 * 8000))
    only = TableFeatures(columns={"note": "text", "size": "ignore"}, **settings).fit_transform(table)
    np.testing.assert_allclose(only @ only.T, texts @ texts.T, atol=1e-5)


def test_missing_text_leaves_the_other_columns() -> None:
    table = pd.DataFrame({"size": [1.0, 2.0, 4.0], "note": ["abc", "abd", None]})
    settings: dict[str, Any] = {"dim": 50, "bandwidth": 1.0, "random_state": 0}
    both = TableFeatures(columns={"note": "text"}, **settings).fit_transform(table)
    sizes = TableFeatures(columns={"note": "ignore"}, **settings).fit_transform(table)
    np.testing.assert_allclose(both[2], sizes[2], atol=1e-6)
    assert np.abs(both[0] - sizes[0]).max() > 1e-2


def test_text_column_without_texts_does_not_count() -> None:
    table = pd.DataFrame({"size": [1.0, 2.0, 3.0], "note": [None, "", None]})
    encoder = TableFeatures(500, columns={"note": "text"}, bandwidth=1.0, random_state=0).fit(table)
    want = TableFeatures(500, columns={"note": "ignore"}, bandwidth=1.0, random_state=0).fit_transform(table)
    for notes in (table["note"], ["some", "longer", "texts"]):
        np.testing.assert_allclose(encoder.transform(table.assign(note=notes)), want, atol=1e-6)
    known = encoder.fit(table.assign(note="texts"))  # negative control
    assert np.abs(known.transform(table.assign(note="texts")) - want).max() > 0.01


def test_arrays_of_objects_and_lists_have_kinds() -> None:
    rows = [[1.0, "a"], [2.0, "b"], [3.0, "a"]]
    for X in (rows, np.array(rows, dtype=object)):
        assert small().fit(X).columns_ == {0: "number", 1: "category"}
    codes = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 5.0]])
    encoder = small(columns={1: "category"}).fit(codes)
    assert encoder.categories_ == {1: [1.0, 2.0, 5.0]}
    with pytest.raises(ValueError, match="unknown categories"):
        encoder.transform([[0.0, 3.0]])


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
def test_table_and_array_of_the_same_values_have_the_same_features() -> None:
    encoder = small().fit(TABLE)
    np.testing.assert_array_equal(encoder.transform(TABLE.to_numpy(dtype=object)), encoder.transform(TABLE))
    numbers = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [0.0, 1.0, 0.0]})
    for fitted, given in ((numbers, numbers.to_numpy()), (numbers.to_numpy(), numbers)):
        encoder = small().fit(fitted)
        np.testing.assert_array_equal(encoder.transform(given), encoder.transform(fitted))


def test_rows_in_another_order_do_not_change_the_features() -> None:
    order = np.array([3, 0, 5, 1, 4, 2])
    z = small().fit_transform(TABLE)
    np.testing.assert_allclose(small().fit_transform(TABLE.iloc[order]), z[order], atol=1e-6)


def test_mixed_table_is_classified_and_regressed() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=300), "kind": rng.choice(["a", "b"], size=300)})
    y = (table["x"] > 0) ^ (table["kind"] == "a")  # neither column suffices
    table.loc[::10, "x"] = np.nan
    score = HDClassifier(TableFeatures(200, random_state=0)).fit(table[:200], y[:200]).score(table[200:], y[200:])
    assert score > 0.85
    alone = HDClassifier(TableFeatures(200, columns={"kind": "ignore"}, random_state=0)).fit(table[:200], y[:200])
    assert alone.score(table[200:], y[200:]) < 0.65  # negative control
    assert HDRegressor(TableFeatures(200, random_state=0)).fit(table, y.astype(float)).score(table, y) > 0.5


@pytest.mark.parametrize(
    ("X", "settings", "message"),
    [
        (TABLE[:0], {}, "0 sample"),
        (TABLE[[]], {}, "0 feature"),
        (np.array([[1.0], [np.inf]]), {}, "infinity"),
        (pd.DataFrame({"a": [1.0, np.inf], "b": ["x", "y"]}), {}, "infinity"),
        (TABLE, {"columns": {"weight": "number"}}, "not in the table"),
        (TABLE, {"columns": {"size": "numeric"}}, "kinds of columns"),
        (TABLE, {"columns": {"colour": "number"}}, "cannot read column 'colour' as numbers: got 'red'"),
        (TABLE, {"columns": {"size": "date"}}, "cannot read column 'size' as dates: got 1.0"),
        (np.eye(2), {"columns": {1: "date"}}, "cannot read column 1 as dates: got 0.0"),
        (TABLE.set_axis(["a", "a", "b"], axis=1), {}, "must differ"),
        ([1.0, 2.0], {}, "2D array"),
    ],
)
def test_wrong_tables_are_refused(X: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**settings).fit(X)


def test_tables_with_other_columns_are_refused() -> None:
    encoder = small().fit(TABLE)
    with pytest.raises(ValueError, match="feature names"):
        encoder.transform(TABLE.rename(columns={"size": "length"}))
    with pytest.raises(ValueError, match="feature"):
        encoder.transform(TABLE[["size", "colour"]])
    with pytest.raises(ValueError, match="cannot read column 'size' as numbers: got 'large'"):
        encoder.transform(TABLE.assign(size="large"))


def test_values_that_are_no_dates_are_refused() -> None:
    table = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-03-01"])})
    encoder = small().fit(table)
    for numbers in ([1.5, None, 2.0], [1, 2, 3], [True, False, True], ["2024-01-01", None, 7]):
        with pytest.raises(ValueError, match=r"cannot read column 'day' as dates: got (1|1\.5|True|7); convert them"):
            encoder.transform(pd.DataFrame({"day": numbers}))
    with pytest.raises(ValueError, match="cannot read column 'day' as dates: got 'soon'"):
        encoder.transform(pd.DataFrame({"day": ["2024-01-01", "soon", None]}))
    for missing in (None, np.nan):  # negative control: no value at all
        assert encoder.transform(table.assign(day=missing)).shape == (3, 40)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_tables_of_polars_and_pyarrow_equal_those_of_pandas(library: str) -> None:
    pytest.importorskip(library)
    pytest.importorskip("pyarrow")
    table = TABLE.assign(day=pd.to_datetime(["2024-01-01", "NaT", *["2024-03-01"] * 4]))
    other = pytest.importorskip("polars").from_pandas(table)
    other = other if library == "polars" else other.to_arrow()
    for fitted, given in ((table, other), (other, other), (other, table)):
        encoder = small().fit(fitted)
        assert encoder.columns_ == {"size": "number", "colour": "category", "sold": "boolean", "day": "date"}
        np.testing.assert_allclose(encoder.transform(given), small().fit_transform(table), atol=1e-6)
    labels = [0, 1, 0, 1, 0, 1]
    assert HDClassifier(small()).fit(other, labels).predict(other).shape == (6,)


def test_rows_of_different_lengths_raise() -> None:
    with pytest.raises(ValueError, match=r"TableFeatures\.fit: rows must have one value for each column"):
        TableFeatures().fit([[1, "a"], [2]])


def ordinary_people(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    days = pd.to_datetime("1960-01-01") + pd.to_timedelta(rng.integers(0, 9_000, rows), unit="D")
    return pd.DataFrame(
        {
            "order_number": rng.choice(np.arange(100_000, 999_999), rows, replace=False),
            "salary": [f"${value:,.2f}" for value in rng.lognormal(10.5, 0.4, rows)],
            "share": [f"{value:.1f} %" for value in rng.uniform(0, 40, rows)],
            "born": days.strftime("%d.%m.%Y"),
            "smoker": rng.choice(["yes", "no"], rows),
            "tags": [["a", "b"], ["b"]] * (rows // 2),
            "name": [f"{a} {b}" for a, b in rng.choice(["Ann", "Bob", "Cid", "Dee", "Eve", "Fay"], (rows, 2))],
        }
    )


def test_values_written_as_text_are_read() -> None:
    table = ordinary_people()
    with pytest.warns(
        UserWarning, match=r"'order_number' as ignore \(values that look like identifiers\); set columns="
    ):
        encoder = TableFeatures(300, random_state=0).fit(table)
    kinds = ["ignore", "number", "number", "date", "boolean", "set", "text"]
    assert list(encoder.columns_.values()) == kinds
    plain = table.assign(
        salary=table["salary"].str.strip("$").str.replace(",", "").astype(float),
        share=table["share"].str.strip(" %").astype(float),
        born=pd.to_datetime(table["born"], format="%d.%m.%Y"),
        smoker=table["smoker"] == "yes",
    )
    np.testing.assert_allclose(encoder.transform(plain), encoder.transform(table), atol=1e-6)
    assert encoder.doubts_ == {"order_number": "values that look like identifiers"}


def test_given_kind_of_a_doubtful_column_is_used_without_a_warning() -> None:
    encoder = TableFeatures(20, columns={"order_number": "number"}, random_state=0).fit(ordinary_people())
    assert encoder.columns_["order_number"] == "number"
    assert encoder.doubts_ == {}


def test_table_of_nothing_but_identifiers_uses_them() -> None:
    with pytest.warns(UserWarning, match="'order_number' as number"):
        assert small().fit(ordinary_people()[["order_number"]]).columns_ == {"order_number": "number"}
    codes = pd.DataFrame({"code": [f"{n * 7919 % 10_007:05d}-X" for n in range(100)]})
    with pytest.warns(UserWarning, match="'code' as text"):
        assert small().fit(codes).columns_ == {"code": "text"}


def test_values_of_an_inferred_column_that_cannot_be_read_are_missing() -> None:
    table = pd.DataFrame({"price": [*(f"{n}.5" for n in range(60)), "n/a", "n/a"], "size": [1.0, 2.0] * 31})
    with pytest.warns(UserWarning, match="2 values that cannot be read, such as 'n/a', count as missing"):
        encoder = small().fit(table)
    np.testing.assert_array_equal(encoder.transform(table[-2:]), encoder.transform(table[-2:].assign(price=None)))
    with pytest.raises(ValueError, match="cannot read column 'price' as numbers: got 'free'"):
        encoder.transform(table[:2].assign(price="free"))


def test_notation_and_doubts_are_saved_and_files_without_them_open(tmp_path: Path) -> None:
    table = ordinary_people().drop(columns="order_number")
    table["fee"] = [f"{n},50 €" for n in range(len(table))]
    model = HDClassifier(small()).fit(table, table["smoker"])
    save(tmp_path / "new.safetensors", model)
    loaded = load(tmp_path / "new.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
    assert loaded.encoder_.notations_ == model.encoder_.notations_
    plain = pd.DataFrame({"x": np.arange(40.0), "colour": ["red", "blue"] * 20})
    model.fit(plain, plain["colour"])
    for name in ("doubts_", "notations_", "unread_"):  # as version 0.3 wrote it
        delattr(model.encoder_, name)
    save(tmp_path / "old.safetensors", model)
    np.testing.assert_array_equal(load(tmp_path / "old.safetensors").predict(plain), model.predict(plain))
    model.encoder_.notations_ = {"colour": (".", False, False)}  # not a column of numbers
    save(tmp_path / "wrong.safetensors", model)
    with pytest.raises(ValueError, match="notations_"):
        load(tmp_path / "wrong.safetensors")


def test_numbers_of_a_multiplicative_scale_are_compared_by_factors() -> None:
    prices = np.exp(np.random.default_rng(0).normal(4, 1, 400))
    table = pd.DataFrame({"price": [f"{price:.6f} €" for price in prices], "size": prices**0.01})
    encoder = TableFeatures(2000, columns={"size": "ignore"}, bandwidth=0.5, random_state=0).fit(table)
    assert list(encoder.logarithmic_) == ["price"]
    z = encoder.transform(table.assign(price=np.resize([10.0, 11.0, 1000.0, 1100.0], 400)))[:4]
    np.testing.assert_allclose(z[0] @ z[1], z[2] @ z[3], atol=1e-3)  # negative control: the differences are unlike
    assert small().fit(prices[:, None]).logarithmic_.keys() == {0}
    assert small().fit(np.log(prices)[:, None]).logarithmic_ == {}
