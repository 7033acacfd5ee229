"""The base class of all methods that take texts."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import BertEncoder, Predictor, Pretrainer, Tokenizer, inference
from bert_keras.errors import ArtifactError, DataError
from bert_keras.inference import TextMethods
from bert_keras.inference.base import PredictorConfig, one_or_many, prompt_of, prompt_options
from bert_keras.predictor import Answer, Choice, Entity, Fill, Label
from tests.data.test_columns import _Series
from tests.inference.conftest import TASKS
from tests.models.test_text_fit import CONFIG
from tests.tokenizers.samples import VOCABULARY


def test_a_class_must_say_what_answers() -> None:
    with pytest.raises(NotImplementedError):
        TextMethods()._runner()


def test_another_output_is_refused_by_name(task: Any, tokenizer: Any) -> None:
    predictor = Predictor(task("tags"), tokenizer)
    with pytest.raises(ValueError, match=r"needs a model with an output 'label'.*TokenClassifier"):
        predictor.predict_labels(["the"])


def test_a_checkpoint_without_a_head_names_the_call_that_makes_one(
    task: Any, tokenizer: Any
) -> None:
    predictor = Predictor(task("tags").encoder, tokenizer)
    calls: dict[str, tuple[Any, ...]] = {
        "predict_labels": (["a"],),
        "predict_entities": (["a"],),
        "predict_answers": (["a"], ["b"]),
        "predict_choices": (["a"], [["b", "c"]]),
        "fill_mask": (["[MASK]"],),
        "next_sentence": (["a"], ["b"]),
    }
    for method, columns in calls.items():
        with pytest.raises(
            ValueError, match=r"\.from_preset\(folder.*\) opens such a model; a new"
        ):
            getattr(predictor, method)(*columns)


# === `predictor.json` by itself ===


def test_what_is_written_is_read(tmp_path: Path) -> None:
    config = PredictorConfig(64, {"null_threshold": 1.5}, pairs=True)
    config.write(tmp_path / "predictor.json")
    assert PredictorConfig.read(tmp_path / "predictor.json") == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"max_length": 0}', "max_length must be a whole number"),
        ('{"max_length": true}', "max_length must be a whole number"),
        ('{"options": []}', "options must be an object"),
        ('{"pairs": 1}', "pairs must be true or false"),
        ('{"lenght": 3}', "lenght"),
        ("{", "not JSON"),
    ],
)
def test_a_damaged_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "predictor.json").write_text(text)
    with pytest.raises(ArtifactError, match=rf"predictor\.json: .*{message}"):
        PredictorConfig.read(tmp_path / "predictor.json")


def test_what_a_file_does_not_say_has_its_default(tmp_path: Path) -> None:
    (tmp_path / "predictor.json").write_text('{"max_length": 7}')
    assert PredictorConfig.read(tmp_path / "predictor.json") == PredictorConfig(7, {}, pairs=False)


# === One text gets the answer of a list with that text, for every task and for Predictor ===


TEXT, OTHER = "hello the world", "unwanted mask"
# Method -> the task that has it, and two texts for each of its columns.
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
    "encode_queries": ("vectors", (TEXT,)),
    "encode_documents": ("vectors", (TEXT,)),
    "similarity": ("vectors", (TEXT, OTHER)),
}
# These take one text, or labels that are no column; their own tests call them.
OTHERS = {"index_documents", "rank", "rank_answers", "search", "zero_shot"}


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
    assert {name for name in methods if not name.startswith("_")} == {*ROWS, *OTHERS}


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
        """Return the lengths of the texts, or of the lists, that the method received."""
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


# === Prompts are kept and are found by name ===


_PROMPTS = {"query": "query: ", "plain": ""}


def test_options() -> None:
    assert prompt_options(None, None) == prompt_options({}, None) == {}
    assert prompt_options(_PROMPTS, None) == {"prompts": _PROMPTS}
    options = prompt_options(_PROMPTS, "query")
    assert options == {"prompts": _PROMPTS, "default_prompt_name": "query"}


@pytest.mark.parametrize(
    ("prompts", "default", "message"),
    [
        ({"query": 1}, None, "`prompts` must give a text to each name"),
        ({1: "query"}, None, "`prompts` must give a text to each name"),
        (_PROMPTS, "other", "`default_prompt_name` must be None or one of query, plain"),
        (None, "query", "which is empty"),
    ],
)
def test_options_that_are_no_use(prompts: Any, default: Any, message: str) -> None:
    """Invalid prompts and default prompts are refused."""
    with pytest.raises(ValueError, match=message):
        prompt_options(prompts, default)


def test_the_call_comes_before_the_default() -> None:
    options = prompt_options(_PROMPTS, "query")
    assert prompt_of(options) == "query: "
    assert prompt_of(options, prompt_name="plain") == ""
    assert prompt_of(options, prompt="") == ""
    assert prompt_of(options, prompt="new ") == "new "
    assert prompt_of({}) == prompt_of({"prompts": _PROMPTS}) == ""
    with pytest.raises(ValueError, match="`prompt` or `prompt_name`, not both"):
        prompt_of(options, "a", "query")
    with pytest.raises(ValueError, match="must be one of query, plain"):
        prompt_of(options, prompt_name="other")
    with pytest.raises(ValueError, match="the prompts of the model, which has none"):
        prompt_of({}, prompt_name="query")


# === Answers of a predictor are immutable values that can be compared and printed ===


VALUES = [
    Fill("##s", 3, 0.5),
    Label("good", 0.5),
    Entity("PER", "Ann", 0, 3, 0.5),
    Answer("Ann", 0, 3, 0.5, -1.0),
    Choice(1, "Ann", 0.5),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_answers_are_values(value) -> None:
    """Equal answers have equal hashes, and an answer cannot be changed."""
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    assert type(value)(**fields) == value
    assert len({value, type(value)(**fields)}) == 1
    assert dataclasses.replace(value, score=0.25) != value
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.score = 1.0
    assert "score=0.5" in repr(value)
