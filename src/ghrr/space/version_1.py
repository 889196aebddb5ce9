"""Rotations of atoms of version 1, for files that store the names of atoms but not their hypervectors.

Version 1 orthonormalises complex Gaussian matrices, X = QR with a positive diagonal of R, which gives Haar matrices too
but takes longer. The numbers of a name have 53 random bits, and a slot takes consecutive ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ghrr.seeding import Keys, philox_uniform
from ghrr.unitary.sampling import orthonormalize


def uniform(keys: Keys, slots: int, numbers: int) -> Tensor:
    """Return uniform numbers in [0, 1) for each slot, ``(len(keys), slots, numbers)``."""
    return philox_uniform(keys, slots * numbers).reshape(len(keys), slots, numbers)


def haar_rotations(keys: Keys, slots: int, m: int) -> Tensor:
    """Return Haar matrices in double precision, ``(len(keys), slots, m, m)``.

    Two uniform numbers make one complex Gaussian number by the Box-Muller transform.
    """
    u = uniform(keys, slots, 2 * m * m).reshape(len(keys), slots, m, m, 2)
    return orthonormalize(torch.polar(torch.sqrt(-2 * torch.log1p(-u[..., 0])), 2 * math.pi * u[..., 1]))
