"""Record: nested data as one hypervector.

Data flows through the modules in this order:

1. paths: :mod:`ghrr.structures.path_tree` numbers paths and computes their hypervectors; ``path_settings`` holds
   settings that differ between paths
2. values: ``value_names``, ``scale`` and ``value_table`` turn JSON values into hypervectors; ``seen_values`` stores
   which values occurred at which path; ``tables`` holds all of these together
3. encode: ``leaves`` splits documents into leaves, and ``encode`` sums values bound to paths
4. query: ``query`` unbinds paths, and ``cleanup`` compares the answers with the candidates of each path
5. decode: ``decode`` reads all paths in rounds, and ``edit`` uses it for update, delete and merge

``record`` has the public class, ``state`` its conversion to JSON and back.
"""

from ghrr.structures.record.record import Record
from ghrr.structures.record.scale import Scale
from ghrr.structures.record.value_names import parse_json

__all__ = ["Record", "Scale", "parse_json"]
