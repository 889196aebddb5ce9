"""Settings of attention, checked when they are made."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from ghrr.checks import check_choice, check_integer, check_real, describe, names_errors, type_error, value_error

MODES = ("feature", "row", "bundle", "dense", "representation", "path")
SHARING = ("all", "qkv", "head", "different")
WEIGHTS = ("relaxed", "unitary")
TRANSPORT = ("scores", "values", "both", "none")
_OF_PATHS = ("transport", "reflections", "slots", "path_rank", "angle_std", "rotary_scores", "forget_gate")


@names_errors
@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    r"""Settings of :class:`ghrr.nn.Attention`.

    Frozen; ``dataclasses.asdict`` gives a dict for JSON. Invalid settings and combinations raise ``ValueError`` or
    ``TypeError`` here, so that a layer built from a config cannot fail. :class:`ghrr_lab.lm.ModelConfig` extends it.

    Parameters
    ----------
    embed_dim
        Features per token.
    num_heads
        Number of heads. A head is a slot of the hypervectors.
    max_len
        Longest sequence.
    num_kv_heads
        Number of heads of keys and values, a divisor of ``num_heads``; neighbouring heads of queries share one.
        Modes ``"feature"`` and ``"path"`` only. Default: ``num_heads``.
    m
        Complex features per row of Q, K and V. Default: ``embed_dim / (2 num_heads)`` in mode ``"feature"``, so that a
        head has as many real numbers as in ``torch.nn.MultiheadAttention``; ``max_len`` in the other modes, which makes
        the slots square as in the paper. In mode ``"path"``: size of the matrices of a path, by default 4; the
        features of a head are ``slots`` times as many.
    mode
        What the positions :math:`P_j` are in :math:`Q = \sum_j P_j * W_q \Lambda(x_j)`:

        - ``"feature"``: row j is :math:`R^j W \lambda(x_j)` with a diagonal unitary R, as in rotary embeddings.
        - ``"row"``: the matrices :math:`E_j` of the paper.
        - ``"bundle"``: row r bundles the tokens up to r.
        - ``"dense"``: every row bundles all tokens. Cannot be causal.
        - ``"representation"``: no positions; each token attends over the rows of its own matrix.
        - ``"path"``: row j is :math:`R_j^\dagger W x_j` with the path :math:`R_j = U_j * \dots * U_1`, the product
          of a unitary hypervector of every token so far. The steps are
          :math:`U_t = \Lambda_\omega \prod_r \bigl(I + (e^{i\theta_r} - 1)\, w_r w_r^\dagger\bigr)`, with w and
          :math:`\theta` from the token, and the output is carried forward by :math:`R_i`.
    position_sharing
        Which position encodings are shared: one for ``"all"``; one each for query, key and value (``"qkv"``); one per
        head (``"head"``); or ``"different"`` ones for both.
    trainable_positions
        Train the positions. With ``position_sharing`` these are the eight variants of the paper.
    position_values
        Bind positions to the values too. Mode ``"feature"`` only; the other modes always do.
    trainable_phases
        Train the frequencies of :math:`\Lambda`, which the paper keeps fixed.
    phase_std
        Standard deviation of the phases in radians, for inputs of unit variance.
    split_inputs
        Compute the phases of a slot from its own share of the input features instead of from all of them.
    mix_slots
        Let every head bundle its bindings with all slots of :math:`\Lambda`; there are as many slots as hold
        ``embed_dim`` phases. If False, a head has one slot of its own. Mode ``"feature"`` only.
    window
        Number of tokens, up to and including its own, that a row bundles. Mode ``"feature"`` only.
    weights
        ``"relaxed"``: W is any matrix. ``"unitary"``: W stays unitary during training.
    qk_gain
        Factor on initial weights of queries and keys. Modes ``"feature"`` and ``"path"``, relaxed weights only. With
        ``normalize_rows`` it does not change the initial scores, but smaller weights change direction faster in
        training.
    normalize_rows
        Scale the rows of Q and K to equal length, so that scores depend on directions only.
    is_causal
        Let token t attend to tokens up to t only.
    dropout
        Dropout probability of attention weights during training.
    transport
        What the path acts on: ``"scores"``, ``"values"``, ``"both"`` (default) or, for comparison, ``"none"``. This and
        the following settings are those of mode ``"path"``.
    reflections
        Number of factors :math:`I + (e^{i\theta} - 1) w w^\dagger` of the step of a token. With m of them a step can
        be any unitary matrix.
    slots
        Number of slots of a path in each head. Default: ``embed_dim / (2 num_heads m)``.
    path_rank
        Rank of the linear map from a token to its w and :math:`\theta`.
    angle_std
        Initial standard deviation of :math:`\theta` in radians, for inputs of unit variance. Small values suit
        language; tasks that need large rotations are learned faster with 0.2.
    rotary_scores
        Give scores rotary positions. For ``transport`` ``"values"`` or ``"none"``, whose scores have no positions
        otherwise.
    forget_gate
        Add :math:`\sum_{s=j+1}^i \log f_s` to the score of query i and key j, with a gate
        :math:`f_s = \sigma(u^\top x_s + c)` for each head of keys. Causal layers only.
    seed
        Seed of the frequencies and of fixed positions. Trained parameters are initialised from torch's generator.

    Examples
    --------
    >>> from ghrr.nn import Attention, AttentionConfig
    >>> config = AttentionConfig(embed_dim=32, num_heads=4, max_len=16, window=3)
    >>> Attention.from_config(config).m
    4
    >>> AttentionConfig(embed_dim=32, num_heads=4, max_len=16, mode="dense", is_causal=True)
    Traceback (most recent call last):
        ...
    ValueError: AttentionConfig: mode 'dense' cannot be causal, ...
    """

    embed_dim: int
    num_heads: int
    max_len: int
    num_kv_heads: int | None = None
    m: int | None = None
    mode: str = "feature"
    position_sharing: str = "all"
    trainable_positions: bool = False
    position_values: bool = False
    trainable_phases: bool = False
    phase_std: float = 1.0
    split_inputs: bool = False
    mix_slots: bool = True
    window: int = 1
    weights: str = "relaxed"
    qk_gain: float = 1.0
    normalize_rows: bool = False
    is_causal: bool = False
    dropout: float = 0.0
    seed: int = 0
    transport: str = "both"
    reflections: int = 1
    slots: int | None = None
    path_rank: int = 32
    angle_std: float = 0.02
    rotary_scores: bool = False
    forget_gate: bool = False

    def __post_init__(self) -> None:
        self._check_values()
        self._check_combinations()

    @property
    def resolved_m(self) -> int:
        """``m`` or its default."""
        if self.m is not None:
            return self.m
        if self.mode == "path":
            return 4
        return self.embed_dim // (2 * self.num_heads) if self.mode == "feature" else self.max_len

    @property
    def row_features(self) -> int:
        """Number of complex features of a row of Q, K and V in each head."""
        if self.mode != "path":
            return self.resolved_m
        return self.embed_dim // (2 * self.num_heads) if self.slots is None else self.slots * self.resolved_m

    @property
    def resolved_kv_heads(self) -> int:
        """Number of heads of keys and values, ``num_kv_heads`` or its default."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def num_slots(self) -> int:
        """Number of slots of the phases."""
        if self.mode == "path":
            return 0
        mixes = self.mode == "feature" and self.mix_slots
        return -(-self.embed_dim // self.resolved_m) if mixes else self.num_heads

    def _check_values(self) -> None:
        """Check each field alone; store numbers as int and float, so that they are JSON."""
        optional = ("num_kv_heads", "m", "slots")
        for field in ("embed_dim", "num_heads", "max_len", "window", "reflections", "path_rank", *optional):
            if getattr(self, field) is not None or field not in optional:
                self._set(field, check_integer(field, getattr(self, field), least=1))
        self._set("seed", check_integer("seed", self.seed))
        check_choice("mode", self.mode, MODES)
        check_choice("position_sharing", self.position_sharing, SHARING)
        check_choice("weights", self.weights, WEIGHTS)
        self._set("dropout", check_real("dropout", self.dropout, low=0.0, high=1.0))
        check_choice("transport", self.transport, TRANSPORT)
        for field in ("phase_std", "qk_gain", "angle_std"):
            value = getattr(self, field)
            self._set(field, check_real(field, value, low=0.0, high=math.inf, open_ends=True))
        for attribute in dataclasses.fields(self):
            value = getattr(self, attribute.name)
            if isinstance(attribute.default, bool) and not isinstance(value, bool):
                raise type_error(f"{attribute.name} must be True or False, got {describe(value)}")

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)

    def _check_combinations(self) -> None:
        """Raise for settings that cannot be combined."""
        mode = self.mode
        if self.is_causal and mode == "dense":
            raise value_error(
                "mode 'dense' cannot be causal, since each row of Q, K and V depends on all tokens, which no "
                "mask of the scores can undo; use 'feature', 'row' or 'bundle'"
            )
        if mode != "feature" and (self.window > 1 or self.position_values or not self.mix_slots):
            raise value_error(f"window, position_values and mix_slots need mode 'feature', got {mode!r}")
        if self.qk_gain != 1 and (mode not in ("feature", "path") or self.weights == "unitary"):
            raise value_error(
                f"qk_gain={self.qk_gain} needs mode 'feature' or 'path', and weights='relaxed', got mode "
                f"{mode!r} and weights {self.weights!r}; leave qk_gain out"
            )
        if mode == "representation" and (
            self.position_sharing != "all" or self.trainable_positions or self.normalize_rows
        ):
            raise value_error(
                "mode 'representation' has no positions and does not scale rows; leave out position_sharing, "
                "trainable_positions and normalize_rows"
            )
        self._check_path()
        self._check_m()
        self._check_kv_heads()
        if self.split_inputs and self.embed_dim % self.num_slots:
            raise value_error(
                f"split_inputs needs embed_dim to be a multiple of the number of slots, got "
                f"embed_dim={self.embed_dim} and {self.num_slots} slots; change embed_dim or m"
            )

    def _check_path(self) -> None:
        """Raise for settings of paths in another mode, and for settings that paths do not have."""
        default = type(self).__dataclass_fields__
        if self.mode != "path":
            given = [field for field in _OF_PATHS if getattr(self, field) != default[field].default]
            if given:
                raise value_error(f"{given[0]} needs mode 'path', got mode {self.mode!r}; leave {given[0]} out")
            return
        others = ("position_sharing", "trainable_phases", "phase_std", "split_inputs", "weights")
        given = [field for field in others if getattr(self, field) != default[field].default]
        if given:
            raise value_error(f"mode 'path' has no {given[0]}, got {getattr(self, given[0])!r}; leave it out")
        if self.rotary_scores and self.transport in ("scores", "both"):
            raise value_error(
                f"rotary_scores=True needs transport 'values' or 'none', got {self.transport!r}, with which "
                "the path is the position of scores; leave rotary_scores out"
            )
        if self.trainable_positions and self.transport not in ("scores", "both"):
            raise value_error(f"trainable_positions needs transport 'scores' or 'both', got {self.transport!r}")
        if self.forget_gate and not self.is_causal:
            raise value_error(
                "forget_gate=True needs is_causal=True, since a gate forgets in one direction; set is_causal, "
                "or leave forget_gate out"
            )

    def _check_m(self) -> None:
        derived = self.m is None if self.mode == "feature" else self.mode == "path" and self.slots is None
        if derived and self.embed_dim % (2 * self.num_heads):
            raise value_error(
                f"embed_dim must be a multiple of 2 x num_heads = {2 * self.num_heads} (real and imaginary "
                f"parts for each head), got {self.embed_dim}; change embed_dim, or set m"
            )
        if self.mode == "path" and self.row_features % self.resolved_m:
            raise value_error(
                f"m must divide the complex features of a head, embed_dim / (2 num_heads) = "
                f"{self.row_features}, got m={self.resolved_m}; change m, or set slots"
            )
        if self.mode == "row" and self.resolved_m < self.max_len:
            raise value_error(
                f"mode 'row' needs m >= max_len, since token j takes row j of an m x m matrix, got m={self.m} "
                f"and max_len={self.max_len}"
            )

    def _check_kv_heads(self) -> None:
        kv_heads = self.resolved_kv_heads
        if self.num_heads % kv_heads:
            raise value_error(f"num_kv_heads must divide num_heads={self.num_heads}, got {kv_heads}")
        if kv_heads != self.num_heads and (self.mode not in ("feature", "path") or not self.mix_slots):
            raise value_error(
                f"num_kv_heads={kv_heads} below num_heads={self.num_heads} needs mode 'feature' and "
                f"mix_slots=True, got mode {self.mode!r} and mix_slots={self.mix_slots}; leave num_kv_heads out"
            )
