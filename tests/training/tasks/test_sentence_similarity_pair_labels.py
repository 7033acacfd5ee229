"""Classification of text pairs by two vectors: examples, the saved head, metrics."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from bert_keras.data import Texts
from bert_keras.errors import DataError
from bert_keras.features import LABEL
from bert_keras.models import SentenceEncoder, SentencePairs
from bert_keras.predictor import Predictor
from bert_keras.training.best_checkpoint import KeepBest
from bert_keras.training.finetune_recipe import FinetuneRecipe

_NAMES = ["no", "yes"]
_DATA = Texts(["a", "b c", "d"], ["e", "f", "g h i"], ["yes", "no", "yes"])


def test_examples_are_pairs_of_rows(kind, tokenizer) -> None:
    options = {"segments": False, "batch_size": 3, "multiple_of": 8, "seed": None}
    x, y, _ = kind("pair_classification").examples(tokenizer, _DATA, _NAMES, **options).batch(0, 0)
    assert x["padding_mask"].sum(axis=-1).tolist() == [[3, 3], [4, 3], [3, 5]]
    assert y[LABEL].tolist() == [1, 0, 1]


def test_examples_with_balanced_weights(kind, tokenizer) -> None:
    made = kind("pair_classification", class_weights="balanced")
    options = {"batch_size": 3, "seed": None}
    _, _, weights = made.examples(tokenizer, _DATA, _NAMES, **options).batch(0, 0)
    assert weights[LABEL].tolist() == [0.75, 1.5, 0.75]


def test_pairs_are_needed(kind) -> None:
    alone = Texts(["a"], None, ["yes"])
    for call in (
        lambda made: made.check(alone, _NAMES),
        lambda made: made.predict(None, alone),
    ):
        with pytest.raises(DataError, match="with pair="):
            call(kind("pair_classification"))
    with pytest.raises(DataError, match="unknown label 'yes'"):
        kind("pair_classification").check(_DATA, ["no", "perhaps"])


def test_the_head_is_kept(kind, encoder, tokenizer, tmp_path) -> None:
    """The saved model has the trained head; a sentence encoder can be opened without it."""
    made = kind("pair_classification", pooling="max")
    task = made.build(encoder, _NAMES)
    recipe = FinetuneRecipe(task="pair_classification", max_length=16)
    state = dict.fromkeys(("step", "best_step", "constant", "waited", "aside"), 0) | {"best": None}
    best = KeepBest(recipe, made, _DATA, tokenizer, tmp_path / "best", 1, state)
    task.compile("sgd", **task.loss_and_metrics())
    best.set_model(task)
    best.set_params({"epochs": 1})
    best.on_epoch_end(0, {"loss": 0.5})
    kept = SentencePairs.from_preset(tmp_path / "best")
    assert kept.options == task.options
    pairs = (list(_DATA.texts), list(_DATA.pairs or ()))
    expected = Predictor(task, tokenizer).predict_scores(*pairs)
    np.testing.assert_allclose(
        Predictor(kept, tokenizer).predict_scores(*pairs), expected, atol=1e-6
    )
    vectors = SentenceEncoder.from_preset(tmp_path / "best", allow_unused=("label",))
    assert vectors.options["pooling"] == "max"


def test_measures_and_predictions(kind, predictor) -> None:
    made = kind("pair_classification")
    scores = np.array([[0.25, 0.75], [0.25, 0.75], [0.25, 0.75]])
    answers: SimpleNamespace = predictor(label_names=_NAMES, predict_scores=scores)
    found = made.evaluate(answers, _DATA)
    assert found.metrics["accuracy"] == pytest.approx(2 / 3)
    assert made.predict(answers, _DATA) == list(found.predictions) == ["yes"] * 3
    assert [w.text for w in found.worst] == ["b c / f"]
