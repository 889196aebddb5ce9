"""Space: what kind of hypervectors, how they are sampled, and what theory says of them. It holds no data."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ghrr import capacity as theory
from ghrr._checks import (
    check_batch,
    check_choice,
    check_complex_dtype,
    check_generator,
    check_hypervectors,
    check_integer,
    check_real,
    describe,
)
from ghrr._random import Keys, drawn_keys, labelled_generator, labelled_keys, labelled_uniform, philox_uniform
from ghrr.hypervector import Hypervector
from ghrr.ops import choice
from ghrr.unitary.diagonal import check_diagonality, diagonality_from_uniform
from ghrr.unitary.projection import check_unitary
from ghrr.unitary.sampling import base_slots, draw_uniform, haar_from_uniform, to_roots

_ROTATIONS = ("varying", "fixed", "shared")
_BLOCK_NUMBERS = 1 << 23  # uniform numbers turned into hypervectors at a time: 64 MiB


@dataclass(frozen=True, eq=False, repr=False)
class Space:
    r"""Hypervectors of ``dim`` slots, each an m x m unitary matrix, rotation times phases.

    A base hypervector has :math:`Q_j\,\mathrm{diag}(e^{i\theta_{j1}}, \dots, e^{i\theta_{jm}})` in slot j.

    Parameters
    ----------
    dim
        Number of slots, the paper's D.
    m
        Size of the matrix in a slot; 1 is FHRR, where the rotation is 1.
    rotation
        Where Q comes from. ``"varying"``: every hypervector has its own, another in each slot. ``"fixed"``: its
        own, the same in all slots. ``"shared"``: one per slot, the same for all hypervectors of the space; its
        noise is larger by :math:`\sqrt m`. Or a unitary tensor, ``(m, m)`` or ``(dim, m, m)``, shared by all.
    diagonality
        Draw rotations of this diagonality, in [0, 1], instead of Haar ones: 1 makes binding commute.
    phases
        Distribution of :math:`\theta`: ``"uniform"`` on the circle, or a whole number n >= 2 for the n-th roots of
        unity. These have :math:`E e^{i\theta} = 0`, without which independent hypervectors would be similar.
    seed
        Names and seed together determine the atoms.
    dtype
        ``torch.complex64`` or ``torch.complex128``.

    Examples
    --------
    >>> import ghrr
    >>> space = ghrr.Space(dim=1024, m=3, seed=0)
    >>> space
    Space(dim=1024, m=3, seed=0)
    >>> a, b = space.atoms("a", "b")
    >>> bool(a.similarity(b).abs() < 4 * space.noise_std)
    True
    """

    dim: int
    m: int
    rotation: str | Tensor = "varying"
    diagonality: float | None = None
    phases: str | int = "uniform"
    seed: int = 0
    dtype: torch.dtype = torch.complex64
    rounding: str = field(default="", init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "dim", check_integer("Space", "dim", self.dim, least=1))
        put(self, "m", check_integer("Space", "m", self.m, least=1))
        put(self, "seed", check_integer("Space", "seed", self.seed, least=0))
        check_complex_dtype("Space", self.dtype)
        put(self, "rotation", _checked_rotation(self.rotation, self.dim, self.m))
        if isinstance(self.rotation, Tensor) and self.rotation.dtype == torch.complex64 != self.dtype:
            raise ValueError(
                f"Space: a rotation known in complex64 is not unitary to the precision of {self.dtype}; give it in "
                f"complex128, or say dtype=torch.complex64"
            )
        if self.diagonality is not None:
            if isinstance(self.rotation, Tensor):
                raise ValueError("Space: a given rotation has its own diagonality; leave out diagonality or the tensor")
            put(self, "diagonality", check_diagonality("Space", self.diagonality, self.m))
        if isinstance(self.phases, str):
            check_choice("Space", "phases (or a whole number of roots of unity)", self.phases, ("uniform",))
        else:
            put(self, "phases", check_integer("Space", "phases", self.phases, least=2))

    @classmethod
    def from_total(cls, total_dim: int, m: int, **settings: Any) -> Space:
        r"""The space of size m whose total dimension :math:`D m^2` is nearest to the one asked for.

        Different m are compared fairly at equal total dimension. How it was rounded is said in ``.rounding`` and in
        the repr.

        Examples
        --------
        >>> import ghrr
        >>> ghrr.Space.from_total(600, m=2)
        Space(dim=150, m=2, seed=0)
        >>> ghrr.Space.from_total(600, m=7)
        Space(dim=12, m=7, seed=0) (total_dim 588, nearest to 600)
        """
        m = check_integer("Space.from_total", "m", m, least=1)
        total_dim = check_integer("Space.from_total", "total_dim", total_dim, least=m * m)
        dim = (2 * total_dim + m * m) // (2 * m * m)
        given = dim * m * m
        space = cls(dim, m, **settings)
        if given != total_dim:
            object.__setattr__(space, "rounding", f"total_dim {given}, nearest to {total_dim}")
        return space

    @classmethod
    def suggest(cls, items: int, *, m: int, candidates: int, error: float = 0.01, **settings: Any) -> Space:
        """The smallest space in which ``items`` bundled key-value pairs can be read back.

        It is the smallest ``dim`` whose :meth:`capacity` for the same ``candidates`` and ``error`` is at least
        ``items``.

        Parameters
        ----------
        items
            How many key-value pairs go into one hypervector.
        m
            Size of the slots' matrices; more makes binding less commutative, at the same total dimension.
        candidates
            Among how many values each answer is chosen.
        error
            Share of wrong answers that is acceptable.
        **settings
            Further arguments of :class:`Space`; a rotation given as a tensor must be ``(m, m)``, fitting any size.

        Examples
        --------
        >>> import ghrr
        >>> space = ghrr.Space.suggest(20, m=3, candidates=1000)
        >>> space
        Space(dim=36, m=3, seed=0)
        >>> space.capacity(candidates=1000) >= 20
        True
        """
        operation = "Space.suggest"
        items = check_integer(operation, "items", items, least=1)
        candidates, error = _check_task(operation, candidates, error)
        rotation = settings.get("rotation")
        if isinstance(rotation, Tensor) and rotation.ndim != 2:
            raise ValueError(f"{operation}: a given rotation must be (m, m), to fit any dim; got {describe(rotation)}")
        dim = theory.first_true(lambda d: cls(d, m, **settings)._recall_error(items, candidates) <= error)
        return cls(dim, m, **settings)

    @property
    def total_dim(self) -> int:
        """Complex numbers per hypervector, :math:`D m^2`: the fair axis for comparing different m."""
        return self.dim * self.m**2

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one hypervector, ``(dim, m, m)``."""
        return (self.dim, self.m, self.m)

    def atoms(self, *names: str) -> tuple[Hypervector, ...]:
        """Named base hypervectors: the same seed and name give the same one, in any order, on any machine, to rounding.

        The slots are drawn one after the other, so a smaller space of the same m holds the first slots of a larger one.

        Examples
        --------
        >>> import ghrr
        >>> space = ghrr.Space(dim=1024, m=3, seed=0)
        >>> space.atoms("b", "New York")
        (Hypervector(b, dim=1024, m=3, complex64), Hypervector('New York', dim=1024, m=3, complex64))
        """
        vectors = self.vectors(names)
        labels = [name if name.isidentifier() else repr(name) for name in names]
        return tuple(Hypervector(vector, self, label) for vector, label in zip(vectors, labels, strict=True))

    def vectors(self, names: Sequence[str], *, namespace: str = "") -> Tensor:
        """The atoms of many names as one tensor.

        Parameters
        ----------
        names
            What they are called.
        namespace
            Names of another namespace are other atoms.

        Shapes
        ------
        output: ``(len(names), dim, m, m)``
        """
        names = _checked_names(names, namespace)
        if self._is_haar:
            rotation_keys = self._keys("rotation", names if self.m > 1 else [], namespace)
            phase_keys = self._keys("phases", names, namespace)
            return self._base(rotation_keys, phase_keys, 1, halves=False)
        out = torch.empty((len(names), *self.shape), dtype=self.dtype)
        per_name = max(1, math.prod(self._rotation_numbers) + self.dim * self.m)
        step = max(1, _BLOCK_NUMBERS // per_name)
        for start in range(0, len(names), step):
            block = names[start : start + step]
            out[start : start + len(block)] = self._build(
                self._numbers("rotation", self._rotation_numbers, block, namespace),
                self._numbers("phases", (self.dim, self.m), block, namespace),
            )
        return out

    def _keys(self, what: str, names: Sequence[str], namespace: str) -> Keys:
        """The keys of the Philox streams behind one part of the atoms of these names."""
        labels = (what, namespace) if namespace else (what,)
        return labelled_keys(names, self.seed, *labels)

    def _numbers(self, what: str, shape: tuple[int, ...], names: Sequence[str], namespace: str) -> Tensor:
        """The uniform numbers behind one part of the atoms of these names."""
        keys = self._keys(what, names, namespace)
        return philox_uniform(keys, math.prod(shape)).reshape(len(names), *shape)

    @property
    def _is_haar(self) -> bool:
        """Whether every slot is a Haar matrix of its own times phases; phases alone for m = 1."""
        if self.m == 1:
            return not isinstance(self.rotation, Tensor)
        return isinstance(self.rotation, str) and self.rotation == "varying" and self.diagonality is None

    def _base(self, rotation_keys: Keys, phase_keys: Keys, count: int, *, halves: bool) -> Tensor:
        """``count`` hypervectors from each pair of keys."""
        roots = self.phases if isinstance(self.phases, int) else 0
        slots = base_slots(
            rotation_keys, phase_keys, count * self.dim, self.m, roots=roots, halves=halves, dtype=self.dtype
        )
        return slots.view(len(slots) * count, *self.shape)

    def rotations(self, names: Sequence[str], *, namespace: str = "") -> Tensor:
        """The rotations Q of the atoms of these names: what is left of them without phases.

        Parameters are those of :meth:`vectors`.

        Shapes
        ------
        output: ``(len(names), dim, m, m)``

        Examples
        --------
        >>> import torch, ghrr
        >>> space = ghrr.Space(dim=100, m=2, seed=0)
        >>> phases = ghrr.bind(ghrr.adjoint(space.rotations(["a"])), space.vectors(["a"]))
        >>> ghrr.unitary.diagonality(phases).min() > 0.999
        tensor(True)
        """
        names = _checked_names(names, namespace)
        shape = (len(names), *self.shape)
        if self._one_for_all:
            return self._shared_rotation.to(self.dtype).expand(shape)
        return (
            self._rotations(self._numbers("rotation", self._rotation_numbers, names, namespace))
            .to(self.dtype)
            .expand(shape)
        )

    def random(self, *batch: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw base hypervectors without names.

        Parameters
        ----------
        *batch
            How many, as in ``torch.randn``.
        generator
            Source of randomness; the result is on its device. The default is torch's own generator on the CPU, as for
            ``torch.randn``. Pass one for a result that does not depend on what was drawn before: :meth:`generator`
            makes one from the seed of the space.

        Shapes
        ------
        output: ``(*batch, dim, m, m)``

        Examples
        --------
        >>> import ghrr
        >>> space = ghrr.Space(dim=100, m=2, seed=0)
        >>> space.random(5, generator=space.generator("noise")).shape
        torch.Size([5, 100, 2, 2])
        """
        batch = check_batch("Space.random", batch)
        if generator is None:
            generator = torch.default_generator
        check_generator("Space.random", generator)
        if self._is_haar and generator.device.type == "cpu" and choice.is_plain():
            # A Haar matrix times uniform phases is a Haar matrix.
            has_phases = self.m == 1 or isinstance(self.phases, int)
            keys = drawn_keys(2 if has_phases else 1, generator)
            halves = self.dtype == torch.complex64  # 32 random bits are more than its entries have
            return self._base(keys[:1], keys[1:], math.prod(batch), halves=halves).view(*batch, *self.shape)
        return self._build(
            draw_uniform(generator, *batch, *self._rotation_numbers),
            draw_uniform(generator, *batch, self.dim, self.m),
        )

    def generator(self, label: str) -> torch.Generator:
        """A fresh ``torch.Generator`` that depends on the seed and the label only."""
        return labelled_generator(self.seed, "generator", label)

    def identity(self, *batch: int) -> Tensor:
        """The neutral element of binding: every slot the identity matrix.

        Shapes
        ------
        output: ``(*batch, dim, m, m)``
        """
        return torch.eye(self.m, dtype=self.dtype).repeat(*check_batch("Space.identity", batch), self.dim, 1, 1)

    def zeros(self, *batch: int) -> Tensor:
        """The neutral element of bundling: zeros.

        Shapes
        ------
        output: ``(*batch, dim, m, m)``
        """
        return torch.zeros((*check_batch("Space.zeros", batch), *self.shape), dtype=self.dtype)

    def wrap(self, tensor: Tensor, expression: str = "x") -> Hypervector:
        """Give a tensor of this space operators and a name."""
        return Hypervector(tensor, self, expression)

    def check(self, x: Tensor | Hypervector, operation: str = "Space.check") -> Tensor:
        """Return ``x`` as a tensor; raise unless it is a hypervector of this space, or a batch of them."""
        if isinstance(x, Hypervector) and x.space != self:
            raise ValueError(f"{operation}: a hypervector of {x.space!r} does not belong to {self!r}; make both in one")
        (x,) = check_hypervectors(operation, x=x)
        if x.shape[-3:] != torch.Size(self.shape) or x.dtype != self.dtype:
            raise ValueError(
                f"{operation}: {describe(x)} does not fit {self!r}, whose hypervectors have shape "
                f"(*batch, {self.dim}, {self.m}, {self.m}) and dtype {str(self.dtype).removeprefix('torch.')}"
            )
        return x

    @property
    def noise_std(self) -> float:
        r"""Standard deviation of the similarity of two independent hypervectors, by theory.

        :math:`1/\sqrt{2 D m^2}` for own rotations, so that only the total dimension matters; :math:`1/\sqrt{2 D m}` for
        shared ones. A requested diagonality lies in between.

        Examples
        --------
        >>> import ghrr
        >>> f"{ghrr.Space(dim=1000, m=3).noise_std:.4f}"
        '0.0075'
        >>> f"{ghrr.Space(dim=1000, m=3, rotation='shared').noise_std:.4f}"
        '0.0129'
        """
        if self._is_shared:
            return self._std(self.m)
        weight = theory.diagonal_weight(self.m, self.diagonality)
        return self._std(self.m * theory.relative_weight(weight, self.m))

    @property
    def crosstalk_std(self) -> float:
        r"""Standard deviation of :math:`\delta(K_1^\dagger * K_2 * V, W)` for independent hypervectors, by theory.

        This is what another key-value pair adds to an answer. It equals ``noise_std`` for own Haar rotations.
        """
        if self._one_for_all:  # this very rotation, not the average over all that could have been drawn
            return self._std(self._shared_rotation.abs().pow(4).sum(dim=(-1, -2)).mean().item())
        weight = theory.diagonal_weight(self.m, self.diagonality)
        g = theory.relative_weight
        return self._std(self.m * g(g(weight, self.m), self.m))

    def capacity(self, *, candidates: int, error: float = 0.01) -> int:
        """How many key-value pairs can be bundled such that reading one back errs at most this often.

        Each pair is read by unbinding its key and choosing the most similar of ``candidates`` values, the right one
        among them: see :func:`ghrr.capacity.recall_error` for the formula. 0 when even a single pair errs more
        often.

        Parameters
        ----------
        candidates
            Among how many values the answer is chosen.
        error
            Share of wrong answers that is acceptable, below the 1 - 1/candidates of guessing.

        Examples
        --------
        >>> import ghrr
        >>> [ghrr.Space.from_total(900, m=m).capacity(candidates=1000) for m in (1, 2, 3)]
        [55, 55, 55]
        """
        candidates, error = _check_task("Space.capacity", candidates, error)
        return theory.first_true(lambda n: self._recall_error(n, candidates) > error) - 1

    def _recall_error(self, items: int, candidates: int) -> float:
        return theory.recall_error(items, candidates, self.noise_std, self.crosstalk_std)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        parts = [f"dim={self.dim}", f"m={self.m}"]
        if isinstance(self.rotation, Tensor):
            parts.append(f"rotation=<{describe(self.rotation)}>")
        elif self.rotation != "varying":
            parts.append(f"rotation={self.rotation!r}")
        if self.diagonality is not None:
            parts.append(f"diagonality={self.diagonality}")
        if self.phases != "uniform":
            parts.append(f"phases={self.phases}")
        parts.append(f"seed={self.seed}")
        if self.dtype != torch.complex64:
            parts.append(f"dtype={self.dtype}")
        return f"Space({', '.join(parts)})" + (f" ({self.rounding})" if self.rounding else "")

    @cached_property
    def _key(self) -> tuple[object, ...]:
        rotation = self.rotation
        if isinstance(rotation, Tensor):
            content = torch.view_as_real(rotation).numpy().tobytes()
            rotation = f"{tuple(rotation.shape)} {hashlib.sha256(content).hexdigest()}"
        return (self.dim, self.m, rotation, self.diagonality, self.phases, self.seed, self.dtype)

    @property
    def _is_shared(self) -> bool:
        return self.rotation == "shared" if isinstance(self.rotation, str) else True

    @property
    def _one_for_all(self) -> bool:
        return self._is_shared or self.m == 1

    def _std(self, trace_variance: float) -> float:
        """Deviation of Re tr(...)/(mD) when the trace in each slot has this mean square."""
        # Square roots of unity make the trace real where no rotation gives it a random phase: nothing is lost in Re.
        real = self.phases == 2 and self._one_for_all
        return math.sqrt(trace_variance / self.dim / (1 if real else 2)) / self.m

    @cached_property
    def _rotation_numbers(self) -> tuple[int, ...]:
        """Shape of the uniform numbers that one hypervector's rotation is made of."""
        if self._one_for_all:
            return (0,)
        return (self.dim if self.rotation == "varying" else 1, *self._numbers_per_rotation)

    @property
    def _numbers_per_rotation(self) -> tuple[int, ...]:
        return (self.m, self.m, 2) if self.diagonality is None else (5, self.m)

    def _rotations(self, u: Tensor) -> Tensor:
        return haar_from_uniform(u) if self.diagonality is None else diagonality_from_uniform(self.diagonality, u)

    @cached_property
    def _shared_rotation(self) -> Tensor:
        if isinstance(self.rotation, Tensor):
            return self.rotation
        if self.m == 1:
            return torch.ones(1, 1, dtype=torch.complex128)
        shape = (self.dim, *self._numbers_per_rotation)
        return self._rotations(labelled_uniform(math.prod(shape), self.seed, "shared rotation").reshape(shape))

    def _build(self, rotation_numbers: Tensor, phase_numbers: Tensor) -> Tensor:
        """Hypervectors from uniform numbers."""
        if isinstance(self.phases, int):
            phase_numbers = to_roots(phase_numbers, self.phases)
        if self.rotation == "varying" and self.diagonality is None and self.m > 1:
            return haar_from_uniform(rotation_numbers, phase_numbers, dtype=self.dtype)
        phases = torch.polar(torch.ones_like(phase_numbers), 2 * math.pi * phase_numbers)
        rotation = self._shared_rotation.to(phases.device) if self._one_for_all else self._rotations(rotation_numbers)
        return (rotation * phases[..., None, :]).to(self.dtype)


def _check_task(operation: str, candidates: int, error: float) -> tuple[int, float]:
    candidates = check_integer(operation, "candidates", candidates, least=2)
    return candidates, check_real(operation, "error", error, low=0.0, high=1 - 1 / candidates, open_ends=True)


def check_space(operation: str, space: Any) -> Space:
    """Return ``space``; raise unless it is a :class:`Space`."""
    if not isinstance(space, Space):
        raise TypeError(f"{operation}: needs a ghrr.Space, got {describe(space)}; make one with ghrr.Space(dim, m)")
    return space


def _checked_names(names: Sequence[str], namespace: str = "") -> list[str]:
    if isinstance(names, str | Tensor | Hypervector) or not isinstance(names, Iterable):
        raise TypeError(f"Space: give a list of names, as in ['a', 'b']; got {describe(names)}")
    if not isinstance(namespace, str):
        raise TypeError(f"Space: namespace must be a string, got {describe(namespace)}")
    names = list(names)
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"Space: the name of an atom must be a string that is not empty, got {describe(name)}")
    return names


def _checked_rotation(rotation: str | Tensor, dim: int, m: int) -> str | Tensor:
    if not isinstance(rotation, Tensor):
        check_choice("Space", "rotation (or a unitary tensor)", rotation, _ROTATIONS)
        return rotation
    fits = tuple(rotation.shape) in ((m, m), (dim, m, m)) and rotation.layout == torch.strided
    if not fits or rotation.dtype not in (torch.complex64, torch.complex128) or rotation.device.type == "meta":
        raise ValueError(
            f"Space: a given rotation must be complex64 or complex128, of shape ({m}, {m}) or ({dim}, {m}, {m}); "
            f"got {describe(rotation)}"
        )
    check_unitary("Space: rotation", rotation.reshape(-1, m, m))
    return rotation.detach().cpu().clone(memory_format=torch.contiguous_format).resolve_conj()
