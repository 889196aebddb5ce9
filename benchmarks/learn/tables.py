"""Tables of docs/results/learning.md, from the stored results of ``learn/measure.py`` and ``learn/speed.py``."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.common.paths import RESULTS

OURS = "HD ridge"  # the default of HDClassifier; the headline never takes the best of ours
TRAININGS = ("HD ridge", "HD refined", "HD online", "HD centroid")
LARGE = ("HD ridge, 4 x dimension", "HD refined, 4 x dimension")
LARGE_TEST = 5000
MOST_BEHIND = 0.005
LEVEL = 0.05
TARGETS = {"mnist": 0.985, "fashion": 0.90, "digits": 0.985, "letter": 0.97, "languages": 0.995}
ORDER = ("order m=1, unordered", "order m=1, shifted", "order m=2", "order m=3", "order m=4")
ORDER_NAMES = {ORDER[0]: "an encoding without order", ORDER[1]: "m = 1 with shifts"}
FLAT = ("table", "image", "series")
GRAPH_FAMILIES = ("torch-hd", "torch-hd documented", "published", "baseline")
WITH_TORCH_HD = "HD ridge and torch-hd"
WITH_ALL = "HD ridge, torch-hd and baselines"
WITH_BASELINES = "HD ridge and baselines"
DEVICES = ("cpu", "cuda")
NONE_BETTER = "No torch-hd classifier is significantly better on any data set."
Table = tuple[list[str], list[list[str]]]
Row = dict[str, Any]


@functools.cache
def report() -> Any:
    """Return the stored results."""
    return json.loads((RESULTS / "learning.json").read_text(encoding="utf-8"))


def _rows(kinds: Sequence[str] = (), family: str = "") -> list[Row]:
    return [
        row
        for row in report()["rows"]
        if (not kinds or row["kind"] in kinds) and (not family or row["family"] == family)
    ]


def _find(data: str, method: str) -> Row | None:
    return next((row for row in report()["rows"] if (row["data"], row["method"]) == (data, method)), None)


def _names(rows: Iterable[Row], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))


def _measured(row: Row | None) -> bool:
    """Return whether all seeds or folds are there."""
    return row is not None and row["status"] in ("complete", "other configuration")


def _percent(row: Row, digits: int = 1) -> str:
    spread = f" ± {100 * row['std']:.{digits}f}" if row["std"] is not None else ""
    return f"{100 * row['mean']:.{digits}f}{spread}"


def _cell(row: Row | None, digits: int = 1) -> str:
    """Return the accuracy, or why there is none; empty if the method does not take such data."""
    if row is None:
        return ""
    if row["status"] == "complete":
        return _percent(row, digits)
    if row["status"] == "other configuration":
        return f"{_percent(row, digits)} *"
    if row["accuracies"]:
        reason = f", over {row['limit_s']:.0f} s" if row["status"] == "time limit" else ""
        return f"({_percent(row, digits)}; {len(row['accuracies'])} of {row['expected']}{reason})"
    if row["status"] == "time limit":
        return f"over {row['limit_s']:.0f} s"
    return {"not run": "–", "incomplete": "not finished", "failed": "failed"}[row["status"]]


def _best(data: str, family: str) -> str:
    """Return the highest accuracy of a family, its method, and how many of its methods have one."""
    rows = [row for row in _rows(family=family) if row["data"] == data]
    done = [row for row in rows if _measured(row)]
    if not done:
        return "–"
    best = max(done, key=lambda row: row["mean"])
    missing = "" if len(done) == len(rows) else f" ({len(done)} of {len(rows)} measured)"
    return f"{_cell(best)} {best['method']}{missing}"


def accuracy(kind: str) -> Table:
    """Return accuracies on the data sets of a kind: ours, the best of torch-hd, the best baseline."""
    rows = [
        [
            data,
            _test_samples(data),
            *(_cell(_find(data, name)) for name in TRAININGS),
            _best(data, "torch-hd"),
            _best(data, "baseline"),
        ]
        for data in _names(_rows([kind]), "data")
    ]
    return ["data set", "test samples", *TRAININGS, "best of torch-hd", "best baseline"], rows


def _test_samples(data: str) -> str:
    counts = [row["tested"] for row in _rows() if row["data"] == data and row["tested"]]
    return f"{counts[0]:,}" if counts else "–"


def detail(kinds: Sequence[str], families: Sequence[str]) -> Table:
    """Return the accuracy of every method of some families on the data sets where one of them was measured."""
    rows = [row for row in _rows(kinds) if row["family"] in families]
    methods = _names(rows, "method")
    sets = _names((row for row in rows if row["status"] != "not run"), "data")
    return ["data set", *methods], [[data, *(_cell(_find(data, method)) for method in methods)] for data in sets]


def graphs() -> Table:
    """Return accuracy and median seconds of a fit of all methods on graphs."""
    rows = [row for row in _rows(["graph"]) if row["method"] == OURS or row["family"] in GRAPH_FAMILIES]
    methods = _names(sorted(rows, key=lambda row: row["method"] != OURS), "method")
    sets = _names(rows, "data")
    return ["data set", *methods], [[data, *(_with_time(_find(data, method)) for method in methods)] for data in sets]


def _with_time(row: Row | None) -> str:
    if row is None or not _measured(row):
        return _cell(row)
    device = "cpu" if "cpu" in row["seconds"] else "cuda"
    on_gpu = "" if device == "cpu" else " GPU"
    return f"{_cell(row)} in {_short(row['seconds'][device]['fit_s'])} s{on_gpu}"


def languages() -> Table:
    """Return accuracy, times and bytes of all methods that were run on the languages."""
    rows = [row for row in _rows(["text"]) if row["status"] != "not run"]
    return ["method", "accuracy", "fit / predict", "class vectors"], [
        [row["method"], _cell(row, 2), _times(row), _bytes(row)] for row in rows
    ]


# ------------------------------------------------------------------------------------------------------ ranks and tests


def ranks() -> Table:
    """Return the comparisons of mean ranks: data sets, rank of ``HD ridge``, best other, tests."""
    rows = []
    for title, compared in report()["ranks"].items():
        size = [title, str(len(compared["methods"])), str(len(compared["sets"]))]
        if "mean_ranks" not in compared:
            rows.append([*size, "–", "–", "–", "–"])
            continue
        other = _best_other(compared["mean_ranks"])
        rows.append(
            [
                *size,
                f"{compared['mean_ranks'][OURS]:.2f}",
                f"{compared['mean_ranks'][other]:.2f} {other}",
                f"{compared['critical_difference']:.2f}",
                _p(compared["friedman"]["p"]),
            ]
        )
    return ["compared", "methods", "complete sets", OURS, "best other", "critical difference", "Friedman p"], rows


def rank_sets() -> str:
    """Return the data sets of every comparison."""
    return "\n".join(
        f"- {title}: {', '.join(compared['sets']) or 'no data set is complete'}"
        for title, compared in report()["ranks"].items()
    )


def wilcoxon() -> Table:
    """Return the signed-rank tests of ``HD ridge`` against torch-hd's classifiers over data sets."""
    return ["torch-hd classifier", "data sets", "ours better", "ours worse", "mean difference (points)", "p"], [
        [
            test["other"],
            str(test["sets"]),
            str(test["wins"]),
            str(test["losses"]),
            f"{100 * test['mean_difference']:+.1f}",
            _p(test["p"]),
        ]
        for test in report()["wilcoxon"]
    ]


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-4 else "< 0.0001"


