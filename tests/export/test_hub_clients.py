"""Clients that people have: TensorFlow Hub's layer in tf_keras, and saved_model_cli."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import keras
import pytest

from bert_keras import export
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained
from tests.processes import run_client, run_outside

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are written on the TensorFlow backend", allow_module_level=True)
pytest.importorskip("tensorflow")

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "good", "bad"]

# The classic snippet, and fine-tuning as TensorFlow's tutorial of BERT has it.
CLIENT = """
import sys, warnings
sys.modules["bert_keras"] = sys.modules["tensorflow_text"] = None
warnings.simplefilter("ignore")
import numpy, tensorflow as tf, tensorflow_hub as hub, tf_keras
folder = sys.argv[1]
preprocessor = hub.load(folder + "/preprocessor")
layer = hub.KerasLayer(folder + "/encoder", trainable=True)
print(layer.resolved_object.vocab_file.asset_path.numpy().decode())
print(layer.resolved_object.do_lower_case.numpy())
text = tf_keras.Input([], dtype=tf.string)
inputs = hub.KerasLayer(folder + "/preprocessor")(text)
model = tf_keras.Model(text, tf_keras.layers.Dense(2)(layer(inputs)["pooled_output"]))
loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
texts = tf.constant(["good a b", "bad a b", "c good", "c bad d"] * 4)
labels = tf.constant([1, 0, 1, 0] * 4)
with tf.GradientTape() as tape:
    value = loss(labels, model(texts, training=True))
gradients = tape.gradient(value, layer.trainable_weights)
print(len(layer.trainable_weights), sum(gradient is not None for gradient in gradients))
still = [model(texts).numpy() for _ in range(2)]
moving = [model(texts, training=True).numpy() for _ in range(2)]
print((still[0] == still[1]).all(), (moving[0] == moving[1]).all())
model.compile(tf_keras.optimizers.Adam(0.01), loss)
losses = model.fit(texts, labels, epochs=30, verbose=0).history["loss"]
print(losses[0], losses[-1])
pack = hub.KerasLayer(preprocessor.bert_pack_inputs, arguments={"seq_length": 7})
packed = pack([preprocessor.tokenize(texts[:1]), preprocessor.tokenize(texts[1:2])])
print({name: value.shape.as_list() for name, value in packed.items()})
"""


def test_tensorflow_hub_trains_it(tmp_path: Path) -> None:
    pytest.importorskip("tf_keras")
    pytest.importorskip("tensorflow_hub")
    encoder = as_trained(BertEncoder(TINY.replace(vocab_size=len(VOCABULARY), dropout=0.2)))
    folder = export.tf_hub(encoder, Tokenizer(VOCABULARY), tmp_path / "1", portable=True)
    path, lowercase, counts, same, losses, packed = run_client(
        CLIENT, str(folder), folder=tmp_path
    ).splitlines()
    assert Path(path).read_text(encoding="utf-8").splitlines() == VOCABULARY
    assert lowercase == "True"
    moving = sum(variable.trainable for variable in encoder.variables)
    assert counts == f"{moving} {moving}"
    assert same == "True False"
    first, last = map(float, losses.split())
    assert last < 0.7 * first
    assert packed.count("[1, 7]") == 3


def test_saved_model_cli(tmp_path: Path) -> None:
    task = as_trained(SequenceClassifier(BertEncoder(TINY.replace(vocab_size=len(VOCABULARY))), 2))
    folder = str(export.saved_model(task, Tokenizer(VOCABULARY), tmp_path / "1", portable=True))
    run = partial(
        run_outside, str(Path(sys.executable).with_name("saved_model_cli")), folder=tmp_path
    )
    common = ("--dir", folder, "--tag_set", "serve", "--signature_def")
    shown = run("show", *common, "serving_default")
    assert "inputs['text'] tensor_info" in shown
    assert "outputs['scores'] tensor_info" in shown
    answered = run("run", *common, "serving_default", "--input_exprs", "text=['a good b']")
    assert "Result for output key scores" in answered
    ids = "token_ids=[[2,5,3]];segment_ids=[[0,0,0]];padding_mask=[[1,1,1]]"
    answered = run("run", *common, "ids", "--input_exprs", ids)
    assert "Result for output key label" in answered
