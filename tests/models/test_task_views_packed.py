"""Sequence packing gives the loss and gradients of the same examples in rows of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    Pretrainer,
    QuestionAnswerer,
    SentenceEncoder,
    SequenceClassifier,
    TokenClassifier,
    features,
    load_checkpoint,
    optimizer,
)
from bert_keras.data import (
    EncodedTexts,
    PackedExamples,
    SupervisedExamples,
    pack_batch,
    py_dataset,
    tf_dataset,
)
from bert_keras.models import Task
from bert_keras.models.task_views import MeanOfExamples
from bert_keras.models.text_classification import CLS, NORMALIZED, POOLINGS
from tests import contracts
from tests.contracts import FAMILIES, TINY, VALUES, numpy
from tests.gradients import step_of
from tests.pretraining import few_examples

# Keras's backends cause a deprecation warning of NumPy 2 about `__array__`.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

_COUNT = 17
_FIXED = TINY.replace(dropout=0.0, attention_dropout=0.0)
_ONE_LAYER = _FIXED.replace(num_layers=1)  # JAX takes seconds to compile each further layer
_NO_POOLER = _ONE_LAYER.replace(pooler=False)
# Longer than the position table of TINY.
_SHAPES: dict[str, Any] = {"sequence_length": 24, "batch_size": 7}

_HIDDEN: dict[str, Any] = {"hidden_activation": "tanh"}


def _rows(seed: int = 0) -> EncodedTexts:
    rng = np.random.default_rng(seed)
    ids = [rng.integers(5, 50, length) for length in rng.integers(2, 13, _COUNT)]
    return EncodedTexts.of(ids, [np.arange(len(row)) > 2 for row in ids], pad_id=0)


def _supervised(task: Task) -> SupervisedExamples:
    """Return examples with labels for this task and with varied weights."""
    rng, rows = np.random.default_rng(1), _rows()
    options: dict[str, Any] = {"segments": features.SEGMENT_IDS in task.input, "max_length": 12}
    weights = rng.uniform(0.5, 2, _COUNT).astype("float32")
    if isinstance(task, TokenClassifier):
        count = len(rows.token_ids)
        options["token_labels"] = {"tags": rng.integers(0, 3, count)}
        options["token_weights"] = {"tags": (rng.uniform(-1, 1, count).clip(0)).astype("float32")}
        return SupervisedExamples(rows, {}, **options)
    labels = {
        "single_label": lambda: rng.integers(0, 3, _COUNT),
        "multi_label": lambda: rng.integers(0, 2, (_COUNT, 3)).astype("float32"),
        "regression": lambda: rng.normal(size=(_COUNT, 1)).astype("float32"),
    }[task.options["problem"]]()
    return SupervisedExamples(rows, {"label": labels}, weights={"label": weights}, **options)


TASKS: dict[str, Callable[[], Task]] = {
    "mlm": lambda: MaskedLM(BertEncoder(_FIXED)),
    "nsp": lambda: Pretrainer(BertEncoder(_FIXED)),
    "sop": lambda: Pretrainer(BertEncoder(_ONE_LAYER), loss="sop"),
    "single_label": lambda: SequenceClassifier(BertEncoder(_FIXED), 3),
    "multi_label": lambda: SequenceClassifier(BertEncoder(_ONE_LAYER), 3, problem="multi_label"),
    "regression": lambda: SequenceClassifier(BertEncoder(_ONE_LAYER), 1),
    "no_pooler": lambda: SequenceClassifier(BertEncoder(_NO_POOLER), 3, hidden_activation="relu"),
    "unread_pooler": lambda: SequenceClassifier(BertEncoder(_ONE_LAYER), 3, **_HIDDEN),
    **{
        pooling: lambda pooling=pooling: SequenceClassifier(
            BertEncoder(_ONE_LAYER), 3, pooling=pooling
        )
        for pooling in POOLINGS
        if pooling != CLS
    },
    **{
        f"normalized_{pooling}": lambda pooling=pooling: SequenceClassifier(
            BertEncoder(_ONE_LAYER), 3, pooling=pooling, normalize=True
        )
        for pooling in NORMALIZED
    },
    "mean_of_hidden": lambda: SequenceClassifier(
        BertEncoder(_NO_POOLER), 3, pooling="mean", **_HIDDEN
    ),
    "mix": lambda: SequenceClassifier(BertEncoder(_ONE_LAYER), 3, representation="mix", **_HIDDEN),
    "tags": lambda: TokenClassifier(BertEncoder(_NO_POOLER), 3),
    "tags_of_four_layers": lambda: TokenClassifier(
        BertEncoder(_NO_POOLER.replace(num_layers=4, num_unique_layers=1, num_segments=0)),
        3,
        representation="concat_last_4",
    ),
}


def _source(name: str, task: Task) -> Any:
    return few_examples(name) if name in ("mlm", "nsp", "sop") else _supervised(task)


@pytest.mark.parametrize("name", TASKS)
def test_loss_and_gradients_are_those_of_the_examples(name: str) -> None:
    task = contracts.as_trained(TASKS[name]())
    source = _source(name, task)
    packed = PackedExamples(source, **_SHAPES)
    examples = source.epoch_order(0)
    assert 1 < packed.num_rows() < min(0.7 * len(examples), packed.batch_size)  # one row is empty
    logs, gradients = step_of(task, source.batch_of(0, examples))
    view = task.packed()
    packed_logs, packed_gradients = step_of(view, packed.batch(0, 0))
    assert np.isfinite(logs["loss"])
    np.testing.assert_allclose(packed_logs["loss"], logs["loss"], rtol=1e-5)
    assert packed_gradients.keys() == gradients.keys()
    for path, gradient in gradients.items():
        np.testing.assert_allclose(packed_gradients[path], gradient, atol=1e-5, err_msg=path)
    moved = {path for path, gradient in gradients.items() if np.abs(gradient).max() > 1e-4}
    # A key's bias changes no attention score, and some rows of the tables belong to no token.
    unread = {weight.path for weight in task.unused_variables}
    assert {path for path in gradients if "key/bias" not in path} - moved <= unread


def _packed_inputs(config: Any, length: int = 5) -> tuple[dict, dict]:
    """Return three examples, as three rows and packed into two rows of three.

    One of those is empty.
    """
    x = contracts.batch(config, length=length)
    rows = np.array([0, 0, 1])
    packed, _, _ = pack_batch((x, {}, {}), rows, shape=(3, 12), max_examples=4)
    return x, packed


@pytest.mark.parametrize("case", [*FAMILIES, *VALUES])
def test_outputs_are_those_of_the_examples(case: str) -> None:
    encoder = contracts.as_trained(BertEncoder((FAMILIES | VALUES)[case], hidden_states=True))
    x, packed = _packed_inputs(encoder.config)
    expected, found = numpy(encoder(x)), numpy(encoder.packed(hidden_states=True)(packed))
    assert found.keys() == {*expected, features.FIRST_OUTPUT}
    assert all(np.isfinite(values).all() for values in keras.tree.flatten(found))
    for number, (row, slot) in enumerate([(0, 0), (0, 1), (1, 0)]):
        mine = packed[features.EXAMPLE_IDS][row] == slot + 1
        real = x[features.PADDING_MASK][number] == 1
        states = [(features.SEQUENCE_OUTPUT, expected, found)]
        layers = range(encoder.config.num_layers + 1)
        states += [
            (layer, expected[features.HIDDEN_STATES], found[features.HIDDEN_STATES])
            for layer in layers
        ]
        for name, of_one, of_row in states:
            contracts.assert_close(of_row[name][row][mine], of_one[name][number][real], 1e-5)
        first = found[features.FIRST_OUTPUT][row, slot]
        contracts.assert_close(first, expected[features.SEQUENCE_OUTPUT][number, 0], 1e-5)
        if encoder.pooler is not None:
            pooled = found[features.POOLED_OUTPUT][row, slot]
            contracts.assert_close(pooled, expected[features.POOLED_OUTPUT][number], 1e-5)


def test_examples_do_not_see_each_other() -> None:
    encoder = contracts.as_trained(BertEncoder(TINY))
    _, packed = _packed_inputs(TINY)
    view = encoder.packed()
    before = numpy(view(packed))
    others = packed[features.EXAMPLE_IDS] == 2
    for name in (features.TOKEN_IDS, features.SEGMENT_IDS, features.POSITION_IDS):
        changed = {**packed, name: np.where(others, 1 - packed[name] % 2, packed[name])}
        after = numpy(view(changed))
        mine = packed[features.EXAMPLE_IDS] == 1
        sequence = features.SEQUENCE_OUTPUT
        contracts.assert_close(after[sequence][mine], before[sequence][mine], 1e-6)
        assert np.abs(after[sequence][others] - before[sequence][others]).max() > 1e-2, name
        pooled = features.POOLED_OUTPUT
        contracts.assert_close(after[pooled][:, 0], before[pooled][:, 0], 1e-6)


def test_order_and_row_do_not_matter() -> None:
    """The outputs of an example do not depend on its row or its place in the row."""
    encoder = contracts.as_trained(BertEncoder(TINY))
    view, x = encoder.packed(), contracts.batch(TINY, length=5)
    found = []
    for order, rows in (([0, 1, 2], [0, 0, 1]), ([2, 1, 0], [0, 0, 0]), ([1, 2, 0], [0, 1, 2])):
        batch = {name: values[order] for name, values in x.items()}
        packed, _, _ = pack_batch((batch, {}, {}), np.array(rows), shape=(3, 12), max_examples=3)
        slots = [rows[:number].count(row) for number, row in enumerate(rows)]
        outputs = numpy(view(packed))[features.POOLED_OUTPUT][rows, slots]
        found.append(outputs[np.argsort(order)])
    contracts.assert_close(found[1], found[0], 1e-6)
    contracts.assert_close(found[2], found[0], 1e-6)


def test_the_view_shares_the_weights() -> None:
    task = SequenceClassifier(BertEncoder(TINY), 2, hidden_activation="tanh")
    view = task.packed()
    assert {id(weight) for weight in view.weights} == {id(weight) for weight in task.weights}
    assert len(view.weights) == len(task.weights)
    for names in ("trainable_variables", "non_trainable_weights"):
        ids = [{id(v) for v in getattr(model, names)} for model in (view, task)]
        assert ids[0] == ids[1] != set()
    task.encoder.trainable = False
    head = {id(weight) for weight in task.head.weights}
    assert {id(weight) for weight in view.trainable_weights} == head


def test_a_fixed_encoder_drops_nothing() -> None:
    encoder = BertEncoder(TINY)
    view = encoder.packed()
    _, packed = _packed_inputs(TINY)
    dropped, kept = (numpy(view(packed, training=training)) for training in (True, False))
    assert (dropped[features.SEQUENCE_OUTPUT] != kept[features.SEQUENCE_OUTPUT]).any()
    encoder.trainable = False
    contracts.assert_close(numpy(view(packed, training=True)), kept)


@pytest.mark.parametrize("policy", contracts.POLICIES[1:])
def test_mixed_precision(policy: str) -> None:
    task = Pretrainer(BertEncoder(TINY.replace(num_layers=1), dtype=policy))
    view = task.packed()
    assert view.dtype_policy.name == policy
    x, y, weights = PackedExamples(few_examples("nsp"), **_SHAPES).batch(0, 0)
    logits = numpy(view(x))
    assert {str(values.dtype) for values in logits.values()} == {"float32"}
    view.compile(keras.optimizers.SGD(1e-3), **view.loss_and_metrics())
    scaled = isinstance(view.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (policy == "mixed_float16")
    logs = view.train_on_batch(x, y, sample_weight=weights, return_dict=True)
    assert np.isfinite(logs["loss"])
    assert all(np.isfinite(values).all() for values in contracts.weights(view).values())


@pytest.mark.parametrize("feed", [py_dataset, tf_dataset])
def test_learns_and_is_saved(feed: Any, tmp_path) -> None:
    """After training a packed view, the saved folder of the task holds the learned weights."""
    if feed is tf_dataset:
        pytest.importorskip("tensorflow")
    keras.utils.set_random_seed(0)
    task = SequenceClassifier(BertEncoder(_ONE_LAYER), 3)
    view = task.packed()
    source = _supervised(task)
    packed = PackedExamples(source, sequence_length=24, batch_size=3)
    view.compile(optimizer(2e-2, total_steps=90), **view.loss_and_metrics())
    batches = feed(packed)
    history = view.fit(batches, epochs=40, verbose=0).history
    assert history["loss"][-1] < 0.2 * history["loss"][0]
    assert history["accuracy"][-1] > 0.9
    task.save_to_preset(tmp_path)
    loaded: Any = load_checkpoint(tmp_path)
    contracts.assert_same_weights(loaded, task)
    x, y, _ = source.batch_of(0, np.arange(_COUNT))
    assert (numpy(loaded(x))["label"].argmax(-1) == y["label"]).mean() > 0.9


def test_tasks_that_cannot_be_packed() -> None:
    for task in (
        QuestionAnswerer(BertEncoder(TINY)),
        MultipleChoice(BertEncoder(TINY)),
        SentenceEncoder(BertEncoder(TINY)),
    ):
        name = type(task).__name__
        with pytest.raises(ValueError, match=f"works with MaskedLM, .* Received: {name}"):
            task.packed()
    with pytest.raises(ValueError, match=r"random field .* Received: crf=True"):
        TokenClassifier(BertEncoder(TINY), 3, crf=True).packed()


def test_relative_positions_bound_the_row() -> None:
    """A packed row may not be longer than the table of relative positions."""
    encoder = BertEncoder(FAMILIES["relative_key"])
    x = contracts.batch(TINY, length=7)
    packed, _, _ = pack_batch((x, {}, {}), np.zeros(3, int), shape=(1, 24), max_examples=3)
    with pytest.raises(ValueError, match=r"has 12 positions"):
        encoder.packed()(packed)


def test_the_mean_is_of_examples() -> None:
    """The loss is divided by the number of examples, not by the sum of their weights."""
    labels, logits = np.array([[0, 1, 0]]), np.zeros((1, 3, 2), "float32")
    loss = MeanOfExamples(keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for weights, expected in (([1, 1, 0], 1.0), ([1, 3, 0], 2.0), ([0, 0, 0], 0.0)):
        found = numpy(loss(labels, logits, np.array([weights], "float32")))
        np.testing.assert_allclose(found, expected * np.log(2), rtol=1e-6)
    with pytest.raises(ValueError, match="this loss needs sample weights"):
        loss(labels, logits)
    rebuilt = MeanOfExamples.from_config(loss.get_config())
    assert rebuilt.get_config() == loss.get_config()
    weights = np.array([[1, 3, 0]], "float32")
    expected = numpy(loss(labels, logits, weights))
    contracts.assert_close(numpy(rebuilt(labels, logits, weights)), expected)