def behind() -> str:
    """Return where ``HD ridge`` is behind a torch-hd classifier: on large test sets, and significantly."""
    tests = report()["paired"]
    large = [test for test in tests if test["tested"] >= LARGE_TEST]
    far = [test for test in large if test["difference"] < -MOST_BEHIND]
    significant = [test for test in tests if test["difference"] < 0 and test["p"] < LEVEL]
    corrected = [test for test in significant if test["p_holm"] < LEVEL]
    return "\n".join(
        [
            f"- Behind by more than {100 * MOST_BEHIND:g} points on a set with at least {LARGE_TEST:,} test samples "
            f"({len(large)} comparisons on {', '.join(_names(large, 'data')) or 'no set'}): {_list(far)}.",
            f"- Significantly behind (paired t-test over seeds or folds, p < {LEVEL:g}, not corrected; "
            f"{len(tests)} comparisons): {_list(significant)}.",
            f"- The same after the correction of Holm: {_list(corrected)}.",
        ]
    )


def significance() -> str:
    """Return whether a torch-hd classifier is significantly better anywhere, as a sentence."""
    better = [test for test in report()["paired"] if test["difference"] < 0 and test["p"] < LEVEL]
    return f"A torch-hd classifier is significantly better on: {_list(better)}." if better else NONE_BETTER


def _list(tests: Sequence[dict[str, Any]]) -> str:
    shown = (f"{test['data']}, {test['method']} ({100 * test['difference']:+.1f} points)" for test in tests)
    return "; ".join(shown) or "none"


def targets() -> Table:
    """Return the targets, what was measured, and which of our methods meets them."""
    methods = (*TRAININGS[:2], *LARGE)
    rows = []
    for data, target in TARGETS.items():
        found = [_find(data, method) for method in methods]
        met = [row["method"] for row in found if row is not None and _measured(row) and row["mean"] >= target]
        rows.append([data, f"{100 * target:g}", *(_cell(row, 2) or "–" for row in found), "; ".join(met) or "not met"])
    head = ["HD ridge, 2,048", "HD refined, 2,048", "HD ridge, 8,192", "HD refined, 8,192"]
    return ["data set", "target", *head, "met by"], rows


