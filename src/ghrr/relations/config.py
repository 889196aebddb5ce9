"""Settings of a relation model and of its training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ghrr.checks import check_choice, check_integer, check_real, names_errors, type_error, value_error
from ghrr.relations.regularizers import REGULARIZERS

RELATION_FORMS = ("relaxed", "unitary", "scaled")
OPTIMIZERS = ("adagrad", "adam")
CHOSEN = ("dim", "batch", "regularizer_weight")  # settings that the training chooses unless they are given


@names_errors
@dataclass(frozen=True)
class RelationConfig:
    """Settings of :func:`ghrr.relations.train`. All settings are checked when the config is made.

    ``dim``, ``batch`` and ``regularizer_weight`` are None unless they are given: the training chooses them from the
    size of the graph and, on small graphs, by the validation triples; see ``ghrr.relations.defaults``. The result
    has the chosen values.

    Parameters
    ----------
    dim, m
        Slots of each hypervector and size of their matrices. An entity has ``dim * m**2`` complex numbers: compare
        models of different m at equal ``dim * m**2``. Default: about 360 complex numbers on small graphs, 111 slots on
        large ones.
    relation_form
        ``"relaxed"``: any matrices. ``"unitary"``: unitary matrices, which are invertible. ``"scaled"``: unitary
        matrices times a learned positive number per slot.
    regularizer, regularizer_weight
        ``"dura"`` (squared norms of h, t, h * r and t * r†) or ``"n3"`` (cubed norms of the slots of h, r and t), each
        averaged over the batch, and the weight of it. Default: the best of several in short trainings on small graphs,
        0.1 on large ones.
    product_weight
        Weight of h * r and t * r† relative to h and t, for ``"dura"`` only.
    relation_weight
        Weight of a second loss: the cross-entropy of the relation among all relations, given head and tail.
    frequency_share
        How much the weight of a question depends on how often its answer occurs in the training triples:
        ``1 - frequency_share + frequency_share * count / largest_count``. With 0 all questions count the same.
    length_penalty
        How much long vectors of tails lower the score: the number c of :class:`RelationModel`.
    optimizer, learning_rate
        ``"adagrad"`` or ``"adam"``.
    batch
        Triples per step. Each is a question for its tail, or by its reciprocal relation for its head. Default: 40 steps
        per epoch on small graphs, with 50 to 1,000 triples each, and 1,000 triples on large ones.
    epochs
        Passes over the training triples and their reciprocals.
    average_epochs
        Evaluate and keep a moving average of the parameters over about this many epochs. With 1, the parameters
        themselves.
    evaluate_every
        Epochs between evaluations of the validation MRR. A checkpoint follows if the last one is 30 s old or more.
    patience
        Stop after this many evaluations without a better MRR.
    init_std
        Standard deviation of the initial numbers of entities and relaxed relations.
    max_scores
        Largest number of scores of a step in memory at a time. Evaluations have at most 2**25.
    seed
        Seed of the initial numbers and of the order of the triples.
    compile
        Compile the softmax of the scores and the update of the optimiser with ``torch.compile``.

    Examples
    --------
    >>> from ghrr.relations import RelationConfig
    >>> RelationConfig(dim=111, m=3).epochs
    100
    """

    dim: int = None  # type: ignore[assignment]  # chosen by the training, as batch and regularizer_weight
    m: int = 3
    relation_form: str = "relaxed"
    regularizer: str = "dura"
    regularizer_weight: float = None  # type: ignore[assignment]
    product_weight: float = 1.0
    relation_weight: float = 0.0
    frequency_share: float = 0.0
    length_penalty: float = 0.0
    optimizer: str = "adagrad"
    learning_rate: float = 0.1
    batch: int = None  # type: ignore[assignment]
    epochs: int = 100
    average_epochs: int = 1
    evaluate_every: int = 5
    patience: int = 10
    init_std: float = 1e-3
    max_scores: int = 1 << 27
    seed: int = 0
    compile: bool = False

    def __post_init__(self) -> None:
        for name in ("dim", "m", "batch", "epochs", "average_epochs", "evaluate_every", "patience", "max_scores"):
            if getattr(self, name) is not None or name not in CHOSEN:
                self._store(name, check_integer(name, getattr(self, name), least=1))
        self._store("seed", check_integer("seed", self.seed, least=0))
        check_choice("relation_form", self.relation_form, RELATION_FORMS)
        check_choice("regularizer", self.regularizer, tuple(REGULARIZERS))
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        for name in ("regularizer_weight", "product_weight", "relation_weight", "length_penalty"):
            if getattr(self, name) is not None or name not in CHOSEN:
                self._store(name, check_real(name, getattr(self, name), low=0.0, high=math.inf))
        share = check_real("frequency_share", self.frequency_share, low=0.0, high=1.0)
        self._store("frequency_share", share)
        if self.product_weight != 1.0 and self.regularizer != "dura":
            raise value_error(
                f"product_weight must be 1 for regularizer={self.regularizer!r}, got "
                f"{self.product_weight}; it is a setting of regularizer='dura'"
            )
        for name in ("learning_rate", "init_std"):
            value = check_real(name, getattr(self, name), low=0.0, high=math.inf, open_ends=True)
            self._store(name, value)
        if not isinstance(self.compile, bool):
            raise type_error(f"compile must be True or False, got {self.compile!r}")

    def _store(self, name: str, value: float) -> None:
        """Replace a number, for example one of NumPy, by the same number of Python, which JSON can store."""
        object.__setattr__(self, name, value)
