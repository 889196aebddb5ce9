"""Settings of a language model, and their JSON form.

``ModelConfig.to_dict`` writes a ``version``. ``ModelConfig.from_dict`` reads every version: settings without one may
use the names of ghrr 0.1, as the run folders, checkpoints, plans and commands of 0.1 do.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ghrr.checks import check_choice, check_integer, names_errors, short_repr, value_error
from ghrr.nn import AttentionConfig

VERSION = 2
ATTENTION = ("vanilla", "rope", "ghrr")
MODES = ("feature", "row", "bundle", "path")  # the causal ones, with positions

_NAMES_OF_VERSION_1 = {
    "vocabulary": "vocab_size",
    "width": "embed_dim",
    "layers": "num_layers",
    "heads": "num_heads",
    "feed_forward": "ffn_dim",
    "context": "max_len",
    "kv_heads": "num_kv_heads",
    "position_trainable": "trainable_positions",
    "phases_trainable": "trainable_phases",
    "spread": "phase_std",
    "unit_rows": "normalize_rows",
    "phase_seed": "seed",
}
# Settings of attention that "vanilla" and "rope" have too.
_COMMON = {"embed_dim", "num_heads", "max_len", "dropout", "is_causal", "qk_gain", "seed"}


@names_errors
@dataclass(frozen=True, kw_only=True)
class ModelConfig(AttentionConfig):
    """Settings of :class:`ghrr_lab.lm.Model`: settings of its attention, and the size of the model.

    The settings of :class:`ghrr.nn.AttentionConfig` have the same names and meanings here. Layer i draws its
    frequencies from ``1000 seed + i``. All settings are checked when the config is made.

    Parameters
    ----------
    vocab_size
        Number of tokens in the vocabulary.
    num_layers
        Number of layers.
    ffn_dim
        Hidden features of the feed-forward networks.
    attention
        ``"ghrr"``; or ``"vanilla"`` (sinusoidal positions added to the input) or ``"rope"`` (rotary positions). The
        last two only have the settings ``embed_dim``, ``num_heads``, ``max_len``, ``dropout`` and ``qk_gain``.
    mode
        ``"feature"``, ``"row"``, ``"bundle"`` or ``"path"``; see :class:`ghrr.nn.AttentionConfig`.
    is_causal
        Always True: a language model predicts tokens from earlier ones.

    Examples
    --------
    >>> from ghrr_lab.lm import ModelConfig
    >>> config = ModelConfig(vocab_size=10_000, num_layers=2, window=3)
    >>> config.embed_dim, config.num_heads, config.ffn_dim
    (256, 4, 512)
    >>> ModelConfig.from_dict(config.to_dict()) == config
    True
    """

    vocab_size: int
    embed_dim: int = 256
    num_layers: int = 6
    num_heads: int = 4
    ffn_dim: int = 512
    max_len: int = 64
    dropout: float = 0.2
    attention: str = "ghrr"
    is_causal: bool = True

    def __post_init__(self) -> None:
        for name in ("vocab_size", "num_layers", "ffn_dim"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), least=1))
        check_choice("attention", self.attention, ATTENTION)
        if self.attention != "ghrr":
            for field in dataclasses.fields(AttentionConfig):
                if field.name not in _COMMON and getattr(self, field.name) != field.default:
                    raise value_error(
                        f"{field.name}={getattr(self, field.name)!r} needs attention 'ghrr', got "
                        f"{self.attention!r}; leave {field.name} out"
                    )
        super().__post_init__()
        check_choice("mode", self.mode, MODES)
        if not self.is_causal:
            raise value_error("is_causal must be True, got False; leave it out")
        if self.embed_dim % (2 * self.num_heads):
            raise value_error(
                f"embed_dim must be a multiple of 2 x num_heads = {2 * self.num_heads}, got {self.embed_dim}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings and the version of their names, as JSON.

        Examples
        --------
        >>> from ghrr_lab.lm import ModelConfig
        >>> state = ModelConfig(vocab_size=100).to_dict()
        >>> state["version"], state["vocab_size"], state["max_len"]
        (2, 100, 64)
        """
        return {"version": VERSION, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> ModelConfig:
        """Make a config from what ``to_dict`` returned, or from any settings by name, of this version or of 0.1.

        Raises
        ------
        ValueError
            A setting is unknown, given twice or invalid, or a later version of ghrr wrote the settings.

        Examples
        --------
        >>> from ghrr_lab.lm import ModelConfig
        >>> old = {"vocabulary": 100, "width": 32, "attention": "ghrr-row", "unit_rows": True}
        >>> new = {"vocab_size": 100, "embed_dim": 32, "attention": "ghrr", "mode": "row", "normalize_rows": True}
        >>> ModelConfig.from_dict(old) == ModelConfig.from_dict(new)
        True
        """
        settings = dict(state)
        version = settings.pop("version", 1)
        if version not in (1, VERSION):
            raise value_error(
                f"the settings have version {short_repr(version)}, expected at most {VERSION}; use the "
                "version of ghrr that wrote them"
            )
        if version == 1:
            settings = rename_settings(settings)
        known = setting_names()
        unknown = sorted(set(settings) - known)
        if unknown:
            names = ", ".join(sorted(known))
            raise value_error(f"unknown settings {', '.join(unknown)}, expected only {names}")
        return cls(**settings)


def setting_names(*, old: bool = False) -> set[str]:
    """Return the names that ``ModelConfig.from_dict`` takes, and with ``old`` the names of version 0.1 too."""
    names = {field.name for field in dataclasses.fields(ModelConfig)}
    return names | _NAMES_OF_VERSION_1.keys() if old else names


def rename_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Translate settings of version 0.1. Names of this version stay as they are."""
    pairs = [(_NAMES_OF_VERSION_1.get(name, name), value) for name, value in settings.items()]
    attention = settings.get("attention")
    if isinstance(attention, str) and attention.startswith("ghrr-"):
        pairs = [(name, "ghrr" if name == "attention" else value) for name, value in pairs]
        pairs.append(("mode", attention.removeprefix("ghrr-")))
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise value_error(f"{twice[0]} is given twice, once under its name in ghrr 0.1; remove one")
    return dict(pairs)
