"""
Who is whose grandmother? A family graph in one vector
======================================================

A graph is the bundle of its edges, and an edge is the ordered product ``source * label * target``. Because the order
matters, "Byron is the father of Ada" is not "Ada is the father of Byron". Unbinding from the left finds children, from
the correct parents, and a walk follows several labels.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnails/family_graph.svg"

from ghrr.structures import Graph

edges = [
    ("Byron", "father of", "Ada"),
    ("Anne", "mother of", "Ada"),
    ("Judith", "mother of", "Anne"),
    ("Ada", "mother of", "Ralph"),
    ("Ada", "mother of", "Annabella"),
    ("Ada", "mother of", "Byron jr."),
    ("William", "father of", "Ralph"),
    ("William", "father of", "Annabella"),
    ("William", "father of", "Byron jr."),
    ("Annabella", "mother of", "Judith jr."),
]

# The smallest space for up to 20 edges and 50 nodes.
family = Graph(Graph.suggest(edges=20, nodes=50, m=3, seed=0))
h = family.encode(edges)
print(family.space, "holds", len(edges), "edges")

# %%
# Read the graph in three directions.

children = family.neighbours(h, "Ada", "mother of")
print("children of Ada:       ", *sorted(match.label for match in children))
print("father of Ada:         ", family.predecessors(h, "Ada", "father of")[0])
print("Byron and Ada:         ", family.edge_labels(h, "Byron", "Ada")[0])
print("Ada and Byron:         ", family.edge_labels(h, "Ada", "Byron"))
print("grandchildren of Byron:", *family.walk(h, "Byron", ["father of", "mother of"]))
print("from Judith to Ralph:  ", family.paths(h, "Judith", "Ralph", hops=3))

assert sorted(match.label for match in children) == ["Annabella", "Byron jr.", "Ralph"]
assert not family.edge_labels(h, "Ada", "Byron")
assert family.walk(h, "Byron", ["father of", "mother of"]) == ["Annabella", "Byron jr.", "Ralph"]

# %%
# For your own data: give ``encode`` any list of ``(source, label, target)``, and your number of edges and nodes to
# ``suggest``.
