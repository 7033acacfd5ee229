"""A SavedModel gives the answers of Predictor in a process without this package."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import export, features
from bert_keras.config import BertConfig
from bert_keras.errors import UsageError
from bert_keras.models import (
    BertEncoder,
    ElectraPretrainer,
    Pretrainer,
    QuestionAnswerer,
    TokenClassifier,
)
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.backends import Engine
from tests.processes import run_client

pytest.importorskip("tensorflow_text")

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "is", "capital", "of", "france", "中"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", ".", "!"]
TEXTS = ["the [MASK] sat on a mat.", "[MASK] is the [MASK] of FRÁNCE", "中[MASK]中", "no mask"]
IDS = {
    features.TOKEN_IDS: [[2, 5, 4, 7, 3], [2, 4, 3, 0, 0]],
    features.SEGMENT_IDS: [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]],
    features.PADDING_MASK: [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]],
    features.MASK_POSITIONS: [[2], [1]],
}
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"

# The client has TensorFlow and tensorflow-text alone.
CLIENT = """
import sys
sys.modules["bert_keras"] = None
import json, numpy, tensorflow as tf, tensorflow_text
folder, inputs = sys.argv[1], json.loads(sys.argv[2])
ids = {name: tf.constant(value, tf.int32) for name, value in inputs["ids"].items()}
results = {}
for name in inputs["models"]:
    model = tf.saved_model.load(f"{folder}/{name}")
    run = model.signatures["serving_default"]
    results |= {f"{name}/{key}": value for key, value in run(tf.constant(inputs["texts"])).items()}
    results[f"{name}/empty"] = run(tf.constant([], tf.string))["token_ids"]
    long = tf.constant([b"the [MASK] " + b"cat " * 40 + b"[MASK]", b"\\xff[MASK]\\xe4\\xb8"])
    if "mask_count" in run.structured_outputs:
        results[f"{name}/long"] = run(long)["mask_count"]
        raw = model.signatures["ids"](**ids)
        results |= {f"{name}/ids/{key}": value for key, value in raw.items()}
        train = model.signatures["training"]
        with tf.GradientTape() as tape:
            outputs = train(**ids)
            loss = sum(tf.reduce_mean(tf.square(output)) for output in outputs.values())
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        results["gradients"] = [float(tf.norm(gradient)) for gradient in gradients]
        results["dropout"] = [train(**ids)["mlm"], train(**ids)["mlm"]]
        for variable, gradient in zip(model.trainable_variables, gradients):
            variable.assign_sub(0.1 * gradient)
        results["trained"] = model.signatures["ids"](**ids)["mlm"]
