"""explain: finds planted signals, adds up to scores, equals brute force, and ignores what does not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from ghrr.learn import (
    GraphFeatures,
    HDClassifier,
    HDRegressor,
    ImageFeatures,
    KernelFeatures,
    SeriesFeatures,
    TableFeatures,
    TextFeatures,
    explain,
    plot_explanation,
)

pd = pytest.importorskip("pandas")
X = np.random.default_rng(0).normal(size=(300, 5))
Y = np.where(X[:, 3] > 0, "high", "low")  # only column 3 matters


@pytest.fixture(scope="module")
def planted() -> HDClassifier:
    return HDClassifier(KernelFeatures(dim=200, random_state=0)).fit(X, Y)


def test_planted_feature_has_the_largest_contribution(planted: HDClassifier) -> None:
    table = explain(planted, X)
    assert list(table.columns) == ["class", "feature", "contribution", "magnitude", "index"]
    for _, part in table.groupby("class"):
        assert part["feature"].iloc[0] == "x3"
        others = part["magnitude"].iloc[1:]
        assert part["contribution"].iloc[0] > 3 * others.max()  # negative control: the rest is small


def test_labels_without_signal_have_no_explanation(planted: HDClassifier) -> None:
    shuffled = HDClassifier(KernelFeatures(dim=200, random_state=0)).fit(X, np.random.default_rng(0).permutation(Y))
    assert explain(shuffled, X)["magnitude"].max() < 0.3 * explain(planted, X)["magnitude"].max()


def test_contributions_of_kernel_features_equal_replacing_values_one_by_one(planted: HDClassifier) -> None:
    sample, reference = X[:1], X[100:140]
    table = explain(planted, sample, reference=reference).sort_values("index")
    mean = planted.class_vectors_.mean(dim=0)
    label = int(np.flatnonzero(planted.classes_ == planted.predict(sample)[0])[0])
    vector = (planted.class_vectors_[label] - mean).numpy()

    def score(rows: Any) -> Any:
        return planted.encoder_.transform(rows).astype(np.float64) @ vector

    want = []
    for feature in range(5):
        replaced = np.repeat(sample, len(reference), axis=0)
        replaced[:, feature] = reference[:, feature]
        want.append(score(sample)[0] - score(replaced).mean())
    np.testing.assert_allclose(table["contribution"], want, atol=1e-5)
    np.testing.assert_allclose(table["magnitude"], np.abs(want), atol=1e-5)


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("weighting", ["sqrt", "learned"])
def test_contributions_of_ngrams_add_up_to_the_score(m: int, weighting: str) -> None:
    texts = ["the cat sat", "the dog ran", "le chat noir", "le chien brun", "der hund bellt", "die katze ruht"] * 3
    labels = ["en", "en", "fr", "fr", "de", "de"] * 3
    encoder = TextFeatures(100, m=m, n=[2, 3], weighting=weighting, random_state=0)
    model = HDClassifier(encoder).fit(texts, labels)
    scores = model.decision_function(["the chat"])[0]
    constants = model.intercept_.numpy()
    table = explain(model, ["the chat"])
    assert table["class"].unique().tolist() == [model.classes_[scores.argmax()]]
    want = scores.max() - scores.mean() - (constants[scores.argmax()] - constants.mean())
    assert table["contribution"].sum() == pytest.approx(want, abs=1e-5)


def test_ngrams_of_a_class_are_found_and_common_ones_are_not() -> None:
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("abcd"), 30)) for _ in range(60)]
    labels = np.arange(60) % 2
    texts = [text + (" zq" if label else "") for text, label in zip(texts, labels, strict=True)]
    model = HDClassifier(TextFeatures(2000, n=2, random_state=0)).fit(texts, labels)
    table = explain(model, texts, top=3)
    assert set(table[table["class"] == 1]["feature"][:2]) == {" z", "zq"}
    assert not {" z", "zq"} & set(table[table["class"] == 0]["feature"])


def test_words_are_joined_by_spaces() -> None:
    texts = ["good film", "bad film"] * 4
    model = HDClassifier(TextFeatures(200, n=2, analyzer="word", random_state=0)).fit(texts, [1, 0] * 4)
    assert explain(model, ["good film"])["feature"].tolist() == ["good film"]


def test_planted_patch_is_found() -> None:
    images = 0.1 * np.random.default_rng(0).random((100, 8, 8))
    labels = np.arange(100) % 2
    images[labels == 1, 4:7, 1:4] += np.eye(3)
    model = HDClassifier(ImageFeatures(300, patch=3, position_bandwidth=1.0, random_state=0))
    model.fit(images.reshape(100, -1), labels)
    table = explain(model, images.reshape(100, -1))
    best = table[table["class"] == 1].iloc[0]
    assert best["feature"] == "row 4 column 1"
    assert best["contribution"] > 0
    assert model.encoder_.grid_ == (6, 6)


def score_difference(model: HDClassifier, sample: Any) -> float:
    """Return the score of the predicted class less the mean of all, without the constants."""
    scores = np.atleast_2d(model.encoder_.transform(sample).astype(np.float64) @ model.class_vectors_.numpy().T)[0]
    chosen = int(np.flatnonzero(model.classes_ == model.predict(sample)[0])[0])
    return float(scores[chosen] - scores.mean())


def planted_graphs(count: int = 60) -> tuple[list[Any], Any]:
    """Make graphs of random labels; an edge leads from N to O in class 1 and from O to N in class 0."""
    random = np.random.default_rng(0)
    labels = np.arange(count) % 2
    graphs = []
    for label in labels:
        nodes = [*random.choice(list("CHS"), 8), "N", "O"]
        edges = [*random.integers(8, size=(10, 2)).tolist(), [8, 9] if label else [9, 8]]
        graphs.append((nodes, edges))
    return graphs, labels


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("directed", [True, False])
def test_contributions_of_edges_and_neighbourhoods_add_up_to_the_score(m: int, directed: bool) -> None:
    graphs, labels = planted_graphs()
    encoder = GraphFeatures(100, m=m, radius=2, directed=directed, random_state=0)
    model = HDClassifier(encoder).fit(graphs, labels)
    table = explain(model, graphs[:1])
    assert table["contribution"].sum() == pytest.approx(score_difference(model, graphs[:1]), abs=1e-5)


def test_planted_direction_of_an_edge_is_found_and_needs_directions() -> None:
    graphs, labels = planted_graphs()
    model = HDClassifier(GraphFeatures(500, m=2, radius=0, directed=True, random_state=0)).fit(graphs, labels)
    first = explain(model, graphs, top=1)
    assert first["feature"].tolist() == ["O -> N", "N -> O"]
    assert (first["contribution"] > 0).all()
    same = HDClassifier(GraphFeatures(500, m=2, radius=0, random_state=0)).fit(graphs, labels)
    table = explain(same, graphs)
    assert "N - O" in set(table["feature"])  # both directions are one part
    assert table[table["feature"] == "N - O"]["magnitude"].max() < 0.1 * first["magnitude"].max()


def test_neighbourhoods_are_named_by_the_labels_at_each_distance() -> None:
    path = (["C", "C", "O"], [[0, 1], [1, 2]], ["", "double"])
    model = HDClassifier(GraphFeatures(100, radius=1, random_state=0)).fit([path, (["N"], [])] * 3, [0, 1] * 3)
    found = set(explain(model, [path])["feature"])
    assert found == {"C - C", "C -[double]- O", "C", "O", "C | C", "C | C O", "O | C"}


def planted_series(count: int = 60, length: int = 40) -> tuple[Any, Any]:
    """Make series of noise; series of class 1 have a wave at the steps 20 to 29."""
    labels = np.arange(count) % 2
    series = np.random.default_rng(0).normal(scale=0.1, size=(count, length))
    series[labels == 1, 20:30] += np.sin(np.arange(10) * np.pi / 2)
    return series, labels


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("positions", ["neighbours", "powers"])
def test_contributions_of_steps_add_up_to_the_score(m: int, positions: str) -> None:
    series, labels = planted_series()
    model = HDClassifier(SeriesFeatures(60, m=m, positions=positions, random_state=0)).fit(series, labels)
    sample, reference = series[1:2], series[10:30]
    table = explain(model, sample, reference=reference)
    chosen = int(np.flatnonzero(model.classes_ == model.predict(sample)[0])[0])
    vector = (model.class_vectors_[chosen] - model.class_vectors_.mean(dim=0)).numpy().astype(np.float64)
    own, usual = (model.encoder_.transform(rows).astype(np.float64) @ vector for rows in (sample, reference))
    assert table["contribution"].sum() == pytest.approx(own[0] - usual.mean(), abs=1e-5)


def test_steps_of_a_planted_wave_are_found() -> None:
    series, labels = planted_series()
    model = HDClassifier(SeriesFeatures(300, window=3, random_state=0)).fit(series, labels)
    assert model.encoder_.dilations_[-1] == 16  # windows around the steps 0 to 3 do not reach the wave
    steps = explain(model, series).query("`class` == 1").set_index("index")["contribution"].sort_index()
    assert set(steps.nlargest(5).index) <= set(range(20, 30))
    assert steps[:4].abs().max() < 0.1 * steps.max()


def test_short_series_do_not_count_behind_their_end() -> None:
    series, labels = planted_series()
    ragged = [one[: 35 if number % 3 else 40] for number, one in enumerate(series)]
    model = HDClassifier(SeriesFeatures(60, random_state=0)).fit(ragged, labels)
    table = explain(model, ragged[:2], reference=ragged)
    assert np.isfinite(table["contribution"]).all()
    assert sorted(table[table["class"] == 1]["index"]) == list(range(35))


def test_regressor_and_pipeline_name_the_columns_of_a_table() -> None:
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = make_pipeline(StandardScaler(), HDRegressor(KernelFeatures(200, random_state=0)))
    model.fit(frame, np.stack([2 * X[:, 1], X[:, 4] ** 2], axis=1))
    first = explain(model, frame, top=1)
    assert first[["target", "feature"]].to_numpy().tolist() == [[0, "b"], [1, "e"]]


@pytest.mark.parametrize(
    ("steps", "encoder", "features"),
    [
        ([StandardScaler()], SeriesFeatures(50, random_state=0), {f"step {step}" for step in range(5)}),
        ([StandardScaler()], TableFeatures(50, columns={1: "ignore"}, random_state=0), {"a", "c", "d", "e"}),
        ([FunctionTransformer(np.asarray)], KernelFeatures(50, random_state=0), {f"x{i}" for i in range(5)}),
        ([], KernelFeatures(50, random_state=0), set("abcde")),
    ],
)
def test_features_of_a_pipeline_have_the_names_of_its_columns_or_of_the_encoder(
    steps: list[Any], encoder: Any, features: set[str]
) -> None:
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = make_pipeline(*steps, HDClassifier(encoder, random_state=0)).fit(frame, Y)
    assert set(explain(model, frame)["feature"]) == features


def test_patches_of_a_pipeline_keep_their_names() -> None:
    images = np.random.default_rng(0).random((20, 16))
    model = make_pipeline(StandardScaler(), HDClassifier(ImageFeatures(50, patch=3, random_state=0)))
    model.fit(images, [0, 1] * 10)
    assert "row 1 column 0" in explain(model, images)["feature"].tolist()


def test_texts_of_a_pipeline_are_explained_by_their_ngrams() -> None:
    strip = FunctionTransformer(lambda texts: [text.strip() for text in texts])
    model = make_pipeline(strip, HDClassifier(TextFeatures(500, n=1, random_state=0)))
    model.fit([" a", "b "] * 5, [0, 1] * 5)
    assert explain(model, [" a", "b "], top=1)["feature"].tolist() == ["a", "b"]


def mixed_table() -> Any:
    columns = {
        "size": X[:, 0],
        "colour": np.random.default_rng(0).choice(["red", "blue", "green"], 300),
        "noise": X[:, 1],
    }
    table = pd.DataFrame(columns)
    table.loc[::7, "size"] = np.nan
    table.loc[::11, "colour"] = None
    return table


def test_contributions_of_table_columns_equal_replacing_values_one_by_one() -> None:
    table = mixed_table()
    labels = np.where(table["colour"] == "red", "yes", "no")
    model = HDClassifier(TableFeatures(300, random_state=0)).fit(table, labels)
    sample, reference = table.iloc[[5]], table.iloc[100:140]
    found = explain(model, sample, reference=reference).set_index("feature")["contribution"]
    label = int(np.flatnonzero(model.classes_ == model.predict(sample)[0])[0])
    vector = (model.class_vectors_[label] - model.class_vectors_.mean(dim=0)).numpy()
    own = (model.encoder_.transform(sample) @ vector)[0]
    for column in table.columns:
        replaced = sample.iloc[[0] * 40].assign(**{column: reference[column].to_numpy()})
        want = own - (model.encoder_.transform(replaced) @ vector).mean()
        assert found[column] == pytest.approx(want, abs=1e-5)
    everywhere = explain(model, table)
    for _, part in everywhere.groupby("class"):
        assert part["feature"].iloc[0] == "colour"
        assert part["magnitude"].iloc[0] > 3 * part["magnitude"].iloc[1]


@pytest.mark.parametrize("others", [["size", "noise"], []])
def test_text_column_that_decides_is_found(others: list[str]) -> None:
    table = mixed_table()[others].assign(
        note=np.where(Y == "high", "late again", "all is well"),
        ignored=1.0,
        other=np.random.default_rng(0).choice(["x y z", "u v w"], 300),
    )
    encoder = TableFeatures(500, columns={"note": "text", "other": "text", "ignored": "ignore"}, random_state=0)
    model = HDClassifier(encoder).fit(table, Y)
    found = explain(model, table)
    assert set(found["feature"]) == {"note", "other", *others}
    for _, part in found.groupby("class"):
        assert part["feature"].iloc[0] == "note"
        assert part["contribution"].iloc[0] > 3 * part["magnitude"].iloc[1]


def test_passthrough_contributions_are_linear() -> None:
    model = HDRegressor("passthrough", alpha=1e-9).fit(X, X @ [0.0, 3.0, 0.0, 0.0, -1.0])
    table = explain(model, X[:1], reference=X).sort_values("index")
    want = (X[0] - X.mean(axis=0)) * [0.0, 3.0, 0.0, 0.0, -1.0]
    np.testing.assert_allclose(table["contribution"], want, atol=1e-4)


def test_wrong_use_is_refused(planted: HDClassifier) -> None:
    with pytest.raises(ValueError, match="reference"):
        explain(planted, X[:1])
    with pytest.raises(TypeError, match="LogisticRegression"):
        explain(LogisticRegression().fit(X, Y), X)
    with pytest.raises(TypeError, match="PCA"):
        explain(HDClassifier(PCA()).fit(X, Y), X)
    with pytest.raises(ValueError, match="top"):
        explain(planted, X, top=0)


def test_figures_have_labelled_axes_and_one_panel_per_class(planted: HDClassifier) -> None:
    pytest.importorskip("matplotlib")
    table = explain(planted, X)
    bars = plot_explanation(table)
    assert [axes.get_title(loc="left") for axes in bars.axes] == ["class high", "class low"]
    assert all("score" in axes.get_xlabel() for axes in bars.axes)
    lengths: list[Any] = [vars(bar)["_width"] for bar in bars.axes[0].patches]
    np.testing.assert_allclose(lengths, table[table["class"] == "high"]["contribution"])
    maps = plot_explanation(table, grid=(1, 5))
    pixels = np.asarray(maps.axes[0].images[0].get_array())
    want = table[table["class"] == "high"].sort_values("index")["contribution"]
    np.testing.assert_allclose(pixels[0], want)
    with pytest.raises(ValueError, match="grid"):
        plot_explanation(table, grid=(2, 5))
    with pytest.raises(ValueError, match="value"):
        plot_explanation(table, value="size")
    with pytest.raises(ValueError, match="table is empty"):
        plot_explanation(table[:0])
