"""The ``transformers`` model: files, generation, loss, ``Trainer``, and errors."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
    Trainer,
    TrainingArguments,
    set_seed,
)

from ghrr_lab.lm import (
    EncodedCorpus,
    Model,
    ModelConfig,
    RunError,
    TrainConfig,
    WordTokenizer,
    generate,
    huggingface,
    load_run,
    train,
)
from ghrr_lab.lm.huggingface import GHRRCache, GHRRConfig, GHRRForCausalLM
from tests.helpers import assert_mean, generator, rounding

KINDS: dict[str, dict[str, Any]] = {
    "vanilla": {"attention": "vanilla"},
    "rope": {"attention": "rope"},
    "feature": {"attention": "ghrr", "window": 3, "trainable_phases": True},
    "row": {"mode": "row"},
    "bundle": {"mode": "bundle"},
    "path": {"mode": "path", "m": 2, "angle_std": 1.0, "forget_gate": True},
}
SMALL: dict[str, Any] = {
    "vocab_size": 23,
    "embed_dim": 16,
    "num_layers": 2,
    "num_heads": 2,
    "ffn_dim": 8,
    "max_len": 12,
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(weight_seed: int = 0, **settings: Any) -> Any:
    """Make a GHRRForCausalLM with large random weights, so that its output depends on every token and position."""
    with torch.random.fork_rng():
        torch.manual_seed(weight_seed)
        model = GHRRForCausalLM(GHRRConfig(**SMALL | settings))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.4)
    return model.eval()


def tokens(*shape: int, vocabulary: int = SMALL["vocab_size"], seed: int = 0) -> Tensor:
    return torch.randint(vocabulary, shape, generator=generator(seed))


@torch.inference_mode()
def logits(model: Any, ids: Tensor) -> Tensor:
    out: Tensor = model(ids).logits
    return out


def same(x: Tensor, y: Tensor, *, terms: int = 1) -> bool:
    """Whether two tensors are equal up to rounding."""
    return torch.allclose(x, y, rtol=0, atol=rounding(torch.float32, terms=terms, scale=float(y.abs().max())))


@pytest.mark.parametrize("kind", [*KINDS, "unitary"])
def test_loaded_model_gives_identical_logits(tmp_path: Path, kind: str) -> None:
    settings = KINDS.get(kind, {"attention": "ghrr", "weights": "unitary"})
    model, ids = make(**settings), tokens(3, 12)
    model.save_pretrained(tmp_path)
    for load in (GHRRForCausalLM.from_pretrained, AutoModelForCausalLM.from_pretrained):
        loaded = load(tmp_path)
        assert type(loaded) is GHRRForCausalLM
        assert not loaded.training
        assert torch.equal(logits(loaded, ids), logits(model, ids))
    assert not same(logits(make(weight_seed=1, **settings), ids), logits(model, ids))


def test_saved_files_hold_one_embedding_and_no_fixed_positions(tmp_path: Path) -> None:
    for kind in ("vanilla", "rope"):
        model = make(**KINDS[kind])
        model.save_pretrained(tmp_path / kind)
        names = {path.name for path in (tmp_path / kind).iterdir()}
        assert names == {"config.json", "generation_config.json", "model.safetensors"}
        with safe_open(tmp_path / kind / "model.safetensors", framework="pt") as file:
            stored = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        assert stored == {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        wide = (SMALL["vocab_size"], SMALL["embed_dim"])
        assert [name for name, shape in stored.items() if shape == wide] == ["model.embedding.weight"]
        assert not [name for name in stored if name.endswith(("sinusoids", "rotations"))]


@pytest.mark.parametrize("kind", ["vanilla", "rope", "feature", "row"])
def test_loading_in_bfloat16_equals_rounding_the_model(tmp_path: Path, kind: str) -> None:
    model, ids = make(**KINDS[kind]), tokens(2, 12)
    model.save_pretrained(tmp_path)
    loaded = GHRRForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    kept = {name for name, tensor in loaded.state_dict().items() if tensor.dtype == torch.float32}
    kept_parts = (".phases.", ".positions.", *([".form."] if kind == "row" else []))
    assert kept == {name for name in loaded.state_dict() if any(part in name for part in kept_parts)}
    assert loaded.dtype == torch.bfloat16
    assert torch.equal(logits(loaded, ids), logits(model.to(torch.bfloat16), ids))


@every_kind
def test_greedy_generation_equals_lm_generate(kind: str) -> None:
    model, prompt = make(**KINDS[kind]), tokens(5, 4)
    expected = generate(model.model, prompt, 8, temperature=0, generator=generator())
    settings: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False}
    assert torch.equal(model.generate(prompt, **settings), expected)
    assert torch.equal(model.generate(prompt, use_cache=False, **settings), expected)
    assert not torch.equal(model.generate(prompt[:, -1:], **settings)[:, 1:], expected[:, 4:])


@every_kind
def test_cached_chunks_equal_the_whole_sequence(kind: str) -> None:
    model, ids = make(**KINDS[kind]), tokens(2, 12)
    whole, cache, chunks = logits(model, ids), None, []
    with torch.inference_mode():
        for chunk in ids.split([5, 1, 4, 2], dim=1):
            out = model(chunk, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            chunks.append(out.logits)
    assert cache is not None
    assert cache.get_seq_length() == 12
    terms = 12 if kind == "path" else 1  # a path is a product of as many rounded steps, grouped by chunks
    assert same(torch.cat(chunks, dim=1), whole, terms=terms)
    assert not same(logits(model, ids[:, -2:]), whole[:, -2:])
    assert model(ids).past_key_values is None


def test_loaded_positions_follow_the_saved_frequencies(tmp_path: Path) -> None:
    model, ids = make(**KINDS["feature"] | {"position_sharing": "head", "seed": 3}), tokens(2, 12)
    model.config.seed = 9
    model.save_pretrained(tmp_path)
    assert same(logits(GHRRForCausalLM.from_pretrained(tmp_path), ids), logits(model, ids))


@every_kind
def test_beam_search_with_cache_equals_beam_search_without(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, prompt = make(**KINDS[kind]), tokens(6, 4)
    settings: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False, "num_beams": 4, "num_return_sequences": 4}
    expected = model.generate(prompt, use_cache=False, **settings)
    assert torch.equal(model.generate(prompt, **settings), expected)
    monkeypatch.setattr(GHRRCache, "reorder_cache", lambda self, beam_idx: None)
    assert not torch.equal(model.generate(prompt, **settings), expected)


def test_exhaustive_beam_search_finds_the_best_continuation() -> None:
    model = make(weight_seed=2, **KINDS["feature"], vocab_size=4)
    prompt = torch.tensor(list(itertools.product(range(4), repeat=2)))
    continuations = torch.tensor(list(itertools.product(range(4), repeat=3)))
    rows = torch.cat((prompt.repeat_interleave(4**3, dim=0), continuations.repeat(4**2, 1)), dim=1)
    scores = logits(model, rows).log_softmax(-1)[:, 1:-1].gather(-1, rows[:, 2:, None]).sum((1, 2))
    best = continuations[scores.view(4**2, 4**3).argmax(-1)]
    assert torch.equal(model.generate(prompt, max_new_tokens=3, do_sample=False, num_beams=4**2)[:, 2:], best)
    assert not torch.equal(model.generate(prompt, max_new_tokens=3, do_sample=False)[:, 2:], best)


def test_samples_follow_the_probabilities() -> None:
    model, prompt = make(**KINDS["feature"], vocab_size=5), tokens(1, 6, vocabulary=5)
    expected = logits(model, prompt)[0, -1].softmax(-1)
    with torch.random.fork_rng():
        set_seed(0)
        sampled = model.generate(prompt, max_new_tokens=1, do_sample=True, top_k=0, num_return_sequences=4000)[:, -1]
    for token, probability in enumerate(expected.tolist()):
        assert_mean((sampled == token).double(), probability)
    with pytest.raises(AssertionError, match="mean"):
        assert_mean((sampled == expected.argmax()).double(), float((expected.sqrt() / expected.sqrt().sum()).max()))


@every_kind
def test_loss_is_the_mean_loss_of_the_model(kind: str) -> None:
    model, ids = make(**KINDS[kind]), tokens(3, 12)
    labels = ids.clone()
    labels[:, 5:7] = -100
    targets = labels[:, 1:].masked_fill(labels[:, 1:] == -100, -1)
    total, count = model.model.loss(ids[:, :-1], targets).item(), int((targets >= 0).sum())
    assert count == 3 * 9
    loss, exact = model(ids, labels=labels).loss, rounding(torch.float32)
    assert loss.item() == pytest.approx(total / count, rel=exact)
    assert model(ids, labels=labels, num_items_in_batch=100).loss.item() == pytest.approx(total / 100, rel=exact)
    assert model(ids, labels=ids).loss.item() != pytest.approx(total / count, rel=exact)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)


def test_return_dict_false_gives_a_tuple() -> None:
    model, ids = make(), tokens(2, 5)
    loss, out, cache = model(ids, labels=ids, use_cache=True, return_dict=False)
    assert loss.ndim == 0
    assert torch.equal(out, model(ids).logits)
    assert isinstance(cache, GHRRCache)


@every_kind
def test_right_padding_does_not_change_earlier_tokens(kind: str) -> None:
    model, ids = make(**KINDS[kind]), tokens(2, 9)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    padded = torch.where(mask == 1, ids, 0)
    labels = torch.where(mask == 1, ids, -100)
    out = model(padded, attention_mask=mask, labels=labels)
    assert torch.equal(out.logits[0], logits(model, padded)[0])
    assert same(out.logits[1, :6], logits(model, ids)[1, :6])
    assert not same(out.logits[1], logits(model, ids)[1])
    separate = [model.model.loss(row[None, :-1], row[None, 1:]).item() for row in (ids[0], ids[1, :6])]
    assert out.loss.item() == pytest.approx(sum(separate) / (8 + 5), rel=rounding(torch.float32))


def trainer_for(model: Any, rows: list[dict[str, Tensor]], out: Path, **settings: Any) -> Any:
    arguments = TrainingArguments(
        str(out), use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
        dataloader_pin_memory=False, **settings,
    )  # fmt: skip
    return Trainer(model, arguments, train_dataset=rows, eval_dataset=rows)


def test_trainer_trains_and_evaluates(tmp_path: Path) -> None:
    model, ids = make(dropout=0.0), tokens(8, 12)
    rows = [{"input_ids": row, "labels": row} for row in ids]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.random.fork_rng():
        trainer = trainer_for(
            model, rows, tmp_path / "out", max_steps=2, per_device_train_batch_size=4, learning_rate=1e-3
        )
        first = trainer.evaluate()["eval_loss"]
        assert trainer.train().global_step == 2
        last = trainer.evaluate()["eval_loss"]
    with torch.inference_mode():
        assert last == pytest.approx(model(ids, labels=ids).loss.item(), rel=rounding(torch.float32))
    assert last < first
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    trainer.save_model(str(tmp_path / "saved"))
    assert torch.equal(logits(GHRRForCausalLM.from_pretrained(tmp_path / "saved"), ids), logits(model, ids))


def test_gradient_accumulation_weights_tokens_equally(tmp_path: Path) -> None:
    ids = tokens(2, 12)
    labels = ids.clone()
    labels[1, 3:] = -100  # makes the mean of means differ from the mean over tokens
    rows = [{"input_ids": row, "labels": label} for row, label in zip(ids, labels, strict=True)]
    models = []
    for size in (2, 1):
        model = make(dropout=0.0)
        settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 2 // size}
        with torch.random.fork_rng():
            trainer_for(model, rows, tmp_path, max_steps=1, optim="sgd", learning_rate=0.1, **settings).train()
        models.append(model)
    whole, parts = (logits(model, ids) for model in models)
    assert same(parts, whole)
    assert not same(whole, logits(make(), ids))


def test_from_run_converts_a_run_folder(tmp_path: Path) -> None:
    tokenizer = WordTokenizer.build("a b c d e f\n")
    ids = tokens(400, vocabulary=tokenizer.vocab_size)
    text = EncodedCorpus("random", tokenizer, train=ids, valid=ids[:50], test=ids[:50], word_counts={})
    config = ModelConfig(**SMALL | {"vocab_size": tokenizer.vocab_size, "attention": "rope"})
    train(config, TrainConfig(epochs=1, batch=8, warmup=0), text, tmp_path / "run", device="cpu")
    model = GHRRForCausalLM.from_run(tmp_path / "run")
    trained, _ = load_run(tmp_path / "run")
    assert not model.training
    assert model.config.model_config == config
    prompt = ids[:8].view(2, 4)
    assert torch.equal(logits(model, prompt), trained(prompt))
    model.save_pretrained(tmp_path / "saved")
    loaded: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    expected = generate(trained, prompt, 8, temperature=0, generator=generator())
    assert torch.equal(loaded.generate(prompt, max_new_tokens=8, do_sample=False), expected)
    with pytest.raises(RunError, match="holds no run"):
        GHRRForCausalLM.from_run(tmp_path / "saved")


def test_config_survives_saving_and_loading(tmp_path: Path) -> None:
    expected = ModelConfig(**SMALL, **KINDS["feature"], m=5, dropout=0.1, seed=7, qk_gain=0.5)
    config = GHRRConfig(**dataclasses.asdict(expected))
    config.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["model_type"] == "ghrr"
    assert {name: stored[name] for name in dataclasses.asdict(expected)} == dataclasses.asdict(expected)
    for loaded in (GHRRConfig.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)):
        assert type(loaded) is GHRRConfig
        assert loaded.model_config == expected
    assert GHRRConfig(vocab_size=5).model_config == ModelConfig(vocab_size=5)


def test_model_saved_by_version_0_1_loads(tmp_path: Path) -> None:
    old = Path(__file__).parent / "version_0_1"
    ids, expected = tokens(2, 8, vocabulary=20), load_run(old / "run")[0]
    for load in (GHRRForCausalLM.from_pretrained, AutoModelForCausalLM.from_pretrained):
        loaded: Any = load(old / "huggingface")
        assert loaded.config.model_config == expected.config
        assert same(logits(loaded, ids), expected(ids).detach())
    loaded.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["version"] == 2


def test_config_accepts_transformers_names() -> None:
    config = GHRRConfig(vocab_size=9, hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=5)
    assert config.model_config == ModelConfig(vocab_size=9, embed_dim=24, num_layers=1, num_heads=3, ffn_dim=5)
    config.max_position_embeddings = 7
    assert config.max_len == config.model_config.max_len == 7


def test_new_model_has_the_initial_weights_of_lm_model() -> None:
    for kind in KINDS.values():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = AutoModelForCausalLM.from_config(GHRRConfig(**SMALL | kind))
            torch.manual_seed(0)
            expected = Model(model.config.model_config)
        for name, tensor in expected.state_dict().items():
            assert torch.equal(model.model.state_dict()[name], tensor), name


@pytest.mark.parametrize("kind", ["rope", "feature", "bundle", "path"])
def test_cache_rows_can_be_selected_and_reset(kind: str) -> None:
    model, ids = make(**KINDS[kind]), tokens(3, 8)
    order = torch.tensor([2, 0, 0])

    def continue_with(change: Any, rows: Tensor) -> Tensor:
        with torch.inference_mode():
            cache = model(ids[:, :5], use_cache=True).past_key_values
            change(cache)
            out: Tensor = model(rows[:, 5:], past_key_values=cache).logits
        return out

    selected = continue_with(lambda cache: cache.batch_select_indices(order), ids[order])
    assert same(selected, logits(model, ids[order])[:, 5:], terms=8 if kind == "path" else 1)
    assert not same(selected, continue_with(lambda cache: None, ids[order]))
    reset = continue_with(lambda cache: cache.reset(), ids)
    assert torch.equal(reset, logits(model, ids[:, 5:]))


@pytest.mark.parametrize("kind", ["rope", "path"])
def test_tokens_can_be_removed_from_a_cache(kind: str) -> None:
    model, ids = make(**KINDS[kind]), tokens(3, 8)
    for length in (5, -2):
        with torch.inference_mode():
            cache = model(ids[:, :7].flip(0), use_cache=True).past_key_values
            cache.crop(0)
            cache = model(
                torch.cat((ids[:, :5], ids[:, :2]), dim=1), past_key_values=cache, use_cache=True
            ).past_key_values
            cache.crop(length)
            assert same(model(ids[:, 5:], past_key_values=cache).logits, logits(model, ids)[:, 5:], terms=8)


def test_tokens_cannot_be_removed_from_rows_that_bundle_several() -> None:
    model, ids = make(**KINDS["feature"]), tokens(3, 8)
    cache = model(ids, use_cache=True).past_key_values
    with pytest.raises(ValueError, match="rows that bundle several tokens cannot be removed"):
        cache.crop(-1)


def test_generation_continues_from_a_cache() -> None:
    model, ids = make(), tokens(2, 6)
    with torch.inference_mode():
        cache = model(ids[:, :4], use_cache=True).past_key_values
    expected = model.generate(ids, max_new_tokens=4, do_sample=False)
    assert torch.equal(model.generate(ids, max_new_tokens=4, do_sample=False, past_key_values=cache), expected)
    assert cache.get_seq_length() == 9


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default `max_length`:UserWarning")
def test_generation_stops_at_the_context() -> None:
    model, prompt = make(), tokens(1, 3)
    assert model.generate(prompt, do_sample=False).shape == (1, SMALL["max_len"])
    assert model.generate(prompt, max_new_tokens=9, do_sample=False).shape == (1, SMALL["max_len"])
    for use_cache in (True, False):
        with pytest.raises(
            ValueError, match=r"must not exceed the context \(12\), got 13; .* max_new_tokens, or use ghrr_lab\.lm"
        ):
            model.generate(prompt, max_new_tokens=11, do_sample=False, use_cache=use_cache)


def padding(side: str) -> dict[str, Tensor]:
    mask = torch.ones(2, 4, dtype=torch.long)
    mask[1, 0 if side == "left" else -1] = 0
    return {"input_ids": tokens(2, 4), "attention_mask": mask}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda m: m(torch.tensor([[1, 23]])),
            ValueError,
            "input_ids must lie in [0, 22], got 1 to 23",
        ),
        (lambda m: m(torch.tensor([[-1, 2]])), ValueError, "input_ids must lie in [0, 22], got -1 to 2"),
        (lambda m: m(torch.tensor([1, 2])), ValueError, "shape (batch, n), got a int64 tensor of shape (2,)"),
        (lambda m: m(torch.ones(1, 2)), ValueError, "must be whole numbers of shape (batch, n), got a float32"),
        (lambda m: m([[1]]), ValueError, "must be whole numbers of shape (batch, n), got list [[1]]"),
        (lambda m: m(tokens(1, 13)), ValueError, "must not exceed the context (12), got 13; shorten the prompt"),
        (lambda m: m(**padding("left")), ValueError, "attention_mask must not mask tokens before other tokens"),
        (lambda m: m(**padding("right"), use_cache=True), ValueError, "must not mask tokens before other tokens"),
        (lambda m: m(tokens(2, 4), torch.ones(2, 3)), ValueError, "attention_mask must have shape (2, 4)"),
        (
            lambda m: m.generate(**padding("left"), max_new_tokens=1),
            ValueError,
            "generate: attention_mask must not mask tokens",
        ),
        (lambda m: m.generate(**padding("right"), max_new_tokens=1), ValueError, "use batches of rows of equal length"),
        (
            lambda m: m(tokens(1, 2), past_key_values=DynamicCache()),
            TypeError,
            "must be None or a GHRRCache that this model returned, got",
        ),
        (lambda m: GHRRConfig(vocab_size=0), ValueError, "vocab_size must be a whole number of at least 1, got 0"),
        (lambda m: GHRRConfig(), TypeError, "vocab_size"),
        (lambda m: GHRRConfig(vocab_size=9, attention="x"), ValueError, "attention must be one of 'vanilla', 'rope'"),
        (
            lambda m: AutoModelForCausalLM.from_config(GHRRConfig(**SMALL, weights="unitary"), dtype=torch.bfloat16),
            ValueError,
            "dtype must be float32 for unitary weights, which are complex, got torch.bfloat16",
        ),
    ],
)
def test_model_rejects_invalid_input(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(make())


@pytest.mark.parametrize(
    ("change", "settings", "error", "message"),
    [
        ({"vocab_size": 24}, {}, RuntimeError, "ignore_mismatched_sizes"),
        ({"vocab_size": 24}, {"ignore_mismatched_sizes": True}, ValueError, "2 weights are missing, unknown or have"),
        ({"num_layers": 3}, {}, ValueError, "such as model.layers.2.attention.form.bias; load them with"),
        ({"num_layers": 1}, {}, ValueError, "such as model.layers.1.attention.form.bias; load them with"),
        ({"attention": "rope"}, {}, ValueError, "are missing, unknown or have another shape"),
    ],
)
def test_from_pretrained_rejects_weights_of_another_model(
    tmp_path: Path, change: dict[str, Any], settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    model = make()
    model.save_pretrained(tmp_path)
    other = GHRRConfig(**SMALL | change)
    with pytest.raises(error, match=re.escape(message)):
        GHRRForCausalLM.from_pretrained(tmp_path, config=other, **settings)
    loaded, info = GHRRForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert torch.equal(logits(loaded, tokens(1, 5)), logits(model, tokens(1, 5)))


def test_from_pretrained_refuses_pickles(tmp_path: Path) -> None:
    model = make()
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match=r"model\.safetensors"):
        GHRRForCausalLM.from_pretrained(tmp_path)


def test_import_without_transformers_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert huggingface.__file__ is not None
    spec = importlib.util.spec_from_file_location("without_transformers", huggingface.__file__)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=r"needs transformers 5; pip install 'ghrr\[hf\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_ghrr_lm_does_not_import_transformers() -> None:
    code = "import sys, ghrr_lab.lm; print('ghrr_lab.lm' in sys.modules, 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"]
    assert "transformers" in sys.modules
