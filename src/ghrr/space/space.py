"""The class Space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ghrr import capacity as theory
from ghrr.checks import (
    check_batch,
    check_choice,
    check_complex_dtype,
    check_device,
    check_generator,
    check_hypervectors,
    check_integer,
    check_names,
    check_real,
    describe,
    names_errors,
    type_error,
    value_error,
)
from ghrr.hypervector import Hypervector
from ghrr.seeding import labelled_generator
from ghrr.space import identity, noise, sampling
from ghrr.unitary.diagonal import check_diagonality
from ghrr.unitary.projection import check_unitary

_ROTATIONS = ("varying", "fixed", "shared")
Device = torch.device | str | None


@names_errors
@dataclass(frozen=True, eq=False, repr=False)
class Space:
    r"""Description of hypervectors with ``dim`` slots, each an m x m unitary matrix.

    Slot j of a base hypervector is :math:`Q_j\,\mathrm{diag}(e^{i\theta_{j1}}, \dots, e^{i\theta_{jm}})`: a rotation
    times phases. A space holds no hypervectors and has no device: its methods sample hypervectors, on the CPU unless
    you pass ``device``. Samples are constants, without gradients.

    Parameters
    ----------
    dim
        Number of slots, the paper's D.
    m
        Size of the matrix in a slot. 1 is FHRR, where the rotation is 1.
    rotation
        Origin of Q. ``"varying"``: every hypervector has its own rotation in each slot. ``"fixed"``: its own rotation,
        the same in all slots. ``"shared"``: one rotation per slot, the same for all hypervectors of the space; the
        noise is larger by :math:`\sqrt m`. Or a unitary tensor, ``(m, m)`` or ``(dim, m, m)``, for all hypervectors; it
        is copied to the CPU, without its gradient.
    diagonality
        Draw rotations of this diagonality, in [0, 1], instead of Haar rotations. 1 makes binding commutative.
    phases
        Distribution of :math:`\theta`: ``"uniform"`` on the circle, or an integer n >= 2 for the n-th roots of unity.
        Both have :math:`E e^{i\theta} = 0`, so independent hypervectors have a mean similarity of 0.
    seed
        Seed and name determine an atom.
    dtype
        ``torch.complex64`` or ``torch.complex128``.
    atom_version
        Version of the algorithm that generates named atoms: 2, or 1 for the atoms of ghrr 0.1. Files store it. A file
        without it is read as version 1, so its names keep their atoms.

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
    atom_version: int = field(default=2, kw_only=True)
    rounding: str = field(default="", init=False)

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "dim", check_integer("dim", self.dim, least=1))
        set_field(self, "m", check_integer("m", self.m, least=1))
        set_field(self, "seed", check_integer("seed", self.seed, least=0))
        check_complex_dtype(self.dtype)
        set_field(self, "atom_version", check_integer("atom_version", self.atom_version))
        if self.atom_version not in identity.ATOM_VERSIONS:
            raise value_error(
                f"atom_version must be 1 or 2, got {self.atom_version}; for later versions install a later ghrr"
            )
        set_field(self, "rotation", _check_rotation(self.rotation, self.dim, self.m))
        if isinstance(self.rotation, Tensor) and self.rotation.dtype == torch.complex64 != self.dtype:
            raise value_error(
                f"a rotation in complex64 is not unitary to the precision of {self.dtype}; pass a complex128 "
                f"rotation, or use dtype=torch.complex64"
            )
        if self.diagonality is not None:
            if isinstance(self.rotation, Tensor):
                raise value_error("a rotation tensor has its own diagonality; pass only one of the two")
            set_field(self, "diagonality", check_diagonality(self.diagonality, self.m))
        if isinstance(self.phases, str):
            check_choice("phases (or a whole number of roots of unity)", self.phases, ("uniform",))
        else:
            set_field(self, "phases", check_integer("phases", self.phases, least=2))

    @classmethod
    def from_total(cls, total_dim: int, m: int, **settings: Any) -> Space:
        r"""Return the space of size m whose total dimension :math:`D m^2` is nearest to ``total_dim``.

        Compare different m at equal total dimension. ``.rounding`` and the repr show the total dimension if it is not
        exact.

        Examples
        --------
        >>> import ghrr
        >>> ghrr.Space.from_total(600, m=2)
        Space(dim=150, m=2, seed=0)
        >>> ghrr.Space.from_total(600, m=7)
        Space(dim=12, m=7, seed=0) (total_dim 588, nearest to 600)
        """
        m = check_integer("m", m, least=1)
        total_dim = check_integer("total_dim", total_dim, least=m * m)
        dim = (2 * total_dim + m * m) // (2 * m * m)
        space = cls(dim, m, **settings)
        if space.total_dim != total_dim:
            object.__setattr__(space, "rounding", f"total_dim {space.total_dim}, nearest to {total_dim}")
        return space

    @classmethod
    def suggest(cls, items: int, *, m: int, candidates: int, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which ``items`` bundled key-value pairs can be read.

        It has the smallest ``dim`` whose :meth:`capacity` for the same ``candidates`` and ``error`` is at least
        ``items``.

        Parameters
        ----------
        items
            Number of key-value pairs in one hypervector.
        m
            Size of the matrix in each slot. Larger m makes binding less commutative, at the same total dimension.
        candidates
            Number of values that each answer is chosen from.
        error
            Acceptable share of wrong answers.
        **settings
            Further arguments of :class:`Space`. A rotation tensor must be ``(m, m)``, to fit any dim.

        Examples
        --------
        >>> import ghrr
        >>> space = ghrr.Space.suggest(20, m=3, candidates=1000)
        >>> space
        Space(dim=36, m=3, seed=0)
        >>> space.capacity(candidates=1000) >= 20
        True
        """
        items = check_integer("items", items, least=1)
        candidates, error = _check_task(candidates, error)
        rotation = settings.get("rotation")
        if isinstance(rotation, Tensor) and rotation.ndim != 2:
            raise value_error(f"a rotation must be (m, m), to fit any dim; got {describe(rotation)}")
        dim = theory.first_true(lambda d: cls(d, m, **settings)._recall_error(items, candidates) <= error)
        return cls(dim, m, **settings)

    @property
    def total_dim(self) -> int:
        """Number of complex entries of a hypervector, :math:`D m^2`."""
        return self.dim * self.m**2

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one hypervector, ``(dim, m, m)``."""
        return (self.dim, self.m, self.m)

    def atoms(self, *names: str, device: Device = None) -> tuple[Hypervector, ...]:
        """Return named hypervectors: seed and name determine an atom, on every machine and device.

        A smaller space of the same m and seed has the first slots of the atoms of a larger one.

        Examples
        --------
        >>> import ghrr
        >>> space = ghrr.Space(dim=1024, m=3, seed=0)
        >>> space.atoms("b", "New York")
        (Hypervector(b, dim=1024, m=3, complex64), Hypervector('New York', dim=1024, m=3, complex64))
        """
        vectors = self.vectors(names, device=device)
        labels = [name if name.isidentifier() else repr(name) for name in names]
        return tuple(Hypervector(vector, self, label) for vector, label in zip(vectors, labels, strict=True))

    def vectors(self, names: Sequence[str], *, namespace: str = "", device: Device = None) -> Tensor:
        """Return the atoms of many names as one tensor.

        Parameters
        ----------
        names
            Names of the atoms.
        namespace
            The same name in another namespace is another atom.
        device
            Device of the result, the CPU by default. The numbers are the same on every device.

        Shapes
        ------
        output: ``(len(names), dim, m, m)``

        Examples
        --------
        >>> import ghrr
        >>> ghrr.Space(dim=100, m=2, seed=0).vectors(["a", "b", "c"]).shape
        torch.Size([3, 100, 2, 2])
        """
        vectors = sampling.named_vectors(self, _check_atoms(names, namespace), namespace)
        return _to_device(vectors, device)

    def rotations(self, names: Sequence[str], *, namespace: str = "", device: Device = None) -> Tensor:
        """Return the rotations Q of the atoms of names, without phases.

        See :meth:`vectors` for the parameters.

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
        rotations = sampling.named_rotations(self, _check_atoms(names, namespace), namespace)
        return _to_device(rotations, device)

    def random(self, *batch: int, generator: torch.Generator | None = None, device: Device = None) -> Tensor:
        """Draw random hypervectors without names.

        Parameters
        ----------
        *batch
            Shape of the batch, as in ``torch.randn``.
        generator
            Generator to draw from, for results that do not depend on earlier calls: see :meth:`generator`. By default
            torch's global generator, which ``torch.manual_seed`` seeds.
        device
            Device of the result, by default the device of the generator. A generator on another device gives the same
            numbers as without ``device``.

        Shapes
        ------
        output: ``(*batch, dim, m, m)``

        Examples
        --------
        >>> import ghrr
        >>> space = ghrr.Space(dim=100, m=2, seed=0)
        >>> space.random(5).shape
        torch.Size([5, 100, 2, 2])
        >>> x, y = (space.random(5, generator=space.generator("noise")) for _ in range(2))
        >>> x.equal(y)
        True
        """
        batch = check_batch(batch)
        generator = _default_generator(device) if generator is None else check_generator(generator)
        return _to_device(sampling.random_vectors(self, batch, generator), device)

    def generator(self, label: str) -> torch.Generator:
        """Return a new ``torch.Generator`` on the CPU, seeded by the seed of the space and a label."""
        return labelled_generator(self.seed, "generator", label)

    def identity(self, *batch: int, device: Device = None) -> Tensor:
        """Return the neutral element of binding: the identity matrix in every slot.

        Shapes
        ------
        output: ``(*batch, dim, m, m)``
        """
        batch = check_batch(batch)
        eye = torch.eye(self.m, dtype=self.dtype, device="cpu")
        return _to_device(eye, device).repeat(*batch, self.dim, 1, 1)

    def zeros(self, *batch: int, device: Device = None) -> Tensor:
        """Return the neutral element of bundling: zeros.

        Shapes
        ------
        output: ``(*batch, dim, m, m)``
        """
        batch = check_batch(batch)
        device = "cpu" if device is None else check_device(device)
        return torch.zeros((*batch, *self.shape), dtype=self.dtype, device=device)

    def wrap(self, tensor: Tensor, expression: str = "x") -> Hypervector:
        """Return a tensor of this space as a :class:`Hypervector`, which has operators and a name."""
        return Hypervector(tensor, self, expression)

    def check(self, x: Tensor | Hypervector) -> Tensor:
        """Return ``x`` as a tensor; raise unless it is a hypervector of this space, or a batch of them."""
        if isinstance(x, Hypervector) and x.space != self:
            raise value_error(f"a hypervector of {x.space!r} does not belong to {self!r}; create both in one space")
        (x,) = check_hypervectors(x=x)
        if x.shape[-3:] != torch.Size(self.shape) or x.dtype != self.dtype:
            raise value_error(
                f"{describe(x)} does not fit {self!r}, expected shape "
                f"(*batch, {self.dim}, {self.m}, {self.m}) and dtype {str(self.dtype).removeprefix('torch.')}"
            )
        return x

    @property
    def noise_std(self) -> float:
        r"""Standard deviation of the similarity of two independent hypervectors, by theory.

        :math:`1/\sqrt{2 D m^2}` for varying and fixed rotations, so only the total dimension matters;
        :math:`1/\sqrt{2 D m}` for shared ones. With a diagonality it lies in between.

        Examples
        --------
        >>> import ghrr
        >>> f"{ghrr.Space(dim=1000, m=3).noise_std:.4f}"
        '0.0075'
        >>> f"{ghrr.Space(dim=1000, m=3, rotation='shared').noise_std:.4f}"
        '0.0129'
        """
        return noise.noise_std(self)

    @property
    def crosstalk_std(self) -> float:
        r"""Standard deviation of :math:`\delta(K_1^\dagger * K_2 * V, W)` for independent hypervectors, by theory.

        This is the noise that another key-value pair adds to an answer. It equals ``noise_std`` for varying and fixed
        Haar rotations.
        """
        return noise.crosstalk_std(self)

    def capacity(self, *, candidates: int, error: float = 0.01) -> int:
        """Return the number of key-value pairs that one bundle can hold.

        To read a pair, unbind its key and choose the most similar of ``candidates`` values, one of which is correct.
        The capacity is the largest number of pairs for which the share of wrong answers is at most ``error``, by
        ``ghrr.capacity.recall_error``; 0 if a single pair exceeds it.

        Parameters
        ----------
        candidates
            Number of values that each answer is chosen from.
        error
            Acceptable share of wrong answers, below 1 - 1/candidates, the error rate of guessing.

        Examples
        --------
        >>> import ghrr
        >>> [ghrr.Space.from_total(900, m=m).capacity(candidates=1000) for m in (1, 2, 3)]
        [55, 55, 55]
        """
        candidates, error = _check_task(candidates, error)
        return theory.first_true(lambda n: self._recall_error(n, candidates) > error) - 1

    def _recall_error(self, items: int, candidates: int) -> float:
        return theory.recall_error(items, candidates, self.noise_std, self.crosstalk_std)

    @cached_property
    def shared_rotation(self) -> Tensor:
        """Rotation of all hypervectors, if they share one; ``(m, m)`` or ``(dim, m, m)``."""
        return sampling.shared_rotation(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return identity.show(self)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return identity.key(self)


def check_space(space: Any) -> Space:
    """Return ``space``; raise unless it is a :class:`Space`."""
    if not isinstance(space, Space):
        raise type_error(f"needs a ghrr.Space, got {describe(space)}; make one with ghrr.Space(dim, m)")
    return space


def _to_device(x: Tensor, device: Device) -> Tensor:
    return x if device is None else x.to(check_device(device))


def _default_generator(device: Device) -> torch.Generator:
    """Return torch's global generator; for a GPU, a new generator that is seeded from it."""
    if device is None or check_device(device).type == "cpu":
        return torch.default_generator
    return torch.Generator(device).manual_seed(int(torch.randint(1 << 62, (), device="cpu")))


def _check_task(candidates: int, error: float) -> tuple[int, float]:
    candidates = check_integer("candidates", candidates, least=2)
    return candidates, check_real("error", error, low=0.0, high=1 - 1 / candidates, open_ends=True)


def _check_atoms(names: Sequence[str], namespace: str) -> list[str]:
    names = check_names(names)
    if not isinstance(namespace, str):
        raise type_error(f"namespace must be a string, got {describe(namespace)}")
    return names


def _check_rotation(rotation: str | Tensor, dim: int, m: int) -> str | Tensor:
    if not isinstance(rotation, Tensor):
        check_choice("rotation (or a unitary tensor)", rotation, _ROTATIONS)
        return rotation
    fits = tuple(rotation.shape) in ((m, m), (dim, m, m)) and rotation.layout == torch.strided
    if not fits or rotation.dtype not in (torch.complex64, torch.complex128) or rotation.device.type == "meta":
        raise value_error(
            f"rotation must be a complex64 or complex128 tensor of shape ({m}, {m}) or ({dim}, {m}, {m}); got "
            f"{describe(rotation)}"
        )
    check_unitary("rotation", rotation.reshape(-1, m, m))
    return rotation.detach().cpu().clone(memory_format=torch.contiguous_format).resolve_conj()
