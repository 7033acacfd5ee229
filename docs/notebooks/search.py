# %% [markdown]
# # Search: texts of the same meaning
#
# A `SentenceEncoder` makes one vector of each text. Texts of similar meaning have vectors of similar direction, so a
# search is a product of two matrices. This notebook trains a tiny encoder on pairs of questions and answers, and shows
# what the training changes. It runs on a CPU in less than a minute.
#
# For real texts, use weights that were trained for search. The last section does so if you name a folder.

# %%
import os
import random

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

import bert_keras as bk

keras.utils.set_random_seed(0)

# %% [markdown]
# ## Pairs that belong together
#
# Each pair has a question in one set of words, and an answer in another. "How do I fix my bicycle?" and "Repairing a bike
# is easy." share no word but "a". A search for words finds nothing; the model has to learn which words mean the same.

# %%
deeds = [
    ("fix", "repairing"),
    ("buy", "purchasing"),
    ("sell", "finding a customer for"),
    ("clean", "washing"),
    ("paint", "choosing a colour for"),
    ("move", "carrying"),
]
things = [
    ("bicycle", "bike"),
    ("automobile", "car"),
    ("sofa", "couch"),
    ("television", "tv set"),
    ("home", "house"),
    ("notebook", "laptop"),
    ("cooker", "oven"),
    ("photo", "picture"),
]
openings = ["how do i {} my {} ?", "what is the best way to {} a {} ?", "help me {} this {} ."]
answers = ["{} a {} is easy .", "a guide to {} your {} .", "{} the {} : five tips ."]


def pair(deed: int, thing: int, draw: random.Random) -> tuple[str, str]:
    """Return a question about a deed and a thing, and an answer to it."""
    question = draw.choice(openings).format(deeds[deed][0], things[thing][0])
    return question, draw.choice(answers).format(deeds[deed][1], things[thing][1])


draw = random.Random(0)
topics = [(deed, thing) for deed in range(len(deeds)) for thing in range(len(things))]
draw.shuffle(topics)
train_topics, new_topics = topics[:40], topics[40:]
pairs = [pair(*draw.choice(train_topics), draw) for _ in range(1_500)]
firsts, seconds = [list(column) for column in zip(*pairs, strict=True)]
print(firsts[0], "|", seconds[0])

# %% [markdown]
# ## Before the training
#
# A library of answers has one text for each of the 48 topics. The measure is recall at 1: the share of questions whose
# nearest answer is the right one. By chance it would be 1 in 48.

# %%
library = [answers[0].format(deeds[deed][1], things[thing][1]) for deed, thing in topics]
questions = [openings[0].format(deeds[deed][0], things[thing][0]) for deed, thing in topics]


def recall(encoder: bk.SentenceEncoder | bk.SentencePairs, numbers: range) -> float:
    """Return the share of questions with these numbers that find their own answer."""
    scores = encoder.encode(questions) @ encoder.encode(library).T
    return float(np.mean([scores[number].argmax() == number for number in numbers]))


tokenizer = bk.Tokenizer.train([[*firsts, *seconds]], vocab_size=190)
config = bk.PRESETS["bert_tiny_uncased"].replace(
    vocab_size=tokenizer.vocab_size, hidden_size=64, intermediate_size=128, initializer_range=0.1
)
task = bk.SentencePairs(bk.BertEncoder(config), loss="in_batch", tokenizer=tokenizer)
print(f"recall at 1: {recall(task, range(48)):.2f}")
before = task.encode(library)

# %% [markdown]
# ## Train
#
# With `loss="in_batch"`, the other answers of a batch are the wrong ones. So the pairs need no labels.

# %%
history = task.fit(
    (firsts, seconds), epochs=4, batch_size=32, learning_rate=2e-3, verbose=2, max_length=24
)
print(f"recall at 1: {recall(task, range(40)):.2f} for the topics of the training")
print(f"recall at 1: {recall(task, range(40, 48)):.2f} for new combinations of deed and thing")

# %% [markdown]
# A map in two dimensions shows the difference. Before, the place of a text says nothing about its thing. After, texts
# about one thing are neighbours.

# %%
figure, panels = plt.subplots(1, 2, figsize=(8, 3.6))
after = task.encode(library)
for axes, vectors, title in zip(panels, (before, after), ("before", "after"), strict=True):
    points = PCA(2).fit_transform(vectors)
    for thing, (_, name) in enumerate(things):
        rows = [number for number, topic in enumerate(topics) if topic[1] == thing]
        axes.scatter(*points[rows].T, label=name, s=18)
    axes.set(title=title, xticks=[], yticks=[])
figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", ncols=8, fontsize=7)
plt.show()

# %% [markdown]
# ## Search
#
# Encode the texts once and keep the vectors. A question then costs one text.

# %%
search = task.sentence_encoder  # the model to keep: search.save_to_preset("my_vectors")
vectors = search.encode(library)
question = "What is the best way to clean a sofa?"
scores = vectors @ search.encode(question)
for number in np.argsort(-scores)[:3]:
    print(f"{scores[number]:.3f}  {library[number]}")

# %% [markdown]
# ## With published weights
#
# Set the environment variable `SEARCH_MODEL` to a folder or a handle, such as
# `hf://sentence-transformers/all-MiniLM-L6-v2`. Without it, this cell uses the model from above.

# %%
handle = os.environ.get("SEARCH_MODEL")
model = bk.SentenceEncoder.from_preset(handle) if handle else search
texts = ["Washing a couch is easy.", "A guide to purchasing your house."]
print(model.similarity(["help me clean this sofa ."] * 2, texts).round(2))
