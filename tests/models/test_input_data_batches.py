"""Batches from every kind of source are checked before the compiled step and are not changed."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, SequenceClassifier
from bert_keras.models.input_data import DataChecks
from tests import contracts
from tests.contracts import TINY, numpy
from tests.models import every_model

# Keras warns at the end of a source of unknown length.
pytestmark = pytest.mark.filterwarnings("ignore:Your input ran out of data")

METHODS = ("fit", "evaluate", "predict")
ROWS = 12  # four batches of three
TOO_LARGE = "token_ids has 50 at .*token table has 50 rows"
Batch = tuple[dict[str, np.ndarray], np.ndarray]


class Batches(keras.utils.PyDataset):
    """Batches that count how often Keras ended an epoch."""

    def __init__(self, batches: list[Batch], **options: Any):
        super().__init__(**options)
        self.batches, self.ended = batches, 0

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Batch:
        return self.batches[index]

    def on_epoch_end(self) -> None:
        self.ended += 1


def _tensorflow(batches: list[Batch]) -> Any:
    tf = pytest.importorskip("tensorflow")
    x = {key: np.concatenate([x[key] for x, _ in batches]) for key in batches[0][0]}
    y = np.concatenate([y for _, y in batches])
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(3)


def _of_unknown_lengths(batches: list[Batch]) -> Any:
    tf = pytest.importorskip("tensorflow")
    rows = tf.TensorSpec((None, None), tf.int32)
    signature = (dict.fromkeys(batches[0][0], rows), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)


def _torch(batches: list[Batch]) -> Any:
    data = pytest.importorskip("torch.utils.data")
    examples = [
        ({key: values[row] for key, values in x.items()}, y[row])
        for x, y in batches
        for row in range(len(y))
    ]
    return data.DataLoader(examples, batch_size=3)


def _grain_map(batches: list[Batch]) -> Any:
    return pytest.importorskip("grain").MapDataset.source(batches)


def _grain_loader(batches: list[Batch]) -> Any:
    grain = pytest.importorskip("grain")
    sampler = grain.samplers.IndexSampler(len(batches), shuffle=False, num_epochs=1)
    return grain.DataLoader(data_source=batches, sampler=sampler)


def _arrays(batches: list[Batch]) -> Any:
    x = {key: np.concatenate([x[key] for x, _ in batches]) for key in batches[0][0]}
    return x, np.concatenate([y for _, y in batches])


def _tensors(batches: list[Batch]) -> Any:
    return keras.tree.map_structure(keras.ops.convert_to_tensor, _arrays(batches))


def _generator(batches: list[Batch]) -> Iterator[Batch]:
    yield from batches


SOURCES: dict[str, Callable[[list[Batch]], Any]] = {
    "arrays": _arrays,
    "tensors": _tensors,
    "PyDataset": Batches,
    "PyDataset with workers": lambda batches: Batches(batches, workers=2),
    "generator": _generator,
    "tf.data": _tensorflow,
    "tf.data of unknown lengths": _of_unknown_lengths,
    "DataLoader": _torch,
    "grain.MapDataset": _grain_map,
    "grain.IterDataset": lambda batches: _grain_map(batches).to_iter_dataset(),
    "grain.DataLoader": _grain_loader,
}


@pytest.fixture(scope="module")
def task() -> SequenceClassifier:
    made = contracts.as_trained(SequenceClassifier(BertEncoder(TINY.replace(num_layers=1)), 3))
    made.compile(keras.optimizers.SGD(0.0), **made.loss_and_metrics())
    return made


def _batches(**changes: Callable[[np.ndarray], np.ndarray]) -> list[Batch]:
    """Return four batches. The third one is changed by the given functions."""
    x = every_model.inputs(every_model.model("encoder"))
    y = np.array([0, 1, 2])
    batches = [({key: values.copy() for key, values in x.items()}, y) for _ in range(4)]
    for key, change in changes.items():
        bad, labels = batches[2]
        batches[2] = (
            (bad, change(labels)) if key == "y" else (bad | {key: change(bad[key])}, labels)
        )
    return batches


def _run(task: SequenceClassifier, method: str, data: Any) -> Any:
    arguments = data if isinstance(data, tuple) else (data,)
    if method == "predict":
        arguments = arguments[:1]
    options = {"shuffle": False} if method == "fit" else {}
    return getattr(task, method)(*arguments, verbose=0, **options)


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_of_batches_is_checked(task: SequenceClassifier, source: str) -> None:
    make = SOURCES[source]
    weights = contracts.weights(task)
    expected = _run(task, "predict", _arrays(_batches()))["label"]
    found = _run(task, "predict", make(_batches()))["label"]
    np.testing.assert_allclose(found, expected, atol=1e-6)

    def large(values: np.ndarray) -> np.ndarray:
        return np.where(np.arange(values.size).reshape(values.shape) == 9, 50, values).astype(
            "int32"
        )

    for method in METHODS:
        _run(task, method, make(_batches()))
        with pytest.raises(ValueError, match=TOO_LARGE) as raised:
            _run(task, method, make(_batches(token_ids=large)))
        assert type(raised.value) is ValueError
        if method != "predict":
            with pytest.raises(ValueError, match="labels of output 'label' have 5 at"):
                _run(task, method, make(_batches(y=lambda y: y + 5)))
    validation = make(_batches(token_ids=large))
    with pytest.raises(ValueError, match=TOO_LARGE):
        task.fit(*_arrays(_batches()), validation_data=validation, verbose=0)
    for path, values in contracts.weights(task).items():
        np.testing.assert_array_equal(values, weights[path])


@pytest.mark.parametrize("source", [name for name in SOURCES if name != "generator"])
def test_long_rows_and_other_keys_of_each_source(task: SequenceClassifier, source: str) -> None:
    make, tokens = SOURCES[source], _batches()[0][0]["token_ids"]

    def renamed(more: dict[str, np.ndarray]) -> list[Batch]:
        names = {"token_ids": "input_word_ids", "padding_mask": "input_mask"}
        return [({names.get(key, key): x[key] for key in x} | more, y) for x, y in _batches()]

    expected = _run(task, "predict", _arrays(_batches()))["label"]
    for more in ({}, {"labels": tokens, "mlm": tokens, "mask_positions": tokens[:, :2]}):
        found = _run(task, "predict", make(renamed(more)))["label"]
        np.testing.assert_allclose(found, expected, atol=1e-6)
        _run(task, "evaluate", make(renamed(more)))
    with pytest.raises(ValueError, match="no input 'aaa'"):
        _run(task, "evaluate", make(renamed({"aaa": tokens})))
    long = [({key: np.tile(values, 2) for key, values in x.items()}, y) for x, y in _batches()]
    with pytest.raises(ValueError, match="12 positions, but the rows of token_ids have 14 tokens"):
        _run(task, "predict", make(long))


def test_a_dataset_keeps_what_it_is(task: SequenceClassifier) -> None:
    made = Batches(_batches(), workers=3, max_queue_size=5)
    wrapped = DataChecks(lambda x: x, task._value_checks).data(made)
    assert isinstance(wrapped, keras.utils.PyDataset)
    assert (wrapped.workers, wrapped.max_queue_size, wrapped.num_batches) == (3, 5, 4)
    assert wrapped.use_multiprocessing is False
    made = Batches(_batches())
    history = task.fit(made, epochs=2, verbose=0)
    assert made.ended >= 2
    assert len(history.history["loss"]) == 2


def test_a_loader_of_the_users_own_is_not_changed(task: SequenceClassifier) -> None:
    loader = _torch(_batches())
    collate = loader.collate_fn
    task.predict(loader, verbose=0)
    assert loader.collate_fn is collate


def test_a_loader_whose_workers_run_starts_others(task: SequenceClassifier) -> None:
    """A loader gets new workers for the checks, because running workers make unchecked batches."""
    loader = _torch(_batches())
    loader._iterator = running = object()
    assert DataChecks(lambda x: x, task._value_checks).data(loader)._iterator is None
    assert loader._iterator is running


def test_workers_copy_numbers_and_not_the_model(task: SequenceClassifier) -> None:
    loader = _torch(_batches())
    keys = task._input_keys
    assert keys is not None
    checks = DataChecks(keys.select, task._value_checks.with_losses(task.loss))
    copied = pickle.dumps(checks.data(loader).collate_fn)
    assert len(copied) < 10_000
    x, y = _batches()[0]
    rows = [({key: values[row] for key, values in x.items()}, y[row]) for row in range(3)]
    rows[1][0]["token_ids"] = rows[1][0]["token_ids"] * 0 + 50
    with pytest.raises(ValueError, match=r"token_ids has 50 at \[1, 0\]"):
        pickle.loads(copied)(rows)


@pytest.fixture(scope="module")
def around() -> tuple[BertEncoder, keras.Model]:
    """Return an encoder and a user's model around it that has one more input."""
    encoder = BertEncoder(TINY.replace(num_layers=1, pooler=False))
    inputs = {**encoder.input, "aaa": keras.Input((None,), name="aaa")}
    names = ("token_ids", "segment_ids", "padding_mask")
    encoded = encoder({name: inputs[name] for name in names})["sequence_output"]
    own = keras.Model(inputs, keras.layers.Dense(3)(encoded[:, 0]))
    own.compile(
        keras.optimizers.SGD(0.0), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return encoder, own


@pytest.mark.parametrize("source", SOURCES)
def test_a_model_of_the_users_own(around: tuple[BertEncoder, keras.Model], source: str) -> None:
    encoder, own = around
    # TensorFlow and Keras keep the message of an error in a pipeline, but not its class.
    errors: tuple[type[Exception], ...] = (ValueError, RuntimeError)
    if keras.backend.backend() == "tensorflow" or source.startswith("tf"):
        errors = (*errors, pytest.importorskip("tensorflow").errors.OpError)
    for bad in (False, True):
        batches = [({**x, "aaa": x["token_ids"]}, y) for x, y in _batches()]
        if bad:
            batches[2][0]["token_ids"] = batches[2][0]["token_ids"] + 50
        data = SOURCES[source](batches)
        x, *y = data if isinstance(data, tuple) else (data,)
        if not bad:
            own.fit(encoder.checked(x), *y, shuffle=False, verbose=0)
            continue
        with pytest.raises(errors, match=r"token_ids has .*50 rows"):
            own.fit(encoder.checked(x), *y, shuffle=False, verbose=0)


@pytest.mark.parametrize("trainable", [True, False])
def test_unchecked_ids_leave_no_weight_without_a_number(trainable: bool) -> None:
    """An unchecked token id outside the table makes no weight NaN.

    The functional models of users do not check their inputs.
    """
    encoder = BertEncoder(TINY.replace(num_layers=1, pooler=False))
    encoder.trainable = trainable
    packed = encoder.at_positions(packed=True)
    for view in (encoder, packed) if trainable else (packed,):
        outputs = view(view.input)["sequence_output"]
        own = keras.Model(view.input, keras.layers.Dense(3)(outputs[:, 0]))
        own.compile(
            keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        )
        x = every_model.inputs(view)
        for key in x:
            changed = x[key].copy()
            changed[-1, -1] = 1000 if key not in ("padding_mask", "example_ids") else 1
            try:
                own.fit({**x, key: changed}, np.array([0, 1, 2]), verbose=0)
            except Exception:
                assert keras.backend.backend() != "jax"
            assert all(np.isfinite(values).all() for values in contracts.weights(own).values()), key
    if keras.backend.backend() == "jax":
        bad = x | {"token_ids": x["token_ids"] + 1000}
        assert np.isnan(numpy(packed(bad))["sequence_output"]).all()
