"""
Check words with an automaton in one vector
===========================================

A finite automaton is a set of transitions ``state * symbol * next state``. All of them are bundled in one
hypervector. A step unbinds the state and the symbol from the left and cleans up the next state, so noise does not
grow along a word. This automaton accepts numbers such as ``-3.14``.
"""

import matplotlib.pyplot as plt

from ghrr.structures import Automaton

plt.style.use("seaborn-v0_8-colorblind")

transitions = {("start", "-"): "sign", ("whole", "."): "point"}
for digit in "0123456789":
    transitions |= {(state, digit): "whole" for state in ("start", "sign", "whole")}
    transitions |= {(state, digit): "part" for state in ("point", "part")}

machine = Automaton(Automaton.suggest(transitions=len(transitions), states=5, m=3, seed=0))
h = machine.encode(transitions, start="start", final=["whole", "part"])
print(machine.space, "holds", len(transitions), "transitions")

# %%
# Run it on words. A word is accepted if it ends in a final state.

for word, expected in (("-3.14", True), ("42", True), ("4-2", False), ("3.", False), ("--1", False)):
    run = machine.run(h, list(word))
    print(f"{word:6} accepted: {run.accepted!s:6} states: {[matches[0].label for matches in run.states if matches]}")
    assert run.accepted == expected

# %%
# The scores of the states along a longer word: they scatter around 1, but do not decay.

run = machine.run(h, list("-2718281828.4590452353"))
scores = [matches[0].score for matches in run.states]
figure, axis = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
axis.plot(scores, "o-")
axis.axhline(1, color="grey", ls=":")
axis.set(xlabel="symbols read", ylabel="score of the state", ylim=(0, 1.5))
axis.set_title("Clean-up after each step keeps the noise constant")
plt.show()

assert run.accepted
assert min(scores[-5:]) > 0.5

# %%
# For your own data: write the transitions as ``{(state, symbol): next state}``; a list of next states makes it
# nondeterministic.
