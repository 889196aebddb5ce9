"""
Learning: from a CSV to a report
================================

You have a table, as it comes out of a database: numbers, categories, a column of text, gaps. You want to know how well
one of its columns can be predicted from the others, and then to predict it for new rows.

This tutorial does this with :class:`ghrr.learn.HDClassifier`, a scikit-learn classifier that learns one hypervector per
class. It looks at the table, compares cross-validated scores with scikit-learn's own models, checks whether
the probabilities can be trusted, shows which columns matter, and saves the model. The last part does the same on the
command line. It needs the extra ``learn``: ``pip install 'ghrr[learn]'``.
"""

import contextlib
import shlex
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import calibration_curve
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from ghrr import learn
from ghrr.cli import app
from ghrr.learn import HDClassifier, TableFeatures

plt.style.use("seaborn-v0_8-colorblind")
folder = Path(tempfile.mkdtemp())

# %%
# A messy table
# -------------
# We make a table of 800 customers of a parcel service. Some have cancelled their contract: in the plan "flat" those who
# send few parcels, in the plan "pay" those who send many, and in any plan those who complain. Ages and countries have
# gaps, and a tenth of the customers do the opposite of what we expect.

rng = np.random.default_rng(0)
n = 800
plan, parcels = rng.choice(["flat", "pay"], n), rng.gamma(3, 4, n).round()
complains = rng.random(n) < 0.3
cancelled = complains | ((plan == "flat") & (parcels < 7)) | ((plan == "pay") & (parcels > 16))
cancelled ^= rng.random(n) < 0.1
begin = rng.choice(["hello, ", "dear team, ", "", "hi! "], n)
bad = rng.choice(["my parcel was late again", "the box arrived damaged", "a courier lost my package"], n)
good = rng.choice(["thank you for the fast delivery", "please update my address", "the new app works well"], n)

customers = pd.DataFrame(
    {
        "customer": np.arange(10_000, 10_000 + n),
        "age": np.where(rng.random(n) < 0.15, np.nan, rng.integers(18, 90, n)),
        "country": np.where(rng.random(n) < 0.1, None, rng.choice(["FR", "IT", "PL", "SE"], n)),
        "plan": plan,
        "parcels": parcels,
        "message": begin + np.where(complains, bad, good),
        "cancelled": np.where(cancelled, "yes", "no"),
    }
)
customers.to_csv(folder / "customers.csv", index=False)
print((folder / "customers.csv").read_text()[:400])

# %%
# Look at it first
# ----------------
# How many values are missing, and how often does each class occur? A model that always answers "no" is correct as often
# as "no" occurs; a useful model has to be better.

table = pd.read_csv(folder / "customers.csv")
print(pd.DataFrame({"type": table.dtypes.astype(str), "missing": table.isna().mean(), "different": table.nunique()}))
print(table["cancelled"].value_counts(normalize=True).round(3).to_dict())

# %%
# Encode and fit
# --------------
# :class:`ghrr.learn.TableFeatures` takes the table as it is. It infers the kind of each column, and you correct it
# where it is wrong: the number of a customer is an integer, but it means nothing, and ``message`` is text although its
# messages repeat. Numbers are encoded by fractional powers and categories by random hypervectors; all columns of a row
# are bound, and texts are bundled with the result. A missing value is neutral. See
# :doc:`plot_4_numbers_and_kernels` for the encoding of numbers.

X, y = table.drop(columns="cancelled"), table["cancelled"]
kinds = {"customer": "ignore", "message": "text"}
encoder = TableFeatures(dim=1000, columns=kinds, bandwidth_scale=0.5, handle_unknown="ignore", random_state=0)
model = HDClassifier(encoder, random_state=0)

X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=0)
model.fit(X_train, y_train)
print(model.encoder_.columns_)
print(f"accuracy on 200 other customers: {model.score(X_test, y_test):.1%}")

# %%
# Is that good?
# -------------
# One split is one number. We cross-validate with five folds, and compare with two models of scikit-learn that get the
# same columns: logistic regression and gradient boosting. They need a recipe for each kind of column.

recipe = make_column_transformer(
    (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "parcels"]),
    (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["country", "plan"]),
    (TfidfVectorizer(analyzer="char", ngram_range=(3, 3)), "message"),
    sparse_threshold=0,
)
trees = make_column_transformer(
    ("passthrough", ["age", "parcels"]),
    (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan), ["country", "plan"]),
    (TfidfVectorizer(analyzer="char", ngram_range=(3, 3)), "message"),
    sparse_threshold=0,
)
candidates = {
    "most frequent class": DummyClassifier(),
    "logistic regression": make_pipeline(recipe, LogisticRegression(max_iter=1000)),
    "gradient boosting": make_pipeline(trees, HistGradientBoostingClassifier(random_state=0)),
    "HDClassifier, sums": HDClassifier(encoder, training="centroid", random_state=0),
    "HDClassifier": model,
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
scores = {}
for name, candidate in candidates.items():
    found = cross_validate(candidate, X, y, cv=folds, scoring=["accuracy", "neg_log_loss"])
    scores[name] = found["test_accuracy"]
    print(f"{name:22} {scores[name].mean():.1%} ± {scores[name].std(ddof=1):.1%}", end="")
    print(f", log-loss {-found['test_neg_log_loss'].mean():.2f}, {found['fit_time'].mean():.2f} s per fit")

figure, axis = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
for row, values in enumerate(scores.values()):
    axis.plot(100 * values, [row] * len(values), "o", color="C0", alpha=0.5)
    axis.plot(100 * values.mean(), row, "|", color="black", ms=18)
axis.set_yticks(range(len(scores)), list(scores))
axis.set(xlabel="accuracy in % (a point per fold, a line for the mean)")
axis.set_title("Cross-validated accuracy")
plt.show()

assert scores["HDClassifier"].mean() > scores["logistic regression"].mean() > scores["most frequent class"].mean()
assert scores["HDClassifier"].mean() > scores["HDClassifier, sums"].mean()

# %%
# Logistic regression adds up the columns, but here they interact: few parcels are a reason to leave one plan, and many
# to leave the other. Bound columns can express this, and so can trees: gradient boosting and ``HDClassifier`` differ by
# less than one standard deviation over folds. The classical class vectors are sums of the samples of each class
# (``training="centroid"``). They are much weaker than the default, a ridge regression. About 90 % is the best possible
# here, since a tenth of the customers do the opposite of what their columns suggest.
#
# Can you trust the probabilities?
# --------------------------------
# If the model says 80 %, it should be correct in 80 % of such cases. We sort the predictions of the five folds into
# bins by their probability, and compare with how many of these customers did cancel.

probability = cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1]
share, stated = calibration_curve(y == "yes", probability, n_bins=5)
counts = np.histogram(probability, bins=np.linspace(0, 1, 6))[0]
error = np.sqrt(share * (1 - share) / counts[counts > 0])

