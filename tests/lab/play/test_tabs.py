"""The tabs of the playground without a server: what they draw, what they refuse, and the theory that they show."""

from __future__ import annotations

import dataclasses
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ghrr
from ghrr.capacity import diagonal_weight
from ghrr.documents import leaves
from ghrr.relations.chains import kinship_rules
from ghrr_lab import lm
from ghrr_lab.play.app import make_tabs, show
from ghrr_lab.play.attention import KINDS, TRAINED, first_models, load_models, make_tab
from ghrr_lab.play.attention import draw as draw_attention
from ghrr_lab.play.digits import draw_sample, fill_height, read_drawing, split_digits, trained_classifier
from ghrr_lab.play.family import answers_of_rules, split_rules, trained_model
from ghrr_lab.play.records import rotate_values
from ghrr_lab.play.tab import Slider, Tab
from tests.helpers import assert_mean, generator

TABS = make_tabs()
NAMED = {tab.name: tab for tab in TABS}
each_tab = pytest.mark.parametrize("tab", TABS, ids=lambda tab: tab.name)


def description(tab: Tab, values: Any = None) -> str:
    """Return the alternative text of the picture of a tab."""
    found = re.search('aria-label="([^"]*)"', show(tab, {**tab.defaults, **(values or {})}).picture)
    assert found is not None
    return found[1]


@pytest.mark.slow
@each_tab
@pytest.mark.parametrize("end", ["low", "high"])
def test_tab_can_be_drawn_at_both_ends_of_its_sliders(tab: Tab, end: str) -> None:
    values = {control.name: getattr(control, end) for control in tab.controls if isinstance(control, Slider)}
    assert description(tab, values)
    assert show(tab, {**tab.defaults, **values}).code != show(tab, tab.defaults).code


@each_tab
def test_failure_names_settings_of_the_tab(tab: Tab) -> None:
    assert set(tab.failure.values) <= set(tab.defaults)
    tab.check({**tab.defaults, **tab.failure.values})
    assert description(tab, tab.failure.values) != description(tab)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ghrr.structures.CapacityWarning")  # filters of warnings are not local to threads
def test_pictures_drawn_in_many_threads_are_those_drawn_one_by_one() -> None:
    cases = [(tab, values) for tab in TABS for values in ({}, tab.failure.values)]
    alone = [description(tab, values) for tab, values in cases]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda case: description(*case), cases * 2))
    assert together == alone * 2


@pytest.mark.parametrize(
    ("value", "message"),
    [(0, "m, size of a slot must be a number from 1 to 5, got int 0"), (2.5, "must be a whole number, got float 2.5")],
)
def test_invalid_value_gives_a_message_with_the_range(value: float, message: str) -> None:
    tab = NAMED["order"]
    view = show(tab, {**tab.defaults, "m": value})
    assert message in view.picture
    assert view.code == ""


def test_tabs_that_one_can_use_come_first() -> None:
    assert list(NAMED)[:6] == ["records", "search", "learn", "family", "matrices", "trees"]


@each_tab
def test_picture_comes_before_the_terms_of_the_field(tab: Tab) -> None:
    picture = show(tab, tab.defaults).picture
    assert picture.startswith("<figure")
    assert picture.index("</figure>") < picture.index(tab.terms)
    assert not re.search("diagonality|bandwidth|bundle|commut|crosstalk|Haar|hypervector|rotation|unbind", tab.notice)


def test_order_is_shown_by_size_and_by_diagonality_only_if_it_is_given() -> None:
    tab = NAMED["order"]
    given = {**tab.defaults, "rotation": tab.controls[2].options[1]}  # type: ignore[union-attr]
    for values, shown in ((tab.defaults, False), (given, True)):
        view = show(tab, values)
        assert ("diagonality" in view.picture[: view.picture.index("</figure>")]) == shown
        assert view.updates["diagonality"] == {"visible": shown}


def test_invalid_document_clears_the_paths_and_the_code_of_the_old_one() -> None:
    tab = NAMED["records"]
    view = show(tab, {**tab.defaults, "document": '{"name": '})
    assert view.updates == {"path": {"choices": []}}
    assert view.code == ""
    assert "<figure" not in view.picture
    assert show(tab, tab.defaults).updates["path"]["choices"]


