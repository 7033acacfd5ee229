"""Metrics of labels and numbers: cases computed by hand, second formulas, undefined cases."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras import metrics

TRUE = ["cat", "cat", "dog", "dog", "dog", "bird"]
ONE = np.ones((1, 1))
GUESS = ["cat", "dog", "dog", "dog", "cat", "dog"]


def test_labels_by_hand() -> None:
    assert metrics.accuracy(TRUE, GUESS) == 0.5
    assert metrics.f1(TRUE, GUESS, "micro") == 0.5
    # Precision and recall. cat: 1 of 2 and 1 of 2. dog: 2 of 4 and 2 of 3. bird: never predicted.
    dog = 2 * 2 / (4 + 3)
    assert metrics.f1(TRUE, GUESS) == pytest.approx((0.5 + dog + 0) / 3)
    assert metrics.f1([1, 0, 1, 1], [1, 1, 1, 0], "binary") == pytest.approx(2 / 3)
    assert metrics.f1(["y", "n", "y"], ["y", "n", "n"], "binary", positive="n") == pytest.approx(
        2 / 3
    )
    # pandas gives arrays of objects.
    true, guess = (np.array(labels, object) for labels in (["y", "n", "y"], ["y", "n", "n"]))
    assert metrics.f1(true, guess, "binary", positive="n") == pytest.approx(2 / 3)
    assert metrics.accuracy(true, ["y", "n", "n"]) == pytest.approx(2 / 3)
    # Matthews (1975): TP 2, TN 0, FP 1, FN 1.
    assert metrics.matthews([1, 0, 1, 1], [1, 1, 1, 0]) == pytest.approx(-1 / 3)


def test_the_confusion_matrix_has_true_labels_in_rows() -> None:
    np.testing.assert_array_equal(
        metrics.confusion_matrix(TRUE, GUESS), [[0, 0, 1], [0, 1, 1], [0, 1, 2]]
    )
    labels = ["dog", "cow", "cat", "bird"]
    np.testing.assert_array_equal(
        metrics.confusion_matrix(TRUE, GUESS, labels),
        [[2, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0]],
    )
    with pytest.raises(ValueError, match="`labels` lacks 'bird'"):
        metrics.confusion_matrix(TRUE, GUESS, ["cat", "dog"])


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=12))
def test_labels_by_second_formulas(rows: list[tuple[int, int]]) -> None:
    true, guess = np.array(rows).T
    found = sorted({*true.tolist(), *guess.tolist()})
    table = np.array([[((true == i) & (guess == j)).sum() for j in found] for i in found], float)
    right, wanted, predicted = np.diag(table), table.sum(1), table.sum(0)
    np.testing.assert_array_equal(metrics.confusion_matrix(true, guess), table)
    assert metrics.accuracy(true, guess) == pytest.approx(right.sum() / len(rows))
    assert metrics.f1(true, guess) == pytest.approx((2 * right / (wanted + predicted)).mean())
    # Gorodkin (2004): the correlation of two assignments to K classes.
    centred = [np.eye(3)[each] - np.eye(3)[each].mean(0) for each in (true, guess)]
    product = (centred[0] * centred[1]).sum()
    size = math.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum())
    expected = product / size if size > 1e-9 else 0.0
    assert metrics.matthews(true, guess) == pytest.approx(expected, abs=1e-9)


def test_several_labels() -> None:
    true = [("a", "b"), (), ("b",), ("c",)]
    guess = [("b",), ("a",), ("b", "c"), ()]
    # True positives, then predicted and true counts. a: 0, 1, 1. b: 2, 2, 2. c: 0, 1, 1.
    assert metrics.multi_label_f1(true, guess) == pytest.approx(2 * 2 / (4 + 4))
    assert metrics.multi_label_f1(true, guess, "macro") == pytest.approx(1 / 3)
    assert metrics.multi_label_f1(true, guess, "macro", list("abcd")) == pytest.approx(1 / 4)
    one, other = (np.array([[c in row for c in "abc"] for row in rows]) for rows in (true, guess))
    assert metrics.multi_label_f1(one, other) == metrics.multi_label_f1(true, guess)
    macro = metrics.multi_label_f1(one, other, "macro")
    assert macro == metrics.multi_label_f1(true, guess, "macro")
    assert metrics.multi_label_f1([(), ()], [(), ()]) == 0.0
    # One column is one label, and 0 means that the label is absent.
    one, other = np.array([[1], [0], [0], [1]]), np.array([[1], [1], [0], [0]])
    assert metrics.multi_label_f1(one, other, "macro") == pytest.approx(0.5)
    assert metrics.multi_label_f1(one, other, "micro") == pytest.approx(0.5)


def test_labels_that_are_constant() -> None:
    """Constant labels give a defined value, without a warning.

    Warnings are errors in these tests.
    """
    assert metrics.matthews([1, 0, 1], [1, 1, 1]) == 0.0
    assert metrics.matthews([1, 1], [1, 1]) == 0.0
    assert metrics.f1([0, 0], [0, 0], "binary") == 0.0
    assert metrics.f1(["n"], ["n"], "binary", positive="y") == 0.0
    assert metrics.f1([1, 0], [0, 0]) == pytest.approx(1 / 3)
    assert metrics.confusion_matrix([1, 1], [1, 1]).tolist() == [[2]]
    assert metrics.multi_label_f1(np.zeros((2, 3)), np.zeros((2, 3)), "macro") == 0.0


@pytest.mark.parametrize(
    "score",
    [
        *(metrics.accuracy, metrics.f1, metrics.matthews, metrics.confusion_matrix),
        *(metrics.pearson, metrics.spearman, metrics.multi_label_f1),
    ],
)
def test_rows_that_are_refused(score: Callable[..., Any]) -> None:
    one, two = ([("a",)], [("a",)] * 2) if score is metrics.multi_label_f1 else ([1], [1, 2])
    with pytest.raises(ValueError, match="2 true rows, 1 predicted"):
        score(two, one)
    with pytest.raises(ValueError, match="no rows"):
        score([], [])
    with pytest.raises(ValueError, match=r"one value per row|both of one shape"):
        score(np.ones((2, 2)), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.accuracy(["1"], [1]), "both be names, or both integers"),
        (lambda: metrics.f1([1], [1], "weighted"), "`average` must be"),  # pyright: ignore[reportArgumentType]
        (lambda: metrics.f1([0, 1, 2], [0, 1, 2], "binary"), "needs two labels.*0, 1, 2"),
        (lambda: metrics.f1(["y", "n"], ["y", "y"], "binary"), "needs two labels.*'n', 'y'"),
        (lambda: metrics.f1(["y", "y"], ["y", "y"], "binary"), "needs two labels.*positive=1"),
        (lambda: metrics.pearson([1.0], [2.0]), "at least 2 rows"),
        (lambda: metrics.spearman(["a", "b"], ["a", "b"]), "must be numbers"),
        (lambda: metrics.multi_label_f1([("a",)], ONE), "must both be arrays"),
        (lambda: metrics.multi_label_f1(["ab"], ["ab"]), "names of its labels.*'ab'"),
        (lambda: metrics.multi_label_f1([[0, 1]], [[0, 1]]), "For 0 and 1 pass arrays"),
        (lambda: metrics.multi_label_f1([("a",)], [("b",)], labels=["a"]), "lacks 'b'"),
        (lambda: metrics.multi_label_f1([("a",)], [()], "binary"), "average"),  # pyright: ignore[reportArgumentType]
        (lambda: metrics.multi_label_f1(ONE, 0.5 * ONE), "threshold"),
        (
            lambda: metrics.multi_label_f1(ONE, ONE, labels=["a"]),
            "An array has a column for each",
        ),
    ],
)
def test_what_is_refused(call: Callable[[], float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("library", "name", "call"),
    [
        ("sklearn", "scikit-learn", lambda: metrics.accuracy([1], [1])),
        ("scipy", "SciPy", lambda: metrics.pearson([1, 2], [1, 2])),
    ],
)
def test_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, library: str, name: str, call: Callable[[], float]
) -> None:
    importlib.import_module(library)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf'{name}: pip install "bert-keras\[finetune\]"'):
        call()


# === Calibration


def test_calibration_by_hand() -> None:
    found = metrics.calibration([0.55, 0.58, 0.95, 1.0], [True, False, True, True])
    assert found.counts.tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 0, 2]
    np.testing.assert_allclose(found.confidence[[5, 9]], [0.565, 0.975])
    np.testing.assert_allclose(found.accuracy[[5, 9]], [0.5, 1.0])
    assert np.isnan(found.accuracy[[0, 4, 8]]).all()
    assert found.error == pytest.approx((0.065 + 0.025) / 2)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1), st.integers(1, 20))
def test_calibration_by_a_second_formula(answers: list[tuple[float, bool]], bins: int) -> None:
    """The error is the sum over the bins of |right answers - sum of probabilities| / answers."""
    found = metrics.calibration(*zip(*answers, strict=True), bins=bins)  # pyright: ignore[reportArgumentType]
    total = 0.0
    for number in range(bins):
        inside = [(p, r) for p, r in answers if min(int(p * bins), bins - 1) == number]
        total += abs(sum(r for _, r in inside) - sum(p for p, _ in inside))
    assert found.error == pytest.approx(total / len(answers), abs=1e-12)
    assert found.counts.sum() == len(answers)
    assert 0 <= found.error <= 1


@pytest.mark.parametrize("wrong", [([], []), ([0.5], [1, 0]), ([[0.5]], [[1]]), ([1.1], [1])])
def test_no_calibration(wrong: Any) -> None:
    with pytest.raises(ValueError, match="probability"):
        metrics.calibration(*wrong)
    assert metrics.calibration([1 + 1e-7], [1]).error < 1e-6  # a softmax in float32
