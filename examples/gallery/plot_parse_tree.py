"""
A parse tree in one vector
==========================

A node of a tree is bound to the path from the root: first child, then second child, and so on. The same words in
another arrangement are other products, so two readings of one sentence are two different vectors. Both can be read
node by node, or decoded as a whole.
"""

import ghrr
from ghrr.structures import Tree

# "I saw the man with the telescope": who has the telescope?
by_telescope = "(S (NP I) (VP (V saw) (NP (Det the) (N man)) (PP with (NP (Det the) (N telescope)))))"
has_telescope = "(S (NP I) (VP (V saw) (NP (NP (Det the) (N man)) (PP with (NP (Det the) (N telescope))))))"

trees = Tree(Tree.suggest(nodes=25, labels=20, m=3, seed=0))
first, second = trees.encode(by_telescope), trees.encode(has_telescope)
print(trees.space)

# %%
# Ask for single nodes. A path is a list of child numbers from the root.

for name, h in (("by telescope", first), ("has telescope", second)):
    print(f"{name:14} node [1, 2] is {trees.label(h, [1, 2])}")

assert trees.label(first, [1, 2]).label == "PP"
assert trees.label(second, [1, 2]).unknown

# %%
# Decode the whole tree, and compare: the similarity counts the nodes that are the same at the same place.

print(trees.decode(first).value)
print(trees.decode(second).value)
print(f"nodes in common: about {ghrr.similarity(first, second):.0f} of {ghrr.similarity(first, first):.0f}")

assert trees.encode(trees.decode(first).value).allclose(first, atol=1e-4)
assert trees.decode(second).value != trees.decode(first).value

# %%
# For your own data: pass bracketed text or nested lists, and choose ``nodes`` and ``labels`` for your largest tree.
