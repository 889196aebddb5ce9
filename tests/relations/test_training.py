"""Training: what is learned, files of a run, resuming to the bit, kills and bad input."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ghrr.files import read_checked_json, read_tensors
from ghrr.relations import (
    KnowledgeGraph,
    RelationConfig,
    RelationModel,
    RelationProgress,
    defaults,
    evaluate,
    load_model,
    save_model,
    saving,
    train,
    train_step,
    training,
)
from ghrr.relations.baseline import frequency_baseline
from ghrr.relations.graph import with_reciprocals
from ghrr.training.steps import PLAIN_STEPS
from tests.processes import start, wait_until
from tests.relations.common import as_indices, permutation_graph, random_graph, small_config

ROOT = Path(__file__).parents[2]
SHORT: dict[str, Any] = {"dim": 6, "m": 2, "batch": 30, "epochs": 8, "evaluate_every": 2}

# Most runs are on random triples, or too short to learn anything.
pytestmark = pytest.mark.filterwarnings("ignore:train. the model ranks worse")


class Stop(Exception):  # noqa: N818
    """Raised to interrupt a run."""


@pytest.fixture(autouse=True)
def _checkpoint_at_each_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_seconds_between_checkpoints", lambda writing: 0.0)


def tensors(path: Path, kind: str) -> dict[str, torch.Tensor]:
    return read_tensors(path, kind=kind, version=1)[1]


def assert_same_run(folder: Path, expected: Path) -> None:
    kinds = {"model": "ghrr-relation-model", "checkpoint": "ghrr-relation-checkpoint", "ranks": "ghrr-relation-ranks"}
    for name, kind in kinds.items():
        one, other = (tensors(path / f"{name}.safetensors", kind) for path in (folder, expected))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), name
    one, other = (read_checked_json(path / "result.json") for path in (folder, expected))
    assert {**one, "seconds_per_epoch": None} == {**other, "seconds_per_epoch": None}


def test_ordered_binding_learns_products_of_permutations_and_m_1_does_not(tmp_path: Path) -> None:
    graph = permutation_graph()
    ordered = train(graph, small_config(), tmp_path / "ordered")
    commutative = train(graph, small_config(m=1, dim=144), tmp_path / "commutative")
    assert ordered["params"] == commutative["params"]
    assert ordered["test"]["mrr"] > 0.95
    assert commutative["test"]["mrr"] < 0.9


@pytest.mark.parametrize("changes", [{"relation_form": "unitary"}, {"relation_form": "scaled"}, {"regularizer": "n3"}])
def test_other_forms_learn(tmp_path: Path, changes: dict[str, object]) -> None:
    result = train(permutation_graph(), small_config(**changes), tmp_path / "run")
    chance = sum(1 / rank for rank in range(1, 25)) / 24
    assert result["test"]["mrr"] > 2 * chance


def test_adam_learns(tmp_path: Path) -> None:
    config = small_config(optimizer="adam", learning_rate=0.03, init_std=0.1)
    assert train(permutation_graph(), config, tmp_path / "run")["test"]["mrr"] > 0.9


@pytest.mark.slow
def test_compiled_step_gives_the_same_result(tmp_path: Path) -> None:
    results = [
        train(permutation_graph(), small_config(epochs=5, compile=compiled), tmp_path / str(compiled))
        for compiled in (False, True)
    ]
    losses = [result["history"][-1]["loss"] for result in results]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    ("optimizer", "relation_form", "m"),
    [("adagrad", "relaxed", 3), ("adam", "relaxed", 3), ("adagrad", "unitary", 2), ("adagrad", "scaled", 3)],
)
def test_replayed_steps_equal_plain_steps(
    optimizer: str, relation_form: str, m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"optimizer": optimizer, "relation_form": relation_form, "m": m}
    graph, config = permutation_graph(), small_config(batch=16, learning_rate=0.01, **changes)
    batches = torch.split(with_reciprocals(graph.train, len(graph.relations)).cuda(), 16)

    def tables(replay: bool) -> torch.Tensor:
        if not replay:
            monkeypatch.setattr(train_step, "replay_as_graph", lambda step, lead: step)
        model = RelationModel(graph.entities, graph.relations, dim=config.dim, m=m, relation_form=relation_form).cuda()
        step = train_step.make_step(model, train_step.make_optimizer(model, config), config)
        losses = [step(batch) for batch in batches]  # the last batch is smaller
        return torch.cat([model.entity_table.detach().flatten(), torch.stack(losses)])

    assert len(batches) > 2 * PLAIN_STEPS
    replayed, plain = tables(replay=True), tables(replay=False)
    assert torch.equal(replayed, plain)


def test_result_describes_the_best_model(tmp_path: Path) -> None:
    graph = permutation_graph()
    steps: list[RelationProgress] = []
    result = train(graph, small_config(), tmp_path / "run", on_progress=steps.append, command="ghrr relations train")
    assert result == read_checked_json(tmp_path / "run" / "result.json")
    model = load_model(tmp_path / "run")
    metrics = evaluate(model, graph)
    assert result["test"] == metrics.summary()
    assert torch.equal(
        tensors(tmp_path / "run" / "ranks.safetensors", "ghrr-relation-ranks")["test"].double(), metrics.ranks
    )
    history = {entry["epoch"]: entry["valid_mrr"] for entry in result["history"]}
    assert result["valid"]["mrr"] == max(history.values()) == history[result["best_epoch"]]
    assert [progress.step for progress in steps] == list(range(1, result["epochs"] * 4 + 1))
    assert {p.step: p.valid_mrr for p in steps if p.valid_mrr is not None} == {4 * e: mrr for e, mrr in history.items()}
    assert (result["params"], result["command"]) == (model.parameter_count, "ghrr relations train")
    assert model.temperature == result["calibration"]["temperature"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoint.safetensors",
        "model.safetensors",
        "ranks.safetensors",
        "result.json",
    ]


def test_training_stops_early_and_keeps_the_best_model(tmp_path: Path) -> None:
    graph = random_graph()  # nothing to learn
    result = train(graph, small_config(epochs=200, evaluate_every=1, patience=3), tmp_path / "run")
    assert result["epochs"] == result["best_epoch"] + 3 < 200
    assert evaluate(load_model(tmp_path / "run"), graph, "valid").mrr == result["valid"]["mrr"]


@pytest.mark.parametrize(
    "changes",
    [{}, {"optimizer": "adam", "learning_rate": 0.01}, {"relation_form": "scaled"}, {"average_epochs": 3}],
)
def test_interrupted_run_equals_uninterrupted_run(tmp_path: Path, changes: dict[str, Any]) -> None:
    graph, config = random_graph(), small_config(**SHORT, **changes)
    train(graph, config, tmp_path / "whole", device="cpu")
    for stop in (1, 4, 5, 9, 12):

        def interrupt(progress: RelationProgress, stop: int = stop) -> None:
            if progress.step == stop:
                raise Stop

        with contextlib.suppress(Stop):
            train(graph, config, tmp_path / "parts", device="cpu", resume=True, on_progress=interrupt)
    assert not (tmp_path / "parts" / "result.json").exists()
    train(graph, config, tmp_path / "parts", device="cpu", resume=True)
    assert_same_run(tmp_path / "parts", tmp_path / "whole")
    other = train(graph, dataclasses.replace(config, seed=1), tmp_path / "other")
    assert other["history"] != json.loads((tmp_path / "whole" / "result.json").read_text())["history"]


def test_average_starts_as_a_mean_and_then_moves(tmp_path: Path) -> None:
    def parameters(part: str, **changes: Any) -> torch.Tensor:
        folder = tmp_path / f"{part} {changes}"
        config = small_config(**{**SHORT, "evaluate_every": 1, "patience": 100, **changes})
        train(random_graph(), config, folder, device="cpu")
        return tensors(folder / "checkpoint.safetensors", "ghrr-relation-checkpoint")[f"{part}.entity_table"]

    one, two, three = (parameters("model", epochs=epochs) for epochs in (1, 2, 3))
    first, second, third = (parameters("average", epochs=epochs, average_epochs=2) for epochs in (1, 2, 3))
    torch.testing.assert_close(first, one)
    torch.testing.assert_close(second, (one + two) / 2)
    torch.testing.assert_close(third, (second + three) / 2)
    torch.testing.assert_close(parameters("model", epochs=3, average_epochs=2), three)


def test_average_is_evaluated_and_kept(tmp_path: Path) -> None:
    graph, folder = permutation_graph(), tmp_path / "run"
    result = train(graph, small_config(epochs=5, average_epochs=4), folder, device="cpu")
    average = tensors(folder / "checkpoint.safetensors", "ghrr-relation-checkpoint")["average.entity_table"]
    assert torch.equal(load_model(folder).entity_table, average)
    assert evaluate(load_model(folder), graph, "valid").mrr == result["history"][-1]["valid_mrr"]


def test_damaged_result_is_an_error(tmp_path: Path) -> None:
    graph, config, path = random_graph(), small_config(**SHORT), tmp_path / "run" / "result.json"
    result = train(graph, config, tmp_path / "run", device="cpu")
    path.write_text(path.read_text().replace(f'"best_epoch": {result["best_epoch"]}', '"best_epoch": 77'))
    with pytest.raises(ValueError, match=r"result\.json.*does not match its checksum"):
        train(graph, config, tmp_path / "run", resume=True)


def test_runs_of_earlier_versions_have_the_defaults_of_new_settings(tmp_path: Path) -> None:
    graph, config = random_graph(), small_config(**SHORT)
    result = train(graph, config, tmp_path / "run", device="cpu")
    del result["config"]["average_epochs"]
    (tmp_path / "run" / "result.json").write_text(json.dumps(result))
    assert train(graph, config, tmp_path / "run", resume=True) == result
    with pytest.raises(ValueError, match="its average_epochs is 1, not 2"):
        train(graph, dataclasses.replace(config, average_epochs=2), tmp_path / "run", resume=True)


CHILD = """
import os, signal, sys
from pathlib import Path
import torch
from ghrr.relations import train, training
from tests.relations.common import random_graph, small_config
from tests.relations.test_training import SHORT

