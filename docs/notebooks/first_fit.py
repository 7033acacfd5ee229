# %% [markdown]
# # First fit: label texts
#
# This notebook trains a small classifier, measures it, looks at its mistakes and saves it. It runs on a CPU in less than
# a minute and downloads nothing. The model has random weights at the start, so the texts are simple: short reviews,
# some of them with *not*.
#
# For your own texts, begin with published weights: replace the constructor by
# `bk.SequenceClassifier.from_preset("bert_base_uncased", labels=[...])`.

# %%
import random

import keras
import matplotlib.pyplot as plt

import bert_keras as bk
from bert_keras import metrics

keras.utils.set_random_seed(0)

# %% [markdown]
# ## Texts and labels
#
# A review has a word of praise or of blame. A *not* turns its meaning around, so counting words is not enough: the model
# has to read both words together.

# %%
praise = ["fine", "great", "lovely", "clever", "funny", "brilliant"]
blame = ["dull", "awful", "boring", "weak", "silly", "terrible"]
subjects = ["the film", "the plot", "this story", "the music", "the cast", "her new book"]


def review(draw: random.Random) -> tuple[str, str]:
    """Return a random review and its label."""
    is_praise, is_negated = draw.random() < 0.5, draw.random() < 0.5
    word = draw.choice(praise if is_praise else blame)
    verb = draw.choice(["is", "was"]) + (" not" if is_negated else "")
    text = f"{draw.choice(['', 'i think ', 'well , '])}{draw.choice(subjects)} {verb} {word} ."
    return text, "positive" if is_praise != is_negated else "negative"


draw = random.Random(0)
reviews = [review(draw) for _ in range(1_200)]
texts, labels = [list(column) for column in zip(*reviews, strict=True)]
for text, label in reviews[:4]:
    print(f"{label:9} {text}")

# %% [markdown]
# ## Tokenizer and model
#
# The tokenizer learns its vocabulary from the texts. The encoder is a BERT of two layers.

# %%
tokenizer = bk.Tokenizer.train([texts], vocab_size=120)
config = bk.PRESETS["bert_tiny_uncased"].replace(
    vocab_size=tokenizer.vocab_size, hidden_size=64, intermediate_size=128, initializer_range=0.1
)
classifier = bk.SequenceClassifier(
    bk.BertEncoder(config), labels=["negative", "positive"], tokenizer=tokenizer
)
print(f"{classifier.count_params():,} parameters")
print(tokenizer.encode(texts[0]).tokens)

# %% [markdown]
# ## Train
#
# `fit` tokenises the texts, keeps a tenth of them for validation, and prints a line for each epoch.

# %%
history = classifier.fit(
    texts,
    labels,
    validation_split=0.1,
    epochs=8,
    batch_size=16,
    learning_rate=3e-3,
    verbose=2,
)

# %%
figure, axes = plt.subplots(figsize=(6, 3))
axes.plot(history.history["accuracy"], marker="o", label="training")
axes.plot(history.history["val_accuracy"], marker="o", label="validation")
axes.set(xlabel="epoch", ylabel="accuracy", ylim=(0.4, 1.02))
axes.legend()
plt.show()

# %% [markdown]
# For a while the accuracy stays near a half: each word alone says nothing about the label. Then the model finds that
# the pair of *not* and the word decides.
#
# ## Measure and look
#
# New reviews from another seed are the test. `predict_labels` returns a label and its probability for each text.

# %%
draw = random.Random(1)
new_texts, new_labels = zip(*[review(draw) for _ in range(200)], strict=True)
answers = classifier.predict_labels(list(new_texts))
predicted = [answer.label for answer in answers]
print("accuracy", metrics.accuracy(list(new_labels), predicted))
print(metrics.confusion_matrix(list(new_labels), predicted, labels=["negative", "positive"]))

# %%
for text in ["The plot is great.", "The plot is not great.", "Well, her new book was not boring."]:
    answer = classifier.predict_labels(text)
    print(f"{answer.label:9} {answer.score:.3f}  {text}")

# %% [markdown]
# The model knows nothing that the texts did not show. A word that it never saw gives an answer too, and the probability
# may be high. So measure on texts like those that you will read.

# %%
for text in ["The plot is mediocre.", "I would not say that the plot is great."]:
    answer = classifier.predict_labels(text)
    print(f"{answer.label:9} {answer.score:.3f}  {text}")

# %% [markdown]
# ## Save and open
#
# The folder has the weights, the tokenizer, the labels and the maximum length. Hugging Face's transformers opens it too.

# %%
classifier.save_to_preset("my_classifier")
again = bk.SequenceClassifier.from_preset("my_classifier")
print(again.predict_labels("The music was lovely.").label)

# %% [markdown]
# Next: [training with fit](../training_with_fit.md) explains early stopping, class weights and mixed precision.
# [Tasks](../tasks.md) has the class for other data.
