"""Zero-shot classification has the numbers of the pipeline of transformers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import SequenceClassifier
from bert_keras.predictor import Predictor
from tests import sentence_folders

LABELS = ["w1 w2", "w7", "w11 w3"]
# Labels of the model: entailment last, first, between, and without a label of contradiction.
ORDERS = [
    ["contradiction", "neutral", "entailment"],
    ["ENTAILMENT", "neutral", "contradiction"],
    ["not_entailment", "entailment"],
]


@pytest.fixture(scope="module", params=ORDERS, ids=["last", "first", "two"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: Any, transformers: Any) -> Path:
    """Return a folder of a classifier of pairs, written by transformers."""
    del transformers
    names = dict(enumerate(request.param))
    return sentence_folders.write_transformer(
        tmp_path_factory.mktemp("nli") / request.param[0],
        "ForSequenceClassification",
        id2label=names,
        label2id={name: number for number, name in names.items()},
    )


@pytest.mark.parametrize("multi_label", [False, True])
def test_numbers(folder: Path, transformers: Any, multi_label: bool) -> None:
    texts = [text for text in sentence_folders.texts(12) if len(text.split()) < 15]
    hypothesis = "w3 {} w4"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = transformers.pipeline("zero-shot-classification", str(folder), device="cpu")
        theirs = pipeline(texts, LABELS, hypothesis_template=hypothesis, multi_label=multi_label)
    predictor = Predictor.from_preset(folder)
    ours = predictor.zero_shot(texts, LABELS, hypothesis=hypothesis, multi_label=multi_label)
    for found, expected in zip(ours, theirs, strict=True):
        assert [label.label for label in found] == expected["labels"]
        scores = [label.score for label in found]
        np.testing.assert_allclose(scores, expected["scores"], rtol=0, atol=1e-5)
    task = SequenceClassifier.from_preset(folder)
    alone = task.zero_shot(texts[0], LABELS, hypothesis=hypothesis, multi_label=multi_label)
    np.testing.assert_allclose(
        [label.score for label in alone], [label.score for label in ours[0]], atol=1e-6
    )


def test_contradiction_is_found_by_its_name() -> None:
    """Transformers takes the first class for contradiction, also where it is another."""
    from bert_keras.inference.zero_shot_classification import entailment_classes

    assert entailment_classes(["neutral", "entailment", "contradiction"]) == (1, 2)
    assert entailment_classes(["not_entailment", "entailment"]) == (1, 0)
    assert entailment_classes(["good", "bad"]) is None


def test_one_label(folder: Path) -> None:
    """The probability of one label is that of entailment beside contradiction."""
    predictor = Predictor.from_preset(folder)
    ((one,),) = predictor.zero_shot(["w1 w2"], "w7", hypothesis="w3 {}")
    ((same,),) = predictor.zero_shot(["w1 w2"], ["w7"], hypothesis="w3 {}", multi_label=True)
    assert one == same
    assert 0 < one.score < 1


def test_messages(task, tokenizer) -> None:
    predictor = Predictor(task("labels"), tokenizer)
    with pytest.raises(ValueError, match=r"begins with 'entail'.*bad, good, so"):
        predictor.zero_shot(["a"], ["b"])
    with pytest.raises(ValueError, match="of no head"):
        Predictor(task("vectors"), tokenizer).zero_shot(["a"], ["b"])
    with pytest.raises(ValueError, match="at least one label"):
        predictor.zero_shot(["a"], [])
    with pytest.raises(ValueError, match=r"needs {} in place of the label"):
        predictor.zero_shot(["a"], ["b"], hypothesis="This is it.")
