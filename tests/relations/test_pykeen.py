"""PyKEEN: the same ranks for the same predictions, and its pipeline trains GHRR. Skipped where it is not installed."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ghrr.relations import KnowledgeGraph, RelationModel, evaluate, load_graph
from ghrr.relations.scoring import to_hypervectors, triple_scores
from tests.relations.common import random_graph


def import_pykeen() -> Any:
    """Import PyKEEN, which gives warnings about its own dependencies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *arguments, **settings: None)
        return pytest.importorskip("pykeen.pipeline")


@pytest.fixture(scope="module")
def pykeen() -> Any:
    return import_pykeen()


def make_pykeen_model(model: RelationModel, graph: KnowledgeGraph) -> Any:
    """Return a model of PyKEEN with the numbers of ours. It numbers r and its inverse 2r and 2r + 1."""
    from pykeen.models import ERModel
    from pykeen.triples import CoreTriplesFactory

    from ghrr.relations.pykeen_interaction import GHRRInteraction

    factory = CoreTriplesFactory(
        graph.train,
        num_entities=len(graph.entities),
        num_relations=len(graph.relations),
        create_inverse_triples=True,
    )
    shape = {"shape": model.entity_table.shape[1]}
    made = ERModel(
        triples_factory=factory,
        interaction=GHRRInteraction,
        interaction_kwargs={"m": model.m},
        entity_representations_kwargs=shape,
        relation_representations_kwargs=shape,
        random_seed=0,
    )
    order = torch.arange(2 * len(graph.relations)).view(2, -1).T.flatten()
    with torch.no_grad():
        made.entity_representations[0]._embeddings.weight.copy_(model.entity_table)
        made.relation_representations[0]._embeddings.weight.copy_(model.relation_table[order])
    return made


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("m", [1, 3])
def test_evaluator_of_pykeen_gives_the_same_numbers(pykeen: Any, m: int) -> None:
    from pykeen.evaluation import RankBasedEvaluator

    graph = random_graph(entities=25, relations=4, triples=300)
    model = RelationModel(graph.entities, graph.relations, dim=4, m=m, init_std=0.7, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.round_()  # whole numbers: many scores are equal
    results = RankBasedEvaluator(filtered=True).evaluate(
        make_pykeen_model(model, graph),
        graph.test,
        additional_filter_triples=[graph.train, graph.valid],
        batch_size=16,
        use_tqdm=False,
    )
    metrics = evaluate(model, graph)
    assert (metrics.ranks % 1 > 0).any()  # ties
    assert results.get_metric("both.realistic.inverse_harmonic_mean_rank") == pytest.approx(metrics.mrr, rel=1e-6)
    for k in (1, 3, 10):
        assert results.get_metric(f"both.realistic.hits_at_{k}") == pytest.approx(metrics.hits(k), rel=1e-6)
    assert results.get_metric("tail.realistic.arithmetic_mean_rank") == pytest.approx(
        metrics.ranks[:, 0].mean().item(), rel=1e-6
    )
    assert results.get_metric("both.optimistic.inverse_harmonic_mean_rank") > metrics.mrr + 1e-3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_interaction_broadcasts_and_equals_the_score(pykeen: Any) -> None:
    from ghrr.relations.pykeen_interaction import GHRRInteraction

    interaction = GHRRInteraction(m=2)
    generator = torch.Generator().manual_seed(0)
    h, r, t = (torch.randn(5, 2 * 3 * 4, generator=generator) for _ in range(3))
    everything = torch.randn(7, 24, generator=generator)

    def expected(h: torch.Tensor, r: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return 6 * triple_scores(*(to_hypervectors(x, 2) for x in (h, r, t)))

    torch.testing.assert_close(interaction.score_hrt(h, r, t)[:, 0], expected(h, r, t))
    torch.testing.assert_close(interaction.score_t(h, r, everything), expected(h[:, None], r[:, None], everything))
    torch.testing.assert_close(interaction.score_h(everything, r, t), expected(everything, r[:, None], t[:, None]))
    torch.testing.assert_close(interaction.score_r(h, everything, t), expected(h[:, None], everything, t[:, None]))
    with pytest.raises(ValueError, match=r"multiple of 2 \* m\*\*2 = 8 numbers"):
        interaction(h[:, :23], r, t)
    for wrong in (h.bfloat16(), h.long(), h.to(torch.complex64)):
        with pytest.raises(TypeError, match="GHRRInteraction: r must be float32 or float64"):
            interaction(h, wrong, t)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_m_1_equals_complex_of_pykeen(pykeen: Any) -> None:
    from pykeen.nn.modules import ComplExInteraction

    from ghrr.relations.pykeen_interaction import GHRRInteraction

    generator = torch.Generator().manual_seed(0)
    h, r, t = (torch.randn(5, 10, 2, generator=generator) for _ in range(3))
    theirs = ComplExInteraction()(*(torch.view_as_complex(x) for x in (h, r, t)))
    torch.testing.assert_close(GHRRInteraction(m=1)(h.flatten(1), r.flatten(1), t.flatten(1)), theirs)
    ours = GHRRInteraction(m=3)(*(torch.randn(5, 18, generator=generator) for _ in range(3)))
    assert not torch.allclose(ours, theirs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_pipeline_of_the_guide_trains_ghrr_on_umls(pykeen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "relations.md").read_text()
    code = guide.partition("## PyKEEN")[2].split("```")[1]
    monkeypatch.setattr(pykeen, "pipeline", functools.partial(pykeen.pipeline, device="cpu"))
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["result"].get_metric("both.realistic.inverse_harmonic_mean_rank") > 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_graphs_of_the_wheel_are_read_from_its_folder(pykeen: Any) -> None:
    from pykeen.datasets import UMLS

    graph = load_graph(Path(sys.modules["pykeen"].__path__[0]) / "datasets" / "umls")
    assert (len(graph.entities), len(graph.relations), len(graph.train)) == (135, 46, UMLS().training.num_triples)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pykeen", None)
    monkeypatch.setitem(sys.modules, "pykeen.nn.modules", None)
    monkeypatch.delitem(sys.modules, "ghrr.relations.pykeen_interaction", raising=False)
    with pytest.raises(ImportError, match=r"PyKEEN is not installed; pip install 'ghrr\[relations\]'"):
        import ghrr.relations.pykeen_interaction  # noqa: F401
