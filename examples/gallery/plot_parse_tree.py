"""
A parse tree in one vector
==========================

The label of a node is bound to its path from the root, for example: second child, then first child. The same words at
other paths give other products, so two parses of one sentence are two different vectors. Both can be read node by node,
or decoded as a whole.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnails/parse_tree.svg"

import ghrr
from ghrr.structures import Tree

# "I saw the man with the telescope": who has the telescope?
by_telescope = "(S (NP I) (VP (V saw) (NP (Det the) (N man)) (PP with (NP (Det the) (N telescope)))))"
has_telescope = "(S (NP I) (VP (V saw) (NP (NP (Det the) (N man)) (PP with (NP (Det the) (N telescope))))))"

trees = Tree(Tree.suggest(nodes=25, labels=20, m=3, seed=0))
first, second = trees.encode(by_telescope), trees.encode(has_telescope)
print(trees.space)

# %%
# Read single nodes. A path is a list of child indices from the root.

for name, h in (("by telescope", first), ("has telescope", second)):
    print(f"{name:14} node [1, 2] is {trees.label(h, [1, 2])}")

assert trees.label(first, [1, 2]).label == "PP"
assert trees.label(second, [1, 2]).unknown

# %%
# Decode the whole tree, and compare both trees: the similarity counts the nodes with equal labels and paths.

print(trees.decode(first).value)
print(trees.decode(second).value)
print(f"nodes in common: about {ghrr.similarity(first, second):.0f} of {ghrr.similarity(first, first):.0f}")

assert trees.encode(trees.decode(first).value).allclose(first, atol=1e-4)
assert trees.decode(second).value != trees.decode(first).value

# %%
# For your own data: pass bracketed text or nested lists, and choose ``nodes`` and ``labels`` for your largest tree.
