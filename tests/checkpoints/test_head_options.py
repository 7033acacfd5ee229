"""What configs say of heads. Labels that travel are in test_families.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bert_keras.checkpoints import head_options, hugging_face
from bert_keras.errors import ArtifactError
from tests.contracts import TINY

PATH = Path("config.json")


def test_there_and_back():
    options = {
        "num_classes": 2,
        "labels": ["a", "b"],
        "problem": "multi_label",
        "hidden_activation": None,
        "dropout": 0.3,
    }
    values = hugging_face.write_config(TINY, "SequenceClassifier", options)
    assert values["label2id"] == {"a": 0, "b": 1}
    assert head_options.read("SequenceClassifier", values, TINY, PATH) == options


def test_distilbert_drops_nothing_before_its_layer():
    for name in ("SequenceClassifier", "MultipleChoice"):
        options = head_options.read(name, {}, TINY.replace(family="distilbert"), PATH)
        assert (options["hidden_activation"], options["hidden_dropout"]) == ("relu", 0.0)


def test_labels_of_another_class_are_the_callers_to_give():
    values = hugging_face.write_config(TINY, "TokenClassifier", {"labels": ["a", "b"]})
    assert "labels" not in head_options.read("SequenceClassifier", values, TINY, PATH)


@pytest.mark.parametrize(
    "told", [{"1": "a", "2": "b"}, {"0": 1}, ["a", "b"], {}, {"0": "a", "1": None}]
)
def test_labels_that_are_none(told: Any):
    values = hugging_face.write_config(TINY, "TokenClassifier", {"labels": ["a", "b"]})
    values["id2label"] = told
    with pytest.raises(ArtifactError, match="id2label must give a name"):
        head_options.read("TokenClassifier", values, TINY, PATH)


def test_a_problem_that_is_none():
    values = hugging_face.write_config(TINY, "SequenceClassifier", {"labels": ["a", "b"]})
    values["problem_type"] = "guessing"
    with pytest.raises(ArtifactError, match="not supported: problem_type='guessing'"):
        head_options.read("SequenceClassifier", values, TINY, PATH)
