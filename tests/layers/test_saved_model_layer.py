"""TensorFlow Hub encoder as a Keras layer: training, saving and loading."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.errors import UsageError
from bert_keras.export import tf_hub
from bert_keras.layers import SavedModelLayer
from bert_keras.models import BertEncoder
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained
from tests.processes import run_client

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
IDS = {
    "input_word_ids": np.array([[2, 5, 6, 3], [2, 7, 3, 0]], np.int32),
    "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int32),
    "input_type_ids": np.zeros((2, 4), np.int32),
}
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"
needs_tensorflow = pytest.mark.skipif(
    not ON_TENSORFLOW, reason="TensorFlow is the backend of SavedModels"
)


@pytest.mark.skipif(ON_TENSORFLOW, reason="on this backend it works")
def test_another_backend_says_what_to_do_instead() -> None:
    with pytest.raises(RuntimeError, match=r"BertEncoder.from_preset\('hub', trust=True\)"):
        SavedModelLayer("hub")


@pytest.fixture(scope="module")
def encoder() -> BertEncoder:
    config = TINY.replace(vocab_size=len(VOCABULARY), dropout=0.1, attention_dropout=0.0)
    return as_trained(BertEncoder(config))


@pytest.fixture(scope="module")
def folder(encoder: BertEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hub") / "1"
    return tf_hub(encoder, Tokenizer(VOCABULARY), path, portable=True) / "encoder"


def classifier(layer: SavedModelLayer) -> keras.Model:
    inputs = {name: keras.Input([None], dtype="int32", name=name) for name in IDS}
    return keras.Model(inputs, keras.layers.Dense(2, name="label")(layer(inputs)))


@needs_tensorflow
def test_all_outputs_are_the_encoders(encoder: BertEncoder, folder: Path) -> None:
    layer = SavedModelLayer(folder)
    assert (len(layer.variables), layer.trainable_variables) == (len(encoder.variables), [])
    found = layer(IDS)
    ours = ("token_ids", "padding_mask", "segment_ids")
    expected = encoder.predict_on_batch(dict(zip(ours, IDS.values(), strict=True)))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5)
    assert len(found["encoder_outputs"]) == encoder.config.num_layers


@needs_tensorflow
def test_it_trains_in_a_functional_model_and_is_revived(folder: Path, tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    layer = SavedModelLayer(folder, trainable=True, output="pooled_output")
    model = classifier(layer)
    before = [variable.numpy() for variable in layer.trainable_variables]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss)
    history = model.fit(IDS, np.array([0, 1]), epochs=40, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]
    moved = [np.abs(a - b).max() for a, b in zip(before, layer.trainable_variables, strict=True)]
    # A key's bias adds the same number to all scores of a query, so the softmax ignores it.
    blind = [variable.path.endswith("key_bias") for variable in layer.trainable_variables]
    assert all(change > 0 for change, is_blind in zip(moved, blind, strict=True) if not is_blind)
    expected = model.predict(IDS, verbose=0)
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.models.load_model(tmp_path / "model.keras")
    revived = keras.models.load_model(tmp_path / "model.keras", safe_mode=False)
    np.testing.assert_allclose(revived.predict(IDS, verbose=0), expected, atol=1e-6)


WAYS = ("constructor", "default", "layer", "model")


@needs_tensorflow
@pytest.mark.parametrize("way", WAYS)
def test_what_is_frozen_does_not_move(way: str, folder: Path, tmp_path: Path) -> None:
    options: dict[str, dict[str, Any]] = {"constructor": {"trainable": False}, "default": {}}
    layer = SavedModelLayer(folder, output="pooled_output", **options.get(way, {"trainable": True}))
    model = classifier(layer)
    if way == "layer":
        layer.trainable = False
    if way == "model":
        model.trainable = False
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras", safe_mode=False)
    count = 0 if way == "model" else 2
    for each in (model, loaded):
        (frozen,) = (part for part in each.layers if isinstance(part, SavedModelLayer))
        assert frozen.trainable_variables == []
        assert len(each.trainable_variables) == count
        before = [variable.numpy() for variable in frozen.variables]
        assert len(before) > 30
        if way != "model":  # Keras warns about a model without trainable weights
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            each.compile(keras.optimizers.Adam(1e-2), loss)
            each.fit(IDS, np.array([0, 1]), verbose=0)
        for variable, values in zip(frozen.variables, before, strict=True):
            np.testing.assert_array_equal(variable, values, err_msg=variable.path)
        each.trainable = frozen.trainable = True
        assert len(each.trainable_variables) > 30


@needs_tensorflow
@pytest.mark.parametrize(
    ("change", "received"),
    [
        ({"input_mask": None}, "Received: {input_word_ids: int32 [2, 4], input_type_ids"),
        ({"input_word_ids": np.zeros((2, 4), "float32")}, "{input_word_ids: float32 [2, 4], "),
        ({"input_mask": np.zeros(4, "int32")}, "input_mask: int32 [4], "),
    ],
)
def test_other_inputs_are_named(
    change: dict[str, np.ndarray | None], received: str, folder: Path
) -> None:
    given = {name: value for name, value in (IDS | change).items() if value is not None}
    with pytest.raises(ValueError, match=r"takes \{.*int32 \[None, None\]") as refusal:
        SavedModelLayer(folder, trust=True)(given)
    assert received in str(refusal.value)


@needs_tensorflow
def test_dropout_is_for_training_alone(folder: Path) -> None:
    moving = SavedModelLayer(folder, trainable=True, output="pooled_output")
    fixed = SavedModelLayer(folder, output="pooled_output")
    still = np.asarray(moving(IDS, training=False))
    assert np.abs(np.asarray(moving(IDS, training=True)) - still).max() > 1e-3
    np.testing.assert_array_equal(fixed(IDS, training=True), still)


@needs_tensorflow
def test_an_encoder_as_google_publishes_it(tmp_path: Path) -> None:
    """An encoder with a third argument and regularisation losses works, as Google publishes it."""
    import tensorflow as tf

    class Encoder(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = tf.Variable(tf.ones([9, 4]))
            self.regularization_losses = [self.penalty]

        @tf.function(input_signature=[])
        def penalty(self) -> tf.Tensor:
            return 0.5 * tf.reduce_sum(self.table)

        @tf.function
        def __call__(self, inputs, training=False, mask=None):
            assert mask is None
            rows = tf.gather(self.table, inputs["input_word_ids"])
            pooled = tf.reduce_mean(rows, axis=1)
            return {"pooled_output": pooled + (1.0 if training else 0.0), "sequence_output": rows}

    encoder = Encoder()
    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in IDS}
    for training in (True, False):
        encoder.__call__.get_concrete_function(specs, training=training, mask=None)  # pyright: ignore[reportAttributeAccessIssue]
    tf.saved_model.save(encoder, str(tmp_path / "1"))
    layer = SavedModelLayer(tmp_path / "1", trust=True, trainable=True, output="pooled_output")
    np.testing.assert_array_equal(layer(IDS), np.ones((2, 4)))
    np.testing.assert_array_equal(layer(IDS, training=True), np.full((2, 4), 2.0))
    assert [float(loss) for loss in layer.losses] == [18.0]


@needs_tensorflow
def test_a_preprocessor_takes_strings_in_a_functional_model(
    encoder: BertEncoder, folder: Path, tmp_path: Path
) -> None:
    text = keras.Input(shape=(), dtype="string", name="text")
    ids = SavedModelLayer(folder.parent / "preprocessor")(text)
    vectors = SavedModelLayer(folder, trainable=True, output="pooled_output")(ids)
    model = keras.Model(text, keras.layers.Dense(2)(vectors))
    texts = np.array(["a b", "c"], object)
    expected = Tokenizer(VOCABULARY)(list(texts))
    whole = keras.Model(text, vectors)
    np.testing.assert_allclose(
        whole.predict(texts, verbose=0),
        encoder.predict(expected, verbose=0)["pooled_output"],
        atol=1e-5,
    )
    model.compile("adam", "mean_squared_error")
    model.fit(texts, np.zeros((2, 2)), verbose=0)
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras", safe_mode=False)
    np.testing.assert_allclose(
        loaded.predict(texts, verbose=0), model.predict(texts, verbose=0), atol=1e-6
    )


@needs_tensorflow
def test_a_saved_model_of_another_process_needs_trust(folder: Path, tmp_path: Path) -> None:
    """A layer does not store trust: a file with it needs `safe_mode=False` again."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    with (copy / "saved_model.pb").open("ab") as file:
        file.write(b"\x08\x01")  # other bytes, as of another process
    operations = "None of its operations writes files or runs other code"
    with pytest.raises(UsageError, match=operations):
        SavedModelLayer(copy)
    layer = SavedModelLayer(copy, trust=True, output="pooled_output")
    assert "trust" not in layer.get_config()
    model = classifier(layer)
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=f"{operations}.*safe_mode=False"):
        keras.models.load_model(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.models.model_from_json(model.to_json())
    keras.models.load_model(tmp_path / "model.keras", safe_mode=False)
    clone = keras.models.clone_model(model)  # in the process that trusted it
    np.testing.assert_array_equal(clone.layers[-2](IDS), layer(IDS))
    with (copy / "saved_model.pb").open("ab") as file:
        file.write(b"\x08\x01")
    with pytest.raises(UsageError, match="trust=True"):
        keras.models.clone_model(model)


# Two steps of plain gradient descent from the same head, on texts. Nothing is dropped.
TEXTS, TARGETS = (
    ["a b", "c d e", "", "f [MASK] g"],
    [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [1.0, 1.0]],
)
IN_TF_KERAS = """
import json, sys, warnings
sys.modules["bert_keras"] = sys.modules["tensorflow_text"] = None
warnings.simplefilter("ignore")
import numpy, tensorflow as tf, tensorflow_hub as hub, tf_keras
folder, given = sys.argv[1], json.loads(sys.argv[2])
text = tf_keras.Input([], dtype=tf.string)
encoder = hub.KerasLayer(folder + "/encoder", trainable=True)
dense = tf_keras.layers.Dense(2)
vectors = encoder(hub.KerasLayer(folder + "/preprocessor")(text))["pooled_output"]
model = tf_keras.Model(text, dense(vectors))
dense.set_weights([numpy.array(values, "float32") for values in given["head"]])
texts, targets = tf.constant(given["texts"]), tf.constant(given["targets"])
model.compile(tf_keras.optimizers.SGD(0.1), "mean_squared_error")
losses = [model.train_on_batch(texts, targets) for _ in range(2)]
numpy.savez(
    "found.npz", losses=losses, outputs=model(texts), kernel=dense.kernel,
    **{f"weight{index}": v for index, v in enumerate(encoder.trainable_variables)},
)
"""


@pytest.mark.slow
@needs_tensorflow
def test_text_to_answer_trains_as_hub_keras_layer_does(tmp_path: Path) -> None:
    """Preprocessor, encoder and head are one Keras 3 model, equal to that of tf_keras."""
    pytest.importorskip("tf_keras")
    pytest.importorskip("tensorflow_hub")
    config = TINY.replace(vocab_size=len(VOCABULARY), dropout=0.0, attention_dropout=0.0)
    hub = as_trained(BertEncoder(config))
    folder = tf_hub(hub, Tokenizer(VOCABULARY), tmp_path / "hub" / "1", max_length=8, portable=True)
    text = keras.Input(shape=(), dtype="string", name="text")
    encoder = SavedModelLayer(folder / "encoder", trainable=True, output="pooled_output")
    head = keras.layers.Dense(2, name="label")
    model = keras.Model(text, head(encoder(SavedModelLayer(folder / "preprocessor")(text))))
    given = {"texts": TEXTS, "targets": TARGETS, "head": [w.tolist() for w in head.get_weights()]}
    run_client(IN_TF_KERAS, str(folder), json.dumps(given), folder=tmp_path)
    theirs = np.load(tmp_path / "found.npz")
    texts, targets = np.array(TEXTS, object), np.array(TARGETS, np.float32)
    model.compile(keras.optimizers.SGD(0.1), "mean_squared_error")
    losses = [model.train_on_batch(texts, targets) for _ in range(2)]
    np.testing.assert_allclose(losses, theirs["losses"], atol=1e-6)
    np.testing.assert_allclose(model.predict(texts, verbose=0), theirs["outputs"], atol=1e-6)
    np.testing.assert_allclose(head.kernel, theirs["kernel"], atol=1e-6)
    assert len(encoder.trainable_variables) > 30
    for index, variable in enumerate(encoder.trainable_variables):
        ours, message = variable.numpy(), variable.path
        np.testing.assert_allclose(ours, theirs[f"weight{index}"], atol=1e-6, err_msg=message)
    model.save(tmp_path / "model.keras")
    revived: Any = keras.models.load_model(tmp_path / "model.keras", safe_mode=False)
    np.testing.assert_allclose(revived.predict(texts, verbose=0), theirs["outputs"], atol=1e-6)
    model.export(tmp_path / "served", verbose=False)
    assert (tmp_path / "served" / "saved_model.pb").is_file()


IN_NEW_PROCESS = """
import importlib.util, sys
from bert_keras import SavedModelLayer
assert "tensorflow_text" not in sys.modules
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "tensorflow_text" else find_spec(name)
try:
    SavedModelLayer(sys.argv[1], trust=True)
except ImportError as error:
    print(error)
importlib.util.find_spec = find_spec
print(SavedModelLayer(sys.argv[1], trust=True)(["a b"])["input_word_ids"][0, :4].numpy().tolist())
"""


@pytest.mark.slow
@needs_tensorflow
def test_a_preprocessor_imports_tensorflow_text_or_says_that_it_is_needed(
    encoder: BertEncoder, tmp_path: Path
) -> None:
    pytest.importorskip("tensorflow_text")
    folder = tf_hub(encoder, Tokenizer(VOCABULARY), tmp_path / "hub" / "1") / "preprocessor"
    environment = {"KERAS_BACKEND": "tensorflow", "PYTHONPATH": str(Path(__file__).parents[2])}
    printed = run_client(IN_NEW_PROCESS, str(folder), folder=tmp_path, **environment)
    message, ids = printed.splitlines()
    assert "of tensorflow-text, which is not installed. Install with: pip install" in message
    assert message.startswith(f"{folder}: the SavedModel has the operation ")
    assert ids == "[2, 5, 6, 3]"


@needs_tensorflow
def test_what_is_no_layer(tmp_path: Path) -> None:
    """A folder without a SavedModel, and a module that cannot be called, are refused."""
    import tensorflow as tf

    with pytest.raises(ValueError, match="not a SavedModel"):
        SavedModelLayer(tmp_path)
    tf.saved_model.save(tf.Module(), str(tmp_path / "module"))
    with pytest.raises(ValueError, match="cannot be called as a layer"):
        SavedModelLayer(tmp_path / "module", trust=True)
