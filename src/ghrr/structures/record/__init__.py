"""Record: nested data in one hypervector.

The modules in the order in which data passes through them:

- ``documents``: nested data as leaves, in arrays; paths are numbered by :mod:`ghrr.structures.layout`
- ``values``, ``scale``, ``value_table``: values as hypervectors
- ``by_path``: settings that differ from path to path
- ``encode``: the sum of values bound to paths
- ``candidates``: which values were seen at which path
- ``codebook``: paths, values and candidates together
- ``query``, ``matching``: unbind paths, and compare answers with candidates
- ``decode``: read all paths, subtracting what is certain
- ``record``: the class that people use
"""

from ghrr.structures.record.record import Record
from ghrr.structures.record.scale import Scale
from ghrr.structures.record.values import parse_json

__all__ = ["Record", "Scale", "parse_json"]
