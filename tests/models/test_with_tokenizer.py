"""A task keeps its tokenizer in every copy and file, and its answers stay the same."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, Predictor, Tokenizer, inference, models
from bert_keras.inference.base import PredictorConfig
from tests.contracts import MAY_CUT, TINY
from tests.models import every_model
from tests.tokenizers.samples import VOCABULARY

CONFIG = TINY.replace(vocab_size=len(VOCABULARY), hidden_size=16, embedding_size=8, num_heads=4)
TEXTS = ["the unaffable [MASK]", "hello world want [MASK] unwanted mask sep"]
COLUMNS = {
    "text": TEXTS,
    "pair": TEXTS[::-1],
    "words": [["the", "world"], ["hello"]],
    "question": ["hello", "the want"],
    "context": ["the hello world", "unwanted mask"],
    "prompt": TEXTS,
    "options": [["the", "mask"], ["world", "hello"]],
    "query": TEXTS,
    "documents": TEXTS[::-1],
}


def task_classes() -> dict[str, type[models.Task]]:
    """Return every task class by name."""
    return every_model.classes_below(models.Task)


OPTIONS: dict[str, dict[str, Any]] = {
    "SequenceClassifier": {"num_classes": 3, "labels": ["bad", "good", "so"]},
    "TokenClassifier": {"num_classes": 3, "labels": ["O", "B-PER", "I-PER"]},
    "ElectraPretrainer": {"generator_size": 0.5},
}


def task_over(cls: Any, encoder: BertEncoder, **options: Any) -> Any:
    """Return a task of a class over an encoder."""
    return cls(encoder, **OPTIONS.get(cls.__name__, {}), **options)


def make(name: str, tokenizer: Tokenizer | None = None) -> Any:
    """Return a small task of a class, with a tokenizer."""
    keras.utils.set_random_seed(3)
    task = task_over(task_classes()[name], BertEncoder(CONFIG))
    task.tokenizer = Tokenizer(VOCABULARY) if tokenizer is None else tokenizer
    return task


def answer(task: Any) -> Any:
    """Return the task's answers for the columns that it reads."""
    method = task.answer_method()
    if method in ("encode", "fill_mask", "predict_entities"):
        return getattr(task, method)(TEXTS)
    return getattr(task, method)(*(COLUMNS[column] for column in task.text_inputs))


def _by_preset(task: Any, folder: Path) -> Any:
    task.save_to_preset(folder)
    return type(task).from_preset(folder)


def _by_file(task: Any, folder: Path) -> Any:
    task.save(folder / "task.keras")
    return keras.models.load_model(folder / "task.keras")


def _by_config(task: Any, folder: Path) -> Any:
    del folder
    rebuilt = type(task).from_config(task.get_config())
    rebuilt.set_weights(task.get_weights())
    return rebuilt


WAYS: dict[str, Callable[[Any, Path], Any]] = {
    "save_to_preset, from_preset": _by_preset,
    "save, load_model": _by_file,
    "get_config, from_config": _by_config,
    "copy.deepcopy": lambda task, _: copy.deepcopy(task),
    "pickle": lambda task, _: pickle.loads(pickle.dumps(task)),
}


def _flat(answers: Any) -> list[Any]:
    """Return the strings of nested answers, and their numbers rounded to 5 places."""
    if isinstance(answers, np.ndarray):
        return [round(float(number), 5) for number in answers.ravel()]
    if isinstance(answers, list | tuple):
        return [leaf for each in answers for leaf in _flat(each)]
    if hasattr(answers, "__dataclass_fields__"):
        return _flat([getattr(answers, name) for name in answers.__dataclass_fields__])
    return [round(answers, 5) if isinstance(answers, float) else answers]


@MAY_CUT
def test_text_in_gives_the_same_answer_after_every_way(tmp_path: Path) -> None:
    """A task gives the same answers after every way of saving.

    If a cell is wrong, the table of class and way is printed.
    """
    wrong = []
    for name in task_classes():
        task = make(name)
        task.predictor_config = PredictorConfig(max_length=10)
        expected = _flat(answer(task))
        for way, operation in WAYS.items():
            folder = tmp_path / f"{name} {way}"
            folder.mkdir()
            try:
                other = operation(task, folder)
                found, length = _flat(answer(other)), other.max_length
            except Exception as error:
                found, length = f"{type(error).__name__}: {error}"[:200], 0
            if found != expected or length != 10:
                wrong.append(f"{name:24} {way:28} {found} (length {length}), not {expected}")
    assert not wrong, "\n".join(wrong)


def _public_methods(cls: type) -> set[str]:
    return {
        name
        for name, value in vars(cls).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


def test_every_method_of_a_predictor_is_one_of_a_task() -> None:
    mixins = [
        value
        for value in vars(inference).values()
        if isinstance(value, type)
        and issubclass(value, inference.TextMethods)
        and value is not inference.TextMethods
    ]
    assert len(mixins) > 5
    for mixin in mixins:
        assert issubclass(Predictor, mixin)
        owners = [name for name, cls in task_classes().items() if issubclass(cls, mixin)]
        assert owners, mixin
        for name in owners:
            for method in _public_methods(mixin):
                assert getattr(task_classes()[name], method) is getattr(Predictor, method)


@pytest.mark.parametrize("name", task_classes())
@MAY_CUT
def test_a_task_answers_as_its_predictor(name: str) -> None:
    task = make(name)
    predictor = Predictor(task, task.tokenizer)
    is_fill = task.answer_method() in ("encode", "fill_mask", "predict_entities")
    given = [TEXTS] if is_fill else [COLUMNS[column] for column in task.text_inputs]
    if task.answer_method() == "predict_labels" and not task.reads_apart:
        given = given[:1]
    assert _flat(getattr(task, task.answer_method())(*given)) == _flat(predictor(*given))


def test_a_task_without_a_tokenizer_says_what_to_do() -> None:
    task = task_over(models.SequenceClassifier, BertEncoder(CONFIG))
    assert task.tokenizer is None
    with pytest.raises(ValueError, match=r"has no tokenizer.*Tokenizer\.from_preset"):
        task.predict_labels(TEXTS)


def test_a_folder_without_a_tokenizer_gives_a_task_that_says_why(tmp_path: Path) -> None:
    task = task_over(models.SequenceClassifier, BertEncoder(CONFIG))
    task.save_to_preset(tmp_path)
    opened = models.SequenceClassifier.from_preset(tmp_path)
    with pytest.raises(ValueError, match=r"no tokenizer.*has none of vocab\.txt"):
        opened.predict_labels(TEXTS)


def test_a_tokenizer_of_another_model_is_refused() -> None:
    task = task_over(models.SequenceClassifier, BertEncoder(CONFIG.replace(vocab_size=20)))
    with pytest.raises(ValueError, match=r"entries, the model's token table 20 rows"):
        task.tokenizer = Tokenizer(VOCABULARY)
    with pytest.raises(TypeError, match=r"must be a bert_keras\.Tokenizer or None"):
        task.tokenizer = VOCABULARY


@pytest.mark.parametrize("name", task_classes())
def test_every_constructor_takes_a_tokenizer(name: str) -> None:
    tokenizer = Tokenizer(VOCABULARY)
    task = task_over(task_classes()[name], BertEncoder(CONFIG), tokenizer=tokenizer)
    assert task.tokenizer is tokenizer
