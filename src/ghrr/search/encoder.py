r"""Records as vectors whose dot product is their similarity.

A document with the fields f is encoded as

.. math:: r = \frac{1}{\sqrt{W}} \sum_f \sqrt{w_f}\; k_f * v_f , \qquad W = \sum_f w_f ,

where :math:`k_f` is the hypervector of the path (its keys bound in order), :math:`v_f` the one of the value, and
:math:`w_f` the weight of the field. So :math:`\delta(r, r') \approx \sum_f w_f s_f / \sqrt{W W'}`: the weighted mean of
the similarities of the fields that both have.

The exact score of a pair uses the documents themselves. Fields that one of the two lacks are left out:

.. math:: s = \frac{\sum_{f \in \text{both}} w_f s_f}{W_\text{both} + \kappa\,(W_\text{example} - W_\text{both})} .

With κ = 0 a missing field would have no effect at all, and a record with a single field that agrees would be a
perfect answer. κ = 0.25 prefers the more complete of two records that agree equally.

Without labels, the weight of a field is :math:`w_f = -\ln u_f`, where :math:`u_f` is the mean similarity of two random
records: agreement that is rare by chance counts more. The text of all fields together is a field of its own, with the
weight of the text fields that the document has: it finds values that are in another field. An example gives this text
under the key ``"*"``, with the full weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr import ops
from ghrr.checks import names_errors
from ghrr.search.fields import Field, check_kinds, check_weights, infer_kind, is_textual, make_field
from ghrr.search.kernel_fields import KernelField
from ghrr.search.paths import STAR, WHOLE, Column, Leaves, Path, as_columns, columns, show, split
from ghrr.search.values import as_text
from ghrr.space import Space

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
KAPPA = 0.25  # disagreement of a field that the record lacks
_FIT_ROWS = 100_000  # documents that statistics are taken from
_FIT_PAIRS = 4_000
_CHUNK_NUMBERS = 1 << 24  # real numbers of encoded documents held at a time


@dataclass
class Prepared:
    """Documents in the form that their fields compare.

    Parameters
    ----------
    count
        Number of documents.
    rows
        For each field the row of its values of each document, ``(fields, n)``; -1 where the value is missing.
    has_whole
        Whether each document gives the text of all fields, under the key ``"*"``.
    values
        For each field the prepared values.
    """

    count: int
    rows: NDArray[np.int64]
    has_whole: NDArray[np.bool_]
    values: list[Any] = field(default_factory=list)


@names_errors
class RecordEncoder:
    """Encode documents, and compare them field by field.

    Parameters
    ----------
    space
        Space of the hypervectors.
    kinds
        Kinds of fields by name, where the inferred ones do not fit; see :class:`ghrr.search.Field`.
    weights
        Weights of fields by name, instead of the inferred ones.
    whole
        Whether the text of all fields is a field of its own, if at least two fields have text.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.search.encoder import RecordEncoder
    >>> encoder = RecordEncoder(ghrr.Space(dim=500, m=2, seed=0))
    >>> people = [{"name": "Ada Lovelace", "born": 1815}, {"name": "Alan Turing", "born": 1912}]
    >>> new = encoder.fit(people)
    >>> h = encoder.encode(people + [{"name": "Ada Lovelace"}])
    >>> [round(abs(x), 1) for x in ghrr.pairwise_similarity(h[2], h).tolist()]
    [0.7, 0.0, 1.0]
    """

    def __init__(
        self,
        space: Space,
        *,
        kinds: Mapping[str, str] | None = None,
        weights: Mapping[str, float] | None = None,
        whole: bool = True,
    ) -> None:
        self.space = space
        self.kinds = check_kinds(kinds)
        self.given_weights = check_weights(weights)
        self.whole = whole
        self.fields: list[Field] = []
        self.aliases: dict[Path, Path] = {}  # the field that a path of an example stands for
        self.whole_paths: frozenset[Path] | None = None  # fields whose text is part of the whole; None: all
        self._keys: dict[Path, Tensor] = {}

    @property
    def active(self) -> list[Field]:
        """Fields that are compared."""
        return [one for one in self.fields if one.encoder is not None]

    def _has_part_in_whole(self, one: Field) -> bool:
        """Whether the text of a field is part of the text of all fields."""
        return is_textual(one) and (self.whole_paths is None or one.path in self.whole_paths)

    # ------------------------------------------------------------------------------------------------------ statistics

    def fit(self, documents: Sequence[Mapping[str, Any]]) -> list[Field]:
        """Add a field for each path that is new, with statistics of these documents; return the new fields."""
        return self.add_fields(split(documents))

    def add_fields(self, parts: Sequence[Leaves]) -> list[Field]:
        """Add a field for each path that is new in the values of documents by path; return the new fields.

        Statistics are taken from a sample of many documents, and those of paths that it lacks from all documents.
        """
        found = as_columns(parts[:: max(1, len(parts) // _FIT_ROWS)])
        rare: dict[Path, Column] = {}
        for leaves in parts:
            for path in leaves.keys() - found.keys():
                rare.setdefault(path, Column()).values.append(leaves[path])
        known = {one.path for one in self.fields}
        new = []
        for path, column in (*found.items(), *sorted(rare.items())):
            if path not in known:
                guess = infer_kind(path, column)
                given = self.kinds.get(show(path))
                made = make_field(path, given or guess.kind)
                made.doubt = "" if given else guess.doubt
                self._fit_field(made, column)
                new.append(made)
        before = [one for one in self.fields if one.path != WHOLE]
        whole = [one for one in self.fields if one.path == WHOLE]
        self.fields = before + new + whole
        texts = [one for one in self.fields if is_textual(one)]
        if self.whole and not whole and len(texts) > 1:
            made = make_field(WHOLE, self.kinds.get(show(WHOLE), "text"))
            self._fit_field(made, _whole_text(found, [one.path for one in texts]))
            if made.encoder is not None:
                made.weight = sum(one.weight for one in texts)
            self.fields.append(made)
            new.append(made)
        for one in new:
            one.weight = self.given_weights.get(one.name, one.weight)
        return new

    def unknown_names(self) -> list[str]:
        """Return the given names that are not the name of a field."""
        known = {one.name for one in self.fields}
        return [name for name in self.kinds | self.given_weights if name not in known]

    def _fit_field(self, made: Field, column: Column) -> None:
        if made.encoder is None:
            return
        made.encoder.fit(column.values)
        prepared: Any = made.encoder.prepare(column.values)
        rng = np.random.default_rng(0)
        pairs = rng.integers(0, len(column.values), size=(2, _FIT_PAIRS))
        pairs = pairs[:, pairs[0] != pairs[1]]
        scores = made.encoder.pair_scores(prepared, pairs[0], prepared, pairs[1])
        scores = scores[np.isfinite(scores)]
        agreement = float(scores.mean()) if len(scores) else 0.5
        # Of n records, chance agreement below 1/n cannot be measured.
        made.weight = float(-np.log(np.clip(agreement, max(1e-3, 1 / (1 + len(column.values))), 0.99)))

    # ------------------------------------------------------------------------------------------------------- documents

    def prepare(self, documents: Sequence[Mapping[str, Any]], *, noun: str = "document") -> Prepared:
        """Split documents into fields and prepare their values."""
        return self.prepare_columns(columns(documents, noun=noun), len(documents))

    def prepare_columns(self, found: Mapping[Path, Column], count: int) -> Prepared:
        """Prepare the values of documents that were split by :func:`ghrr.search.paths.columns`."""
        found, active = dict(found), self.active
        for path, target in self.aliases.items():
            if path in found:
                found[target] = _merge(found.get(target, Column()), found[path])
        if any(one.path == WHOLE for one in active):
            found[WHOLE] = _whole_text(found, [one.path for one in active if self._has_part_in_whole(one)])
        prepared = Prepared(count, np.full((len(active), count), -1, dtype=np.int64), np.zeros(count, dtype=bool))
        prepared.has_whole[found.get(STAR, Column()).rows] = True
        for number, one in enumerate(active):
            column = found.get(one.path, Column())
            assert one.encoder is not None
            values: Any = one.encoder.prepare(column.values)
            present = np.flatnonzero(values.present)
            prepared.rows[number, np.array(column.rows, dtype=np.int64)[present]] = present
            prepared.values.append(values)
        return prepared

    def weights(self, factors: Mapping[str, float] | None = None) -> Floats:
        """Return the weights of the active fields, times factors by name."""
        return np.array([one.weight * (factors or {}).get(one.name, 1.0) for one in self.active])

    def shares(self, prepared: Prepared) -> Floats:
        """Return the share of its weight that each field has in each document: 1 if present, 0 if missing.

        The text of all fields has the share of the text fields that are present, and the full weight if it is given.

        Shapes
        ------
        output: ``(n, fields)``
        """
        present = (prepared.rows >= 0).T.astype(np.float64)
        active = self.active
        whole = next((number for number, one in enumerate(active) if one.path == WHOLE), None)
        texts = [number for number, one in enumerate(active) if self._has_part_in_whole(one)]
        if whole is not None and texts:
            own = np.array([active[number].weight for number in texts])
            share = (present[:, texts] * own).sum(axis=1) / max(own.sum(), 1e-12)
            present[:, whole] *= np.where(prepared.has_whole, 1.0, share)
        return present

    def encode(
        self, documents: Sequence[Mapping[str, Any]] | Prepared, *, factors: Mapping[str, float] | None = None
    ) -> Tensor:
        """Return the hypervectors of documents, of energy about 1.

        Parameters
        ----------
        documents
            Documents, or prepared ones.
        factors
            Factors of the weights by name of a field.

        Shapes
        ------
        output: ``(n, dim, m, m)``
        """
        prepared = documents if isinstance(documents, Prepared) else self.prepare(documents)
        weights = (self.weights(factors) * self.shares(prepared)).T
        out = torch.zeros(prepared.count, *self.space.shape, dtype=self.space.dtype)
        present = prepared.rows >= 0
        totals = np.maximum(weights.sum(axis=0), 1e-12)
        step = max(1, _CHUNK_NUMBERS // (2 * self.space.total_dim))
        for number, one in enumerate(self.active):
            with_value = np.flatnonzero(present[number] & (weights[number] > 0))
            for start in range(0, len(with_value), step):
                rows = with_value[start : start + step]
                values = self._encode_values(one, prepared.values[number], prepared.rows[number, rows])
                scales = torch.from_numpy(np.sqrt(weights[number, rows] / totals[rows])).to(out.real.dtype)
                bound = ops.bind(self._key(one.path), values).mul_(scales[:, None, None, None])
                if len(rows) == prepared.count:
                    out += bound
                else:
                    out[rows] += bound
        return out

    def _encode_values(self, one: Field, values: Any, rows: Integers) -> Tensor:
        values = values if len(rows) == len(values) else values.take(rows)
        if isinstance(one.encoder, KernelField):
            return one.encoder.encode(self.space, values, one.name)
        assert one.encoder is not None
        return one.encoder.encode(self.space, values)

    def _key(self, path: Path) -> Tensor:
        """Return the hypervector of a path: its keys bound in order."""
        if path not in self._keys:
            keys = [(key, "key") if key else ("empty", "empty key") for key in path] or [("*", "whole")]
            self._keys[path] = reduce(ops.bind, [self.space.vectors([key], namespace=names)[0] for key, names in keys])
        return self._keys[path]

    # ----------------------------------------------------------------------------------------------------- comparisons

    def field_scores(
        self, examples: Prepared, example_rows: Integers, documents: Prepared, document_rows: Integers
    ) -> Floats:
        """Return the similarity of each field for each pair, between 0 and 1; NaN where one of the two lacks it.

        Shapes
        ------
        output: ``(pairs, fields)``
        """
        out = np.full((len(example_rows), len(self.active)), np.nan)
        for number, one in enumerate(self.active):
            a, b = examples.rows[number, example_rows], documents.rows[number, document_rows]
            both = np.flatnonzero((a >= 0) & (b >= 0))
            if len(both) and one.encoder is not None:
                pairs = (a[both], b[both])
                out[both, number] = one.encoder.pair_scores(
                    examples.values[number], pairs[0], documents.values[number], pairs[1]
                )
        return out


def combine(scores: Floats, weights: Floats) -> Floats:
    """Return the score of each pair from the scores of its fields; see :mod:`ghrr.search.encoder`.

    Shapes
    ------
    scores, weights: ``(pairs, fields)``, weights of 0 for fields that the example lacks; output: ``(pairs,)``
    """
    both = np.isfinite(scores)
    agreement = (np.where(both, scores, 0) * weights).sum(axis=1)
    shared, wanted = (both * weights).sum(axis=1), weights.sum(axis=1)
    result: Floats = agreement / np.maximum(shared + KAPPA * (wanted - shared), 1e-12)
    return result


def _merge(column: Column, other: Column) -> Column:
    """Return a column with the values of another one in the rows that it lacks."""
    values = dict(zip(other.rows, other.values, strict=True)) | dict(zip(column.rows, column.values, strict=True))
    rows = sorted(values)
    return Column(rows, [values[row] for row in rows])


def _whole_text(found: Mapping[Path, Column], paths: Sequence[Path]) -> Column:
    """Return the text of all text fields of each document, and that under the key ``"*"``."""
    texts: dict[int, list[str]] = {}
    for path in dict.fromkeys([*paths, STAR]):
        column = found.get(path, Column())
        for row, value in zip(column.rows, column.values, strict=True):
            texts.setdefault(row, []).append(as_text(value))
    rows = sorted(texts)
    return Column(rows, [" ".join(texts[row]) for row in rows])