def test_answers_are_drawn_with_what_was_read() -> None:
    tab = NAMED["records"]
    picture = show(tab, {**tab.defaults, "document": '{"a": "$x$", "b": {"c": "\\u0007日本"}}', "more": 0}).picture
    for text in ("b → c", "&quot;$x$&quot;", "日本"):
        assert text in picture or text.replace("&quot;", '"') in picture
    assert "\u0007" not in picture[: picture.index("</figure>")]


@pytest.mark.parametrize(("m", "diagonality"), [(2, 0.6), (3, 0.4), (4, 0.7), (3, None)])
def test_mean_similarity_of_swapped_products_is_the_squared_diagonal_weight(m: int, diagonality: float | None) -> None:
    space = ghrr.Space(200, m, diagonality=diagonality)
    measured = ghrr.commutativity(*space.random(2, 60, generator=generator()))
    p = diagonal_weight(m, diagonality)
    assert_mean(measured, p**2)
    with pytest.raises(AssertionError):
        assert_mean(measured, p)


def test_rotated_documents_have_the_same_form_and_all_values() -> None:
    document = {"a": 1, "b": {"c": [], "d": [2, {"e": {}}]}}
    paths, values = zip(*leaves(document), strict=True)
    assert paths == (("a",), ("b", "c"), ("b", "d", 0), ("b", "d", 1, "e"))
    assert rotate_values(document, list(values), by=0) == document
    assert rotate_values(document, list(values), by=1) == {"a": [], "b": {"c": 2, "d": [{}, {"e": 1}]}}


def test_drawn_sample_has_the_pixel_counts_of_the_data() -> None:
    _, held_out, _, _ = split_digits()
    for pixels in held_out[:20]:
        assert (counts(bitmap(draw_sample(pixels))) == pixels).all()


@pytest.mark.slow
def test_drawings_of_any_place_and_size_are_recognised() -> None:
    _, held_out, _, truth = split_digits()
    model, right, count = trained_classifier(300, "ridge")
    assert right / count > 0.99
    small = [np.pad(bitmap(draw_sample(pixels))[::2, ::2], ((3, 13), (14, 2))) for pixels in held_out]
    assert model.score([read_drawing(text(bits)) for bits in small], truth) > 0.97
    assert model.score([counts(bits) for bits in small], truth) < 0.5  # negative control: not centred and scaled


def test_wide_and_narrow_drawings_fill_the_height() -> None:
    for rows, columns in ((slice(15, 16), slice(0, 32)), (slice(0, 32), slice(31, 32)), (slice(4, 5), slice(9, 10))):
        bits = np.zeros((32, 32), dtype=np.uint8)
        bits[rows, columns] = 1
        image = fill_height(torch.from_numpy(bits).double())
        assert (image.sum(dim=1) > 0).all()
        assert image.max() <= 1
        used = image.any(dim=0).nonzero().flatten()
        assert abs(used[0] + used[-1] - 31) <= 1  # centred, within half a pixel since a width can be odd


def test_rules_left_out_are_composed_by_matrices_and_not_by_numbers() -> None:
    kept, aside = split_rules(30)
    assert sorted([*kept, *aside]) == sorted(kinship_rules())
    assert len(aside) == 30
    right = {}
    for dim, m in ((8, 8), (512, 1)):
        answers = trained_model(dim, m, 30).predict([chain for chain, _ in aside])
        right[m] = sum(answer == target for answer, (_, target) in zip(answers, aside, strict=True))
    assert right[8] >= 24
    assert right[1] <= 12  # negative control


@pytest.mark.parametrize(
    ("chain", "answers"),
    [
        ("mother", ["mother"]),
        ("father sister", ["aunt"]),
        ("sister father", ["father"]),
        ("brother wife", []),
        ("wife sister mother", ["mother", "mother-in-law"]),
    ],
)
def test_answers_of_the_rules_are_none_one_or_several(chain: str, answers: list[str]) -> None:
    assert answers_of_rules(chain.split()) == answers
    tab = NAMED["family"]
    said = {0: "no name", 1: "by the rules", 2: "contradict"}[len(answers)]
    assert said in show(tab, {**tab.defaults, "chain": chain}).picture


def test_tiny_vectors_miss_a_record_that_larger_ones_find() -> None:
    tab = NAMED["search"]
    assert (
        "would be better, but its vector is not among the nearest"
        in show(tab, {**tab.defaults, **tab.failure.values}).picture
    )
    larger = {**tab.defaults, **tab.failure.values, "dim": 64, "m": 2}
    assert "is the best of all" in show(tab, larger).picture


