"""`tf.data.Dataset` and `PyDataset` give the batches of examples to each kind of reader."""

from __future__ import annotations

import gc
import threading
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.data.batch_datasets import Passes, dataset, py_dataset, tf_dataset
from bert_keras.data.batches import Batch, Examples
from bert_keras.data.corpus import Corpus
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.data.pretraining import PretrainingExamples
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.tokenizers import Tokenizer

# NumPy 2 warns that `__array__` of the Keras backends has no argument `copy`.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))])


def examples(**options: Any) -> PretrainingExamples:
    """Return pretraining examples of a small random corpus."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, (8, 6)).tolist()
    documents = [[rng.integers(5, 50, size).tolist() for size in row] for row in sizes]
    corpus = Corpus.from_ids(documents)
    return PretrainingExamples(
        corpus, TOKENIZER, **{"sequence_length": 16, "batch_size": 4, "seed": 3, **options}
    )


def supervised(group: int | None = None) -> SupervisedExamples:
    """Return examples of different lengths: 11 batches, of which the last is smaller."""
    rng = np.random.default_rng(0)
    ids = [rng.integers(5, 50, size) for size in rng.integers(1, 60, 42 * (group or 1))]
    rows = EncodedTexts.of(ids, [row % 2 for row in ids], pad_id=0)
    return SupervisedExamples(
        rows,
        {"label": np.arange(42)},
        token_labels={"tags": np.arange(len(rows.token_ids))},
        group=group,
        batch_size=4,
        seed=2,
    )


def expected(source: Examples, position: int, steps: int) -> list[Batch]:
    return [source.batch(*source.locate(0, position, step)) for step in range(steps)]


def assert_same(one: Any, other: Any) -> None:
    """Check that two batches have the same names, dtypes and values."""
    for part, same in zip(one, other, strict=True):
        assert sorted(part) == sorted(same)
        for name in part:
            np.testing.assert_array_equal(np.asarray(part[name]), same[name], strict=True)


def test_the_dataset_of_the_backend() -> None:
    source = supervised()
    batches = dataset(source, position=1, steps=2)
    assert isinstance(batches, keras.utils.PyDataset) == (keras.backend.backend() != "tensorflow")
    first = batches[0] if isinstance(batches, keras.utils.PyDataset) else next(iter(batches))
    assert_same(first, source.batch(0, 1))


@pytest.fixture(scope="module")
def tensorflow() -> Any:
    return pytest.importorskip("tensorflow")


@pytest.mark.parametrize("loss", ["nsp", "mlm"])
@pytest.mark.parametrize("workers", [1, 3])
def test_tf_data_gives_the_same_batches(tensorflow: Any, loss: str, workers: int) -> None:
    source = examples(loss=loss)
    # The start is the last batch of an epoch, so that later epochs follow.
    position = source.num_batches(0) - 1
    dataset = tf_dataset(source, position=position, steps=20, workers=workers)
    assert dataset.cardinality() == 20
    for _ in range(2):
        for batch, same in zip(dataset, expected(source, position, 20), strict=True):
            assert_same(batch, same)
    x, y, weights = dataset.element_spec
    assert x["token_ids"].shape == (4, 16)
    assert y["mlm"].shape == weights["mlm"].shape == x["mask_positions"].shape == (4, 3)
    assert y["mlm"].dtype == tensorflow.int32
    assert weights["mlm"].dtype == tensorflow.float32


@pytest.mark.parametrize("group", [None, 3])
def test_tf_data_gives_batches_of_any_length(tensorflow: Any, group: int | None) -> None:
    source = supervised(group)
    dataset = tf_dataset(source, position=7, steps=20, workers=3)
    wanted = expected(source, 7, 20)
    assert len({batch[0]["token_ids"].shape for batch in wanted}) > 4
    for batch, same in zip(dataset, wanted, strict=True):
        assert_same(batch, same)
    x, y, weights = dataset.element_spec
    assert x["token_ids"].shape.as_list() == [None] * (3 if group else 2)
    assert y["label"].shape.as_list() == weights["label"].shape.as_list() == [None]


def test_tf_data_has_no_tuner_to_wait_for(tensorflow: Any) -> None:
    """tf.data's autotuner is off, because it delays the end of a dataset."""
    assert tf_dataset(supervised()).options().autotune.enabled is False


def test_tf_data_is_endless_where_it_repeats(tensorflow: Any) -> None:
    dataset = tf_dataset(examples(), repeat=True, epoch=1, position=2)
    assert dataset.cardinality() == tensorflow.data.INFINITE_CARDINALITY
    batch = next(iter(dataset))
    assert_same(batch, examples().batch(1, 2))


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_py_dataset_gives_the_same_batches(workers: int) -> None:
    source = examples()
    dataset = py_dataset(source, position=2, steps=20, workers=workers)
    assert len(dataset) == dataset.num_batches == 20
    for _ in range(2):
        for batch, same in zip(dataset, expected(source, 2, 20), strict=True):
            assert_same(batch, same)
    for index in (7, 3, 19, 0):
        assert_same(dataset[index], expected(source, 2, index + 1)[-1])


@pytest.mark.parametrize("workers", [0, 3])
def test_py_dataset_gives_batches_of_any_length(workers: int) -> None:
    source = supervised()
    dataset = py_dataset(source, position=7, steps=20, workers=workers)
    for batch, same in zip(dataset, expected(source, 7, 20), strict=True):
        assert_same(batch, same)


def test_py_dataset_is_endless_where_it_repeats() -> None:
    dataset = py_dataset(examples(), repeat=True, epoch=1, position=2)
    assert dataset.num_batches is None
    assert_same(dataset[0], examples().batch(1, 2))
    with pytest.raises(TypeError, match="steps_per_epoch"):
        len(dataset)


