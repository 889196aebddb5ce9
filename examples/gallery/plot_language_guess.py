"""
Guess the language of a sentence from its letters
=================================================

A text is the bundle of its letter trigrams, and a trigram is an ordered product: ``the`` is not ``het``. The similarity
of two texts counts their common trigrams, so the bundle of some text in a language is a profile of that language. The
guess is the most similar profile.
"""

import torch

import ghrr

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

space = ghrr.Space(dim=1000, m=3, seed=0)
letters = ghrr.encoding.Codebook(space, unseen="add")
trigrams = ghrr.encoding.NGramEncoder(3)


def encode(text):
    return ghrr.normalize(trigrams(letters(list(f" {text} "))))


profiles = torch.stack([encode(text) for text in texts.values()])

# %%
# New sentences, which are not in the texts above.

sentences = {
    "where are the other children going": "English",
    "die anderen kinder gehen nach hause und essen": "German",
    "los otros niños van a la escuela": "Spanish",
    "de andere kinderen gaan naar het huis van hun vriend": "Dutch",
}
for sentence, language in sentences.items():
    scores = ghrr.pairwise_similarity(encode(sentence), profiles)
    guess = list(texts)[int(scores.argmax())]
    print(f"{guess:8} {' '.join(f'{score:.2f}' for score in scores.tolist())}  {sentence}")
    assert guess == language

# %%
# For your own data: use more text per class; words, sounds or program tokens work as well as letters.
