"""What all structures have in common: a space, a confidence threshold, shifts that keep the order, and files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from torch import Tensor

from ghrr._checks import check_real, describe
from ghrr.algebra import shift
from ghrr.files import read_container, write_container
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE
from ghrr.space import Space, check_space
from ghrr.structures.vocabulary import Vocabulary, as_tensor

_FORMAT, _VERSION = "ghrr-structure", 1
_VECTORS, _GIVEN = "vectors.", "given."
_SINGLE = "x"

Vectors = Tensor | dict[str, Tensor] | None


class Structure:
    """Base class of all structures.

    Parameters
    ----------
    space
        Space of the hypervectors.
    confidence
        Probability from which on a match is confident.
    permute
        Shift the factor at position j of a product by j slots before binding, so that orders differ. By default only
        for m = 1, where binding commutes. For larger m binding alone makes orders different, but products of the same
        factors in another order keep a similarity of about 1/m²; with shifts they are independent, which gives more
        certain answers at small m.
    """

    def __init__(self, space: Space, *, confidence: float = CONFIDENCE, permute: bool | None = None) -> None:
        if permute is not None and not isinstance(permute, bool):
            raise TypeError(f"{type(self).__name__}: permute must be True, False or None, got {describe(permute)}")
        self.space = check_space(type(self).__name__, space)
        self.confidence = check_real(type(self).__name__, "confidence", confidence, low=0.5, high=1.0, open_ends=True)
        self.permute = space.m == 1 if permute is None else permute

    def _shift(self, x: Tensor, position: int) -> Tensor:
        """Shift the factor at a position of a product; a negative position takes the shift back."""
        if not self.permute or not position:
            return x
        if abs(position) >= self.space.dim:
            raise ValueError(
                f"{type(self).__name__}: a shift by {abs(position)} slots is no different from one by "
                f"{abs(position) % self.space.dim} in a space of {self.space.dim}; use a larger dim, or permute=False"
            )
        return shift(x, position)

    # Files

    def save(
        self, path: str | os.PathLike[str], vectors: Tensor | Hypervector | Mapping[str, Any] | None = None
    ) -> None:
        """Write the structure, its vocabulary and hypervectors to one safetensors file, atomically.

        Parameters
        ----------
        path
            File to write, usually ``*.safetensors``.
        vectors
            A hypervector, a batch, or a mapping of names to them; None to write the vocabulary alone.

        Examples
        --------
        >>> import ghrr, tempfile, pathlib
        >>> from ghrr.structures import Graph
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "family.safetensors"
        >>> family = Graph(ghrr.Space(dim=300, m=3))
        >>> family.save(path, family.encode([("Byron", "father of", "Ada")]))
        >>> family, h = Graph.load(path)
        >>> family.neighbours(h, "Byron", "father of")[0].label
        'Ada'
        """
        operation = f"{type(self).__name__}.save"
        items = {} if vectors is None else vectors if isinstance(vectors, Mapping) else {_SINGLE: vectors}
        tensors: dict[str, Tensor] = {}
        for name, x in items.items():
            if not isinstance(name, str) or not name.isprintable():
                raise TypeError(f"{operation}: the name of a hypervector must be a printable string, got {name!r:.80}")
            tensors[_VECTORS + name] = as_tensor(operation, x, self.space)
        for kind, vocabulary in self._vocabularies().items():
            given = vocabulary.given_vectors()
            tensors |= {f"{_GIVEN}{kind}.{name}": vector for name, vector in given.items()}
        form = "none" if vectors is None else "mapping" if isinstance(vectors, Mapping) else "single"
        header = {"state": self.state(), "vectors": form}
        write_container(path, self.space, header, tensors, kind=_FORMAT, version=_VERSION)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> tuple[Self, Any]:
        """Read what :meth:`save` wrote.

        Returns
        -------
        structure, vectors
            The structure with its vocabulary, and the hypervectors as they were given to :meth:`save`: a tensor, a
            dict of tensors, or None.
        """

        def parse(space: Space, header: dict[str, Any], tensors: dict[str, Tensor]) -> tuple[Self, Vectors]:
            given = {name: tensor for name, tensor in tensors.items() if name.startswith(_GIVEN)}
            structure = cls.from_state(space, header["state"], given=given)
            items = {name.removeprefix(_VECTORS): x for name, x in tensors.items() if name.startswith(_VECTORS)}
            if len(items) + len(given) < len(tensors):
                raise ValueError(f"the file holds tensors of unknown names, {sorted(tensors)}")
            for x in items.values():
                as_tensor(f"{cls.__name__}.load", x, space)
            match header["vectors"]:
                case "none" if not items:
                    return structure, None
                case "single" if items.keys() == {_SINGLE}:
                    return structure, items[_SINGLE]
                case "mapping":
                    return structure, items
            raise ValueError(f"the header says {header['vectors']!r} vectors, but the file holds {sorted(items)}")

        return read_container(path, parse, kind=_FORMAT, version=_VERSION, operation=f"{cls.__name__}.load")

    def state(self) -> dict[str, Any]:
        """Return all that is needed to read hypervectors later, besides the space and given hypervectors, as JSON."""
        return {
            "structure": type(self).__name__,
            "settings": self._settings(),
            "vocabulary": {kind: vocabulary.state() for kind, vocabulary in self._vocabularies().items()},
            "seen": self._seen(),
        }

    @classmethod
    def from_state(cls, space: Space, state: Mapping[str, Any], *, given: Mapping[str, Tensor] | None = None) -> Self:
        """Return the structure that gave this state, in the same space.

        ``given`` maps ``given.<vocabulary>.<name>`` to the hypervectors of names that do not stand for atoms.

        Examples
        --------
        >>> import ghrr, json
        >>> from ghrr.structures import Set
        >>> space = ghrr.Space(dim=300, m=3)
        >>> fruit = Set(space)
        >>> h = fruit.encode(["apple", "plum"])
        >>> Set.from_state(space, json.loads(json.dumps(fruit.state()))).decode(h)
        {'apple': 1, 'plum': 1}
        """
        operation = f"{cls.__name__}.from_state"
        try:
            if state["structure"] != cls.__name__:
                raise ValueError(f"it is of a {state['structure']}, expected a {cls.__name__}")
            structure = cls(space, **state["settings"])
            tables = structure._vocabularies()
            if state["vocabulary"].keys() != tables.keys():
                raise ValueError(f"vocabularies {sorted(state['vocabulary'])}, expected {sorted(tables)}")
            for kind, table in tables.items():
                prefix = f"{_GIVEN}{kind}."
                own = {name.removeprefix(prefix): x for name, x in (given or {}).items() if name.startswith(prefix)}
                table.restore(state["vocabulary"][kind], own)
            structure._restore(state["seen"])
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise ValueError(f"{operation}: not the state of a {cls.__name__} of this version ({error})") from error
        return structure

    def _vocabularies(self) -> dict[str, Vocabulary]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Vocabulary)}

    def _settings(self) -> dict[str, Any]:
        """Arguments of the constructor, as JSON."""
        return {"confidence": self.confidence, "permute": self.permute}

    def _seen(self) -> Any:
        """What the structure remembers besides its vocabulary, as JSON."""
        return None

    def _restore(self, seen: Any) -> None:
        """Take up what :meth:`_seen` returned."""