# ---------------------------------------------------------------------------------------------------------------- order


def order() -> Table:
    """Return accuracies with and without order, and differences of m = 2 to both encodings with m = 1."""
    sets = _names((row for row in _rows(family="order") if row["status"] != "not run"), "data")
    rows = [
        [data, *(_cell(_find(data, name)) for name in ORDER), *(_difference(data, other) for other in ORDER[:2])]
        for data in sets
    ]
    head = ["data set", "m = 1, unordered", "m = 1, shifted", "m = 2", "m = 3", "m = 4"]
    return [*head, "m = 2 against unordered", "m = 2 against shifted"], rows


def _difference(data: str, other: str) -> str:
    """Return the difference of m = 2 to another encoding in points, bold where it is significant."""
    for test in report()["order"]:
        if (test["data"], test["method"], test["other"]) == (data, ORDER[2], other):
            text = f"{100 * test['difference']:+.1f}"
            return f"**{text}**" if test["p"] < LEVEL else text
    return "–"


def order_verdict() -> str:
    """Return the data sets on which m = 2, 3, 4 is better than, worse than, or not different from m = 1."""
    lines = []
    for other, title in ORDER_NAMES.items():
        for m, method in zip((2, 3, 4), ORDER[2:], strict=True):
            groups: dict[str, list[str]] = {"better": [], "worse": [], "no significant difference": []}
            for test in report()["order"]:
                if (test["method"], test["other"]) == (method, other):
                    groups[_verdict(test)].append(test["data"])
            text = "; ".join(f"{name} on {', '.join(sets)}" for name, sets in groups.items() if sets)
            lines.append(f"- m = {m} against {title}: {text or 'not measured'}.")
    sets = _names(report()["order"], "data")
    for other, what in zip(ORDER[:2], ("Order does not pay", "Matrices do not pay"), strict=True):
        gains = {t["data"] for t in report()["order"] if t["other"] == other and _verdict(t) == "better"}
        missed = ", ".join(data for data in sets if data not in gains) or "no data set"
        lines.append(f"- {what}, because no m is better than {ORDER_NAMES[other]}, on {missed}.")
    return "\n".join(lines)


def _verdict(test: dict[str, Any]) -> str:
    if test["p"] >= LEVEL:
        return "no significant difference"
    return "better" if test["difference"] > 0 else "worse"


# ------------------------------------------------------------------------------------------------------ times and bytes


def times() -> Table:
    """Return median seconds and bytes of class vectors: ours, the best of torch-hd, the best baseline."""
    rows = []
    for data in _names(_rows(), "data"):
        ours = _find(data, OURS)
        if not _measured(ours):
            continue
        others = [_best_row(data, family) for family in ("torch-hd", "baseline")]
        cells = [f"{_times(row)} {row['method']}" if row else "–" for row in others]
        rows.append([data, _times(ours), *cells, _bytes(ours), _bytes(others[0])])
    head = ["data set", OURS, "best of torch-hd", "best baseline", f"bytes, {OURS}", "bytes, torch-hd"]
    return head, rows


def _best_row(data: str, family: str) -> Row | None:
    done = [row for row in _rows(family=family) if row["data"] == data and _measured(row)]
    return max(done, key=lambda row: row["mean"]) if done else None


def _times(row: Row | None) -> str:
    if row is None or not row["seconds"]:
        return "–"
    devices = {"cuda": "GPU", "cpu": "CPU"}
    return ", ".join(
        f"{_short(seconds['fit_s'])} / {_short(seconds['predict_s'])} s {devices[device]}"
        for device, seconds in row["seconds"].items()
    )


