r"""Sampling of base hypervectors :math:`Q_j\,\mathrm{diag}(e^{i\theta_{j1}}, \dots, e^{i\theta_{jm}})` of a space.

Every hypervector is a function of uniform numbers: those of a named atom come from a hash of seed and name, those of a
random one from a ``torch.Generator``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ghrr._random import Keys, drawn_keys, labelled_keys, labelled_uniform, philox_uniform
from ghrr.ops.tensor_state import is_plain
from ghrr.unitary.diagonal import diagonality_from_uniform
from ghrr.unitary.sampling import base_slots, draw_uniform, haar_from_uniform, to_roots

if TYPE_CHECKING:
    from ghrr.space.space import Space

_BLOCK_NUMBERS = 1 << 23  # uniform numbers in memory at a time: 64 MiB


def named_vectors(space: Space, names: Sequence[str], namespace: str) -> Tensor:
    """Return the atoms of names, ``(len(names), dim, m, m)``."""
    if _has_haar_slots(space):
        rotation_keys = _keys(space, "rotation", names if space.m > 1 else [], namespace)
        phase_keys = _keys(space, "phases", names, namespace)
        return _haar_slots(space, rotation_keys, phase_keys, 1, halves=False)
    out = torch.empty((len(names), *space.shape), dtype=space.dtype)
    per_name = max(1, math.prod(_rotation_numbers(space)) + space.dim * space.m)
    step = max(1, _BLOCK_NUMBERS // per_name)
    for start in range(0, len(names), step):
        block = names[start : start + step]
        out[start : start + len(block)] = _from_uniform(
            space,
            _named_uniform(space, "rotation", _rotation_numbers(space), block, namespace),
            _named_uniform(space, "phases", (space.dim, space.m), block, namespace),
        )
    return out


def named_rotations(space: Space, names: Sequence[str], namespace: str) -> Tensor:
    """Return the rotations Q of the atoms of names, ``(len(names), dim, m, m)``."""
    shape = (len(names), *space.shape)
    if has_one_rotation(space):
        return space.shared_rotation.to(space.dtype).expand(shape)
    numbers = _named_uniform(space, "rotation", _rotation_numbers(space), names, namespace)
    return _rotations(space, numbers).to(space.dtype).expand(shape)


def random_vectors(space: Space, batch: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw hypervectors ``(*batch, dim, m, m)`` on the device of the generator."""
    if _has_haar_slots(space) and generator.device.type == "cpu" and is_plain():
        # Uniform phases need no numbers of their own: a Haar matrix times phases is a Haar matrix.
        has_phases = space.m == 1 or isinstance(space.phases, int)
        keys = drawn_keys(2 if has_phases else 1, generator)
        halves = space.dtype == torch.complex64  # 32 random bits are more than its entries have
        return _haar_slots(space, keys[:1], keys[1:], math.prod(batch), halves=halves).view(*batch, *space.shape)
    return _from_uniform(
        space,
        draw_uniform(generator, *batch, *_rotation_numbers(space)),
        draw_uniform(generator, *batch, space.dim, space.m),
    )


def shared_rotation(space: Space) -> Tensor:
    """Return the rotation that all hypervectors of the space have, ``(m, m)`` or ``(dim, m, m)``, in complex128."""
    if isinstance(space.rotation, Tensor):
        return space.rotation
    if space.m == 1:
        return torch.ones(1, 1, dtype=torch.complex128)
    shape = (space.dim, *_numbers_per_rotation(space))
    return _rotations(space, labelled_uniform(math.prod(shape), space.seed, "shared rotation").reshape(shape))


def has_one_rotation(space: Space) -> bool:
    """Return whether all hypervectors of the space have the same rotation: shared, given, or 1 for m = 1."""
    return isinstance(space.rotation, Tensor) or space.rotation == "shared" or space.m == 1


def _has_haar_slots(space: Space) -> bool:
    """Return whether every slot is an independent Haar matrix times phases, or phases alone for m = 1."""
    if space.m == 1:
        return not isinstance(space.rotation, Tensor)
    return isinstance(space.rotation, str) and space.rotation == "varying" and space.diagonality is None


def _haar_slots(space: Space, rotation_keys: Keys, phase_keys: Keys, count: int, *, halves: bool) -> Tensor:
    """Return ``count`` hypervectors for each pair of keys."""
    roots = space.phases if isinstance(space.phases, int) else 0
    slots = base_slots(
        rotation_keys, phase_keys, count * space.dim, space.m, roots=roots, halves=halves, dtype=space.dtype
    )
    return slots.view(len(slots) * count, *space.shape)


def _from_uniform(space: Space, rotation_numbers: Tensor, phase_numbers: Tensor) -> Tensor:
    """Return hypervectors as a function of uniform numbers."""
    if isinstance(space.phases, int):
        phase_numbers = to_roots(phase_numbers, space.phases)
    if space.rotation == "varying" and space.diagonality is None and space.m > 1:
        return haar_from_uniform(rotation_numbers, phase_numbers, dtype=space.dtype)
    phases = torch.polar(torch.ones_like(phase_numbers), 2 * math.pi * phase_numbers)
    if has_one_rotation(space):
        rotation = space.shared_rotation.to(phases.device)
    else:
        rotation = _rotations(space, rotation_numbers)
    return (rotation * phases[..., None, :]).to(space.dtype)


def _rotations(space: Space, u: Tensor) -> Tensor:
    return haar_from_uniform(u) if space.diagonality is None else diagonality_from_uniform(space.diagonality, u)


def _rotation_numbers(space: Space) -> tuple[int, ...]:
    """Return the shape of the uniform numbers that determine the rotation of one hypervector."""
    if has_one_rotation(space):
        return (0,)
    return (space.dim if space.rotation == "varying" else 1, *_numbers_per_rotation(space))


def _numbers_per_rotation(space: Space) -> tuple[int, ...]:
    return (space.m, space.m, 2) if space.diagonality is None else (5, space.m)


def _keys(space: Space, part: str, names: Sequence[str], namespace: str) -> Keys:
    """Return the keys of the Philox streams of one part of the atoms: "rotation" or "phases"."""
    labels = (part, namespace) if namespace else (part,)
    return labelled_keys(names, space.seed, *labels)


def _named_uniform(space: Space, part: str, shape: tuple[int, ...], names: Sequence[str], namespace: str) -> Tensor:
    keys = _keys(space, part, names, namespace)
    return philox_uniform(keys, math.prod(shape)).reshape(len(names), *shape)
