# %% [markdown]
# # Looking inside: tokens, attention and vectors
#
# This notebook trains a small classifier, and looks at each step between a text and its label: the pieces, the attention
# of each head, and the vectors of each layer. It runs on a CPU in less than a minute.

# %%
import random

import keras
import matplotlib.pyplot as plt
import numpy as np

import bert_keras as bk
from bert_keras import visualize

keras.utils.set_random_seed(0)

# %% [markdown]
# ## A model to look at
#
# The label is that of the word of praise or blame, unless there is a *not*. Some of the other words are left out at
# random, so that the model does not depend on them.

# %%
draw = random.Random(0)
words = {"fine": 1, "great": 1, "lovely": 1, "dull": 0, "awful": 0, "boring": 0}


def review() -> tuple[str, str]:
    """Return a random review and its label."""
    word, negated = draw.choice(list(words)), draw.random() < 0.5
    subject = draw.choice(["the film", "the plot", "the music"])
    text = f"{subject} is {'not ' if negated else ''}{word} ."
    kept = [part for part in text.split() if part in ("not", word) or draw.random() < 0.8]
    return " ".join(kept), "positive" if words[word] != negated else "negative"


texts, labels = [list(column) for column in zip(*[review() for _ in range(900)], strict=True)]
tokenizer = bk.Tokenizer.train([texts], vocab_size=70)
config = bk.PRESETS["bert_tiny_uncased"].replace(
    vocab_size=tokenizer.vocab_size, hidden_size=32, intermediate_size=64, initializer_range=0.1
)
classifier = bk.SequenceClassifier(
    bk.BertEncoder(config), labels=["negative", "positive"], tokenizer=tokenizer
)
classifier.fit(texts, labels, epochs=12, batch_size=16, learning_rate=3e-3, verbose=0)
print(f"accuracy {classifier.evaluate(texts, labels, verbose=0, return_dict=True)['accuracy']:.3f}")

# %% [markdown]
# ## Tokens
#
# A text becomes pieces of the vocabulary. Each piece has an id, and the place of its characters in the text.

# %%
text = "The plot is not dull."
encoding = tokenizer.encode(text)
for token, number, (start, end) in zip(
    encoding.tokens, encoding.ids, encoding.offsets, strict=True
):
    print(f"{token:8} {number:3}  {start:2}-{end:2}  {text[start:end]}")

# %% [markdown]
# ## Attention
#
# `with_outputs` gives a view of the encoder, with the same weights, which also returns the probabilities of attention.
# A row of a picture shows where a token looks: `[layers]` of `[batch, heads, queries, keys]`.

# %%
view = classifier.encoder.with_outputs(attentions=True, hidden_states=True)
outputs = view(tokenizer([text]))
attentions = [keras.ops.convert_to_numpy(layer)[0] for layer in outputs["attentions"]]

figure, panels = plt.subplots(2, 2, figsize=(7.5, 7.5), layout="constrained")
for layer, row in enumerate(panels):
    for head, axes in enumerate(row):
        axes.imshow(attentions[layer][head], cmap="Greens", vmin=0, vmax=1)
        axes.set_title(f"layer {layer}, head {head}", fontsize=9)
        axes.set_xticks(range(len(encoding.tokens)), encoding.tokens, rotation=90, fontsize=8)
        axes.set_yticks(range(len(encoding.tokens)), encoding.tokens, fontsize=8)
plt.show()

# %% [markdown]
# `bk.visualize.attention` makes a picture to explore: choose a layer and a head, and point at a token.

# %%
visualize.attention(classifier, tokenizer, text)

# %% [markdown]
# The classifier reads the vector of `[CLS]`. So the first row of the last layer says which tokens it read directly:

# %%
first_row = attentions[-1].mean(axis=0)[0]
for place in np.argsort(-first_row)[:3]:
    print(f"{first_row[place]:.2f}  {encoding.tokens[place]}")

# %% [markdown]
# Attention shows where information can flow. It is no proof that the label depends on it. A test: take a word away, and
# see how the probability changes.

# %%
index = classifier.label_names.index("positive")
whole = classifier.predict_scores(text)[index]
parts = text.rstrip(".").split()
for number, word in enumerate(parts):
    shorter = " ".join(parts[:number] + parts[number + 1 :]) + "."
    print(f"{classifier.predict_scores(shorter)[index] - whole:+.2f}  without {word}")

# %% [markdown]
# `bk.visualize.saliency` gives a score to each token by integrated gradients, for the most probable label:

# %%
visualize.saliency(classifier, text)

# %% [markdown]
# ## Vectors of the layers
#
# The vector of `[CLS]` of 100 reviews, in two dimensions, after each layer. The embeddings of `[CLS]` are the same in
# all texts; the layers move the labels apart.

# %%
features = tokenizer(texts[:100])
states = [keras.ops.convert_to_numpy(state)[:, 0] for state in view(features)["hidden_states"]]
is_positive = np.array([label == "positive" for label in labels[:100]])
figure, panels = plt.subplots(1, len(states), figsize=(8, 2.8), layout="constrained")
for layer, (axes, vectors) in enumerate(zip(panels, states, strict=True)):
    centred = vectors - vectors.mean(axis=0)
    points = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    for group, name in ((is_positive, "positive"), (~is_positive, "negative")):
        axes.scatter(*points[group].T, s=12, label=name)
    axes.set(title="embeddings" if layer == 0 else f"layer {layer - 1}", xticks=[], yticks=[])
panels[0].legend(fontsize=8)
plt.show()

# %% [markdown]
# ## Kernels
#
# Attention is computed by the fastest kernel that the backend has. The encoder says which one, and why no faster one:

# %%
for use, sentence in classifier.encoder.describe_kernels().items():
    print(f"{use}: {sentence}")
