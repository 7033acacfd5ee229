"""The batches that `fit`, `evaluate` and `predict` read from a finite dataset."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import data
from bert_keras.data import MaskedTexts, PackedExamples, PretrainingExamples, SupervisedExamples
from bert_keras.data.batch_datasets import py_dataset, tf_dataset
from bert_keras.data.batches import BaseExamples, Batch, Examples, advance
from bert_keras.data.corpus import Corpus
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.models.base import DirectModel
from bert_keras.tokenizers import Tokenizer

# NumPy 2 warns that `__array__` of the Keras backends has no argument `copy`.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))])
MAKERS = ("tf_dataset", "py_dataset")


def supervised(count: int = 22, group: int | None = None) -> SupervisedExamples:
    """Return examples of several lengths: six batches, of which the last is smaller.

    The first two batches differ in length. Keras on TensorFlow takes the axes that they share as
    the fixed shape of all batches of a `PyDataset`.
    """
    lengths = [1 + 7 * number % 20 for number in range(count * (group or 1))]
    ids = [np.arange(number, number + length) % 45 + 5 for number, length in enumerate(lengths)]
    rows = EncodedTexts.of(ids, [row % 2 for row in ids], pad_id=0)
    labels = {"label": np.arange(count)}
    return SupervisedExamples(rows, labels, group=group, batch_size=4, seed=4)


def pretraining() -> PretrainingExamples:
    """Return pretraining examples of a small random corpus."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, (8, 6)).tolist()
    corpus = Corpus.from_ids(
        [[rng.integers(5, 50, size).tolist() for size in row] for row in sizes]
    )
    return PretrainingExamples(corpus, TOKENIZER, sequence_length=16, batch_size=4, seed=3)


def masked() -> MaskedTexts:
    """Return texts of several lengths with new masks in every epoch."""
    return MaskedTexts(TOKENIZER, supervised().rows, batch_size=4, seed=4)


class Unequal:
    """Examples with 3, 5 and 2 batches in turn. A batch holds its epoch and position."""

    fixed_shapes = True

    def num_batches(self, epoch: int) -> int:
        return (3, 5, 2)[epoch % 3]

    def locate(self, epoch: int, position: int, steps: int) -> tuple[int, int]:
        return advance(self.num_batches, epoch, position, steps)

    def batch(self, epoch: int, position: int) -> Batch:
        ids = np.full((2, 4), 10 * epoch + position, np.int32)
        return {"token_ids": ids}, {"label": ids[:, 0]}, {"label": np.ones(2, np.float32)}


SOURCES: dict[str, tuple[type, Callable[[], Examples]]] = {
    "supervised": (SupervisedExamples, supervised),
    "choices": (SupervisedExamples, lambda: supervised(group=2)),
    "one_batch": (SupervisedExamples, lambda: supervised(count=3)),
    "pretraining": (PretrainingExamples, pretraining),
    "packed": (
        PackedExamples,
        lambda: PackedExamples(supervised(80), sequence_length=32, batch_size=8),
    ),
    "packed_pretraining": (
        PackedExamples,
        lambda: PackedExamples(pretraining(), sequence_length=32, batch_size=2),
    ),
    "masked_texts": (MaskedTexts, masked),
    "unequal": (Unequal, Unequal),
}


def test_all_kinds_of_examples_are_read_here() -> None:
    public = {
        value
        for value in vars(data).values()
        if isinstance(value, type)
        and hasattr(value, "locate")
        and value not in (BaseExamples, Examples)
    }
    assert public | {Unequal} == {kind for kind, _ in SOURCES.values()}


def _hash(batch: Any) -> str:
    """Return a hash of all names, dtypes, shapes and values of a batch."""
    digest = hashlib.sha256()
    for part in batch:
        for name, value in sorted(part.items()):
            array = np.asarray(keras.ops.convert_to_numpy(value))
            digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:16]


def hashes(source: Examples, start: int, end: int, epoch: int = 0) -> list[str]:
    """Return the hashes of batches `start` to `end`, counted from the beginning of an epoch."""
    return [_hash(source.batch(*source.locate(epoch, 0, number))) for number in range(start, end)]


