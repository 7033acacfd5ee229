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