torch.set_num_threads(1)
training._seconds_between_checkpoints = lambda writing: 0.0
writes, replace = int(sys.argv[2]), os.replace

def replace_or_die(*arguments):
    global writes
    writes -= 1
    if writes == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*arguments)

os.replace = replace_or_die
train(random_graph(), small_config(**SHORT), sys.argv[1], resume=True)
"""


@pytest.mark.slow
def test_killed_runs_resume_to_the_same_files(tmp_path: Path) -> None:
    def run(folder: Path, write: int) -> int:
        """Train in a process of its own, which is killed before a write; 0 means never."""
        # Earlier tests may have changed which kernels this process uses, and with them the last bits.
        return subprocess.run([sys.executable, "-c", CHILD, str(folder), str(write)], cwd=ROOT, check=False).returncode

    folder = tmp_path / "killed"
    for write in (2, 3):  # before the first checkpoint is in place, and before the second best model is
        assert run(folder, write) == -signal.SIGKILL
        assert (folder / "checkpoint.safetensors").exists() == (write == 3)
        load_model(folder)
    assert run(folder, 0) == run(tmp_path / "whole", 0) == 0
    assert_same_run(folder, tmp_path / "whole")


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_resumes(tmp_path: Path) -> None:
    code = (
        "from tests.relations.common import *; from ghrr.relations import train; import sys\n"
        "train(random_graph(), small_config(epochs=100_000, patience=100_000, evaluate_every=1), sys.argv[1])\n"
    )
    folder = tmp_path / "run"
    with start([sys.executable, "-c", code, str(folder)], cwd=ROOT, stderr=subprocess.PIPE) as process:
        wait_until((folder / "checkpoint.safetensors").exists, process)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate()[1]
    assert {path.name for path in folder.iterdir()} == {"checkpoint.safetensors", "model.safetensors"}
    config = small_config(epochs=100_000, patience=100_000, evaluate_every=1)

    def stop(progress: RelationProgress) -> None:
        raise Stop

    with pytest.raises(Stop):
        train(random_graph(), config, folder, resume=True, on_progress=stop)


def test_numbers_of_numpy_are_settings(tmp_path: Path) -> None:
    plain = small_config(**SHORT, learning_rate=0.5, seed=3)
    config = small_config(**SHORT, learning_rate=np.float64(0.5), seed=np.int64(3))
    assert config == plain
    assert json.dumps(dataclasses.asdict(config)) == json.dumps(dataclasses.asdict(plain))
    assert train(random_graph(), config, tmp_path / "run", device="cpu")["config"]["seed"] == 3


def test_finished_run_is_not_repeated(tmp_path: Path) -> None:
    graph, config = random_graph(), small_config(**SHORT)
    result = train(graph, config, tmp_path / "run")
    steps: list[RelationProgress] = []
    assert train(graph, config, tmp_path / "run", resume=True, on_progress=steps.append) == result
    assert steps == []


def test_folders_of_other_runs_and_other_files_are_refused(tmp_path: Path) -> None:
    graph, config = random_graph(), small_config(**SHORT)
    train(graph, config, tmp_path / "run")
    with pytest.raises(ValueError, match="holds a run already; resume it"):
        train(graph, config, tmp_path / "run")
    with pytest.raises(ValueError, match="holds another run: its dim is 6, not 7"):
        train(graph, dataclasses.replace(config, dim=7), tmp_path / "run", resume=True)
    with pytest.raises(ValueError, match="holds a run on other triples"):
        train(random_graph(seed=1), config, tmp_path / "run", resume=True)
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(ValueError, match="holds another run: its seed is 0, not 5"):
        train(graph, dataclasses.replace(config, seed=5), tmp_path / "run", resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(ValueError, match="is not empty; choose another folder"):
        train(graph, config, tmp_path / "other")
    with pytest.raises(ValueError, match=r"holds 'thesis\.tex', which is not of a run"):
        train(graph, config, tmp_path / "other", resume=True)
    with pytest.raises(ValueError, match="is a file, expected a folder"):
        train(graph, config, tmp_path / "other" / "thesis.tex")


def test_resuming_does_not_replace_a_model_of_another_run(tmp_path: Path) -> None:
    graph, config, path = random_graph(), small_config(**SHORT), tmp_path / "run" / "model.safetensors"
    train(graph, config, tmp_path / "run", device="cpu")
    for name in ("checkpoint", "ranks"):
        (tmp_path / "run" / f"{name}.safetensors").unlink()
    (tmp_path / "run" / "result.json").unlink()
    finished = path.read_bytes()
    with pytest.raises(ValueError, match="holds a trained model without the checkpoint of its run"):
        train(graph, config, tmp_path / "run", device="cpu", resume=True)
    assert path.read_bytes() == finished
    for other in ({"dim": 7}, {"relation_form": "unitary"}):
        save_model(path, RelationModel(graph.entities, graph.relations, **{"dim": 6, "m": 2, **other}))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="holds a trained model without the checkpoint of its run"):
            train(graph, config, tmp_path / "run", device="cpu", resume=True)
    save_model(path, RelationModel(graph.entities, graph.relations, dim=6, m=2))  # as before the first checkpoint
    assert train(graph, config, tmp_path / "run", device="cpu", resume=True)["epochs"] == 8


def test_empty_splits_and_diverging_training_leave_no_files(tmp_path: Path) -> None:
    graph, config = random_graph(), small_config(**SHORT)
    for split in ("train", "valid", "test"):
        empty = dataclasses.replace(graph, **{split: as_indices()})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"the {split} split of 'random' is empty"):
            train(empty, config, tmp_path / "new" / "run")
    with pytest.raises(ValueError, match="the loss is nan in epoch 1; lower the learning rate"):
        train(graph, dataclasses.replace(config, learning_rate=1e30), tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()
    with pytest.raises(TypeError, match="graph must be a KnowledgeGraph"):
        train(None, config, tmp_path / "new")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="config must be a RelationConfig"):
        train(graph, {}, tmp_path / "new")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="train: out must be a path, got int 3"):
        train(graph, config, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="train: command must be a string, got list"):
        train(graph, config, tmp_path / "new", command=["ghrr"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="device 'tpu' cannot be used"):
        train(graph, config, tmp_path / "new", device="tpu")


def test_overlapping_splits_and_untrained_relations_are_refused(tmp_path: Path) -> None:
    graph, config = random_graph(), small_config(**SHORT)
    shared = dataclasses.replace(graph, test=torch.cat([graph.test, graph.valid[3:4]]))
    with pytest.raises(ValueError, match="the valid and test splits of 'random' share the triple e"):
        train(shared, config, tmp_path / "run")
    untrained = dataclasses.replace(graph, relations=(*graph.relations, "cousin"))
    with pytest.raises(ValueError, match=r"relation 'cousin' of 'random' has no training triple \(1 of 4 relations"):
        train(untrained, config, tmp_path / "run")
    repeated = dataclasses.replace(graph, train=torch.cat([graph.train, graph.train[:1]]))  # within a split
    assert train(repeated, config, tmp_path / "run", device="cpu")["epochs"] == 8


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "model.safetensors"])
def test_damaged_files_are_named(tmp_path: Path, name: str) -> None:
    graph, config = random_graph(), small_config(**SHORT)
    train(graph, config, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    content = bytearray((tmp_path / "run" / name).read_bytes())
    content[-3] ^= 1
    (tmp_path / "run" / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}.*does not match its checksum"):
        train(graph, config, tmp_path / "run", resume=True)


@pytest.mark.parametrize("relation_form", ["relaxed", "unitary", "scaled"])
def test_saved_model_is_loaded_to_the_bit(tmp_path: Path, relation_form: str) -> None:
    model = RelationModel(("a", "b"), ("r",), dim=3, m=2, relation_form=relation_form, length_penalty=0.5, seed=4)
    model.temperature, model.background = 0.25, 0.125
    save_model(tmp_path / "model.safetensors", model)
    loaded = load_model(tmp_path / "model.safetensors")
    assert all(torch.equal(loaded.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    assert (loaded.entities, loaded.relations) == (("a", "b"), ("r",))
    assert (loaded.temperature, loaded.background) == (0.25, 0.125)
    assert (loaded.relation_form, loaded.length_penalty) == (relation_form, 0.5)


def test_files_without_a_length_penalty_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(saving._MODEL_FIELDS, "length_penalty")
    save_model(tmp_path / "model.safetensors", RelationModel(("a", "b"), ("r",), dim=3, m=2, length_penalty=0.5))
    assert load_model(tmp_path / "model.safetensors").length_penalty == 0.0


def test_trained_model_has_the_length_penalty_of_the_config(tmp_path: Path) -> None:
    train(random_graph(), small_config(epochs=1, length_penalty=0.25), tmp_path / "run", device="cpu")
    assert load_model(tmp_path / "run").length_penalty == 0.25


def test_frequency_share_prefers_frequent_answers(tmp_path: Path) -> None:
    """Every entity points twice to itself and once to entity 0, which has most triples."""
    others = torch.arange(1, 30)
    unseen = as_indices((1, 0, 2), (2, 0, 1))
    own, hub = (torch.stack([others, 0 * others, tails], dim=1) for tails in (others, 0 * others))
    graph = KnowledgeGraph("hub", tuple(map(str, range(30))), ("r",), torch.cat([own, own, hub]), *unseen.split(1))
    preferred = {}
    for share in (0.0, 0.9):
        config = small_config(m=2, dim=32, epochs=60, evaluate_every=60, batch=174, frequency_share=share)
        train(graph, config, tmp_path / str(share), device="cpu")
        scores = load_model(tmp_path / str(share)).scores(others, 0 * others)
        preferred[share] = (scores[:, 0] > scores.gather(1, others[:, None])[:, 0]).double().mean()
    assert preferred[0.0] < 0.1
    assert preferred[0.9] > 0.9


def test_loading_other_files_fails_clearly(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file"):
        load_model(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not a model")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        load_model(tmp_path)
    with pytest.raises(TypeError, match="model must be a RelationModel"):
        save_model(tmp_path / "x", None)  # type: ignore[arg-type]


def test_only_single_precision_is_saved(tmp_path: Path) -> None:
    model = RelationModel(("a", "b"), ("r",), dim=3, m=2)
    with pytest.raises(TypeError, match=r"save_model: .* must be float32, got float64; use model\.float\(\)"):
        save_model(tmp_path / "model.safetensors", model.double())
    with pytest.raises(TypeError, match=r"save_model: .* must be float32 or float64, got torch\.bfloat16"):
        save_model(tmp_path / "model.safetensors", model.bfloat16())
    assert list(tmp_path.iterdir()) == []
    save_model(tmp_path / "model.safetensors", model.float())
    assert load_model(tmp_path).m == 2


def test_model_does_not_depend_on_the_default_precision() -> None:
    expected = RelationModel(("a", "b"), ("r",), dim=3, m=2, relation_form="scaled").state_dict()
    torch.set_default_dtype(torch.float64)
    try:
        found = RelationModel(("a", "b"), ("r",), dim=3, m=2, relation_form="scaled").state_dict()
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(
        torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in expected.items()
    )


def test_same_triples_in_another_order_of_names_are_another_graph() -> None:
    graph = random_graph()
    renamed = KnowledgeGraph("g", graph.entities[::-1], graph.relations, graph.train, graph.valid, graph.test)
    assert renamed.fingerprint != graph.fingerprint


def learnable_graph(share: float = 0.1) -> KnowledgeGraph:
    """Sums of numbers modulo 12, which a relation model learns; a share of the triples is held out."""
    heads, numbers = torch.meshgrid(torch.arange(12), torch.arange(12), indexing="ij")
    triples = torch.stack([heads, numbers, (heads + numbers) % 12], dim=-1).reshape(-1, 3)
    order = torch.randperm(len(triples), generator=torch.Generator().manual_seed(0))
    out = int(share * len(triples))
    splits = torch.split(triples[order], [len(triples) - 2 * out, out, out])
    return KnowledgeGraph("sums", tuple(f"{n}" for n in range(12)), tuple(f"+{n}" for n in range(12)), *splits)


def test_settings_that_are_not_given_are_chosen_and_stored(tmp_path: Path) -> None:
    seen: list[RelationProgress] = []
    result = train(learnable_graph(), RelationConfig(epochs=12), tmp_path / "run", on_progress=seen.append)
    config = result["config"]
    assert (config["dim"], config["batch"], config["m"]) == (40, 50, 3)
    mrrs = {round(p.trial, 6): p.valid_mrr for p in seen if p.trial is not None and p.valid_mrr is not None}
    assert len(mrrs) >= 3
    assert max(mrrs, key=lambda weight: mrrs[weight]) == round(config["regularizer_weight"], 6)
    assert result["test"]["mrr"] > 0.8
    assert seen[-1].trial is None


def test_chosen_settings_give_the_run_of_the_same_given_settings(tmp_path: Path) -> None:
    config = RelationConfig(epochs=3)
    chosen = train(learnable_graph(), config, tmp_path / "chosen")["config"]
    names = ("dim", "batch", "regularizer_weight")
    given = dataclasses.replace(config, **{name: chosen[name] for name in names})
    seen: list[RelationProgress] = []
    train(learnable_graph(), given, tmp_path / "given", on_progress=seen.append)
    assert all(progress.trial is None for progress in seen)
    assert_same_run(tmp_path / "chosen", tmp_path / "given")


def test_resumed_run_keeps_the_chosen_settings(tmp_path: Path) -> None:
    config = RelationConfig(epochs=6, evaluate_every=1)
    expected = train(learnable_graph(), config, tmp_path / "whole")

    def stop(progress: RelationProgress) -> None:
        if progress.trial is None and progress.valid_mrr is not None and progress.step >= progress.total_steps // 2:
            raise Stop

    with pytest.raises(Stop):
        train(learnable_graph(), config, tmp_path / "run", on_progress=stop)
    seen: list[RelationProgress] = []
    result = train(learnable_graph(), config, tmp_path / "run", resume=True, on_progress=seen.append)
    assert result["config"] == expected["config"]
    assert all(progress.trial is None for progress in seen)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    again = train(learnable_graph(), config, tmp_path / "run", resume=True)
    assert again == read_checked_json(tmp_path / "run" / "result.json")
    with pytest.raises(ValueError, match="its dim is 40, not 41"):
        train(learnable_graph(), dataclasses.replace(config, dim=41), tmp_path / "run", resume=True)


def test_a_run_stopped_in_its_trials_starts_again(tmp_path: Path) -> None:
    config = RelationConfig(epochs=2)

    def stop(progress: RelationProgress) -> None:
        raise Stop

    with pytest.raises(Stop):
        train(learnable_graph(), config, tmp_path / "run", on_progress=stop)
    train(learnable_graph(), config, tmp_path / "run", resume=True)
    train(learnable_graph(), config, tmp_path / "whole")
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_large_graphs_keep_their_fixed_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph = learnable_graph()
    monkeypatch.setattr(defaults, "SMALL", 100)
    chosen = defaults.default_sizes(graph, RelationConfig())
    assert (chosen.dim, chosen.batch, chosen.regularizer_weight) == (111, 1000, 0.1)
    given = RelationConfig(dim=7, batch=8, regularizer_weight=0.0)
    assert defaults.default_sizes(graph, given) == given


@pytest.mark.filterwarnings("default:train. the model ranks worse")
def test_a_model_below_the_frequency_baseline_warns(tmp_path: Path) -> None:
    born_in = as_indices(*((person, 0, 30 + person % 5) for person in range(30)))
    lives_in = as_indices(*((person, 1, 30) for person in range(30)))  # all in one city
    names = tuple(f"e{i}" for i in range(35)), ("born in", "lives in")
    graph = KnowledgeGraph("one city", *names, torch.cat([born_in, lives_in[:-6]]), lives_in[-6:-3], lives_in[-3:])
    with pytest.warns(UserWarning, match=r"train: the model ranks worse .* got a validation MRR of 0\.\d+, expected"):
        result = train(graph, RelationConfig(dim=4, m=2, epochs=1, regularizer_weight=100.0), tmp_path / "bad")
    assert result["valid"]["mrr"] < result["frequency_baseline"]["valid_mrr"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = train(learnable_graph(), RelationConfig(epochs=12), tmp_path / "good")
    assert result["valid"]["mrr"] > result["frequency_baseline"]["valid_mrr"]


def test_frequency_baseline_is_the_rank_by_counts() -> None:
    graph = random_graph(entities=9, relations=2, triples=60)
    known = {tuple(triple) for triple in torch.cat([graph.train, graph.valid, graph.test]).tolist()}
    ranks = frequency_baseline(graph, "valid").ranks.tolist()
    for (head, relation, tail), (tail_rank, head_rank) in zip(graph.valid.tolist(), ranks, strict=True):
        for column, right, others, rank in (
            (2, tail, [e for e in range(9) if (head, relation, e) not in known], tail_rank),
            (0, head, [e for e in range(9) if (e, relation, tail) not in known], head_rank),
        ):
            ends = graph.train[graph.train[:, 1] == relation][:, column]
            count = [int((ends == e).sum()) for e in range(9)]
            above = sum(count[e] > count[right] for e in others)
            ties = sum(count[e] == count[right] for e in others)
            assert rank == 1 + above + ties / 2


def test_a_graph_without_validation_triples_says_what_to_do(tmp_path: Path) -> None:
    graph = learnable_graph()
    empty = dataclasses.replace(graph, valid=graph.valid[:0])
    with pytest.raises(ValueError, match=r"the valid split of 'sums' is empty, .*; hold some training triples out"):
        train(empty, RelationConfig(), tmp_path / "run")