figure, axis = plt.subplots(figsize=(4.2, 3.6), layout="constrained")
axis.plot([0, 1], [0, 1], color="grey", ls=":", label="perfect")
axis.errorbar(stated, share, yerr=2 * error, marker="o", capsize=3, label="HDClassifier,\n± 2 standard errors")
axis.set(xlabel="probability stated by the model", ylabel="share that cancelled", title="Calibration")
axis.legend(loc="lower right", fontsize=8)
plt.show()

gap = float(np.average(np.abs(share - stated), weights=counts[counts > 0]))
print(f"mean difference between stated and true: {gap:.3f}")
assert gap < 0.1

# %%
# High and low probabilities are correct. In the middle, where there are few customers, the model is too cautious: more
# of them cancel than it says.
#
# Which columns matter?
# ---------------------
# The score of a class is a similarity with its hypervector. :func:`ghrr.learn.explain` unbinds one column from a row,
# binds the values of other rows instead, and returns by how much the score changes. The mean over many customers shows
# which columns the model uses; the effect for a single customer explains one prediction.

table = learn.explain(model, X_test, reference=X_train)
sizes = table.groupby("feature")["magnitude"].mean().sort_values()
customer = X_test.iloc[[0]]
one = learn.explain(model, customer, reference=X_train).set_index("feature")["contribution"][sizes.index]
print(customer.iloc[0].to_dict(), "predicted:", model.predict(customer)[0])

figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True, layout="constrained")
axes[0].barh(sizes.index, sizes)
axes[0].set(xlabel="mean change of the score", ylabel="column", title="All customers")
axes[1].barh(one.index, one, color=["C0" if value > 0 else "C2" for value in one])
axes[1].axvline(0, color="black", lw=0.8)
axes[1].set(xlabel="contribution to the score of the prediction", title="One customer")
plt.show()

assert set(sizes.index[-3:]) == {"message", "parcels", "plan"}
assert one["message"] > 0 > one["plan"]

# %%
# The model expects this customer to stay because of the message, although few parcels in the plan "flat" are
# evidence against it.
#
# Save, load, predict
# -------------------
# ``learn.save`` writes settings and learned numbers to one safetensors file, without pickle: loading a file from
# someone else runs none of their code.

model.fit(X, y)
learn.save(folder / "cancel.safetensors", model)
loaded = learn.load(folder / "cancel.safetensors")

new = pd.DataFrame(
    {
        "customer": [1, 2, 3],
        "age": [40, np.nan, 61],
        "country": ["IT", "XX", None],  # XX was never seen, and counts as missing
        "plan": ["flat", "flat", "pay"],
        "parcels": [20, 3, 11],
        "message": ["the new app works well", "please update my address", "hello, my package was late"],
    }
)
print(new.assign(cancels=loaded.predict(new), probability=loaded.predict_proba(new)[:, 1].round(2)).to_string())
assert loaded.predict(new).tolist() == ["no", "yes", "yes"]

# %%
# The same on the command line
# ----------------------------
# ``ghrr learn`` reads CSV, TSV, JSON or Parquet, decides between classification and regression by the target, prints
# the report, and saves the model. ``ghrr predict`` writes one line per row of another table.


def ghrr(command):
    """Run a command in the folder of the table, as in a shell."""
    print(f"$ ghrr {command}")
    with contextlib.chdir(folder):
        app(shlex.split(command), standalone_mode=False)


new.to_csv(folder / "new.csv", index=False)
ghrr("learn customers.csv --target cancelled --drop customer --text message -o model.safetensors")

# %%
# The columns of the new table may be in any order. Those that the model does not use are ignored.

ghrr("predict model.safetensors new.csv")

# %%
# Try this
# --------
# - Choose ``bandwidth_scale`` by ``GridSearchCV`` over ``{"encoder__bandwidth_scale": [0.3, 0.5, 1]}``.
# - Leave out ``columns=kinds``. Which column becomes a category, and how much accuracy does that cost?
# - Predict ``parcels`` instead, with :class:`ghrr.learn.HDRegressor` or with ``--target parcels``.