def test_texts_of_another_set_of_records_are_replaced_unless_they_were_edited() -> None:
    tab = NAMED["search"]
    edited = '{"bank": {"buyer": {"city": "Dover"}}}'
    view = show(tab, {**tab.defaults, "records": "contracts", "example": edited})
    assert view.updates.keys() == {"must_not", "weights", "records"}
    assert "Dover" in view.code


def test_no_record_that_fulfils_the_conditions_is_said() -> None:
    tab = NAMED["search"]
    same = '{"shop": {"city": "Bath"}}'
    assert "None of the 300 records" in show(tab, {**tab.defaults, "must": same, "must_not": same}).picture


def bitmap(drawing: str) -> np.ndarray[Any, Any]:
    return np.unpackbits(np.frombuffer(bytes.fromhex(drawing), dtype=np.uint8)).reshape(32, 32)


def text(bits: np.ndarray[Any, Any]) -> str:
    return np.packbits(bits).tobytes().hex()


def counts(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the number of pixels in each block of 4 × 4."""
    found: np.ndarray[Any, Any] = bits.reshape(8, 4, 8, 4).sum(axis=(1, 3)).reshape(64)
    return found


def test_first_models_end_most_sentences_of_the_grammar() -> None:
    tab = NAMED["attention"]
    assert show(tab, tab.defaults).picture.count("✓") >= 4  # of six
    untrained = []
    for one in first_models():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            untrained.append(dataclasses.replace(one, model=lm.Model(one.model.config).eval()))
    assert "✓" not in draw_attention(tab.check(tab.defaults), tuple(untrained)).picture  # negative control


def test_first_models_have_the_perplexity_that_is_shown() -> None:
    sentences = lm.generate_grammar_text(200, seed=1)  # the validation text of benchmarks/lm/play_models.py
    for one, kind in zip(first_models(), KINDS, strict=True):
        text = lm.encode_corpus(lm.Corpus("grammar", train=sentences, valid=sentences, test=sentences), one.tokenizer)
        measured = lm.evaluate(one.model, text.valid, words=text.word_counts["valid"]).word_perplexity
        stored = json.loads((TRAINED / kind / "result.json").read_text())["valid_ppl"]
        assert measured == pytest.approx(stored, rel=2e-3)
        assert f"perplexity {stored:.1f} " in one.state


@pytest.mark.slow
def test_models_of_run_folders_are_shown_instead_of_trained_ones(tmp_path: Path) -> None:
    text = lm.generate_grammar_text(60, seed=0)
    corpus = lm.encode_corpus(lm.Corpus("tiny", train=text, valid=text, test=text))
    size = {"vocab_size": corpus.tokenizer.vocab_size, "embed_dim": 8, "num_layers": 1, "num_heads": 1, "ffn_dim": 4}
    config = lm.ModelConfig(**size, max_len=8, attention="rope")  # type: ignore[arg-type]
    lm.train(config, lm.TrainConfig(epochs=1, batch=8), corpus, tmp_path / "<b>run", device="cpu")
    tab = make_tab(load_models([tmp_path / "<b>run"]))
    assert tab.preparation is None
    assert "&lt;b&gt;run: the last word attends most" in description(tab)
    view = show(tab, {**tab.defaults, "layer": 2, "head": 2})  # the model has one of each
    assert "<b>run" not in view.picture
    assert "lm.load_run('<b>run')" in view.code
    with pytest.raises(ValueError, match="at most two models"):
        load_models([tmp_path] * 3)


def test_matrix_of_my_own_is_solved_and_a_wrong_line_is_explained() -> None:
    tab = NAMED["matrices"]
    own = {**tab.defaults, "matrix": "my own, written below"}
    assert "answer A, probability 99" in show(tab, own).picture
    view = show(tab, {**own, "panels": own["panels"].replace("square 1 3", "square 1 30", 1)})
    assert "got &#x27;square 1 30&#x27;" in view.picture
    assert "lines of 3, 3 and 2 panels" in show(tab, {**own, "panels": "square 1 3"}).picture


@pytest.mark.parametrize("matrix", ["no rule", "all answers are wrong"])
def test_matrix_without_a_right_answer_is_unsure(matrix: str) -> None:
    tab = NAMED["matrices"]
    assert "unsure: answer" in show(tab, {**tab.defaults, "matrix": matrix}).picture
