r"""Sampling of base hypervectors :math:`Q_j\,\mathrm{diag}(e^{i\theta_{j1}}, \dots, e^{i\theta_{jm}})` of a space.

Every hypervector is a function of uniform numbers, which come from a hash of seed and name for a named atom, and for
a random one from a ``torch.Generator``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ghrr.seeding import Keys, labelled_keys, slot_uniform
from ghrr.space import version_1
from ghrr.unitary.diagonal import diagonality_from_uniform
from ghrr.unitary.sampling import base_slots, draw_uniform, haar, random_slots, to_roots

if TYPE_CHECKING:
    from ghrr.space.space import Space

_BLOCK_NUMBERS = 1 << 23  # uniform numbers in memory at a time: 64 MiB


def named_vectors(space: Space, names: Sequence[str], namespace: str) -> Tensor:
    """Return the atoms of names, ``(len(names), dim, m, m)``."""
    if _has_haar_slots(space) and space.atom_version > 1:
        rotation_keys = _keys(space, "rotation", names if space.m > 1 else [], namespace)
        phase_keys = _keys(space, "phases", names, namespace)
        roots = space.phases if isinstance(space.phases, int) else 0
        return base_slots(rotation_keys, phase_keys, space.dim, space.m, roots=roots, dtype=space.dtype)
    out = torch.empty((len(names), *space.shape), dtype=space.dtype)
    step = max(1, _BLOCK_NUMBERS // (space.dim * space.m * (2 * space.m + 6)))
    for start in range(0, len(names), step):
        block = names[start : start + step]
        rotations = _named_rotations(space, block, namespace)
        turns = _uniform(space, _keys(space, "phases", block, namespace), space.dim, space.m)
        out[start : start + len(block)] = _multiply_by_phases(space, rotations, turns)
    return out


def named_rotations(space: Space, names: Sequence[str], namespace: str) -> Tensor:
    """Return the rotations Q of the atoms of names, ``(len(names), dim, m, m)``."""
    return _named_rotations(space, names, namespace).to(space.dtype).expand(len(names), *space.shape)


def random_vectors(space: Space, batch: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw hypervectors ``(*batch, dim, m, m)`` on the device of the generator."""
    if _has_haar_slots(space):
        roots = space.phases if isinstance(space.phases, int) else 0
        slots = random_slots(generator, math.prod(batch) * space.dim, space.m, roots=roots, dtype=space.dtype)
        return slots.view(*batch, *space.shape)
    if has_one_rotation(space):
        rotations = space.shared_rotation.to(generator.device)
    elif space.diagonality is None:
        rotations = haar(*batch, 1, m=space.m, generator=generator, dtype=torch.complex128)
    else:
        numbers = draw_uniform(generator, *batch, _slots_with_rotations(space), 5, space.m)
        rotations = diagonality_from_uniform(space.diagonality, numbers)
    return _multiply_by_phases(space, rotations, draw_uniform(generator, *batch, space.dim, space.m))


def shared_rotation(space: Space) -> Tensor:
    """Return the rotation that all hypervectors of the space have, ``(m, m)`` or ``(dim, m, m)``, in complex128."""
    if isinstance(space.rotation, Tensor):
        return space.rotation
    if space.m == 1:
        return torch.ones(1, 1, dtype=torch.complex128)
    return _rotations(space, labelled_keys(["shared rotation"], space.seed), space.dim)[0]


def has_one_rotation(space: Space) -> bool:
    """Return whether all hypervectors of the space have the same rotation: shared, given, or 1 for m = 1."""
    return isinstance(space.rotation, Tensor) or space.rotation == "shared" or space.m == 1


def _has_haar_slots(space: Space) -> bool:
    """Return whether every slot is an independent Haar matrix times phases, or phases alone for m = 1."""
    if space.m == 1:
        return not isinstance(space.rotation, Tensor)
    return isinstance(space.rotation, str) and space.rotation == "varying" and space.diagonality is None


def _multiply_by_phases(space: Space, rotations: Tensor, turns: Tensor) -> Tensor:
    """Return hypervectors from rotations in double precision and uniform numbers ``(*, dim, m)``."""
    if isinstance(space.phases, int):
        turns = to_roots(turns, space.phases)
    phases = torch.polar(torch.ones_like(turns), 2 * math.pi * turns)
    return (rotations * phases[..., None, :]).to(space.dtype)


def _named_rotations(space: Space, names: Sequence[str], namespace: str) -> Tensor:
    """Return rotations in double precision that :func:`named_rotations` rounds and expands."""
    if has_one_rotation(space):
        return space.shared_rotation
    return _rotations(space, _keys(space, "rotation", names, namespace), _slots_with_rotations(space))


def _slots_with_rotations(space: Space) -> int:
    """Return the number of slots of a hypervector that have rotations of their own."""
    return 1 if space.rotation == "fixed" else space.dim


def _rotations(space: Space, keys: Keys, slots: int) -> Tensor:
    """Return the rotations of Philox streams in double precision, ``(len(keys), slots, m, m)``."""
    if space.diagonality is not None:
        numbers = _uniform(space, keys, slots, 5 * space.m).reshape(len(keys), slots, 5, space.m)
        return diagonality_from_uniform(space.diagonality, numbers)
    if space.atom_version == 1:
        return version_1.haar_rotations(keys, slots, space.m)
    return base_slots(keys, keys[:0], slots, space.m, dtype=torch.complex128)


def _uniform(space: Space, keys: Keys, slots: int, numbers: int) -> Tensor:
    return (version_1.uniform if space.atom_version == 1 else slot_uniform)(keys, slots, numbers)


def _keys(space: Space, part: str, names: Sequence[str], namespace: str) -> Keys:
    """Return the keys of the Philox streams of one part of the atoms: "rotation" or "phases"."""
    labels = (part, namespace) if namespace else (part,)
    return labelled_keys(names, space.seed, *labels)
