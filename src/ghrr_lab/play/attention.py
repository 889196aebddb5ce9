"""Attention: weights of small language models with GHRR and with vanilla attention, and the text they generate.

The models are loaded from the folder ``trained``, which comes with the playground, or from given run folders. A
button trains new ones for some seconds, for one user, on sentences of a small grammar. A model is never changed once it
is made, so several users can read it.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ghrr.files import read_json
from ghrr_lab import lm
from ghrr_lab.paper.style import GREY
from ghrr_lab.play.pictures import draw_figure, mark, paragraph, table
from ghrr_lab.play.tab import Failure, Preparation, Slider, Tab, Text, Values, View

KINDS = {"ghrr": "GHRR", "vanilla": "vanilla"}
SIZE = {"embed_dim": 48, "num_layers": 2, "num_heads": 2, "ffn_dim": 96, "max_len": 32, "dropout": 0.0}
TRAINING = {"batch": 32, "learning_rate": 0.01, "warmup": 10}
EPOCHS = 4
TRAINED = Path(__file__).parent / "trained"  # written by benchmarks/lm/play_models.py
SENTENCES = (4000, 200, 200)  # in the training, validation and test text
MAX_WORDS = 14  # of the typed text
SAMPLES, NEW_WORDS = 3, 16
TITLE = "Train both models yourself (some seconds)"


@dataclasses.dataclass(frozen=True)
class Trained:
    """A model, its tokenizer, and how it was made, in words and as code."""

    title: str
    model: lm.Model
    tokenizer: lm.Tokenizer
    state: str
    code: str
    grammar: bool = True  # whether it was trained on the grammar, so that its sentences can be checked


Models = tuple[Trained, ...]


def draw(values: Values, models: Models) -> View:
    """Draw the weights of each model for the words, and complete the sentence with each model."""
    words = values["text"].split()
    if not 1 <= len(words) <= MAX_WORDS:
        raise ValueError(f"play: the beginning must have 1 to {MAX_WORDS} words, got {len(words)}")
    text = " ".join(words)
    tokens = [torch.from_numpy(one.tokenizer.encode(text)).long()[None] for one in models]
    for one, ids in zip(models, tokens, strict=True):
        if not 1 <= ids.shape[1] <= min(one.model.config.max_len, 4 * MAX_WORDS):
            raise ValueError(f"play: the beginning has {ids.shape[1]} tokens, too many for this model; shorten it")
    maps = [_weights(one.model, ids, values) for one, ids in zip(models, tokens, strict=True)]

    def figure(figure: Figure) -> None:
        axes = figure.subplots(1, len(models), squeeze=False)[0]
        for axis, one, ids, weights in zip(axes, models, tokens, maps, strict=True):
            _draw_map(axis, one, ids[0], weights)

    columns = [_complete(one, ids, values) for one, ids in zip(models, tokens, strict=True)]
    strongest = [
        f"{one.title}: the last word attends most to word {int(w[-1].argmax()) + 1}"
        for one, w in zip(models, maps, strict=True)
    ]
    description = f"Attention weights of {len(words)} words, layer {values['layer']}, head {values['head']}. "
    picture = draw_figure(figure, height=2.9, description=description + "; ".join(strongest) + ".")
    head = [html.escape(f"{one.title}, {one.state}") for one in models]
    cells = [
        "<br>".join(mark(right, said) if right is not None else html.escape(said) for said, right in column)
        for column in columns
    ]
    return View(picture + paragraph(table(head, [cells])), _code(models[0], text, values))


def _weights(model: lm.Model, ids: Tensor, values: Values) -> Tensor:
    """Return the weights of the chosen layer and head; of the last if the model has fewer."""
    layer, head = min(values["layer"], model.config.num_layers), min(values["head"], model.config.num_heads)
    return model.attention_weights(ids)[layer - 1, 0, head - 1]


def _complete(one: Trained, ids: Tensor, values: Values) -> list[tuple[str, bool | None]]:
    """Return a continuation of the sentence, and whether the whole is a sentence of the grammar."""
    generator = torch.Generator().manual_seed(values["seed"])
    prompts = ids.expand(SAMPLES, -1)
    rows = lm.generate(one.model, prompts, NEW_WORDS, temperature=values["temperature"], generator=generator)
    texts = [one.tokenizer.decode(row.numpy()).partition("\n")[0] for row in rows]
    new = [one.tokenizer.decode(row[ids.shape[1] :].numpy()).partition("\n")[0] for row in rows]
    return [(f"… {end}", is_grammatical(text) if one.grammar else None) for text, end in zip(texts, new, strict=True)]


def is_grammatical(sentence: str) -> bool:
    """Return whether a sentence belongs to the grammar."""
    try:
        lm.grammar_perplexity(f"{sentence}\n")
    except ValueError:
        return False
    return True


def _draw_map(axis: Axes, one: Trained, ids: Tensor, weights: Tensor) -> None:
    labels = [one.tokenizer.decode([token]).strip() or "⏎" for token in ids.tolist()]
    axis.imshow(weights.numpy(), cmap="viridis", vmin=0, vmax=1)
    axis.set_title(one.title).set_parse_math(False)
    ticks = range(len(labels))
    for place, angle in ((axis.xaxis, 90), (axis.yaxis, 0)):
        place.set_ticks(ticks, labels, fontsize=8)
        for label in place.get_ticklabels():
            label.set(parse_math=False, rotation=angle)
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_color(GREY)


def _code(one: Trained, text: str, values: Values) -> str:
    return f"""\
{one.code}
ids = torch.from_numpy(tokenizer.encode({text!r})).long()[None]
weights = model.attention_weights(ids)  # (layers, 1, heads, words, words)
print(weights[{values["layer"] - 1}, 0, {values["head"] - 1}])
generator = torch.Generator().manual_seed({values["seed"]})
prompts = ids.expand({SAMPLES}, -1)
rows = lm.generate(model, prompts, {NEW_WORDS}, temperature={values["temperature"]}, generator=generator)
print(tokenizer.decode(rows[0, ids.shape[1] :].numpy()).partition("\\n")[0])
"""


# Models


@functools.cache
def grammar_text() -> lm.EncodedCorpus:
    """Return the sentences that the models are trained on."""
    texts = [lm.generate_grammar_text(count, seed=seed) for seed, count in enumerate(SENTENCES)]
    return lm.encode_corpus(lm.Corpus("grammar", *texts))


def _config(kind: str) -> lm.ModelConfig:
    settings: dict[str, Any] = {"vocab_size": grammar_text().tokenizer.vocab_size, "attention": kind, **SIZE}
    return lm.ModelConfig(**settings)


@functools.cache
def first_models() -> Models:
    """Return the models that come with the playground."""
    made = []
    for kind, title in KINDS.items():
        model, tokenizer = lm.load_run(TRAINED / kind)
        code = f"""\