results = {name: numpy.asarray(value) for name, value in results.items()}
results = {n: v.astype("S") if v.dtype == object else v for n, v in results.items()}
numpy.savez(f"{folder}/results.npz", **results)
"""


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(VOCABULARY)


@pytest.fixture(scope="module")
def task() -> Pretrainer:
    keras.utils.set_random_seed(1)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_layers=1,
        num_heads=2,
        intermediate_size=16,
        max_positions=24,
        initializer_range=0.8,
    )
    return Pretrainer(BertEncoder(config))


@pytest.fixture(scope="module")
def exported(task, tokenizer, tmp_path_factory) -> Path:
    """Return a folder with the models. On JAX and PyTorch, a second process writes them."""
    folder = tmp_path_factory.mktemp("exported")
    assert export.saved_model(task, tokenizer, folder / "demo" / "1", options={"top_k": 3}) == (
        folder / "demo" / "1"
    )
    if ON_TENSORFLOW:
        export.saved_model(task.encoder, tokenizer, folder / "encoder" / "1", max_length=8)
    return folder


@pytest.fixture(scope="module")
def results(exported: Path, tmp_path_factory) -> Mapping[str, np.ndarray]:
    """Return the answers that a new process gets from the models in another folder."""
    folder = tmp_path_factory.mktemp("moved")
    models = sorted(path.name for path in exported.iterdir())
    for name in models:
        (exported / name / "1").rename(folder / name)
    inputs = json.dumps({"models": models, "texts": TEXTS, "ids": IDS})
    run_client(CLIENT, str(folder), inputs, folder=folder)
    assert (folder / "demo" / "assets" / "vocab.txt").read_text(
        encoding="utf-8"
    ).splitlines() == VOCABULARY
    return dict(np.load(folder / "results.npz"))


def test_fills_equal_the_predictors(task, tokenizer, results):
    assert results["demo/mask_count"].tolist() == [text.count("[MASK]") for text in TEXTS]
    assert results["demo/tokens"].shape == (4, 2, 3)
    found = Predictor(task, tokenizer).fill_mask(TEXTS[:3], top_k=3)
    for row, masks in enumerate(found):
        for column, fills in enumerate(masks):
            tokens = [token.decode() for token in results["demo/tokens"][row, column]]
            assert tokens == [fill.token for fill in fills]
            assert results["demo/token_ids"][row, column].tolist() == [f.token_id for f in fills]
            np.testing.assert_allclose(
                results["demo/scores"][row, column], [fill.score for fill in fills], atol=1e-5
            )


def test_unused_places_are_empty(results):
    """Outputs beyond the number of masks of a text are empty."""
    unused = np.arange(2) >= results["demo/mask_count"][:, None]
    assert set(results["demo/tokens"][unused].ravel()) == {b""}
    assert not results["demo/scores"][unused].any()
    assert not results["demo/token_ids"][unused].any()
    assert results["demo/empty"].shape == (0, 0, 3)


def test_long_and_broken_texts_are_cut_and_mended(results):
    assert results["demo/long"].tolist() == [1, 1]


def test_ids_equal_predict(task, results):
    expected = task.predict_on_batch({name: np.array(ids, np.int32) for name, ids in IDS.items()})
    for name in (features.MLM, features.NSP):
        np.testing.assert_allclose(results[f"demo/ids/{name}"], expected[name], atol=1e-5)


def test_training_signature_trains(task, results):
    gradients = results["gradients"]
    assert len(gradients) == len(task.trainable_variables)
    # A key's bias adds the same number to all scores of a query, so the softmax ignores it.
    blind = [v.path.endswith("key/bias") for v in task.trainable_variables]
    assert (gradients[~np.array(blind)] > 1e-7).all()
    first, second = results["dropout"]
    assert np.abs(first - second).max() > 1e-3
    assert np.abs(results["trained"] - results["demo/ids/mlm"]).max() > 1e-3


@pytest.mark.skipif(not ON_TENSORFLOW, reason="one backend is enough: the same graph")
def test_encoder_gives_vectors(task, tokenizer, results):
    encoder = task.encoder
    inputs = tokenizer(TEXTS, max_length=8)
    expected = encoder.predict_on_batch(inputs)
    np.testing.assert_array_equal(results["encoder/token_ids"], inputs[features.TOKEN_IDS])
    np.testing.assert_array_equal(results["encoder/padding_mask"], inputs[features.PADDING_MASK])
    for name in (features.POOLED_OUTPUT, features.SEQUENCE_OUTPUT):
        np.testing.assert_allclose(results[f"encoder/{name}"], expected[name], atol=1e-5)
    vectors = Predictor(encoder, tokenizer)([text for text in TEXTS if len(text) < 24])
    short = [len(text) < 24 for text in TEXTS]
    np.testing.assert_allclose(results["encoder/sentence_vector"][short], vectors, atol=1e-5)


def _without_graph(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer with a step that no graph has."""
    content = {**json.loads(tokenizer.json), "normalizer": {"type": "Prepend", "prepend": "a"}}
    return Tokenizer.from_engine(Engine(json.dumps(content), tokenizer.scheme))


