"""Text estimators in scikit-learn: grid search, pipelines, pickling, its own checks."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bert_keras import BertEncoder, Tokenizer, sklearn
from tests.contracts import TINY
from tests.models.test_text_fit import LABELS, TEXTS
from tests.tokenizers.samples import VOCABULARY

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

ESTIMATORS = [getattr(sklearn, name) for name in sklearn.__all__]
# Checks of scikit-learn that need no numeric input.
CHECKS = [
    "check_no_attributes_set_in_init",
    "check_get_params_invariance",
    "check_set_params",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_parameters_default_constructible",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_valid_tag_types",
    "check_estimator_tags_renamed",
    "check_mixin_order",
]


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a folder with a small encoder and its tokenizer."""
    folder = tmp_path_factory.mktemp("encoder")
    config = TINY.replace(
        vocab_size=len(VOCABULARY), num_layers=1, max_positions=24, hidden_size=16
    )
    config = config.replace(dropout=0.0, attention_dropout=0.0)
    BertEncoder(config).save_to_preset(folder)
    Tokenizer(VOCABULARY).save_to_preset(folder)
    return str(folder)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_the_checks_of_scikit_learn_hold(estimator: Callable[[], Any], name: str) -> None:
    check = getattr(estimator_checks, name, None)
    if check is None:
        return  # an earlier scikit-learn has this check under another name
    made = estimator()
    check(type(made).__name__, made)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_an_estimator_that_is_not_fitted_says_so(estimator: Callable[[], Any]) -> None:
    made = estimator()
    with pytest.raises(NotFittedError):
        (made.transform if hasattr(made, "transform") else made.predict)(TEXTS)


@pytest.mark.parametrize("labels", [LABELS, [int(label == "good") for label in LABELS]])
def test_a_classifier_learns_labels_of_any_kind(labels: list[Any], preset: str) -> None:
    made = sklearn.TextClassifier(preset, epochs=60, batch_size=6, learning_rate=3e-3)
    assert made.fit(TEXTS, labels) is made
    assert made.classes_.tolist() == sorted(set(labels))
    shares = made.predict_proba(TEXTS)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-5)
    assert made.score(TEXTS, labels) > 0.9
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_allclose(again.predict_proba(TEXTS), shares, atol=1e-6)
    repeated = clone(made).fit(TEXTS, labels)
    np.testing.assert_allclose(repeated.predict_proba(TEXTS), shares, atol=1e-5)


def test_pairs_are_two_columns(preset: str) -> None:
    pairs = np.array([TEXTS, TEXTS[::-1]], object).T
    made = sklearn.TextClassifier(preset, epochs=1, class_weight="balanced").fit(pairs, LABELS)
    answers = made.predict(pairs)
    assert answers.shape == (len(TEXTS),)
    assert made.model_.predictor_config.pairs
    assert made.predict([tuple(pair) for pair in pairs]).tolist() == answers.tolist()


def test_a_regressor_learns_the_scale_of_its_numbers(preset: str) -> None:
    numbers = [500.0 if label == "good" else 400.0 for label in LABELS]
    made = sklearn.TextRegressor(preset, epochs=60, batch_size=6, learning_rate=3e-3)
    assert made.fit(TEXTS, numbers).score(TEXTS, numbers) > 0.5
    assert 300 < made.predict(TEXTS).mean() < 600


def test_cross_validation_and_grid_search(preset: str, capsys) -> None:
    made = sklearn.TextClassifier(preset, epochs=1, batch_size=8)
    assert cross_val_score(made, np.array(TEXTS), LABELS, cv=2).shape == (2,)
    grid = GridSearchCV(made, {"learning_rate": [1e-5, 1e-2]}, cv=2).fit(TEXTS, LABELS)
    assert set(grid.best_params_) == {"learning_rate"}
    printed = capsys.readouterr().out
    assert "random weights" not in printed  # in every fit
    sklearn.TextClassifier(preset, epochs=1, batch_size=8, verbose=2).fit(TEXTS, LABELS)
    assert "random weights" in capsys.readouterr().out


def test_values_of_a_step_in_a_pipeline_are_tried(preset: str) -> None:
    """Grid search clones the pipeline, sets `step__name`, and scores by a metric of its own."""
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    made = sklearn.TextClassifier(preset, epochs=1, batch_size=8)
    line = make_pipeline(lower, made)
    tried = {"textclassifier__learning_rate": [1e-5, 1e-2]}
    grid = GridSearchCV(line, tried, cv=2, scoring=["accuracy", "f1_macro"], refit="f1_macro")
    grid.fit(TEXTS, LABELS)
    assert len(grid.cv_results_["mean_test_f1_macro"]) == 2
    assert grid.predict(TEXTS).shape == (len(TEXTS),)
    assert made.learning_rate is None


def test_vectors_feed_a_pipeline(preset: str) -> None:
    line = make_pipeline(sklearn.TextEncoder(preset), LogisticRegression(C=100.0))
    line.fit(TEXTS, LABELS)
    assert line.score(TEXTS, LABELS) > 0.9
    encoder = pickle.loads(pickle.dumps(line[0]))
    np.testing.assert_allclose(
        encoder.transform(TEXTS[:2]), line[0].transform(TEXTS[:2]), atol=1e-6
    )
    assert len(encoder.get_feature_names_out()) == encoder.transform(TEXTS[:1]).shape[1]


def test_bad_targets_are_refused(preset: str) -> None:
    with pytest.raises(ValueError, match="two classes or more"):
        sklearn.TextClassifier(preset).fit(TEXTS, ["good"] * len(TEXTS))
    with pytest.raises(ValueError, match="one finite number"):
        sklearn.TextRegressor(preset).fit(TEXTS, [np.nan] * len(TEXTS))


def test_long_texts_are_read_in_windows(preset: str) -> None:
    texts = ["a b " * 30, "b"]
    vectors = sklearn.TextEncoder(preset, max_length=8, long_texts="windows").fit().transform(texts)
    cut = sklearn.TextEncoder(preset, max_length=8, long_texts="truncate").fit().transform(texts)
    assert np.abs(vectors - cut).max(axis=1)[1] == 0
    model = sklearn.TextClassifier(preset, epochs=1, max_length=8, long_texts="windows", stride=3)
    assert model.fit(texts * 2, ["x", "y"] * 2).predict_proba(texts).shape == (2, 2)
    assert model.model_.predictor_config.options == {"long_texts": "windows", "stride": 3}
