"""Text classification and regression: labels, weights, metrics, predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bert_keras.checkpoints.hugging_face import family_for
from bert_keras.checkpoints.hugging_face_names import FAMILIES, NATIVE
from bert_keras.data import Texts
from bert_keras.errors import DataError, UsageError
from bert_keras.features import LABEL
from bert_keras.models import BertEncoder
from tests import families

_DATA = Texts(["a b", "c", "d e f", "g"], None, ["x", "x", "y", "x"], ["f:1", "f:2", "f:3", "f:4"])


def test_labels_are_those_of_the_rows_or_of_the_recipe(kind) -> None:
    assert kind("text_classification").labels(_DATA) == ["x", "y"]
    assert kind("text_classification", labels="y, x,z").labels(_DATA) == ["y", "x", "z"]
    assert kind("multi_label_classification").labels(Texts(["a", "b"], None, [("q", "p"), ()])) == [
        "p",
        "q",
    ]
    assert kind("text_regression").labels(Texts(["a"], None, [1.5])) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"labels": "x,y,x"}, "names a label twice"),
        ({"positive": "z"}, "positive must be one of two labels. Received: positive='z'"),
        ({"positive": "x", "labels": "x,y,z"}, "positive must be one of two labels"),
    ],
)
def test_bad_label_values(values: dict, message: str, kind) -> None:
    with pytest.raises(UsageError, match=message):
        kind("text_classification", **values).labels(_DATA)


def test_one_label_alone_is_nothing_to_learn(kind) -> None:
    with pytest.raises(DataError, match=r"^At least two labels .*: 'x' alone"):
        kind("text_classification").labels(Texts(["a", "b"], None, ["x", "x"]))


def test_a_label_that_is_not_learned_cannot_be_measured(kind) -> None:
    with pytest.raises(DataError, match=r"f:3: unknown label 'y'. The labels are x, z"):
        kind("text_classification").check(_DATA, ["x", "z"])
    with pytest.raises(DataError, match="no labels"):
        kind("text_regression").check(Texts(["a"]), None)
    kind("text_classification").check(_DATA, ["x", "y"])


def test_a_positive_label_that_the_model_has_not(kind) -> None:
    with pytest.raises(UsageError, match="Received: positive='z', and the labels x, y"):
        kind("text_classification", positive="z").check(Texts(["a"], None, ["x"]), ["x", "y"])


def test_examples_with_balanced_weights(kind, tokenizer) -> None:
    made = kind("text_classification", class_weights="balanced")
    options = {"segments": False, "batch_size": 4, "multiple_of": 8, "seed": None}
    _, y, weights = made.examples(tokenizer, _DATA, ["x", "y"], **options).batch(0, 0)
    assert y[LABEL].tolist() == [0, 0, 1, 0]
    np.testing.assert_allclose(weights[LABEL], [4 / 6, 4 / 6, 2.0, 4 / 6], rtol=1e-6)
    _, _, weights = (
        kind("text_classification").examples(tokenizer, _DATA, ["x", "y"], **options).batch(0, 0)
    )
    assert weights[LABEL].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("task", "labels", "problem", "classes"),
    [
        ("text_classification", ["x", "y"], "single_label", 2),
        ("multi_label_classification", ["x"], "multi_label", 1),
        ("text_regression", None, "regression", 1),
    ],
)
def test_models(task, labels, problem, classes, kind, encoder) -> None:
    model = kind(task, dropout=0.3).build(encoder, labels)
    assert model.options["problem"] == problem
    assert model.options["num_classes"] == classes
    assert model.options["dropout"] == 0.3
    assert model.options["hidden_activation"] == (None if encoder.config.pooler else "tanh")
    assert labels is None or model.options["labels"] == labels


@pytest.mark.parametrize(
    ("family", "has_pooler"),
    [
        (name, has_pooler)
        for name, family in FAMILIES.items()
        for has_pooler in (True, False)
        if not has_pooler or "pooler/dense" in family.encoder
    ],
)
def test_heads_are_those_of_their_family(family: str, has_pooler: bool, kind) -> None:
    """The head is that of the family, so that Transformers can open the fine-tuned model."""
    config, rows = families.config_of(family, pooler=has_pooler), FAMILIES[family]
    for task, labels in (("text_classification", ["x", "y"]), ("multiple_choice", None)):
        model = kind(task).build(BertEncoder(config), labels)
        name = type(model).__name__
        used = family_for(config, name, model.options)
        needs_pooler = name not in rows.hidden_activation and rows.new_pooling == "cls"
        fits = name in rows.classes and (has_pooler or not needs_pooler)
        assert used is (rows if fits else NATIVE)
    model = kind("text_classification", representation="mix").build(BertEncoder(config), ["x", "y"])
    assert model.options["hidden_activation"] == "tanh"


def test_one_label_of_several(kind, predictor) -> None:
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.3, 0.7]])
    found = kind("text_classification", positive="x").evaluate(
        predictor(["x", "y"], predict_scores=scores), _DATA
    )
    assert list(found.metrics) == ["accuracy", "f1_macro", "matthews", "f1"]
    assert found.metrics["accuracy"] == 0.5
    assert found.metrics["f1"] == 0.5  # for label "x": precision 1, recall 1/3
    assert found.predictions == ["x", "y", "y", "y"]
    assert [(w.text, w.right, w.answered) for w in found.worst] == [
        ("c", "x", "y"),
        ("g", "x", "y"),
    ]
    assert found.worst[0].score == pytest.approx(0.6)
    names, counts = found.confusion
    assert (names, counts.tolist()) == (["x", "y"], [[1, 2], [0, 1]])
    assert kind("text_classification").predict(
        predictor(["x", "y"], predict_scores=scores), _DATA
    ) == list("xyyy")


def test_three_labels_have_no_binary_f1(kind, predictor) -> None:
    scores = np.eye(3)[[0, 0, 1, 2]]
    found = kind("text_classification").evaluate(
        predictor(["x", "y", "z"], predict_scores=scores), _DATA
    )
    assert "f1" not in found.metrics


def test_several_labels(kind, predictor, tmp_path: Path) -> None:
    data = Texts(["a", "b", "c"], None, [("x", "y"), (), ("y",)])
    answers = predictor(["x", "y"], predict_scores=np.array([[0.9, 0.5], [0.1, 0.7], [0.2, 0.4]]))
    made = kind("multi_label_classification")
    found = made.evaluate(answers, data)
    assert list(found.metrics) == ["f1_micro", "f1_macro", "exact"]
    assert found.metrics["exact"] == pytest.approx(1 / 3)
    assert found.predictions == ["x,y", "y", ""] == list(made.predict(answers, data))
    assert [(w.text, w.right, w.answered) for w in found.worst] == [("b", "", "y"), ("c", "y", "")]
    made.write(tmp_path / "p.tsv", data, found.predictions)
    assert (tmp_path / "p.tsv").read_text() == "index\tprediction\n0\tx,y\n1\ty\n2\t\n"
    table = tmp_path / "several.tsv"
    table.write_text("text\tlabel\na\tx, y;z\n")
    made = kind("multi_label_classification", label_separator=";")
    assert made.read(str(table)).targets == (("x, y", "z"),)
    assert made.predict(answers, data) == ["x;y", "y", ""]


def test_numbers(kind, predictor) -> None:
    data = Texts(["a", "b", "c"], ["d", "e", "f"], [1.0, 2.0, 4.0])
    answers = predictor(predict_scores=np.array([[1.5], [2.0], [2.5]]))
    found = kind("text_regression").evaluate(answers, data)
    assert found.metrics["spearman"] == pytest.approx(1.0)
    assert found.metrics["mean_squared_error"] == pytest.approx(2.5 / 3)
    assert found.predictions == ["1.5000", "2.0000", "2.5000"]
    assert kind("text_regression").predict(answers, data) == found.predictions
    worst = found.worst[0]
    assert (worst.score, worst.text, worst.right, worst.answered) == (1.5, "c / f", "4.00", "2.50")


def test_numbers_that_are_all_the_same_have_no_correlation(kind, predictor) -> None:
    data = Texts(["a", "b", "c"], None, [1.0, 2.0, 4.0])
    found = kind("text_regression").evaluate(predictor(predict_scores=np.ones((3, 1))), data)
    assert np.isnan(found.metrics["spearman"])


# === Few-shot training ===


def test_few_shots_are_drawn_of_each_label(kind) -> None:
    many = Texts([f"{n}" for n in range(30)], None, ["x"] * 20 + ["y"] * 9 + ["z"])
    drawn = kind("text_classification", examples_per_label=3).trainable_examples(many)
    assert list(drawn.targets) == ["x"] * 3 + ["y"] * 3 + ["z"]
    again = kind("text_classification", examples_per_label=3).trainable_examples(many)
    other = kind("text_classification", examples_per_label=3, data_seed=1).trainable_examples(many)
    assert again.texts == drawn.texts != other.texts
    assert kind("text_classification").trainable_examples(many) is many
    several = Texts(["a", "b", "c"], None, [("x", "y"), ("x",), ()])
    drawn = kind("multi_label_classification", examples_per_label=1).trainable_examples(several)
    assert {"a"} <= set(drawn.texts) <= {"a", "b"}


@pytest.mark.parametrize(("pooling", "ours"), [("mean", "mean"), ("cls", "first_token")])
def test_few_shots_train_a_head_over_sentence_vectors(kind, encoder, pooling, ours) -> None:
    made = kind("text_classification", examples_per_label=8, pooling=pooling).build(
        encoder, ["x", "y"]
    )
    assert made.options["pooling"] == ours
    assert made.options["normalize"]
    # transformers has no head over vectors of length 1
    assert family_for(encoder.config, type(made).__name__, made.options) is NATIVE


def test_few_shots_are_pairs(kind, tokenizer) -> None:
    options = {"segments": False, "batch_size": 64, "multiple_of": 8, "seed": 0}
    made = kind("text_classification", examples_per_label=2).examples(
        tokenizer, _DATA, ["x", "y"], **options
    )
    x, y, _ = made.batch(0, 0)
    # four texts with themselves and three pairs of x; three pairs of x and y, which begin again
    assert sorted(y["similarity"].tolist()) == [0.0] * 7 + [1.0] * 7
    assert x["token_ids"].shape[:2] == (14, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"examples_per_label": 8, "pooling": "max"}, "needs pooling=mean or cls, .*pooling=max"),
        (
            {"examples_per_label": 8, "pair": "second"},
            "Leave pair= or examples_per_label= out. Received: pair=second",
        ),
        ({"examples_per_label": 8, "freeze": True}, "Leave freeze= or examples_per_label= out"),
        ({"examples_per_label": 8, "packing": True}, "Leave packing= or examples_per_label= out"),
        ({"pooling": "cls"}, "Leave it out, or give examples_per_label=8. Received: pooling=cls"),
    ],
)
def test_values_that_few_shots_exclude(values: dict, message: str, kind) -> None:
    with pytest.raises(UsageError, match=message):
        kind("text_classification", **values)
