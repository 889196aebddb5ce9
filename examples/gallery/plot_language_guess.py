"""
Guess the language of a sentence from its letters
=================================================

A text is the bundle of its letter trigrams, and a trigram is an ordered product: ``the`` is not ``het``.
:class:`ghrr.learn.HDClassifier` learns one hypervector per language from such bundles. Unbinding the trigrams from
these hypervectors shows which of them are typical of a language.
"""

import matplotlib.pyplot as plt

from ghrr.learn import HDClassifier, TextFeatures, explain

plt.style.use("seaborn-v0_8-colorblind")
texts = {
    "English": "the house is on the hill and the children are playing with their friends in the garden when the sun "
    "is shining through the trees what would you like to drink this evening there is nothing better than a good book",
    "German": "das haus steht auf dem berg und die kinder spielen mit ihren freunden im garten wenn die sonne durch "
    "die bäume scheint was möchtest du heute abend trinken es gibt nichts besseres als ein gutes buch und tee",
    "Spanish": "la casa está en la colina y los niños juegan con sus amigos en el jardín cuando el sol brilla entre "
    "los árboles qué quieres beber esta noche no hay nada mejor que un buen libro y una taza de té",
    "Dutch": "het huis staat op de heuvel en de kinderen spelen met hun vrienden in de tuin wanneer de zon door de "
    "bomen schijnt wat wil je vanavond drinken er is niets beter dan een goed boek en een kopje thee",
}
# Samples are pieces of seven words.
words = {language: text.split() for language, text in texts.items()}
pieces = [(f" {' '.join(w[i : i + 7])} ", language) for language, w in words.items() for i in range(len(w) - 6)]
model = HDClassifier(TextFeatures(dim=500, m=3, n=3, random_state=0)).fit(*zip(*pieces, strict=True))

# %%
# New sentences, which are not in the texts above.

sentences = {
    " where are the other children going ": "English",
    " die anderen kinder gehen nach hause und essen ": "German",
    " los otros niños van a la escuela ": "Spanish",
    " de andere kinderen gaan naar het huis van hun vriend ": "Dutch",
}
for sentence, chances in zip(sentences, model.predict_proba(list(sentences)), strict=True):
    print(f"{model.classes_[chances.argmax()]:8} {chances.max():4.0%} {sentence}")
assert model.predict(list(sentences)).tolist() == list(sentences.values())

# %%
# The trigrams that contribute most to the score of each language, over all training texts.

table = explain(model, [piece for piece, _ in pieces], top=8)
figure, axes = plt.subplots(1, 4, figsize=(9, 2.8), layout="constrained")
for axis, (language, part) in zip(axes, table.groupby("class"), strict=True):
    axis.barh([repr(gram) for gram in part["feature"]], part["contribution"])
    axis.set(xlabel="contribution to the score", title=language)
    axis.locator_params(axis="x", nbins=3)
    axis.invert_yaxis()
axes[0].set_ylabel("trigram")
plt.show()
assert "the" in set(table.loc[table["class"] == "English", "feature"])

# %%
# For your own data: use more text per class; words (``analyzer="word"``) work as well as letters.
