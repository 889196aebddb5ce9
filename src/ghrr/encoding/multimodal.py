"""Multimodal: bundle the encodings of several modalities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.algebra import bind
from ghrr.checks import check_broadcast, check_real, describe, names_errors, type_error, value_error
from ghrr.encoding.module import Encoder


@names_errors
class Multimodal(Encoder):
    r"""Bundle the encodings of several modalities, each bound to a key: :math:`\sum_s \sqrt{a_s}\,K_s * \phi_s(x_s)`.

    The similarity is the mixture of the kernels of the encoders, :math:`\sum_s a_s K_s(x_s, y_s)`, with weights that
    sum to 1. The keys make modalities independent in every space, also for m = 1 and shared rotations. To read one
    modality, unbind its key, ``key(s)``, from the left. Differentiable where the encoders are.

    Parameters
    ----------
    encoders
        One module per modality, all of one space.
    weights
        Weight of each modality, equal by default. They are scaled to sum to 1.
    device
        Device of the encoders and keys. By default the encoders stay where they are, and the keys are on the CPU.

    Shapes
    ------
    inputs: a mapping from modality to the input of its encoder; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=1000, m=2)
    >>> word = ghrr.encoding.Codebook(space, ["cat", "dog"])
    >>> size = ghrr.encoding.FractionalPower(space, n_features=1, name="size")
    >>> both = ghrr.encoding.Multimodal({"word": word, "size": size})
    >>> x, y = both({"word": "cat", "size": [0.3]}), both({"word": "dog", "size": [0.3]})
    >>> f"{ghrr.similarity(x, y):.1f}"
    '0.5'
    >>> found = ghrr.ItemMemory(space, word.names, word.vectors()).match(ghrr.unbind(x, both.key("word"), side="left"))
    >>> found.label
    'cat'
    """

    keys: Tensor  # (modalities, dim, m, m), in the order of the encoders

    def __init__(
        self,
        encoders: Mapping[str, nn.Module],
        weights: Mapping[str, float] | None = None,
        *,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if not encoders:
            raise value_error("needs at least one encoder, got an empty mapping")
        try:
            self.encoders = nn.ModuleDict(dict(encoders))
        except KeyError as error:  # torch reserves dots and the names of its own methods
            raise value_error(f"invalid name of a modality: {error.args[0]}") from None
        spaces = {name: getattr(encoder, "space", None) for name, encoder in encoders.items()}
        first = next(iter(spaces.values()))
        for name, space in spaces.items():
            if space is None or space != first:
                raise value_error(f"all encoders must be of one space; {name!r} is of {space}, not {first}")
        assert first is not None
        self.space = first
        given = dict.fromkeys(encoders, 1.0) if weights is None else weights
        self._check_keys("weights", given)
        total = sum(
            check_real(f"weight of {name!r}", a, low=0.0, high=math.inf, open_ends=True) for name, a in given.items()
        )
        self.weights = {name: given[name] / total for name in encoders}
        self.register_buffer("keys", self.space.vectors(list(encoders), namespace="modality"))
        self._move(device)

    def forward(self, inputs: Mapping[str, Any]) -> Tensor:
        """Encode inputs, one per modality."""
        self._check_keys("inputs", inputs)
        parts = [
            bind(key, math.sqrt(a) * self.encoders[name](inputs[name]))
            for key, (name, a) in zip(self.keys, self.weights.items(), strict=True)
        ]
        check_broadcast(**{repr(name): part.shape[:-3] for name, part in zip(self.weights, parts, strict=True)})
        return torch.stack(torch.broadcast_tensors(*parts)).sum(dim=0)  # type: ignore[no-untyped-call]

    def key(self, modality: str) -> Tensor:
        """Return the key of a modality, ``(dim, m, m)``."""
        if modality not in self.weights:
            raise value_error(f"modality must be one of {list(self.weights)}, got {describe(modality)}")
        return self.keys[list(self.weights).index(modality)]

    def kernel(self, x: Mapping[str, Any], y: Mapping[str, Any]) -> Tensor:
        """Return the exact kernel that similarity approximates; every encoder must have a method ``kernel``."""
        self._check_keys("x", x)
        self._check_keys("y", y)
        total: Tensor | float = 0.0
        for name, a in self.weights.items():
            encoder = self.encoders[name]
            if not callable(getattr(encoder, "kernel", None)):
                raise value_error(f"the encoder of {name!r} has no kernel; measure similarities instead")
            total = total + a * encoder.kernel(x[name], y[name])  # type: ignore[operator]
        return torch.as_tensor(total)

    def _check_keys(self, what: str, given: Mapping[str, Any]) -> None:
        if not isinstance(given, Mapping):
            raise type_error(f"{what} must be a mapping of modality to value, got {describe(given)}")
        if set(given) != set(self.encoders):
            raise value_error(f"{what} must have the modalities {sorted(self.encoders)}, got {sorted(map(str, given))}")
