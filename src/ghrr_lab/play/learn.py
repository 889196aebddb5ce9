"""Learn: draw a digit and see the probability of each class, or learn from a table of your own."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ghrr.learn import TRAINING
from ghrr_lab.paper.style import BLACK, BLUE, GREY
from ghrr_lab.play.digits import read_drawing, samples, trained_classifier
from ghrr_lab.play.own_table import MAX_ROWS, draw_table
from ghrr_lab.play.pictures import draw_figure, paragraph
from ghrr_lab.play.tab import Choice, Drawing, Failure, File, Slider, Tab, Values, View


def draw(values: Values, _: Any = None) -> View:
    """Learn from the table of the user if there is one, and classify the drawing otherwise."""
    return draw_table(values) if values["table"] else draw_digit(values)


def draw_digit(values: Values) -> View:
    """Classify the drawing, and draw its pixels beside the probabilities."""
    dim, training = values["dim"], values["training"]
    pixels = read_drawing(values["drawing"])
    model, correct, count = trained_classifier(dim, training)
    probabilities = model.predict_proba([pixels])[0]
    best = int(probabilities.argmax())

    def figure(figure: Figure) -> None:
        image, bars = figure.subplots(1, 2, width_ratios=(1, 2.4))
        for place, value in enumerate(pixels):
            square = Rectangle((place % 8 - 0.5, place // 8 - 0.5), 1, 1, facecolor=BLACK, alpha=value / 16)
            image.add_patch(square)
        image.set(xlim=(-0.6, 7.6), ylim=(7.6, -0.6), aspect="equal", xticks=[], yticks=[])
        image.spines[:].set_visible(False)
        image.set_xlabel("what the classifier\nsees, 8 × 8 pixels")
        drawn = bars.barh(range(10), probabilities, color=[BLUE if digit == best else GREY for digit in range(10)])
        bars.bar_label(drawn, [f"{p:.1%}" for p in probabilities], padding=3, fontsize=9)
        bars.set(xlim=(0, 1.25), ylim=(9.6, -0.6), xlabel="probability", ylabel="class")
        bars.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        bars.set_yticks(range(10))

    summary = f"class {best}, probability {probabilities[best]:.1%}"
    code = f"""\
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from ghrr.learn import HDClassifier, ImageFeatures
from ghrr_lab.play.digits import read_drawing

X, y = load_digits(return_X_y=True)  # 8 x 8 pixels
X, X_held_out, y, y_held_out = train_test_split(X, y, random_state=0)
encoder = ImageFeatures({dim}, patch=3, position_bandwidth=1.5, random_state=0)
model = HDClassifier(encoder, training={training!r}, random_state=0).fit(X, y)
print(f"accuracy on held-out digits {{model.score(X_held_out, y_held_out):.1%}}")

drawing = read_drawing({_wrapped(values["drawing"])})
probabilities = model.predict_proba([drawing])[0]
best = probabilities.argmax()
print(f"class {{best}}, probability {{probabilities[best]:.1%}}")
"""
    listed = ", ".join(f"{digit} {p:.1%}" for digit, p in enumerate(probabilities))
    description = f"Probabilities of a drawn digit for dim {dim}, training {training}: {listed}."
    picture = draw_figure(figure, height=3.2, description=description)
    recognised = f"Of {count} held-out digits, {correct} are recognised ({correct / count:.1%})."
    updates: dict[str, dict[str, Any]] = {"drawing": {"visible": True}, "target": {"choices": [], "visible": False}}
    return View(picture + paragraph(f"Your drawing: {summary}. {recognised}"), code, updates)


def _wrapped(drawing: str) -> str:
    """Return a drawing as a literal in several lines."""
    lines = "\n".join(f'    "{drawing[start : start + 64]}"' for start in range(0, len(drawing), 64))
    return f"\n{lines}\n"


TAB = Tab(
    name="learn",
    title="Learn",
    notice="Draw a digit, and see what a classifier that has seen 1,347 others takes it for. Or drop a table of your "
    "own, and see how well one of its columns can be predicted from the others.",
    controls=(
        Drawing("drawing", "draw a digit, or choose an example", samples()["3"], samples()),
        File("table", "or drop a table of your own here", 1_000_000, MAX_ROWS, resets=("target",)),
        Choice("target", "column to predict", (), "", open_ended=True),
        Slider("dim", "dim, number of slots", 5, 500, 300, 5),
        Choice("training", "training of the class vectors", TRAINING, "ridge"),
    ),
    draw=draw,
    failure=Failure(
        "Make it fail: 5 slots, and class vectors that are sums", {"dim": 5, "training": "centroid", "table": ""}
    ),
    terms="A class is one vector, and the probability of a class is a softmax of the similarities with these vectors. "
    "A number to predict is a linear function of the vector of a row, found by ridge regression. A file stays in your "
    "browser and in the memory of this server, which does not store it.",
)