def test_ids_only_for_a_tokenizer_without_a_graph(task, tmp_path, monkeypatch):
    tokenizer = _without_graph(Tokenizer.train([WORDS], model="char", vocab_size=len(VOCABULARY)))
    with pytest.raises(ValueError, match=r"ids_only=True.*--ids-only.*Received: Tokenizer\(20"):
        export.saved_model(task, tokenizer, tmp_path / "1")
    assert not any(tmp_path.iterdir())
    if not ON_TENSORFLOW:
        called = []
        monkeypatch.setattr(
            sys.modules["bert_keras.export.saved_model"],
            "with_backend",
            lambda *arguments: called.append(arguments),
        )
        export.saved_model(task, tokenizer, tmp_path / "1", ids_only=True)
        assert called[0][0] == "tensorflow"
        assert called[0][-1] == "--ids-only"
        return
    import tensorflow as tf

    export.saved_model(task, tokenizer, tmp_path / "1", ids_only=True)
    model: Any = tf.saved_model.load(str(tmp_path / "1"))
    assert set(model.signatures) == {"serving_default", "ids", "training"}
    inputs = {name: np.asarray(value, np.int32) for name, value in IDS.items()}
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    expected = task.predict_on_batch(inputs)
    for name in ("serving_default", "ids"):
        outputs = model.signatures[name](**tensors)
        for key, value in expected.items():
            np.testing.assert_allclose(outputs[key], value, atol=1e-5)
    extra = tmp_path / "1" / "assets.extra"
    assert Tokenizer.from_preset(extra) == tokenizer
    assert not (extra / "tf_serving_warmup_requests").exists()


def test_nothing_is_written_over(task, tokenizer, tmp_path):
    (tmp_path / "1").mkdir()
    with pytest.raises(UsageError, match="1: exists already"):
        export.saved_model(task, tokenizer, tmp_path / "1")
    assert not any((tmp_path / "1").iterdir())


@pytest.mark.skipif(not ON_TENSORFLOW, reason="another backend runs it in a second process")
def test_nothing_is_left_when_it_fails(task, tokenizer, tmp_path, monkeypatch):
    from bert_keras.export.graph import signatures

    def fail(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(signatures.tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="No space"):
        export.saved_model(task, tokenizer, tmp_path / "1")
    assert not any(tmp_path.iterdir())


def test_other_tasks_are_refused(task, tokenizer, tmp_path):
    other = ElectraPretrainer(task.encoder)
    with pytest.raises(TypeError, match=r"ElectraPretrainer answers no texts.*task\.encoder"):
        export.saved_model(other, tokenizer, tmp_path / "1")


def test_options_that_do_not_fit(task, tokenizer, tmp_path):
    asked = QuestionAnswerer(task.encoder)
    tagger = TokenClassifier(task.encoder, labels=["O", "B-PER"])
    bad: list[tuple[Any, dict[str, Any], str]] = [
        (task, {"pairs": True}, "one text or two. Received: a Pretrainer"),
        (task, {"options": {"stride": 3}}, "Received: stride"),
        (asked, {}, "no room for the text behind a question of 64 pieces.* at most 20"),
        (asked, {"options": {"max_question": 9, "stride": 0}}, "stride.* Received: stride=0"),
        (asked, {"options": {"max_question": 9, "n_best": 1.5}}, "whole number from 1"),
        (asked, {"options": {"max_question": 9, "top_k": 2}}, "one answer to each question"),
        (tagger, {"options": {"aggregation": "max"}}, "by words.*Received: aggregation='max'"),
    ]
    for model, given, message in bad:
        with pytest.raises(ValueError, match=message):
            export.saved_model(model, tokenizer, tmp_path / "1", **given)
    assert not any(tmp_path.iterdir())


def test_bad_arguments(task, tokenizer, tmp_path):
    for max_length in (2, 25):
        with pytest.raises(ValueError, match=f"from 3 to 24.*max_length={max_length}"):
            export.saved_model(task, tokenizer, tmp_path / "1", max_length=max_length)
    with pytest.raises(ValueError, match="top_k=0"):
        export.saved_model(task, tokenizer, tmp_path / "1", options={"top_k": 0})
    with pytest.raises(ValueError, match="token table 20 rows"):
        export.saved_model(task, Tokenizer([*VOCABULARY, "more"]), tmp_path / "1")
    assert not any(tmp_path.iterdir())


def test_without_tensorflow(task, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r'pip install "bert-keras\[tensorflow\]"'):
        export.saved_model(task, tokenizer, tmp_path / "1")
