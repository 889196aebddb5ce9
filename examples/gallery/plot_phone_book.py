"""
A phone book in one vector, with updates
========================================

:class:`ghrr.structures.HashTable` is a dict in one hypervector. Entries are added, replaced and removed without
encoding the rest again, the table is read in both directions, and a missing key is unknown instead of wrong.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnails/phone_book.svg"

import ghrr
from ghrr.structures import HashTable

numbers = {f"person {i}": f"555-{i:04}" for i in range(40)}
table = HashTable(HashTable.suggest(entries=60, values=60, m=3, seed=0))
h = table.encode(numbers)
print(table.space, "holds", len(numbers), "entries")

# %%
# Read, in both directions.

print(table.get(h, "person 7"))
print(table.key(h, "555-0007"))
print(table.get(h, "person 99"))
assert table.get(h, "person 7").label == "555-0007"
assert table.key(h, "555-0007").label == "person 7"
assert table.get(h, "person 99").unknown

# %%
# Change. The tables are tensors, so a change returns a new one; the old one stays as it was.

h2 = table.put(h, "person 7", "555-9999")
h2 = table.remove(h2, "person 8")
print(table.get(h2, "person 7"), table.get(h2, "person 8"))
print(len(table.decode(h)), "entries before,", len(table.decode(h2)), "after")
print(f"energy of the vectors: {ghrr.similarity(h, h):.0f} and {ghrr.similarity(h2, h2):.0f}")

assert table.get(h2, "person 7").label == "555-9999"
assert table.get(h2, "person 8").unknown
assert table.get(h, "person 7").label == "555-0007"

# %%
# For your own data: pass any dict of names; for nested dicts use :class:`ghrr.Record`.
