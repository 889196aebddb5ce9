"""One step of training: loss, regulariser and their gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from ghrr import ops
from ghrr.relations.config import RelationConfig
from ghrr.relations.graph import KnowledgeGraph
from ghrr.relations.loss import cross_entropy_gradients, relation_cross_entropy, softmax_error
from ghrr.relations.model import RelationModel
from ghrr.relations.regularizers import REGULARIZERS, dura
from ghrr.relations.scoring import to_hypervectors, to_rows
from ghrr.training import replay_as_graph

Step = Callable[[Tensor], Tensor]


def make_optimizer(model: RelationModel, config: RelationConfig) -> torch.optim.Optimizer:
    """Return the optimiser. It updates each parameter in one pass over memory where torch can do that."""
    device = model.entity_table.device
    if config.optimizer == "adagrad":
        fused = _can_fuse_adagrad(device)
        return torch.optim.Adagrad(model.parameters(), lr=config.learning_rate, fused=fused, foreach=not fused)
    # Adam's correction of the bias depends on the number of steps; a CUDA graph must find it on the GPU.
    on_gpu = device.type == "cuda"
    return torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True, capturable=on_gpu)


@functools.cache
def _can_fuse_adagrad(device: torch.device) -> bool:
    """Try a fused step; before torch 2.12, Adagrad has none on a GPU."""
    parameter = torch.zeros(1, device=device, requires_grad=True)
    parameter.grad = torch.zeros_like(parameter)
    try:
        torch.optim.Adagrad([parameter], fused=True).step()
    except RuntimeError:
        return False
    return True


def answer_weights(graph: KnowledgeGraph, frequency_share: float) -> Tensor | None:
    r"""Return the weight of questions with each entity as the answer, None if all are equal.

    :math:`1 - f + f n_e / \max_e n_e` for the share f and an entity in :math:`n_e` training triples. Questions with
    frequent answers then count more. That raises the validation MRR on graphs in which most entities occur in few
    triples, such as WN18RR; f = 0.9 gives the weights in the published code of DURA (Zhang et al. 2020).

    Shapes
    ------
    output: ``(entities,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations import KnowledgeGraph
    >>> from ghrr.relations.train_step import answer_weights
    >>> triples = torch.tensor([[0, 0, 1], [2, 0, 1], [1, 0, 2]])
    >>> answer_weights(KnowledgeGraph("g", ("a", "b", "c"), ("r",), triples, triples, triples), 0.9)
    tensor([0.4000, 1.0000, 0.7000])
    """
    if not frequency_share:
        return None
    counts = torch.bincount(graph.train[:, [0, 2]].flatten(), minlength=len(graph.entities)).float()
    return 1 - frequency_share + frequency_share * counts / counts.max()


def make_step(
    model: RelationModel, optimizer: torch.optim.Optimizer, config: RelationConfig, weights: Tensor | None = None
) -> Step:
    r"""Return a function that updates the model with a batch of triples and returns the mean cross-entropy.

    The logits are mD times the scores. The rows of heads and tails are leaves of the graph of autograd, and their
    gradients are added to the gradient of the table. Autograd would make a gradient of the size of the table for each
    of them. On a GPU, steps after the first few replay a CUDA graph where that is possible.

    Parameters
    ----------
    model, optimizer, config
        Model, its optimiser, and the settings of the training.
    weights
        Weight of the questions with each entity as the answer, for the mean of the cross-entropies; see
        :func:`answer_weights`.

    Shapes
    ------
    weights: ``(entities,)``; input of the step: ``(n, 3)``, output: ``()``
    """
    m, penalty_of = model.m, REGULARIZERS[config.regularizer]
    if penalty_of is dura:
        penalty_of = functools.partial(dura, product_weight=config.product_weight)

    def product_and_penalty(heads: Tensor, relation_indices: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
        all_relations = model.relation_vectors()
        relations = all_relations[relation_indices]
        head_vectors, tail_vectors = to_hypervectors(heads, m), to_hypervectors(tails, m)
        products = ops.bind(head_vectors, relations)
        penalty = config.regularizer_weight * penalty_of(head_vectors, relations, tail_vectors, products)
        if config.relation_weight:
            loss = relation_cross_entropy(head_vectors, all_relations, tail_vectors, relation_indices)
            penalty = penalty + config.relation_weight * loss
        return to_rows(products), penalty

    answers = None if weights is None else weights.to(model.entity_table.device)
    softmax = torch.compile(softmax_error, dynamic=False) if config.compile else softmax_error
    update = torch.compile(optimizer.step) if config.compile else optimizer.step

    def step(triples: Tensor) -> Tensor:
        head_indices, relation_indices, tail_indices = triples.unbind(1)
        table = model.entity_table.detach()
        heads, tails = (table[indices].requires_grad_() for indices in (head_indices, tail_indices))
        optimizer.zero_grad()
        queries, penalty = product_and_penalty(heads, relation_indices, tails)
        loss, query_gradient, entity_gradient = cross_entropy_gradients(
            queries.detach(),
            table,
            tail_indices,
            max_scores=config.max_scores,
            weights=None if answers is None else answers[tail_indices],
            length_penalty=model.length_penalty,
            softmax=softmax,
        )
        torch.autograd.backward([queries, penalty], [query_gradient, None])
        for rows, indices in ((heads, head_indices), (tails, tail_indices)):
            if rows.grad is not None:
                # On a GPU, index_put_ adds repeated rows in a fixed order; index_add_ does not.
                entity_gradient.index_put_((indices,), rows.grad, accumulate=True)
        model.entity_table.grad = entity_gradient
        update()
        return loss

    # The exponential of larger matrices reads numbers from the GPU to choose its method; a graph cannot record that.
    can_be_recorded = model.relation_form == "relaxed" or m <= 2
    return replay_as_graph(step, lead=config.batch) if model.entity_table.is_cuda and can_be_recorded else step
