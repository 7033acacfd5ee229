"""TensorFlow Hub models in existing clients: `hub.KerasLayer` in tf_keras, and saved_model_cli."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras import export
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.tokenizers import Tokenizer
from tests import answering
from tests.answering import CONFIG, LENGTH, texts_with
from tests.contracts import TINY, as_trained
from tests.processes import run_client, run_outside

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are written on the TensorFlow backend", allow_module_level=True)
pytest.importorskip("tensorflow")

# Each test starts a process with tf_keras or saved_model_cli.
pytestmark = pytest.mark.slow
CLOSE = {"atol": 1e-5, "rtol": 0}
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "good", "bad"]

# The usual code for TensorFlow Hub, and fine-tuning as in TensorFlow's BERT tutorial.
CLIENT = """
import sys, warnings
sys.modules["bert_keras"] = sys.modules["tensorflow_text"] = None
warnings.simplefilter("ignore")
import numpy, tensorflow as tf, tensorflow_hub as hub, tf_keras
tf_keras.utils.set_random_seed(0)  # of the new layer
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
before = model.evaluate(texts, labels, verbose=0)  # nothing is dropped
model.fit(texts, labels, epochs=60, verbose=0)
print(before, model.evaluate(texts, labels, verbose=0))
pack = hub.KerasLayer(preprocessor.bert_pack_inputs, arguments={"seq_length": 7})
packed = pack([preprocessor.tokenize(texts[:1]), preprocessor.tokenize(texts[1:2])])
print({name: value.shape.as_list() for name, value in packed.items()})
"""

# The preprocessor and the encoder get 500 texts and malformed input, with TensorFlow alone.
PAIR = """
import sys
sys.modules["bert_keras"] = sys.modules["tensorflow_text"] = sys.modules["keras"] = None
import json, numpy, tensorflow as tf
folder = sys.argv[1]
preprocessor = tf.saved_model.load(folder + "/moved/preprocessor")
encoder = tf.saved_model.load(folder + "/moved/encoder")
results = {}
def keep(kind, texts):
    inputs = preprocessor(tf.constant(texts, tf.string, [len(texts)]))
    outputs = encoder(inputs, training=False)
    del outputs["encoder_outputs"]
    for key, value in (*inputs.items(), *outputs.items()):
        results[f"{kind}/{key}"] = value.numpy()
texts = json.load(open(folder + "/texts.json"))
for start in range(0, len(texts), 50):
    keep(start, texts[start : start + 50])
for row in range(32):
    keep(f"alone{row}", texts[row : row + 1])
keep("empty", [])
keep("odd", [b"\\xff a\\xe4\\xb8", b"the test " * 12_000, b"", b"a b"])
keep("last", [b"a b"])
numpy.savez(folder + "/results.npz", **results)
"""


@pytest.fixture(scope="module")
def encoder() -> BertEncoder:
    return as_trained(BertEncoder(CONFIG))


@pytest.fixture(scope="module")
def texts(naughty: list[str]) -> list[str]:
    return texts_with(naughty, 500)


@pytest.fixture(scope="module")
def results(encoder, texts, tmp_path_factory) -> dict[str, np.ndarray]:
    folder = tmp_path_factory.mktemp("pair")
    export.tf_hub(encoder, Tokenizer(answering.VOCABULARY), folder / "1", portable=True)
    (folder / "1").rename(folder / "moved")
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    run_client(PAIR, str(folder), folder=folder)
    return dict(np.load(folder / "results.npz"))


def test_the_pair_answers_as_predict_does(encoder, texts, results) -> None:
    """Preprocessor and encoder give the outputs of `predict`."""
    for start in range(0, len(texts), 50):
        ids = Tokenizer(answering.VOCABULARY)(texts[start : start + 50], max_length=LENGTH)
        expected = encoder.predict_on_batch(ids)
        is_token = ids["padding_mask"].astype(bool)
        width = is_token.shape[1]  # outputs of the preprocessor have a fixed length
        mask = results[f"{start}/input_mask"]
        np.testing.assert_array_equal(mask[:, :width], is_token)
        assert not mask[:, width:].any()
        np.testing.assert_allclose(
            results[f"{start}/sequence_output"][:, :width][is_token],
            expected["sequence_output"][is_token],
            **CLOSE,
        )
        for name in ("pooled_output", "default"):
            found = results[f"{start}/{name}"]
            np.testing.assert_allclose(found, expected["pooled_output"], **CLOSE)


def test_the_pairs_rows_do_not_disturb_each_other(results) -> None:
    for name in ("pooled_output", "sequence_output"):
        for row in range(32):
            found = results[f"alone{row}/{name}"][0]
            np.testing.assert_allclose(found, results[f"0/{name}"][row], **CLOSE)
        assert results[f"empty/{name}"].shape[0] == 0
        odd = results[f"odd/{name}"]
        assert np.isfinite(odd).all()
        np.testing.assert_allclose(odd[3], results[f"last/{name}"][0], **CLOSE)


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
