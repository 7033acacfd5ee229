# %% [markdown]
# # Export and serving
#
# A trained model leaves Python as a folder for another runtime. This notebook exports one to ONNX, checks that it answers
# as the original does, makes it smaller, and compares their speed. It runs on a CPU in about a minute. It needs the
# extras `onnx` and `serve`: `pip install -e ".[onnx,serve]"`.

# %%
import json
import socket
import subprocess
import sys
import time
import urllib.request

import keras
import numpy as np
import onnxruntime
import tokenizers

import bert_keras as bk
from bert_keras import export

keras.utils.set_random_seed(0)

# %% [markdown]
# ## A model

# %%
films = ["film", "story", "plot", "cast", "music"]
texts = [f"A {word} {film}." for film in films for word in ("fine", "dull")] * 10
labels = ["positive", "negative"] * 50
tokenizer = bk.Tokenizer.train([texts], vocab_size=45)
config = bk.PRESETS["bert_tiny_uncased"].replace(vocab_size=tokenizer.vocab_size)
classifier = bk.SequenceClassifier(
    bk.BertEncoder(config), labels=["negative", "positive"], tokenizer=tokenizer
)
classifier.fit(texts, labels, epochs=4, batch_size=8, learning_rate=1e-3, verbose=0)
print(classifier.predict_labels(["A fine plot.", "A dull plot."]))

# %% [markdown]
# ## Export
#
# The folder has the model, the tokenizer, the names of the labels, and a page that describes the inputs.

# %%
folder = export.runtime_model(classifier, tokenizer, "exported/reviews/1", format="onnx")
for path in sorted(folder.iterdir()):
    print(f"{path.stat().st_size:9,}  {path.name}")

# %% [markdown]
# ## Check
#
# `open_client` opens an exported folder of any format. `difference` is the largest difference of its outputs from the
# original's.

# %%
sample = {"text": texts[:20]}
client, predictor = export.open_client(folder), bk.Predictor(classifier)
print(f"largest difference: {export.difference(client, predictor, sample):.1e}")

# %% [markdown]
# ## Use it without bert_keras
#
# A program that serves the model needs two small libraries: ONNX Runtime, and tokenizers to turn text into ids.

# %%
session = onnxruntime.InferenceSession(folder / "model.onnx")
reader = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
encoded = reader.encode("A fine cast.")
arrays = {
    "token_ids": encoded.ids,
    "segment_ids": encoded.type_ids,
    "padding_mask": encoded.attention_mask,
}
inputs = {name: np.array([values], "int32") for name, values in arrays.items()}
(logits,) = session.run(None, inputs)
print((folder / "labels.txt").read_text().split()[int(logits[0].argmax())])

# %% [markdown]
# ## Smaller
#
# int8 stores each weight in one byte. The answers change a little, so measure them again.

# %%
small = export.runtime_model(
    classifier, tokenizer, "exported/reviews_int8/1", format="onnx", quantization="int8"
)
for name, path in {"float32": folder, "int8": small}.items():
    difference = export.difference(export.open_client(path), predictor, sample)
    print(f"{name:8} {export.size_of(path) / 1e6:.2f} MB, largest difference {difference:.1e}")

# %% [markdown]
# ## Speed
#
# The time of a call with one text and with 32 texts, in milliseconds. This is the machine that made this page; measure
# on yours.

# %%
quick = {"original": lambda columns: predictor.predict_labels(columns["text"])}
quick |= {"ONNX": client.answer, "ONNX int8": export.open_client(small).answer}
for name, answer in quick.items():
    measured = export.latencies(answer, {"text": texts[:32]}, seconds=2.0)
    print(f"{name:10}", {size: f"{latency.p50:.1f} ms" for size, latency in measured.items()})

# %% [markdown]
# ## Serve
#
# One command answers HTTP requests: `bert-keras serve reviews=exported/reviews`. It needs the extra `serve`, and listens
# on this machine alone. It also has a page for the browser at its address. Here it runs as a process beside this
# notebook.

# %%
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{free.getsockname()[1]}"
command = [sys.executable, "-m", "bert_keras", "serve", "reviews=exported/reviews"]
server = subprocess.Popen(
    [*command, "--port", address.rpartition(":")[2]],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)


def request(path: str, body: object = None) -> dict:
    """Return the answer of the server to a request, with a body as JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(address + path, data, headers)) as answer:
        return json.load(answer)


for _ in range(240):
    try:
        status = request("/v1/models/reviews")
        break
    except OSError:  # it is not there yet
        time.sleep(0.5)
print(status["model_version_status"])

# %% [markdown]
# The request and the answer are those of TensorFlow Serving's REST interface, so its clients work unchanged:

# %%
print(request("/v1/models/reviews:predict", {"instances": ["A fine cast.", "A dull story."]}))

# %% [markdown]
# A signal ends the server after the open requests are answered:

# %%
server.terminate()
print("exit code", server.wait(timeout=60))

# %% [markdown]
# [Serving](../serving.md) has the other protocols, such as OpenAI's embeddings, and says when TensorFlow Serving or
# another server is the better choice.