def test_threads_end_with_their_dataset() -> None:
    """Deleting a dataset ends its threads at once, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        before = set(threading.enumerate())
        dataset = py_dataset(examples(), workers=2)
        assert_same(dataset[0], examples().batch(0, 0))
        threads = set(threading.enumerate()) - before
        assert threads
        del dataset
        for thread in threads:
            thread.join(timeout=10)
        assert not any(thread.is_alive() for thread in threads)
    finally:
        gc.enable()


def test_an_error_in_a_thread_reaches_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    source = examples()

    def fail(epoch: int, position: int) -> Batch:
        raise RuntimeError("no batch today")

    dataset = py_dataset(source, workers=2)
    monkeypatch.setattr(source, "batch", fail)
    with pytest.raises(RuntimeError, match="no batch today"):
        _ = dataset[0]


def small_model() -> keras.Model:
    """Return a model whose weights depend on the batches it was trained on and on their order."""
    keras.utils.set_random_seed(0)
    names = ("token_ids", "segment_ids", "padding_mask", "mask_positions")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    tokens = keras.layers.Embedding(50, 8)(inputs["token_ids"])
    mean = keras.layers.GlobalAveragePooling1D()(tokens)
    scores = keras.layers.RepeatVector(3)(keras.layers.Dense(50)(mean))
    model = keras.Model(inputs, {"mlm": scores, "nsp": keras.layers.Dense(2)(mean)})
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.1), loss={"mlm": loss, "nsp": loss})
    return model


def weights_of(model: keras.Model) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(weight.value) for weight in model.weights]


@pytest.fixture(scope="module")
def reference() -> list[np.ndarray]:
    """Return the weights after `train_on_batch` has taken eight batches in order."""
    model = small_model()
    for x, y, sample_weight in expected(examples(), 1, 8):
        model.train_on_batch(x, y, sample_weight)
    return weights_of(model)


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_fit_reads_a_py_dataset_in_order(reference: list[np.ndarray], workers: int) -> None:
    """`fit` reads the batches in order over several epochs, with a validation after each."""
    source, model = examples(), small_model()
    model.fit(
        py_dataset(source, repeat=True, position=1, workers=workers),
        steps_per_epoch=4,
        epochs=2,
        shuffle=False,
        verbose=0,
        validation_data=py_dataset(source, steps=2, workers=workers),
    )
    assert source.num_batches(0) < 8
    for one, other in zip(weights_of(model), reference, strict=True):
        np.testing.assert_array_equal(one, other)


def test_fit_reads_tf_data_in_order(tensorflow: Any, reference: list[np.ndarray]) -> None:
    model = small_model()
    dataset = tf_dataset(examples(), repeat=True, position=1, workers=2)
    model.fit(dataset, steps_per_epoch=4, epochs=2, shuffle=False, verbose=0)
    for one, other in zip(weights_of(model), reference, strict=True):
        np.testing.assert_array_equal(one, other)


def test_keras_says_so_where_it_would_have_shuffled() -> None:
    """Keras warns if `fit` would shuffle an endless dataset or one of TensorFlow.

    The models of this package do not request shuffling.
    """
    endless = py_dataset(examples(), repeat=True)
    with pytest.warns(UserWarning, match="shuffle=True"):
        small_model().fit(endless, steps_per_epoch=1, verbose=0)


def test_a_dataset_of_tensorflow_cannot_be_shuffled_by_keras(tensorflow: Any) -> None:
    with pytest.warns(UserWarning, match="shuffle=True"):
        small_model().fit(tf_dataset(examples(), steps=1), verbose=0)


# === Passes: the readers of `fit`, `evaluate` and `predict` announce themselves differently ===


def _passes(events: str, *, epoch: int | None = 0) -> list[int]:
    """Return the number of the first batch of each pass over an epoch of ten batches.

    In `events`, "a" is a reader that announces itself, and "p" is the start of a pass.
    """
    passes, found = Passes(10, epoch=epoch), []
    for event in events.replace(" ", ""):
        if event == "a":
            passes.announce()
        else:
            found.append(passes.start())
    return found


FIT_3, EVALUATE, PREDICT, VALIDATE_AGAIN = "aappp", "aap", "ap", "ap"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("ppp", [0, 10, 20]),
        (FIT_3 + FIT_3, [0, 10, 20, 0, 10, 20]),
        (EVALUATE + EVALUATE, [0, 0]),
        (FIT_3 + EVALUATE + PREDICT + PREDICT, [0, 10, 20, 0, 0, 0]),
        (PREDICT + FIT_3, [0, 0, 10, 20]),
        # The same dataset is used for the validation after each epoch, and for predictions.
        ("aap" + EVALUATE + "p" + VALIDATE_AGAIN + "p" + VALIDATE_AGAIN, [0, 0, 10, 0, 20, 0]),
        ("aapp" + PREDICT + "p" + PREDICT + "p", [0, 10, 0, 20, 0, 30]),
        (PREDICT + "p", [0, 10]),
        # Keras builds a model from the first batch of a pass, and then abandons that pass.
        (FIT_3 + "apappp", [0, 10, 20, 0, 0, 10, 20]),
    ],
)
def test_where_passes_begin(events: str, expected: list[int]) -> None:
    assert _passes(events) == expected


def test_passes_that_are_all_the_same() -> None:
    """Without an epoch, each pass begins with the first batch."""
    assert _passes("pp" + FIT_3 + EVALUATE, epoch=None) == [0] * 6


def test_a_new_reader_begins_with_the_first_batch() -> None:
    passes = Passes(10)
    assert [passes.start() for _ in range(3)] == [0, 10, 20]
    passes.restart()
    assert [passes.start() for _ in range(2)] == [0, 10]
