"""Search: find, match and de-duplicate nested records by example.

From documents to hits, file by file: ``index`` (:class:`RecordIndex`) → ``records`` (changes, one at a time) →
``paths`` (documents to values by path, and columns) → ``fields`` (kinds) → ``bags`` and ``kernel_fields`` (encoders by
kind) → ``encoder`` (one hypervector per record, exact scores of fields) → ``state`` (what a search reads) → ``query``
(a search, from its arguments to its hits) → ``candidates`` (the nearest records) → ``match`` (the result).
``filters`` and ``conditions`` test what hits must have, ``engine_columns`` has what engines filter by, ``engines`` and
``lance_backend`` store and search vectors, and ``folder``, ``database``, ``documents`` and ``saving`` write files.
``learning``, ``weights``, ``aliases`` and ``calibration`` learn from examples, ``explanation`` compares one record with
an example, and ``pairs``, ``evidence`` and ``duplicates`` find and group records of the same thing. ``tables`` reads
files, ``arrow`` encodes tables of pyarrow, pandas and polars, and ``distributed`` does so on Ray and dask.
"""

from ghrr.search.arrow import encode_table, write_table
from ghrr.search.duplicates import Cluster
from ghrr.search.explanation import Explanation
from ghrr.search.fields import Field
from ghrr.search.index import RecordIndex
from ghrr.search.match import RecordMatch
from ghrr.search.tables import read_documents
from ghrr.search.values import Contains, Range

__all__ = [
    "Cluster",
    "Contains",
    "Explanation",
    "Field",
    "Range",
    "RecordIndex",
    "RecordMatch",
    "encode_table",
    "read_documents",
    "write_table",
]
