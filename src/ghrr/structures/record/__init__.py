"""Record: nested data as one hypervector.

Data flows through the modules in this order, and none imports a later one:

1. ``paths``: settings that differ between paths (:mod:`ghrr.structures.path_tree` computes their hypervectors)
2. ``values``: names, scales and hypervectors of values, and which of them occurred at which path
3. ``tables``: the paths and values that a record knows, and their state as JSON
4. ``encode``: documents to leaves (:mod:`ghrr.documents`), and the sum of their values bound to paths
5. ``query``: unbind paths, and choose the best of the candidates of each path
6. ``decode``: query many paths in rounds; update, delete and merge start from what is read

``record`` has the public class.
"""

from ghrr.structures.record.record import Record
from ghrr.structures.record.values import Scale, parse_json

__all__ = ["Record", "Scale", "parse_json"]
