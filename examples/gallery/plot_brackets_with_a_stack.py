"""
Check brackets with a stack in one vector
=========================================

A stack is a sequence whose elements are added and removed at one end. Here the whole stack is one hypervector: push
binds and adds, pop reads the top, cleans it up and removes it. Because each element is cleaned up when it is read,
noise does not accumulate over many pushes and pops.
"""

import matplotlib.pyplot as plt

from ghrr.structures import Stack

plt.style.use("seaborn-v0_8-colorblind")

stack = Stack(Stack.suggest(size=12, names=3, m=3, seed=0))
pairs = {")": "(", "]": "[", "}": "{"}


def check(text):
    """Return whether all brackets match, and the height of the stack after each symbol."""
    h, heights = stack.encode([]), []
    for symbol in text:
        if symbol in pairs.values():
            h = stack.push(h, symbol)
        elif symbol in pairs:
            if stack.peek(h).label != pairs[symbol]:
                return False, heights
            _, h = stack.pop(h)
        heights.append(len(stack.decode(h)))
    return stack.peek(h).unknown, heights


stack.encode(list("([{"))  # the names that a stack can hold
for text, expected in (("f(a[1], {b: (2)})", True), ("f(a[1)]", False), ("((x)", False), ("[]" * 20, True)):
    matches, _ = check(text)
    print(f"{text[:20]:20} {'matches' if matches else 'does not match'}")
    assert matches == expected

# %%
# The height of the stack, read from the vector after each symbol.

text = "f(a[1], {b: (2, [3])})"
_, heights = check(text)
figure, axis = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
axis.step(range(len(text)), heights, where="mid")
axis.set_xticks(range(len(text)), list(text))
axis.set(xlabel="symbol", ylabel="elements on the stack", title="Height of a stack in one hypervector")
plt.show()
assert max(heights) == 4
assert heights[-1] == 0

# %%
# For your own data: set ``size`` to the deepest nesting and ``names`` to the number of different elements.
