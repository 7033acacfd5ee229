"""One text has one answer, that of a list of it; every method of every task and Predictor."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from bert_keras import BertEncoder, Predictor, Pretrainer, Tokenizer, inference
from bert_keras.errors import DataError
from bert_keras.inference.one_or_many import one_or_many
from tests.data.test_columns import _Series
from tests.inference.conftest import TASKS
from tests.models.test_text_fit import CONFIG
from tests.tokenizers.samples import VOCABULARY

TEXT, OTHER = "hello the world", "unwanted mask"
# Each method -> the task that answers, and one row of each of its columns.
ROWS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "predict_scores": ("labels", (TEXT, OTHER)),
    "predict_labels": ("labels", (TEXT,)),
    "predict_pair_scores": ("labels", (TEXT, OTHER)),
    "predict_tags": ("tags", (TEXT.split(),)),
    "predict_entities": ("tags", (TEXT,)),
    "predict_answers": ("answers", (TEXT, OTHER)),
    "predict_choices": ("choices", (TEXT, [OTHER, TEXT])),
    "fill_mask": ("pretrained", ("hello [MASK]",)),
    "next_sentence": ("pretrained", (TEXT, OTHER)),
    "encode": ("vectors", (TEXT,)),
    "similarity": ("vectors", (TEXT, OTHER)),
}


def _answering(kind: str, *, by_predictor: bool) -> Any:
    """Return a task with a tokenizer, or a predictor of it."""
    makers: dict[str, Any] = {**TASKS, "pretrained": Pretrainer}
    task, tokenizer = makers[kind](BertEncoder(CONFIG)), Tokenizer(VOCABULARY)
    if by_predictor:
        return Predictor(task, tokenizer)
    task.tokenizer = tokenizer
    return task


def test_the_table_has_every_method_that_answers() -> None:
    classes = [vars(inference)[name] for name in inference.__all__ if name.endswith("Methods")]
    methods = {name for each in classes for name, _ in inspect.getmembers(each, inspect.isfunction)}
    assert {name for name in methods if not name.startswith("_")} == set(ROWS)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray | np.generic):
        return one.shape == other.shape and bool(np.allclose(one, other, atol=1e-6))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("by_predictor", [False, True], ids=["task", "predictor"])
@pytest.mark.parametrize("method", ROWS)
def test_one_row_has_the_answer_of_a_list_of_it(method: str, by_predictor: bool) -> None:
    kind, row = ROWS[method]
    model = _answering(kind, by_predictor=by_predictor)
    answer = getattr(model, method)
    many = answer(*([value] for value in row))
    assert len(many) == 1
    one = answer(*row)
    assert _same(one, many[0])
    as_numpy = (np.array(each) if isinstance(each, list) else np.str_(each) for each in row)
    assert _same(answer(*as_numpy), one)
    if by_predictor and model.task.answer_method(len(row) > 1) == method:
        assert _same(model(*row), one)
    if len(row) > 1:
        with pytest.raises(TypeError, match=r"is one text or row, and .* is a list of them"):
            answer(row[0], [row[1]])
        with pytest.raises(TypeError, match=r"is one text or row, and .* is a list of them"):
            answer([row[0]], row[1])
    with pytest.raises(DataError, match=r"row 1 is missing\. Received: None|row 1: .*None"):
        answer(*([value, None] for value in row))


def test_one_string_is_no_list_of_words() -> None:
    for method in ("predict_tags", "predict_choices"):
        kind, row = ROWS[method]
        answer = getattr(_answering(kind, by_predictor=False), method)
        with pytest.raises(TypeError, match="Received: one string, 'a text'"):
            answer(*(row[:-1]), "a text")
    with pytest.raises(TypeError, match="must be lists of words, or the words of one sentence"):
        _answering("tags", by_predictor=True).predict_tags(["a text", "another"])


class _Counter:
    @one_or_many("texts", words="lists")
    def lengths(self, texts: Any, lists: Any = None, *, factor: int = 1) -> list[Any]:
        """Return the lengths of what the method was called with."""
        assert type(texts) is list
        return [factor * len(text) for text in texts] if lists is None else [*map(len, lists)]


def test_columns_come_from_any_container() -> None:
    counter = _Counter()
    assert counter.lengths(["ab", "c"], factor=2) == [4, 2]
    assert counter.lengths(lists=[["a", "b"]], texts=["c"]) == [2]
    assert counter.lengths("c", ("a", "b")) == 2
    assert counter.lengths(iter(["ab", "c"]), iter([["a"], ["b", "c"]])) == [1, 2]
    assert counter.lengths([]) == []
    column = _Series(["ab", "c"])
    assert counter.lengths(column) == [2, 1]
    assert counter.lengths(column, _Series([["a"], ["b", "c"]])) == [1, 2]
    assert inspect.signature(_Counter.lengths).parameters["factor"].default == 1