import torch
from ghrr_lab import lm
from ghrr_lab.play.attention import TRAINED

model, tokenizer = lm.load_run(TRAINED / {kind!r})"""
        perplexity = read_json(TRAINED / kind / "result.json")["valid_ppl"]
        made.append(Trained(title, model, tokenizer, _describe(perplexity), code))
    return tuple(made)


def _describe(perplexity: float) -> str:
    return f"perplexity {perplexity:.1f} (best possible {lm.grammar_perplexity():.1f})"


def train_models(values: Values, report: Callable[[float, str], None]) -> Models:
    """Train both models with the same settings, on the CPU."""
    del values
    made = []
    for number, (kind, title) in enumerate(KINDS.items()):

        def show(step: lm.TrainProgress, number: int = number, title: str = title) -> None:
            report((number + step.step / step.total_steps) / len(KINDS), f"training {title}")

        with tempfile.TemporaryDirectory() as folder:
            training = lm.TrainConfig(epochs=EPOCHS, **TRAINING)  # type: ignore[arg-type]
            result = lm.train(_config(kind), training, grammar_text(), folder, device="cpu", on_progress=show)
            model, tokenizer = lm.load_run(folder)
        state = f"{EPOCHS} epochs, {_describe(result['valid_ppl'])}"
        made.append(Trained(title, model, tokenizer, state, _training_code(kind)))
    return tuple(made)


def load_models(folders: Sequence[Path]) -> Models:
    """Load the models of at most two run folders; raise ``RunError`` for a folder without one."""
    if len(folders) > 2:
        raise ValueError(f"play: at most two models fit side by side, got {len(folders)} run folders; give --run twice")
    made = []
    for folder in folders:
        model, tokenizer = lm.load_run(folder)
        name = folder.resolve().name
        code = f"import torch\nfrom ghrr_lab import lm\n\nmodel, tokenizer = lm.load_run({name!r})"
        made.append(Trained(name, model, tokenizer, model.config.attention, code, grammar=False))
    return tuple(made)


def _training_code(kind: str) -> str:
    settings = ", ".join(f"{name}={value!r}" for name, value in SIZE.items())
    training = ", ".join(f"{name}={value!r}" for name, value in TRAINING.items())
    return f"""\
import tempfile
import torch
from ghrr_lab import lm

torch.set_num_threads(1)  # as the playground does; with several threads, sums are rounded differently

texts = [lm.generate_grammar_text(count, seed=seed) for seed, count in enumerate({SENTENCES})]
text = lm.encode_corpus(lm.Corpus("grammar", *texts))
size = dict({settings})
config = lm.ModelConfig(vocab_size=text.tokenizer.vocab_size, attention={kind!r}, **size)
with tempfile.TemporaryDirectory() as folder:
    lm.train(config, lm.TrainConfig(epochs={EPOCHS}, {training}), text, folder, device="cpu")
    model, tokenizer = lm.load_run(folder)"""


def make_tab(runs: Models = ()) -> Tab:
    """Return the tab, which shows the models of run folders or, without them, models of a small grammar."""
    return Tab(
        name="attention",
        title="Attention",
        notice="Each row shows the words that a word attends to. A verb has to attend to its noun, however far away, "
        "because both are singular or both are plural.",
        controls=(
            Text("text", "beginning of a sentence", "the dogs which the cat sees"),
            Slider("layer", "layer", 1, 2, 1),
            Slider("head", "head", 1, 2, 1),
            Slider("temperature", "temperature of the generated words", 0.0, 2.0, 0.5, 0.1),
            Slider("seed", "seed of the generated words", 0, 20, 0),
        ),
        draw=lambda values, models: draw(values, models or runs or first_models()),
        failure=Failure("Make it fail: two places in between", {"text": "the old dogs near the cat behind this king"}),
        terms="GHRR attention binds words to their positions, so that its weights depend on order; vanilla attention "
        "adds a vector per position. A layer has several heads, each with weights of its own. Perplexity is the number "
        "of words that a model hesitates between, on average.",
        preparation=None if runs else Preparation(TITLE, train_models),
    )
