"""
Search by example in nested records
===================================

:class:`ghrr.search.RecordIndex` finds records that are similar to any part of a document: text with errors, numbers
that are near, places by distance. Missing fields count neither for nor against a record.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnails/search_by_example.svg"

import ghrr

cities = [
    {"name": "London", "country": "United Kingdom", "people": 8_900_000, "at": {"lat": 51.51, "lon": -0.13}},
    {"name": "Londonderry", "country": "United Kingdom", "people": 85_000, "at": {"lat": 55.0, "lon": -7.32}},
    {"name": "London", "country": "Canada", "people": 420_000, "at": {"lat": 42.98, "lon": -81.25}},
    {"name": "Paris", "country": "France", "people": 2_100_000, "at": {"lat": 48.86, "lon": 2.35}},
    {"name": "Paris", "country": "United States", "people": 24_000, "at": {"lat": 33.66, "lon": -95.56}},
    {"name": "Roma", "country": "Italy", "people": 2_800_000, "at": {"lat": 41.9, "lon": 12.5}},
    {"name": "Toronto", "country": "Canada", "people": 2_800_000},
]
index = ghrr.search.RecordIndex(weights={"at": 4.0})  # places count; other weights come from the data
index.add(cities)
for field in index.fields:
    print(f"{field.name:8} {field.kind:7} weight {field.weight:.1f}")

# %%
# A name with an error and a rough place decide between two cities of one name.

for place in ({"lat": 51, "lon": 0}, {"lat": 43, "lon": -80}):
    hit = index.search({"name": "Londn", "at": place})[0]
    print(place, "→", hit.document["name"], hit.document["country"], {k: round(v, 2) for k, v in hit.fields.items()})

# %%
# Numbers are compared by a kernel; a range agrees with all numbers inside. Toronto has no place, which is neutral.

hits = index.search({"people": ghrr.search.Range(2_000_000, 3_000_000)}, k=3)
print([hit.document["name"] for hit in hits])
assert {hit.document["name"] for hit in hits} == {"Paris", "Roma", "Toronto"}

# %%
# Conditions, and why a record was found.

hit = index.search({"name": "Paris"}, must_not={"country": "France"})[0]
print(hit.document["country"])
print(index.explain(hit.guess, {"name": "Paris", "country": "France"}).fields)  # None: missing in the example
assert hit.document["country"] == "United States"

# %%
# ``ghrr play`` has a tab in which you edit an example and see its hits. For your own data:
# ``ghrr index people.jsonl -o people.idx`` and ``ghrr search people.idx '{"city": "London"}'``.