def _short(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"


def _bytes(row: Row | None) -> str:
    return f"{row['class_bytes']:,}" if row is not None and row["class_bytes"] else "–"


def speed() -> Table:
    """Return times, memory and accuracy on MNIST, for every device that was measured."""
    rows = []
    for device in DEVICES:
        path = RESULTS / f"learning_speed_{device}.json"
        if not path.exists():
            continue
        measured = json.loads(path.read_text(encoding="utf-8"))
        machine = measured["machine"]
        most = max(row["samples"] for row in measured["rows"])
        rows += [
            [
                machine.get("gpu", f"{machine['cores']} CPU cores"),
                row["encoder"],
                f"{row['samples']:,}",
                f"{_short(row['fit_seconds'])} s",
                f"{_short(row['predict_seconds'])} s",
                f"{row['peak_megabytes']:,.0f} MB",
                f"{100 * row['accuracy']:.2f}",
            ]
            for row in measured["rows"]
            if row["samples"] == most
        ]
    return ["device", "encoder", "samples", "fit", "predict 10,000", "peak memory of the host", "accuracy"], rows


def gpu_factors() -> str:
    """Return how many times faster than the CPU the GPU fits and predicts on MNIST, for each encoder."""
    cpu, gpu = (json.loads((RESULTS / f"learning_speed_{device}.json").read_text())["rows"] for device in DEVICES)
    most = max(row["samples"] for row in cpu)
    pairs = [(a, b) for a in cpu for b in gpu if a["samples"] == b["samples"] == most and a["encoder"] == b["encoder"]]
    parts = [
        f"{a['fit_seconds'] / b['fit_seconds']:.0f} and {a['predict_seconds'] / b['predict_seconds']:.0f} times "
        f"({a['encoder']})"
        for a, b in pairs
    ]
    return ", ".join(parts)


def linearity() -> str:
    """Return how well straight lines describe fit time against samples, for every device and encoder."""
    parts = []
    for device in DEVICES:
        measured = json.loads((RESULTS / f"learning_speed_{device}.json").read_text(encoding="utf-8"))
        name = "GPU" if device == "cuda" else "CPU"
        parts += [f"{line['explained']:.3f} ({encoder}, {name})" for encoder, line in measured["lines"].items()]
    return ", ".join(parts)


# -------------------------------------------------------------------------------------------------------------- missing


def missing() -> Table:
    """Return the pairs of a method and a data set without a complete result, by status."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in _rows():
        if row["status"] != "complete":
            found.setdefault((row["status"], row["method"]), []).append(row["data"])
    states = ["time limit", "failed", "other configuration", "incomplete", "not run"]
    pairs = sorted(found.items(), key=lambda item: states.index(item[0][0]))
    rows = [[status, method, _shorten(sets, method)] for (status, method), sets in pairs]
    return ["status", "method", "data sets"], rows


def _shorten(sets: Sequence[str], method: str) -> str:
    """Return names of data sets, or the few that are not among them."""
    possible = [row["data"] for row in _rows() if row["method"] == method]
    others = [data for data in possible if data not in sets]
    if len(others) >= len(sets) or len(sets) == 1:
        return ", ".join(sets)
    return f"all {len(sets)}" if not others else f"{len(sets)} sets, all except {', '.join(others)}"


def completeness() -> str:
    """Return how many pairs have a complete result."""
    rows = _rows()
    done = sum(row["status"] == "complete" for row in rows)
    return f"{done:,} of {len(rows):,}"


def mean_accuracy(data: str, method: str) -> float:
    """Return the mean accuracy of a complete result."""
    row = _find(data, method)
    if row is None or not _measured(row):
        raise ValueError(f"mean_accuracy: {data}, {method} has no complete result")
    mean: float = row["mean"]
    return mean


def _best_other(ranks: dict[str, float]) -> str:
    return min((name for name in ranks if name != OURS), key=ranks.__getitem__)


def _rank_values(prefix: str, title: str) -> dict[str, Callable[[], str]]:
    """Return the values of a comparison of ranks: ours, the next, its name, data sets and critical difference."""

    def compared() -> Any:
        return report()["ranks"][title]

    def ranks() -> dict[str, float]:
        found: dict[str, float] = compared()["mean_ranks"]
        return found

    return {
        prefix: lambda: f"{ranks()[OURS]:.2f}",
        f"{prefix}-next": lambda: f"{ranks()[_best_other(ranks())]:.2f}",
        f"{prefix}-next-name": lambda: _best_other(ranks()),
        f"{prefix}-sets": lambda: str(len(compared()["sets"])),
        f"{prefix}-difference": lambda: f"{compared()['critical_difference']:.2f}",
    }


TABLES: dict[str, Callable[[], Table]] = {
    **{f"accuracy-{kind}": functools.partial(accuracy, kind) for kind in ("table", "image", "text", "series", "graph")},
    "torch-hd": functools.partial(detail, FLAT, ["torch-hd"]),
    "documented": functools.partial(detail, FLAT, ["torch-hd documented"]),
    "baselines": functools.partial(detail, FLAT, ["baseline"]),
    "graphs": graphs,
    "languages": languages,
    "ranks": ranks,
    "wilcoxon": wilcoxon,
    "targets": targets,
    "order": order,
    "times": times,
    "speed": speed,
    "missing": missing,
}
TEXTS: dict[str, Callable[[], str]] = {"rank-sets": rank_sets, "behind": behind, "order-verdict": order_verdict}
VALUES: dict[str, Callable[[], str]] = {
    "learning-mnist": lambda: f"{100 * mean_accuracy('mnist', OURS):.1f} %",
    **_rank_values("learning-rank", WITH_TORCH_HD),
    **_rank_values("learning-baseline-rank", WITH_BASELINES),
    "learning-complete": completeness,
    "learning-significance": significance,
    "learning-linear": linearity,
    "learning-gpu": gpu_factors,
}
