"""Token classification, without and with a conditional random field (CRF)."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, TokenClassifier, Tokenizer, features, load_checkpoint, optimizer
from bert_keras.errors import DataError
from bert_keras.inference import token_classification
from bert_keras.models.distiller import DistillationLoss
from bert_keras.models.token_classification import ConditionalRandomFieldLoss, TagLoss
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS
from tests import contracts
from tests.contracts import TINY, numpy
from tests.paths import every_path, potentials

_STILL = TINY.replace(
    num_layers=1, pooler=False, dropout=0.0, attention_dropout=0.0, initializer_range=0.2
)


def test_contract(tmp_path):
    config = TINY.replace(num_layers=1, pooler=False)
    contracts.check_task(
        lambda encoder: TokenClassifier(encoder, 3, labels=["O", "B", "I"]), config, tmp_path
    )


def test_learns_the_tokens_that_count():
    keras.utils.set_random_seed(0)
    config = TINY.replace(pooler=False, dropout=0.0, attention_dropout=0.0, initializer_range=0.2)
    task = TokenClassifier(BertEncoder(config), 3)
    task.compile(optimizer(0.02, total_steps=100), **task.loss_and_metrics())
    x = contracts.inputs_of(task)
    tags = x[features.TOKEN_IDS] % 3
    counted = x[features.PADDING_MASK].astype("float32")
    wrong = np.where(counted == 1, tags, (tags + 1) % 3)
    contracts.learn(task, x, {features.TAGS: wrong}, {features.TAGS: counted}, steps=100)
    found = task.predict(x, verbose=0)[features.TAGS].argmax(-1)
    assert (found == tags)[counted == 1].all()


def test_a_token_counts_alike_in_every_batch():
    """Each token has the same weight in one batch of all texts and in batches by length.

    The losses of a distillation follow the same rule.
    """
    rng = np.random.default_rng(0)
    counted = (np.arange(6) < np.array([[1], [2], [5], [6]])).astype("float32")
    tags, logits = rng.integers(0, 3, (4, 6)), rng.normal(size=(4, 6, 3)).astype("float32")
    chances = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = -np.take_along_axis(chances, tags[..., None], -1)[..., 0] * counted
    loss = TagLoss()
    found = numpy(loss(tags, logits, counted))
    np.testing.assert_allclose(found, losses.sum() / 4, rtol=1e-5)
    taught = DistillationLoss(loss)
    two = np.stack([logits, rng.normal(size=logits.shape)], -1)
    for each, outputs in ((loss, logits), (taught, two)):
        whole = numpy(each(tags, outputs, counted))
        halves = [
            numpy(each(tags[part], outputs[part], counted[part]))
            for part in (slice(0, 2), slice(2, 4))
        ]
        np.testing.assert_allclose(whole, np.mean(halves), rtol=1e-5)
    assert TagLoss.from_config(loss.get_config()).reduction == loss.reduction


# === With a conditional random field (CRF) ===

COUNTED = np.array([[0, 1, 0, 1, 1], [0] * 5, [1] * 5, [0, 0, 0, 0, 1]])


def test_contract_of_a_field(tmp_path):
    contracts.check_task(
        lambda encoder: TokenClassifier(encoder, 3, crf=True),
        TINY.replace(num_layers=1, pooler=False),
        tmp_path,
        label_axes=2,
    )


def test_format_of_a_field(tmp_path):
    task = TokenClassifier(BertEncoder(TINY), 3, crf=True)
    contracts.check_format(task, contracts.inputs_of(task), tmp_path)
    assert load_checkpoint(tmp_path).options["crf"] is True
    contracts.assert_same_weights(BertEncoder.from_preset(tmp_path), task.encoder)
    plain = TokenClassifier.from_preset(tmp_path, crf=False, allow_unused=("crf",))
    assert plain.options["num_classes"] == 3
    plain.save_to_preset(tmp_path / "plain")
    again = TokenClassifier.from_preset(tmp_path / "plain", crf=True, allow_missing=("crf",))
    np.testing.assert_array_equal(contracts.weights(again)["crf/transition"], 0.0)
    logits = numpy(plain(contracts.inputs_of(plain)))[features.TAGS]
    found = numpy(again(contracts.inputs_of(again)))[features.TAGS]
    # A new CRF has zero transitions, which change nothing.
    np.testing.assert_array_equal(found[..., 3, :3], logits)


def test_options_that_are_not_used_are_not_written():
    options = TokenClassifier(BertEncoder(TINY), 3).options
    assert set(options) == {"num_classes", "labels", "dropout"}


@pytest.mark.parametrize("jit", [False, True])
def test_gradient_of_the_loss(jit: bool):
    """The gradient of a potential is its marginal probability, minus 1 at the correct pair."""
    values = potentials(4, 5, 3)
    tags = np.random.default_rng(0).integers(0, 3, (4, 5))
    expected = np.zeros_like(values, dtype="float64")
    for row, counted in enumerate(COUNTED == 1):
        paths, places = every_path(values[row], counted), np.flatnonzero(counted)
        total = np.logaddexp.reduce(list(paths.values()))
        for path, score in paths.items():
            share = np.exp(score - total) - (path == tuple(tags[row, places]))
            before = (3, *path)
            for place, first, second in zip(places, before, path, strict=False):
                expected[row, place, first, second] += share
            expected[row, 0, before[-1], 3] += share
    model = keras.Sequential([keras.layers.Embedding(4, 80), keras.layers.Reshape((5, 4, 4))])
    model.build((None,))
    model.layers[0].embeddings.assign(values.reshape(4, 80))
    # PyTorch's compiler is not XLA and needs a C++ compiler.
    jit = jit and keras.backend.backend() != "torch"
    model.compile(keras.optimizers.SGD(1.0), ConditionalRandomFieldLoss(), jit_compile=jit)
    weights = COUNTED * np.array([1.0, 0.5, 2.0])[np.arange(5) % 3]
    labels = np.where(COUNTED == 1, tags, -100)
    loss = model.fit(np.arange(4), labels, sample_weight=weights, batch_size=4, verbose=0).history
    assert np.isfinite(loss["loss"]).all()
    step = values.reshape(4, 80) - numpy(model.layers[0].embeddings)
    # Mean over the three texts that have a counted token.
    np.testing.assert_allclose(step.reshape(values.shape), expected / 3, rtol=0, atol=1e-5)


def test_learns_what_follows_what():
    """A CRF learns the transitions 0 1 2 0 1 2 where all tokens are equal."""
    keras.utils.set_random_seed(0)
    task = TokenClassifier(BertEncoder(_STILL), 3, crf=True)
    x = contracts.inputs_of(task)
    x[features.TOKEN_IDS][:] = 7
    task.encoder.trainable = False
    task.head.trainable = False
    counted = np.array([[1, 0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 0, 0, 1, 0]])
    tags = np.where(counted == 1, (counted.cumsum(axis=1) - 1) % 3, 1)
    task.compile(keras.optimizers.Adam(0.1), **task.loss_and_metrics())
    first, last = contracts.learn(task, x, {"tags": tags}, {"tags": counted}, steps=100)
    assert first > 2.0 > 0.3 > last
    found = token_classification.decode(task.predict(x, verbose=0)[features.TAGS], counted)
    np.testing.assert_array_equal(found, np.where(counted == 1, tags, -1))
    transition: Any = contracts.weights(task)["crf/transition"]
    np.testing.assert_array_equal(transition.argmax(-1), [1, 2, 0])


def test_all_tokens_count_without_weights():
    values = potentials(2, 4, 3)
    tags = np.array([[0, 1, 2, 0], [2, 2, 1, 0]])
    loss = ConditionalRandomFieldLoss()
    expected = loss(tags, values, np.ones((2, 4)))
    np.testing.assert_allclose(numpy(loss(tags, values)), numpy(expected))
    np.testing.assert_array_equal(numpy(loss(tags, values, np.zeros((2, 4)))), 0.0)
    with pytest.raises(
        ValueError, match=r"shape \[batch, length\]\. Received: \(2, 4\) and \(2,\)"
    ):
        loss(tags, values, np.ones(2))
    assert ConditionalRandomFieldLoss.from_config(loss.get_config()).name == loss.name


def test_texts_with_entities_train_as_their_words() -> None:
    """Texts and character spans are the words and tags of `tag_words`, in `fit` and `predict`."""
    texts = ["w1 w2.", "w3 w1"]
    entities = [[(0, 2, "X")], [{"start": 3, "end": 5, "label": "X"}]]
    words, tags = [["w1", "w2", "."], ["w3", "w1"]], [["B-X", "O", "O"], ["O", "B-X"]]
    histories, tokenizer = [], Tokenizer([*SPECIAL_TOKENS, *(f"w{i}" for i in range(9)), "."])
    config = _STILL.replace(vocab_size=tokenizer.vocab_size)
    for x, y in ((texts, entities), (words, tags)):
        keras.utils.set_random_seed(0)
        task = TokenClassifier(BertEncoder(config), labels=["O", "B-X", "I-X"], tokenizer=tokenizer)
        histories.append(task.fit(x, y, epochs=2, batch_size=2, verbose=0).history["loss"])
        assert [len(logits) for logits in task.predict(x)] == [3, 2]
    assert histories[0] == histories[1]
    with pytest.raises(DataError, match=r"row 1: the entity \[3, 4, 'X'\] 'w' ends within"):
        task.fit(texts, [[], [(3, 4, "X")]], verbose=0)


@pytest.mark.parametrize(
    ("single", "labels"),
    [("U", "BILU"), ("S", "BIES"), ("S", "BMES"), ("B", "BI")],
)
def test_tags_of_entities_have_the_scheme_of_the_labels(single: str, labels: str) -> None:
    tokenizer = Tokenizer([*SPECIAL_TOKENS, "w1", "w2"])
    names = ["O", *(f"{letter}-X" for letter in labels)]
    config = _STILL.replace(vocab_size=tokenizer.vocab_size)
    task = TokenClassifier(BertEncoder(config), labels=names, tokenizer=tokenizer)
    examples = task.examples_of([["w1 w2"]], [[(0, 2, "X")]], max_length=8)
    batch: Any = examples.batch_of(0, np.array([0]))
    assert batch[1]["tags"][0, 1:3].tolist() == [names.index(f"{single}-X"), 0]
