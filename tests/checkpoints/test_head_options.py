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


@pytest.mark.parametrize("told", [0, -1, 10**9, "3", 2.0])
def test_a_number_of_labels_that_is_none(told: Any):
    values = hugging_face.write_config(TINY, "TokenClassifier", {"labels": ["a", "b"]})
    values |= {"id2label": None, "num_labels": told}
    with pytest.raises(ArtifactError, match=r"num_labels must be an integer from 1 to 100000"):
        head_options.read("TokenClassifier", values, TINY, PATH)
    values["num_labels"] = 3
    assert head_options.read("TokenClassifier", values, TINY, PATH)["num_classes"] == 3


def test_classes_of_a_family_under_another_name():
    values = hugging_face.write_config(
        TINY.replace(family="roberta", num_segments=1, position_offset=2),
        "TokenClassifier",
        {"labels": ["a", "b"]},
    )
    config = hugging_face.read_config(values, PATH, pooler=False)
    values |= {"model_type": "xlm-roberta", "architectures": ["XLMRobertaForTokenClassification"]}
    assert hugging_face.read_config(values, PATH, pooler=False) == config
    assert head_options.read("TokenClassifier", values, config, PATH)["labels"] == ["a", "b"]
    for told in (None, 3, [{}], ["RobertaForMaskedLM"]):
        values["architectures"] = told
        assert "labels" not in head_options.read("TokenClassifier", values, config, PATH)


def test_a_problem_that_is_none():
    values = hugging_face.write_config(TINY, "SequenceClassifier", {"labels": ["a", "b"]})
    values["problem_type"] = "guessing"
    with pytest.raises(ArtifactError, match="not supported: problem_type='guessing'"):
        head_options.read("SequenceClassifier", values, TINY, PATH)


def test_what_only_ours_can_be():
    assert head_options.are_theirs({"num_classes": 2, "crf": False, "representation": "last"})
    for options in ({"crf": True}, {"representation": "mix"}):
        assert not head_options.are_theirs(options)
        told = {"num_classes": 2, "labels": ["a", "b"], "dropout": None, **options}
        values = hugging_face.write_config(TINY, "TokenClassifier", told)
        # Their library refuses such a folder, instead of leaving a part of the model away.
        assert (values["model_type"], values["architectures"]) == ("bert_keras", [None])
        assert values["id2label"] == {"0": "a", "1": "b"}
