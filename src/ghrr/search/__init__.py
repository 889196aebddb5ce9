"""Search: find, match and de-duplicate nested records by example.

From documents to hits, file by file: ``paths`` (documents to columns) → ``fields`` (kinds) → ``bags`` and
``kernel_fields`` (encoders by kind) → ``encoder`` (one hypervector per record, exact scores of fields) → ``index``
(:class:`RecordIndex`). ``conditions`` tests fields that must or must not agree, ``engines`` and ``lance_backend`` store
and search vectors, and ``folder``, ``documents`` and ``saving`` write files. ``weights``, ``aliases`` and
``calibration`` learn from examples, ``duplicates`` groups records, and ``match`` is the result of a search. ``tables``
reads files, ``arrow`` encodes tables of pyarrow, pandas and polars, and ``distributed`` does so on Ray and dask.
"""

from ghrr.search.arrow import encode_table, write_table
from ghrr.search.duplicates import Cluster
from ghrr.search.fields import Field
from ghrr.search.index import Explanation, RecordIndex
from ghrr.search.kernel_fields import Range
from ghrr.search.match import RecordMatch
from ghrr.search.tables import read_documents

__all__ = [
    "Cluster",
    "Explanation",
    "Field",
    "Range",
    "RecordIndex",
    "RecordMatch",
    "encode_table",
    "read_documents",
    "write_table",
]
