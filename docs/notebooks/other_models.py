# %% [markdown]
# # Other people's models: open, check, change, write back
#
# `from_preset` opens the folders of Hugging Face, sentence-transformers, Google, KerasHub and TensorFlow Hub. This
# notebook makes a small folder with transformers, opens it here, and compares the outputs. Nothing is downloaded.
#
# To use a model of your own, set the environment variable `OTHER_MODEL` to its folder, or to a handle such as
# `hf://google-bert/bert-base-uncased`.

# %%
import json
import os
from pathlib import Path

import keras
import numpy as np

import bert_keras as bk
from bert_keras.errors import ArtifactError, UsageError

keras.utils.set_random_seed(0)

# %% [markdown]
# ## A folder of another library
#
# This is how a transformers user saves a BERT: weights, config and vocabulary.

# %%
import torch
import transformers

transformers.utils.logging.set_verbosity_error()
torch.manual_seed(0)
words = ["the", "cat", "dog", "sat", "ran", "on", "mat", "home", "a", ".", "?"]
Path("theirs").mkdir()
Path("theirs/vocab.txt").write_text(
    "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, ""]), encoding="utf-8"
)
their_config = transformers.BertConfig(
    vocab_size=5 + len(words),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
)
their_model = transformers.BertForPreTraining(their_config).eval()
their_model.save_pretrained("theirs")
print(sorted(path.name for path in Path("theirs").iterdir()))

# %% [markdown]
# ## Open it
#
# `load_checkpoint` chooses the class by the folder. The config has the same sizes under this library's names.

# %%
folder = os.environ.get("OTHER_MODEL", "theirs")
task = bk.load_checkpoint(folder)
config = task.encoder.config if hasattr(task, "encoder") else task.config
print(type(task).__name__, "with", config.num_layers, "layers of size", config.hidden_size)

# %% [markdown]
# ## Compare the outputs
#
# The same text gives the same logits, up to rounding.

# %%
if folder == "theirs":
    features = task.tokenizer(["The cat sat on the mat."])
    features["mask_positions"] = np.arange(features["token_ids"].shape[1], dtype="int32")[None]
    ours = task.predict(features, verbose=0)["mlm"]
    with torch.no_grad():
        ids, mask = (torch.tensor(features[name]) for name in ("token_ids", "padding_mask"))
        theirs = their_model(ids, attention_mask=mask).prediction_logits.numpy()
    print(
        f"largest difference: {np.abs(ours - theirs).max():.1e}, of logits up to {theirs.max():.2f}"
    )

# %% [markdown]
# ## Every weight is accounted for
#
# A checkpoint of BERT's pretraining has two heads that a sentence encoder does not use. To open it as one, say so:
# otherwise a wrong class would drop weights without a word.

# %%
try:
    bk.SentenceEncoder.from_preset("theirs")
except ArtifactError as error:
    print(f"{type(error).__name__}: {error}")

# %%
vectors = bk.SentenceEncoder.from_preset("theirs", allow_unused=("mlm", "nsp"))
print(vectors.encode(["The cat sat on the mat.", "A dog ran home."]).shape)

# %% [markdown]
# ## Change it
#
# Keep the first layer alone, and start a classifier with the encoder that remains.

# %%
encoder = bk.BertEncoder.from_preset("theirs")
smaller = encoder.keep_layers(1)
print(f"{encoder.count_params():,} parameters before, {smaller.count_params():,} after")
tokenizer = bk.Tokenizer.from_preset("theirs")
classifier = bk.SequenceClassifier(smaller, labels=["cat", "dog"], tokenizer=tokenizer)
classifier.fit(
    ["The cat sat.", "A dog ran."] * 40,
    ["cat", "dog"] * 40,
    epochs=10,
    batch_size=8,
    learning_rate=1e-2,
    verbose=0,
)
print(classifier.predict_labels("The dog sat on the mat.").label)

# %% [markdown]
# ## Write it back
#
# A saved folder is a folder of transformers again: their classes open it, and give the same answer.

# %%
classifier.save_to_preset("ours")
print(json.loads(Path("ours/config.json").read_text())["architectures"])
again = transformers.BertForSequenceClassification.from_pretrained("ours").eval()
features = tokenizer(["The dog sat on the mat."])
with torch.no_grad():
    logits = again(torch.tensor(features["token_ids"])).logits
print(again.config.id2label[int(logits.argmax())])

# %% [markdown]
# Some changes have no place in another format. The message then says what to do:

# %%
try:
    bk.save_checkpoint(bk.BertEncoder(encoder.config), "keras_hub_folder", format="keras_hub")
except UsageError as error:
    print(error)

# %% [markdown]
# [Checkpoints](../checkpoints.md) lists all formats. [Migration](../migration.md) has the classes of transformers beside
# the ones here.
