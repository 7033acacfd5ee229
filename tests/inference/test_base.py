"""The base of all methods that take texts."""

from __future__ import annotations

from typing import Any

import pytest

from bert_keras import Predictor
from bert_keras.inference import TextMethods


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
