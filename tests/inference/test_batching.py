"""Prediction batches have few shapes on compiled backends, and padded rows appear in no answer."""

from __future__ import annotations

import re
import warnings
from types import SimpleNamespace
from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest

from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.errors import CoverageWarning
from bert_keras.inference.batching import Runner, check_pairs, check_texts, sigmoid, softmax

ON_JAX = keras.backend.backend() == "jax"


class Echo:
    """Model that returns the sum of its inputs and records the shapes of its batches."""

    def __init__(self, *more: str) -> None:
        names = ("token_ids", "padding_mask", *more)
        self.inputs = [SimpleNamespace(name=name) for name in names]
        self.output = {"sum": SimpleNamespace(shape=(None, None))}
        self.shapes: list[tuple[int, ...]] = []

    def predict_on_batch(self, x: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.shapes.append(x["token_ids"].shape)
        assert (x["padding_mask"].sum(axis=-1) > 0).all(), "a row without a token"
        return {**x, "sum": (x["token_ids"] * x["padding_mask"]).sum(axis=-1)}


def rows_of(*lengths: int) -> EncodedTexts:
    ids = [np.full(length, number + 1) for number, length in enumerate(lengths)]
    return EncodedTexts.of(ids, [row * 0 for row in ids], pad_id=99)


def runner(tokenizer, batch_size: int = 4, max_length: int = 100) -> Any:
    return Runner(Echo(), tokenizer, batch_size=batch_size, max_length=max_length)  # type: ignore[arg-type]


LENGTHS = (3, 90, 1, 17, 16, 33, 70, 5, 2, 100, 64)


def test_every_row_is_run_once_beside_rows_like_it(tokenizer) -> None:
    rows, made = rows_of(*LENGTHS), runner(tokenizer)
    seen = []
    for batch, outputs in made.run(rows):
        seen += batch
        assert all(len(values) == len(batch) for values in outputs.values())
        for row, number in enumerate(batch):
            length = outputs["padding_mask"][row].sum()
            assert outputs["token_ids"][row, :length].tolist() == rows[number].tolist()
    assert sorted(seen) == list(range(len(rows)))
    assert [LENGTHS[number] for number in seen] == sorted(LENGTHS)
    exact = [(4, 5), (4, 64), (3, 100)]
    assert made.model.shapes == ([(4, 8), (4, 64), (3, 100)] if ON_JAX else exact)


def test_shapes_are_few(tokenizer) -> None:
    """Rows of many counts and lengths run in few batch shapes."""
    made = runner(tokenizer, batch_size=6, max_length=80)
    for count in range(1, 14):
        for length in range(1, 81, 7):
            made.per_example("sum", rows_of(*[length] * count))
    sizes, widths = (set(sizes) for sizes in zip(*made.model.shapes, strict=True))
    assert sizes == ({1, 2, 3, 4, 6} if ON_JAX else set(range(1, 7)))
    assert widths == ({8, 16, 24, 32, 40, 48, 56, 64, 80} if ON_JAX else set(range(1, 81, 7)))


def test_a_short_model_is_given_no_more_than_it_reads(tokenizer) -> None:
    made = runner(tokenizer, max_length=5)
    made.per_example("sum", rows_of(2, 5))
    assert made.model.shapes == [(2, 5)]


def test_answers_stand_where_their_rows_do(tokenizer) -> None:
    rows = rows_of(*LENGTHS)
    found = runner(tokenizer).per_example("sum", rows)
    assert found.dtype == np.float32
    assert found.tolist() == [float(rows[number].sum()) for number in range(len(rows))]
    assert runner(tokenizer).per_example("sum", rows_of()).shape == (0, 0)


def test_groups_stay_together(tokenizer) -> None:
    """Rows of one group, such as the options of a prompt, run in one batch."""
    rows, made = rows_of(*LENGTHS, 8), runner(tokenizer)
    found = made.per_example("sum", rows, group=3)
    sums = np.array([rows[number].sum() for number in range(len(rows))]).reshape(4, 3)
    np.testing.assert_array_equal(found, sums)
    assert made.model.shapes == [(4, 3, 100)]


def test_positions_are_padded_with_the_first(tokenizer) -> None:
    positions = [np.array([2, 1, 4]), np.array([3]), np.array([1, 2])]
    made = runner(tokenizer)
    made.model = Echo("mask_positions")
    for batch, outputs in made.run(rows_of(5, 6, 7), positions=positions):
        assert batch == [0, 1, 2]
        found = outputs["mask_positions"]
        assert found.shape[1] == 3
        assert found[:, :3].tolist() == [[2, 1, 4], [3, 0, 0], [1, 2, 0]]
        assert not found[:, 3:].any()


def test_softmax_and_sigmoid() -> None:
    logits = np.array([[0.0, 800.0], [-800.0, -800.0]])
    assert softmax(logits).tolist() == [[0.0, 1.0], [0.5, 0.5]]
    assert softmax(logits).dtype == sigmoid(logits).dtype == np.float32
    assert sigmoid(logits).tolist() == [[0.5, 1.0], [0.0, 0.0]]
    assert sigmoid(np.array([-3.0])).item() == pytest.approx(1 / (1 + np.exp(3)), rel=1e-6)


def test_one_string_is_no_list() -> None:
    """A string in place of a list, and columns of unequal length, are refused."""
    check_texts(texts=["a"], others=("b",))
    with pytest.raises(TypeError, match=r"`others` must be a list of strings.*'bbb'"):
        check_texts(texts=["a"], others="bbb")
    check_pairs(["a"], ["b"])
    with pytest.raises(ValueError, match="1 firsts, 2 seconds"):
        check_pairs(["a"], ["b", "c"])


def test_outputs_in_half_precision_become_float32(tokenizer) -> None:
    """NumPy has no bfloat16, so that no caller can use such an array."""
    dtypes = {"bfloat16": "float32", "float16": "float32", "int32": "int32", "float32": "float32"}
    made = runner(tokenizer)

    def predict_on_batch(x: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: x["token_ids"].astype(getattr(ml_dtypes, name, name)) for name in dtypes}

    made.model.predict_on_batch = predict_on_batch
    (_, outputs), *_ = made.run(rows_of(3))
    assert {name: array.dtype.name for name, array in outputs.items()} == dtypes
    assert outputs["bfloat16"][0, :3].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("lost", "known", "message"),
    [
        (3, 1, "Of 3 of 4 texts, half of the tokens or more are .UNK., which the model cannot"),
        (1, 99, "Of 1 of 100 texts"),
        (1, 100, ""),
        (0, 4, ""),
    ],
)
def test_texts_that_are_unknown_are_reported_once_per_call(
    tokenizer, lost: int, known: int, message: str
) -> None:
    """Half of the tokens between [CLS] and [SEP] are [UNK]. Fewer are usual."""
    unk, word = tokenizer.unk_id, tokenizer.unk_id + 1
    ids = [np.array([word, unk, word, unk, word, word])] * lost  # 2 of 4
    ids += [np.array([word, unk, word, word, word, word])] * known
    rows = EncodedTexts.of(ids, [row * 0 for row in ids], pad_id=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(runner(tokenizer).run(rows))
    assert len(caught) == bool(message)
    for warning in caught:
        assert warning.category is CoverageWarning
        assert re.match(message, str(warning.message))
