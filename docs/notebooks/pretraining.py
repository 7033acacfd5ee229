# %% [markdown]
# # Pretraining: a BERT from plain text
#
# Pretraining reads text without labels: it hides words, and the model predicts them. This notebook makes a small text
# about twelve countries that do not exist, and pretrains a small BERT on it. Then the model knows the grammar and the
# facts of that text. It runs on a CPU in less than a minute, and downloads nothing.
#
# For real text, `bert-keras pretrain demo` reads the documentation in Python's standard library.

# %%
import random
from pathlib import Path

import keras
import matplotlib.pyplot as plt
import numpy as np

import bert_keras as bk
from bert_keras import data

keras.utils.set_random_seed(0)

# %% [markdown]
# ## Text
#
# A text file has a paragraph per line, and a blank line between documents. Each document here is one fact about a
# country.

# %%
countries = (
    "Arvia Belmor Corland Dunovia Esteria Farland Gorvia Helmor Istland Jorvia Kelmor Lorland"
)
capitals = "Pira Tolon Vesk Ubar Mirel Sandu Rovik Calden Yaros Nubel Ostra Ferin"
dialects = "northern southern eastern western"
draw = random.Random(0)
world = [
    (country, capital, draw.choice(dialects.split()), draw.choice(["warm", "cold"]))
    for country, capital in zip(countries.split(), capitals.split(), strict=True)
]


def fact(draw: random.Random) -> str:
    """Return a sentence about a country."""
    country, capital, dialect, climate = draw.choice(world)
    sentences = [
        draw.choice(["The capital of {0} is {1}.", "{1} is the capital of {0}."]),
        draw.choice(["People in {0} speak a {2} dialect.", "In {1} they speak a {2} dialect."]),
        draw.choice(["The winters of {0} are {3}.", "The winter in {1} is {3}."]),
        draw.choice(["The rivers of {0} are long.", "The river near {1} is long."]),
        draw.choice(["Trains run from {1} to the coast.", "A train runs from {1} to the coast."]),
    ]
    return draw.choice(sentences).format(country, capital, dialect, climate)


Path("world.txt").write_text("\n\n".join(fact(draw) for _ in range(6_000)), encoding="utf-8")
documents = data.read("world.txt")
for document, _ in zip(documents, range(4), strict=False):
    print(*document)

# %% [markdown]
# ## Vocabulary

# %%
tokenizer = bk.Tokenizer.train(documents, vocab_size=190)
print(tokenizer.vocab_size, tokenizer.encode("The rivers of Arvia are long.").tokens)

# %% [markdown]
# ## A prepared corpus
#
# `write` tokenises the text once and puts it into a folder. One of ten documents is the validation split.

# %%
corpora = data.write("corpus", documents, tokenizer, validation_split=0.1)
for split, corpus in corpora.items():
    print(f"{split}: {corpus.num_documents} documents, {corpus.num_tokens:,} tokens")

# %% [markdown]
# ## Examples
#
# A batch has rows of text in which 30 % of the tokens are to be predicted (BERT's share is 15 %; short texts learn more
# quickly from more). Most of these are replaced by `[MASK]`. Every epoch masks other tokens.

# %%
options = {"sequence_length": 16, "batch_size": 64, "loss": "mlm", "mask_rate": 0.3}
train, validation = (data.PretrainingExamples(c, tokenizer, **options) for c in corpora.values())
x, y, _ = train.batch(epoch=0, position=0)
print(tokenizer.decode(x["token_ids"][0], skip_special_tokens=False)[:230])
print(len(data.dataset(train)), "batches an epoch")

# %% [markdown]
# ## Train
#
# The baseline predicts each token by its frequency, and reads no context. Its loss is the number to beat.

# %%
counts = np.bincount(corpora["train"].tokens, minlength=tokenizer.vocab_size) + 1
frequencies = counts / counts.sum()
baseline = float(-np.log(frequencies[corpora["validation"].tokens]).mean())
print(f"loss of the frequencies: {baseline:.2f} nats")

config = bk.PRESETS["bert_tiny_uncased"].replace(
    vocab_size=tokenizer.vocab_size,
    hidden_size=64,
    intermediate_size=128,
    max_positions=32,
    initializer_range=0.1,
    dropout=0.0,
    attention_dropout=0.0,
)
model = bk.MaskedLM(bk.BertEncoder(config), tokenizer=tokenizer)
steps, epochs = 100, 20
model.compile(
    bk.optimizer(4e-3, total_steps=steps * epochs, warmup_steps=100), **model.loss_and_metrics()
)
history = model.fit(
    data.dataset(train, repeat=True),
    steps_per_epoch=steps,
    epochs=epochs,
    validation_data=data.dataset(validation),
    shuffle=False,
    verbose=2,
)

# %%
figure, axes = plt.subplots(figsize=(6, 3))
seen = np.arange(1, epochs + 1) * steps
axes.plot(seen, history.history["loss"], label="training")
axes.plot(seen, history.history["val_loss"], label="validation")
axes.axhline(baseline, color="grey", linestyle="--", label="frequencies alone")
axes.set(xlabel="step", ylabel="MLM loss (nats)")
axes.legend()
plt.show()

# %% [markdown]
# ## Fill masks
#
# The model learned grammar: one river *is*, several rivers *are*.


# %%
def fill(text: str, top_k: int = 3) -> str:
    """Return the most probable words for the mask of a text, with their probabilities."""
    (fills,) = model.fill_mask(text, top_k=top_k)
    return ", ".join(f"{fill.token} {fill.score:.2f}" for fill in fills)


for text in ["The river near Vesk [MASK] long.", "The rivers of Corland [MASK] long."]:
    print(f"{text:42} {fill(text)}")

# %% [markdown]
# It learned facts, too. No label said what a capital is: the hidden words were enough.

# %%
for country, capital, *_ in world[:6]:
    text = f"The capital of {country} is [MASK]."
    print(f"{text:34} {fill(text)}  ({capital})")

right = 0
for country, capital, *_ in world:
    (fills,) = model.fill_mask(f"The capital of {country} is [MASK].", top_k=1)
    right += fills[0].token == capital.lower()
print(f"{right} of {len(world)} capitals")

# %% [markdown]
# ## Keep the model
#
# Every task opens the folder, and begins with these weights.

# %%
model.save_to_preset("my_bert")
classifier = bk.SequenceClassifier.from_preset("my_bert", labels=["bug", "feature"])
print(type(classifier).__name__, classifier.encoder.config.num_layers)

# %% [markdown]
# [Pretraining](../pretraining.md) has recipes for real text, next sentence prediction, ELECTRA and longer sequences, and
# the losses that they reach.
