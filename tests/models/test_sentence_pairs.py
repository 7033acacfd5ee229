"""A sentence encoder that is trained on pairs of texts."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    SentenceEncoder,
    SentencePairs,
    features,
    load_checkpoint,
    losses,
)
from bert_keras.data import supervised
from bert_keras.models import sentence_pairs
from bert_keras.models.sentence_pairs import NAMED
from bert_keras.tokenizers import Tokenizer
from tests import contracts
from tests.contracts import TINY, numpy
from tests.gradients import step_of

OPTIONS: dict[str, dict[str, Any]] = {
    "similarity": {"pooling": "cls"},
    "classification": {"num_classes": 3, "pooling": "max"},
    "in_batch": {"normalize": False},
}
# Options of the sentence encoder that the pair task must keep.
VECTORS: dict[str, Any] = {
    "pooling": ["mean", "cls"],
    "dense": [{"units": 4, "activation": "tanh"}],
    "truncate_dim": 3,
    "similarity": "dot",
    "prompts": {"query": "query: "},
    "default_prompt_name": "query",
    "include_prompt": False,
}


def _task(loss: str) -> SentencePairs:
    return SentencePairs(BertEncoder(TINY), loss=loss, **OPTIONS[loss])


@pytest.mark.parametrize("loss", OPTIONS)
def test_contract(loss: str, tmp_path):
    contracts.check_task(
        lambda encoder: SentencePairs(encoder, loss=loss, **OPTIONS[loss]),
        TINY.replace(num_layers=1, pooler=False),
        tmp_path,
    )


@pytest.mark.parametrize("loss", OPTIONS)
def test_format(loss: str, tmp_path):
    """A saved pair task opens as itself and as a sentence encoder with the same vectors."""
    task = _task(loss)
    contracts.check_format(task, contracts.inputs_of(task), tmp_path / "pairs")
    unused = ("label",) if loss == "classification" else ()
    opened = SentenceEncoder.from_preset(tmp_path / "pairs", allow_unused=unused)
    assert opened.options == task.sentence_encoder.options
    contracts.assert_same_weights(opened, task.sentence_encoder)
    # The saved sentence encoder opens as a pair task, for further training.
    task.sentence_encoder.save_to_preset(tmp_path / "sentences")
    assert type(load_checkpoint(tmp_path / "sentences")) is SentenceEncoder
    again = SentencePairs.from_preset(tmp_path / "sentences")
    assert again.sentence_encoder.options == task.sentence_encoder.options
    contracts.assert_same_weights(again.sentence_encoder, task.sentence_encoder)
    # The folder now looks like one of another library.
    (tmp_path / "sentences" / "bert_keras.json").unlink()
    again = SentencePairs.from_preset(tmp_path / "sentences", allow_missing=("pooler",))
    assert again.sentence_encoder.options == task.sentence_encoder.options


@pytest.mark.parametrize("loss", OPTIONS)
def test_outputs_are_of_the_vectors_of_the_sentence_encoder(loss: str):
    task = contracts.as_trained(_task(loss))
    x = contracts.inputs_of(task)
    plain = SentenceEncoder(
        task.encoder, pooling=task.options["pooling"], normalize=loss == "similarity"
    )
    u, v = (
        numpy(plain({name: values[:, side] for name, values in x.items()}))["sentence_vector"]
        for side in (0, 1)
    )
    if loss == "similarity":
        expected = (u * v).sum(-1, keepdims=True)
    elif loss == "in_batch":
        expected = np.stack([u, v], axis=1)
    else:
        weights = contracts.weights(task)
        joint = np.concatenate([u, v, np.abs(u - v)], axis=-1)
        expected = joint @ weights["label/output/kernel"] + weights["label/output/bias"]
    (found,) = numpy(task(x)).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_in_batch_loss_is_that_of_the_papers():
    task = contracts.as_trained(SentencePairs(BertEncoder(TINY), scale=7.0))
    x = contracts.inputs_of(task)
    pairs = numpy(task(x))[features.MATCH]
    pairs = pairs / np.linalg.norm(pairs, axis=-1, keepdims=True)
    cosines = 7.0 * pairs[:, 0] @ pairs[:, 1].T
    losses = np.log(np.exp(cosines).sum(-1)) - np.diag(cosines)
    right = cosines.argmax(-1) == np.arange(3)
    task.compile(keras.optimizers.SGD(0.0), **task.loss_and_metrics())
    for weights in (np.ones(3), np.array([1.0, 0.0, 1.0])):
        found: Any = task.evaluate(
            x, {"match": np.zeros(3)}, sample_weight={"match": weights}, verbose=0, return_dict=True
        )
        np.testing.assert_allclose(found["loss"], weights @ losses / weights.sum(), rtol=1e-5)
        np.testing.assert_allclose(found["accuracy"], weights @ right / weights.sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "nearest"}, "`loss` must be one of similarity, classif"),
        ({"loss": "classification"}, "needs `num_classes`"),
        ({"num_classes": 3}, "the other losses take neither"),
        ({"labels": ["a", "b"]}, "the other losses take neither"),
        ({"scale": 0.0}, "`scale` must be above 0"),
        ({"loss": "cosent", "scale": 5.0}, "`scale` is for loss='in_batch'"),
        ({"pooling": "sum"}, "`pooling` must be one of"),
    ],
)
def test_what_cannot_be_is_refused(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        SentencePairs(BertEncoder(TINY), **options)


@pytest.mark.parametrize("loss", OPTIONS)
def test_options_of_vectors_are_trained_and_kept(loss: str, tmp_path):
    options = {**OPTIONS[loss], **VECTORS}
    task = contracts.as_trained(SentencePairs(BertEncoder(TINY), loss=loss, **options))
    x = contracts.inputs_of(task)
    contracts.check_format(task, x, tmp_path / "pairs")
    unused = ("label",) if loss == "classification" else ()
    opened = SentenceEncoder.from_preset(tmp_path / "pairs", allow_unused=unused)
    assert opened.options == task.sentence_encoder.options
    assert {name: opened.options[name] for name in VECTORS if name != "dense"} == {
        name: value for name, value in VECTORS.items() if name != "dense"
    }
    contracts.assert_same_weights(opened, task.sentence_encoder)
    task.sentence_encoder.save_to_preset(tmp_path / "vectors")
    again = SentencePairs.from_preset(tmp_path / "vectors")
    assert again.sentence_encoder.options == opened.options
    contracts.assert_same_weights(again.sentence_encoder, opened)
    dense = next(weight for weight in task.weights if weight.path.endswith("dense_0/kernel"))
    before = numpy(dense.value)
    task.compile(keras.optimizers.SGD(0.5), **task.loss_and_metrics())
    rows = len(x[features.TOKEN_IDS])
    y = {name: np.zeros(rows, "int32") for name in task.output}
    task.fit(x, y, batch_size=rows, verbose=0)
    assert np.abs(numpy(dense.value) - before).max() > 0


def test_in_batch_takes_no_targets() -> None:
    tokenizer = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"])
    task = SentencePairs(BertEncoder(TINY), tokenizer=tokenizer)
    pairs = (["a", "b"], ["b", "a"])
    for way in (task.fit, task.evaluate):
        with pytest.raises(ValueError, match=r"reads no targets.*similarity"):
            way(pairs, [1.0, 0.0], verbose=0)
    assert len(task.fit(pairs, verbose=0).history["loss"]) == 1


# === Losses of vectors ===


WORDS = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"])
TEXTS = ["a", "b", "c", "d", "a b", "b c"]
RNG = np.random.default_rng(0)
# Name of a loss -> number of columns, and the targets.
COLUMNS: dict[str, tuple[int, Any]] = {
    "in_batch": (3, None),
    "guided_in_batch": (2, RNG.random((6, 2, 5))),
    "cosent": (2, np.linspace(0, 1, 6)),
    "contrastive": (2, [0, 1, 0, 1, 1, 0]),
    "triplet": (3, None),
    "batch_triplet": (1, list("xyxyxz")),
    "margin_mse": (3, RNG.random((6, 2))),
    "kl_divergence": (4, RNG.random((6, 3))),
}


def _columns(count: int) -> Any:
    columns = tuple(TEXTS[start:] + TEXTS[:start] for start in range(count))
    return columns if count > 1 else columns[0]


@pytest.mark.parametrize("name", NAMED)
def test_every_loss_learns_from_text(name: str) -> None:
    count, y = COLUMNS[name]
    task = SentencePairs(BertEncoder(TINY), loss=name, tokenizer=WORDS)
    x = _columns(count)
    history = task.fit(x, y, validation_split=0.4, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert np.isfinite(history["val_loss"]).all()
    vectors = task.predict(x)
    assert vectors.shape == (6, count, 8)
    np.testing.assert_allclose(vectors[:, 0], task.encode(TEXTS), atol=1e-6)
    expected: Any = task.vector_loss(_targets(name, y), vectors)  # type: ignore[misc]
    found: Any = task.evaluate(x, y, verbose=0, return_dict=True)
    np.testing.assert_allclose(found["loss"], numpy(expected), rtol=1e-4)


def _targets(name: str, y: Any) -> np.ndarray:
    """Return the targets of a loss as it reads them."""
    if y is None:
        count = COLUMNS[name][0]
        return np.array([[(row + text) % 6 for text in range(count)] for row in range(6)])
    return np.unique(y, return_inverse=True)[1] if name == "batch_triplet" else np.asarray(y)


def test_a_loss_object_is_saved(tmp_path) -> None:
    loss = losses.MatryoshkaLoss(losses.InBatchLoss(symmetric=True), [8, 4])
    task = SentencePairs(BertEncoder(TINY), loss=loss, tokenizer=WORDS)
    task.fit(_columns(2), verbose=0)
    task.save_to_preset(tmp_path / "folder")
    task.save(tmp_path / "task.keras")
    for again in (
        SentencePairs.from_preset(tmp_path / "folder"),
        keras.saving.load_model(tmp_path / "task.keras"),
    ):
        assert again.vector_loss.get_config() == loss.get_config()
        contracts.assert_same_weights(again, task)
    assert type(load_checkpoint(tmp_path / "folder")) is SentencePairs


@pytest.mark.parametrize(
    ("name", "count", "y", "message"),
    [
        ("triplet", 2, None, "TripletLoss reads 3 columns"),
        ("in_batch", 1, None, "InBatchLoss reads 2 columns or more"),
        ("cosent", 2, None, "reads targets of the kind 'scores'"),
        ("cosent", 2, [[0.5, 1.0]] * 6, "needs the shape"),
        ("cosent", 2, ["much"] * 6, "must be numbers"),
        ("cosent", 2, [0.5, 1.0, float("nan"), 1.0, 1.0, 1.0], "row 2 has a number"),
        ("margin_mse", 3, [1.0] * 6, r"needs the shape \(6, 2\)"),
        ("guided_in_batch", 2, [[1.0, 2.0]] * 6, r"needs the shape \(6, 2, size\)"),
    ],
)
def test_messages_about_data(name: str, count: int, y: Any, message: str) -> None:
    task = SentencePairs(BertEncoder(TINY), loss=name, tokenizer=WORDS)
    with pytest.raises(ValueError, match=message):
        task.fit(_columns(count), y, verbose=0)


# === Texts of different lengths ===


@pytest.mark.parametrize("mini_batch_size", [None, 2])
def test_texts_that_are_padded_apart_train_as_padded_together(
    mini_batch_size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short questions and long answers have arrays of their own."""
    x = TEXTS, [" ".join([text] * 4) for text in TEXTS]

    def trained() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the history of a training and the weights."""
        keras.utils.set_random_seed(0)
        config = TINY.replace(dropout=0.0, attention_dropout=0.0)
        task = SentencePairs(BertEncoder(config), tokenizer=WORDS, mini_batch_size=mini_batch_size)
        task.compile(keras.optimizers.SGD(0.01), **task.loss_and_metrics())
        history = task.fit(x, batch_size=3, validation_data=(x, None), verbose=0).history
        return history, contracts.weights(task)

    history, found = trained()
    monkeypatch.setattr(supervised, "_APART", 0.0)
    expected, weights = trained()
    for name, values in expected.items():
        if name.endswith("loss"):
            np.testing.assert_allclose(history[name], values, rtol=1e-5)
    for array, same in zip(found.values(), weights.values(), strict=True):
        np.testing.assert_allclose(array, same, atol=1e-5)


def test_ids_of_texts_that_are_padded_apart_are_checked() -> None:
    task = SentencePairs(BertEncoder(TINY))
    task.compile(keras.optimizers.SGD(0.01), **task.loss_and_metrics())
    ids = np.ones((2, 1, 3), np.int32), np.full((2, 1, 5), TINY.vocab_size, np.int32)
    x = {name: tuple(np.ones_like(each) for each in ids) for name in task.input}
    y = np.arange(4).reshape(2, 2)
    with pytest.raises(ValueError, match="token table has"):
        task.train_on_batch({**x, "token_ids": ids}, y)
    other = SentencePairs(BertEncoder(TINY), loss="similarity")
    other.compile(keras.optimizers.SGD(0.01), **other.loss_and_metrics())
    with pytest.raises(ValueError, match="must be an array"):
        other.train_on_batch(x, y[:, 0])


# === Some examples at a time ===


def _plainly(function: Any, arrays: Any, size: int) -> list[Any]:
    """Compute parts one after the other, and keep everything for the gradient."""
    parts = [
        function(number, *(x[start : start + size] for x in arrays))
        for number, start in enumerate(range(0, len(arrays[0]), size))
    ]
    return [keras.ops.concatenate(outputs) for outputs in zip(*parts, strict=True)]


def _step(loss: Any, mini_batch_size: int | None, dropout: float = 0.0) -> Any:
    """Return the logs and gradients of a step of six examples, from the same weights and seeds."""
    keras.utils.set_random_seed(0)
    config = TINY.replace(dropout=dropout, attention_dropout=dropout)
    task = SentencePairs(
        BertEncoder(config), loss=loss, tokenizer=WORDS, mini_batch_size=mini_batch_size
    )
    count = 2 if task.vector_loss is None else max(2, task.vector_loss.least_texts)
    y = [0.1, 0.9, 0.4, 0.6, 0.0, 1.0] if loss in ("similarity", "cosent") else None
    batch: Any = task.examples_of(_columns(count), y, max_length=16, batch_size=6, seed=None)
    logs, found = step_of(task, (*batch.batch_of(0, np.arange(6)), None)[:3])
    return logs["loss"], {path.partition("/")[2]: each for path, each in found.items()}


@pytest.mark.parametrize("loss", ["in_batch", "cosent", "triplet", "similarity"])
@pytest.mark.parametrize("size", [2, 4])
def test_parts_of_a_batch_train_as_the_whole(loss: str, size: int) -> None:
    expected, gradients = _step(loss, None)
    found, gradients_in_parts = _step(loss, size)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for path, gradient in gradients.items():
        scale = max(1.0, float(np.abs(gradient).max()))
        np.testing.assert_allclose(gradients_in_parts[path], gradient, atol=1e-5 * scale)


@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="the backend tensorflow has no plain loop here"
)
def test_parts_drop_the_same_numbers_for_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    found, gradients_in_parts = _step("in_batch", 3, dropout=0.3)
    monkeypatch.setattr(sentence_pairs, "computed_in_parts", _plainly)
    expected, gradients = _step("in_batch", 3, dropout=0.3)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found != _step("in_batch", 2, dropout=0.3)[0]  # parts draw numbers of their own
    for path, gradient in gradients.items():
        np.testing.assert_allclose(gradients_in_parts[path], gradient, rtol=1e-4, atol=1e-5)


def test_the_size_of_a_part_is_saved(tmp_path) -> None:
    task = SentencePairs(BertEncoder(TINY), tokenizer=WORDS, mini_batch_size=2)
    task.fit(_columns(2), verbose=0)
    task.save_to_preset(tmp_path)
    assert SentencePairs.from_preset(tmp_path).options["mini_batch_size"] == 2
    with pytest.raises(ValueError, match="mini_batch_size"):
        SentencePairs(BertEncoder(TINY), mini_batch_size=0)
