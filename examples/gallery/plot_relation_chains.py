"""
Who is that? Composing a long chain of relations
================================================

"My wife's daughter's uncle's mother's ..." A model that has only seen chains of two and three steps answers a chain of
twenty, says how sure it is, and shows its derivation.
"""

import matplotlib.pyplot as plt

from ghrr.relations.chains import RelationChains, generate_kinship_chains, kinship_rules

examples = [*kinship_rules(), *generate_kinship_chains(300, 3, seed=1)]
model = RelationChains(epochs=40).fit(examples)

chain, target = generate_kinship_chains(1, 20, seed=5)[0]
match = model.compose(chain)
print(" → ".join(chain))
print(match.guess, f"(probability {match.probability:.2f}); correct: {target}")
print(match.derivation)

assert match.guess == target

# %%
# Each step of the derivation composes two relations with a name. Their probabilities:

steps = [node for node in match.derivation if node.parts]
labels = [" * ".join(part.relation for part in node.parts) + f" = {node.relation}" for node in steps]
figure, axis = plt.subplots(figsize=(7, 4.4), layout="constrained")
axis.barh(range(len(steps)), [node.probability for node in steps], color="#0072B2")
axis.set_yticks(range(len(steps)), labels)
axis.invert_yaxis()
axis.set(xlabel="probability of the step", xlim=(0, 1), title="Steps of the derivation")
plt.show()

# %%
# For your own data: give ``fit`` any list of ``(chain, target)`` pairs, for example
# ``(["part of", "located in"], "located in")``.