class Recorder(DirectModel):
    """Model that records the hash of each batch that it receives."""

    hashes: list[str]

    @classmethod
    def of(cls, source: Examples, *, loss: str | None = None) -> Recorder:
        """Return a model with the inputs of these examples.

        With a loss, Keras on JAX and PyTorch reads one more batch before each call, because this
        loss is never built.
        """
        x, _, _ = source.batch(0, 0)
        tensors = {
            name: keras.Input((None,) * (value.ndim - 1), dtype=value.dtype.name, name=name)
            for name, value in x.items()
        }
        vectors = keras.layers.Embedding(200, 1)(tensors["token_ids"])
        model = cls(tensors, keras.ops.mean(vectors, axis=tuple(range(1, vectors.ndim))))
        # Keras would wrap a plain attribute in a tracked list.
        object.__setattr__(model, "hashes", [])
        model.compile(keras.optimizers.SGD(), loss=loss, run_eagerly=True)
        return model

    def compute_loss(self, x=None, y=None, y_pred=None, *arguments: Any, **options: Any) -> Any:
        del x, y, arguments, options
        return keras.ops.mean(y_pred)

    def train_step(self, *state_and_data: Any) -> Any:
        return super().train_step(*self._noted(state_and_data))

    def test_step(self, *state_and_data: Any) -> Any:
        return super().test_step(*self._noted(state_and_data))

    def predict_step(self, *state_and_data: Any) -> Any:
        return super().predict_step(*self._noted(state_and_data))

    def _noted(self, state_and_data: tuple[Any, ...]) -> tuple[Any, ...]:
        self.hashes.append(_hash(state_and_data[-1]))
        return state_and_data

    def read(self, method: str, dataset: Any, **options: Any) -> list[str]:
        """Return the hashes of the batches that a Keras method reads, in order."""
        self.hashes.clear()
        getattr(self, method)(dataset, verbose=0, **options)
        return list(self.hashes)


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return `tf_dataset` or `py_dataset`."""
    if request.param == "tf_dataset":
        pytest.importorskip("tensorflow")
        return tf_dataset
    return py_dataset


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", SOURCES)
def test_fit_reads_epoch_after_epoch(make: Callable[..., Any], name: str, seed: int) -> None:
    """`fit` reads one epoch of the examples after another, on every backend.

    The state of the global `random` must not change the order.
    """
    source = SOURCES[name][1]()
    random.seed(seed)
    length = source.num_batches(0)
    dataset = make(source, workers=seed)
    assert len(dataset) == length
    assert Recorder.of(source).read("fit", dataset, epochs=3) == hashes(source, 0, 3 * length)


def test_epochs_of_equal_length_are_those_of_the_examples(make: Callable[..., Any]) -> None:
    source = supervised()
    read = Recorder.of(source).read("fit", make(source), epochs=3)
    for epoch in range(3):
        assert read[6 * epoch : 6 * epoch + 6] == hashes(source, 0, 6, epoch)


def test_the_batches_of_every_backend(make: Callable[..., Any]) -> None:
    source = supervised()
    read = Recorder.of(source).read("fit", make(source, workers=2), epochs=2)
    whole = hashlib.sha256("".join(read).encode()).hexdigest()[:16]
    assert whole == "17b78d9da74d9613"


@pytest.mark.parametrize("name", ["supervised", "one_batch", "pretraining"])
def test_every_call_begins_with_the_first_epoch(make: Callable[..., Any], name: str) -> None:
    """Each call of `fit`, `evaluate` or `predict` begins with the first epoch.

    This also holds if Keras builds the model with a first pass over the data.
    """
    source = SOURCES[name][1]()
    length = source.num_batches(0)
    dataset, model = make(source), Recorder.of(source)
    first, both = hashes(source, 0, length), hashes(source, 0, 2 * length)
    for method in ("predict", "evaluate", "evaluate", "fit", "predict", "predict", "fit"):
        options = {"epochs": 2} if method == "fit" else {}
        assert model.read(method, dataset, **options) == (both if options else first), method
    model = Recorder.of(source, loss="mse")
    for method in ("fit", "evaluate", "predict", "evaluate", "fit"):
        options = {"epochs": 2} if method == "fit" else {}
        assert model.read(method, dataset, **options) == (both if options else first), method


def test_evaluations_are_equal(make: Callable[..., Any]) -> None:
    """Each evaluation and each prediction reads the same batches."""
    source = pretraining()
    dataset, model = make(source), Recorder.of(source)
    assert model.evaluate(dataset, verbose=0) == model.evaluate(dataset, verbose=0)
    one, other = (model.predict(dataset, verbose=0) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert len(one) == source.num_batches(0) * source.batch_size


@pytest.mark.parametrize("frequency", [1, 2])
def test_validation_between_epochs(make: Callable[..., Any], frequency: int) -> None:
    source, validation = supervised(), supervised(23)
    model = Recorder.of(source)
    read = model.read(
        "fit",
        make(source),
        epochs=4,
        validation_data=make(validation),
        validation_freq=frequency,
    )
    validation_hashes = hashes(validation, 0, 6)
    expected = []
    for epoch in range(4):
        expected += hashes(source, 0, 6, epoch)
        expected += validation_hashes if (epoch + 1) % frequency == 0 else []
    assert read == expected


def test_validation_steps(make: Callable[..., Any]) -> None:
    source = supervised()
    model = Recorder.of(source)
    options = {"validation_data": make(source), "validation_steps": 2}
    read = model.read("fit", make(source), epochs=2, **options)
    validation = hashes(source, 0, 2)
    assert read == [*hashes(source, 0, 6), *validation, *hashes(source, 6, 12), *validation]


@pytest.mark.parametrize("name", ["supervised", "one_batch", "pretraining"])
def test_one_dataset_for_training_and_validation(make: Callable[..., Any], name: str) -> None:
    source = SOURCES[name][1]()
    length = source.num_batches(0)
    dataset, model = make(source), Recorder.of(source)
    read = model.read("fit", dataset, epochs=3, validation_data=dataset)
    expected = []
    for epoch in range(3):
        expected += hashes(source, epoch * length, (epoch + 1) * length)
        expected += hashes(source, 0, length)
    assert read == expected


def test_two_datasets_over_the_same_examples(make: Callable[..., Any]) -> None:
    source = pretraining()
    one, other = make(source), make(source, epoch=1)
    model = Recorder.of(source)
    length = source.num_batches(0)
    assert model.read("fit", one, epochs=2) == hashes(source, 0, 2 * length)
    assert model.read("evaluate", other) == hashes(source, 0, source.num_batches(1), epoch=1)


def test_going_on_with_a_later_epoch(make: Callable[..., Any]) -> None:
    source = supervised()
    read = Recorder.of(source).read("fit", make(source, epoch=2), initial_epoch=2, epochs=5)
    assert read == hashes(source, 12, 30)


def test_going_on_with_another_epoch_warns(make: Callable[..., Any]) -> None:
    source = supervised()
    message = r"begins with epoch 1, the dataset with epoch 0, .* dataset\(examples, epoch=1\)"
    with pytest.warns(UserWarning, match=message):
        read = Recorder.of(source).read("fit", make(source), initial_epoch=1, epochs=2)
    assert read == hashes(source, 0, 6)


@pytest.mark.parametrize("steps", [{"repeat": True}, {"steps": 6}, {}])
def test_epochs_that_are_not_those_of_the_examples(
    make: Callable[..., Any], steps: dict[str, Any]
) -> None:
    """`initial_epoch` gives no warning if a number of steps defines the epochs of `fit`.

    Warnings are errors in these tests.
    """
    source, options = supervised(), {} if "steps" in steps else {"steps_per_epoch": 6}
    dataset = make(source, **steps)
    read = Recorder.of(source).read("fit", dataset, initial_epoch=1, epochs=2, **options)
    assert read == hashes(source, 0, 6)


def test_steps_per_epoch_on_a_finite_dataset(make: Callable[..., Any]) -> None:
    """With `steps_per_epoch`, the next epoch of `fit` goes on where the last one stopped."""
    source = supervised()
    dataset, model = make(source), Recorder.of(source)
    read = model.read("fit", dataset, epochs=4, steps_per_epoch=3)
    assert read == hashes(source, 0, 12)
    assert model.read("fit", dataset, epochs=2, steps_per_epoch=6) == hashes(source, 0, 12)
    assert model.read("evaluate", dataset, steps=2) == hashes(source, 0, 2)
    assert model.read("evaluate", dataset, steps=2) == hashes(source, 0, 2)


def test_a_training_that_stops_within_an_epoch(make: Callable[..., Any]) -> None:
    source = supervised()
    dataset, model = make(source), Recorder.of(source)

    def stop(*_: Any, **__: Any) -> None:
        model.stop_training = len(model.hashes) == 14

    stopping = keras.callbacks.LambdaCallback(on_train_batch_end=stop)
    for method, options in {"fit": {"epochs": 2}, "predict": {}, "evaluate": {}}.items():
        read = model.read("fit", dataset, epochs=3, callbacks=[stopping])
        assert read == hashes(source, 0, 14)
        expected = hashes(source, 0, 6 * options.get("epochs", 1))
        assert model.read(method, dataset, **options) == expected


def test_a_fixed_number_of_batches(make: Callable[..., Any]) -> None:
    """Every pass over a dataset with `steps` reads the same batches."""
    source = supervised()
    dataset, model = make(source, steps=8), Recorder.of(source)
    assert len(dataset) == 8
    assert model.read("fit", dataset, epochs=2) == hashes(source, 0, 8) * 2
    assert [_hash(batch) for batch in dataset] == hashes(source, 0, 8)
    assert [_hash(batch) for batch in dataset] == hashes(source, 0, 8)


def test_a_loop_is_one_epoch_and_the_next_loop_the_next(make: Callable[..., Any]) -> None:
    """A `for` loop reads one epoch, and the next loop reads the next epoch."""
    source = supervised()
    dataset = make(source)
    for epoch in range(3):
        assert len(dataset) == 6
        assert [_hash(batch) for batch in dataset] == hashes(source, 0, 6, epoch)


def test_an_endless_dataset_has_no_length(make: Callable[..., Any]) -> None:
    source = supervised()
    dataset, model = make(source, repeat=True), Recorder.of(source)
    with pytest.raises(TypeError, match=r"repeat=True .* steps_per_epoch"):
        len(dataset)
    assert model.read("fit", dataset, epochs=2, steps_per_epoch=10) == hashes(source, 0, 20)
    with pytest.raises(ValueError, match=r"repeat=True, steps=3\. Leave one of them out"):
        make(source, repeat=True, steps=3)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        make(source, steps=0)


def test_random_access() -> None:
    """A `PyDataset` gives any batch of the first epoch by its index."""
    source = supervised()
    dataset = py_dataset(source)
    for index in (3, 0, 5, -1):
        assert _hash(dataset[index]) == hashes(source, 0, 6)[index]
    with pytest.raises(IndexError, match=r"The dataset has 6 batches\. Received: index=6"):
        _ = dataset[6]
    Recorder.of(source).read("fit", dataset, epochs=2)
    assert _hash(dataset[3]) == hashes(source, 3, 4)[0]


def test_workers_are_not_those_of_keras() -> None:
    """Setting the attribute `workers` of Keras is refused, and the error names the argument."""
    dataset = py_dataset(supervised())
    with pytest.raises(AttributeError, match=r"Pass workers= to bert_keras\.data\.dataset"):
        dataset.workers = 2


def test_tf_data_can_be_transformed() -> None:
    pytest.importorskip("tensorflow")
    source = supervised()
    dataset = tf_dataset(source)
    assert [_hash(batch) for batch in dataset.take(2)] == hashes(source, 0, 2)
    assert Recorder.of(source).read("fit", dataset, epochs=2) == hashes(source, 0, 12)
    mapped = tf_dataset(source).map(lambda *batch: batch).prefetch(1)
    assert len(mapped) == 6
    model = Recorder.of(source)
    for method, steps in {"evaluate": 6, "fit": 12, "predict": 6}.items():
        options = {"epochs": 2} if method == "fit" else {}
        assert model.read(method, mapped, **options) == hashes(source, 0, steps), method
    repeated = tf_dataset(source).repeat(3)
    assert [_hash(batch) for batch in repeated] == hashes(source, 0, 18)
