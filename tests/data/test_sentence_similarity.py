"""Pairs of texts, each text in a row of its own, with their targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras.data import Texts, encode, pair_examples
from bert_keras.data.sentence_similarity import (
    contrastive_pairs,
    few_shot_examples,
    group_examples,
    memberships,
)
from bert_keras.errors import DataError
from bert_keras.tokenizers import Tokenizer
from tests.tokenizers.samples import VOCABULARY

TOKENIZER = Tokenizer(VOCABULARY)
FIRST, SECOND = ["hello", "the world", "un"], ["a mask", "hello world wanted", "is"]
PLACES = [f"pairs.tsv:{line}" for line in (2, 3, 5)]


def pairs(targets: Any = None) -> Texts:
    return Texts(FIRST, SECOND, targets, PLACES)


@pytest.mark.parametrize(
    ("loss", "targets", "options", "expected"),
    [
        ("similarity", [5.0, 0.0, 2.5], {"max_score": 5.0}, {"similarity": [1.0, 0.0, 0.5]}),
        ("classification", ["b", "a", "b"], {"labels": ["a", "b"]}, {"label": [1, 0, 1]}),
        ("in_batch", None, {}, {"match": [[0, 3], [1, 4], [2, 5]]}),
    ],
)
def test_every_loss(loss: str, targets: Any, options: dict, expected: dict) -> None:
    source = pair_examples(TOKENIZER, pairs(targets), loss, max_length=4, seed=None, **options)
    x, y, weights = source.batch(0, 0)
    for side, texts in enumerate((FIRST, SECOND)):
        expected_rows = encode(TOKENIZER, texts, max_length=4).inputs(np.arange(3), 4)
        for name, values in x.items():
            np.testing.assert_array_equal(values[:, side], expected_rows[name])
    assert {name: values.tolist() for name, values in y.items()} == expected
    assert {name: values.tolist() for name, values in weights.items()} == {
        name: [1.0] * 3 for name in expected
    }


def test_weights_of_classes() -> None:
    source = pair_examples(
        TOKENIZER,
        pairs(["b", "a", "b"]),
        "classification",
        labels=["a", "b"],
        class_weights={"b": 0.5},
        seed=None,
    )
    assert source.batch(0, 0)[2]["label"].tolist() == [0.5, 1.0, 0.5]


@pytest.mark.parametrize(
    ("loss", "targets", "options", "message"),
    [
        ("similarity", None, {}, "no labels to train on"),
        ("similarity", [0.5, "x", 1.0], {}, "pairs.tsv:3: a target of the problem 'regression'"),
        ("classification", ["a", "b", "c"], {"labels": ["a", "b"]}, "pairs.tsv:5: unknown label"),
        ("similarity", [0.5, 1.5, 1.0], {}, "tsv:3: a score must be .* max_score=1. Received: 1.5"),
        (
            "similarity",
            [-5, 0, 5.5],
            {"max_score": 5},
            "pairs.tsv:5: a score must be .* max_score=5. Received: 5.5",
        ),
    ],
)
def test_bad_targets_are_named(loss: str, targets: Any, options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pair_examples(TOKENIZER, pairs(targets), loss, **options)


def test_what_does_not_fit() -> None:
    with pytest.raises(DataError, match="Every text needs a second text"):
        pair_examples(TOKENIZER, Texts(FIRST), "in_batch")
    with pytest.raises(ValueError, match="must be one of similarity, classification, in_batch"):
        pair_examples(TOKENIZER, pairs(), "triplet")
    several: list[dict[str, Any]] = [{"labels": ["a"]}, {"class_weights": {"a": 2.0}}]
    for more in several:
        with pytest.raises(ValueError, match="are for loss='classification'"):
            pair_examples(TOKENIZER, pairs([1.0] * 3), "similarity", **more)


def test_scores_far_below_the_highest_one_are_said() -> None:
    """A recipe for scores from 0 to 5 with data from 0 to 1 learns that no texts are alike."""
    scores = [0.0, 0.25, 1.0, 0.5] * 5
    texts = Texts(FIRST[:1] * 20, SECOND[:1] * 20, scores)
    with pytest.warns(UserWarning, match=r"highest of 20 scores is 1, .*max_score=5\."):
        pair_examples(TOKENIZER, texts, "similarity", max_score=5.0)
    pair_examples(TOKENIZER, texts, "similarity", max_score=1.0)  # a warning would be an error
    few = Texts(FIRST, SECOND, [0.1, 0.2, 0.0])
    pair_examples(TOKENIZER, few, "similarity", max_score=5.0)


def test_groups_of_texts() -> None:
    """Examples of three texts have a row for each, and equal texts have equal numbers."""
    columns = [["a", "b"], ["b", "a b"], ["a", "a"]]
    source = group_examples(TOKENIZER, columns, seed=None)
    x, y, weights = source.batch(0, 0)
    assert x["token_ids"].shape[:2] == (2, 3)
    assert y["match"].tolist() == [[0, 1, 0], [1, 2, 0]]
    assert weights["match"].tolist() == [1.0, 1.0]
    with pytest.raises(DataError, match=r"must have the same length\. Received: 2, 1"):
        group_examples(TOKENIZER, [["a", "b"], ["a"]])


# === Pairs of labelled texts ===


_MEMBERS = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]], bool)


def _kinds(members: np.ndarray, **options: Any) -> tuple[list[Any], list[Any]]:
    """Return the pairs of texts with a common label, and the others, each in its order."""
    numbers, scores = contrastive_pairs(members, **options)
    assert scores.dtype == np.float32
    pairs = [tuple(pair) for pair in numbers.tolist()]
    together = [pair for pair, score in zip(pairs, scores, strict=True) if score == 1]
    apart = [pair for pair, score in zip(pairs, scores, strict=True) if score == 0]
    assert len(together) + len(apart) == len(pairs)
    return together, apart


def test_all_pairs_and_as_many_of_each_kind() -> None:
    together, apart = _kinds(_MEMBERS)
    expected = {(i, j) for i in range(5) for j in range(i, 5)}
    assert set(together) | set(apart) == expected
    assert set(apart) == {(i, j) for i in (0, 1, 2) for j in (3, 4)}
    # Nine pairs of one kind, each once. The six of the other kind begin again.
    assert len(together) == len(set(together)) == len(apart) == 9
    assert apart[6:] == apart[:3]


def test_the_pairs_are_those_of_setfit() -> None:
    """Sizes by the sampling strategy "oversampling" of setfit 1.2, for 8 texts of each class."""
    for classes, count in ((2, 144), (6, 1920)):
        members = np.repeat(np.eye(classes, dtype=bool), 8, axis=0)
        assert len(contrastive_pairs(members)[1]) == count
        assert len(contrastive_pairs(members, num_iterations=20)[1]) == 2 * 20 * 8 * classes


def test_a_seed_orders_the_pairs() -> None:
    found = [contrastive_pairs(_MEMBERS, seed=seed)[0].tolist() for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


def test_texts_with_a_common_label_belong_together() -> None:
    texts = Texts(["a", "b", "c", "d"], None, [("x", "y"), ("y", "z"), ("z",), ()])
    members = memberships(texts, ["x", "y", "z"], "multi_label")
    together, apart = _kinds(members)
    assert set(together) == {(0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (1, 2)}
    assert set(apart) == {(0, 2), (0, 3), (1, 3), (2, 3)}


def test_pairs_that_cannot_be_made() -> None:
    with pytest.raises(DataError, match=r"texts with different labels. Received: 3 texts"):
        contrastive_pairs(_MEMBERS[:3])
    with pytest.raises(ValueError, match=r"num_iterations must be at least 1. Received: 0"):
        contrastive_pairs(_MEMBERS, num_iterations=0)
    with pytest.raises(ValueError, match=r"for few texts.* Received: 2,000 texts"):
        contrastive_pairs(np.ones((2000, 1), bool))
    with pytest.raises(ValueError, match=r"for few texts.* num_iterations=200000"):
        contrastive_pairs(_MEMBERS, num_iterations=200_000)
    with pytest.raises(ValueError, match=r"Received: problem='regression'"):
        memberships(Texts(["a"], None, [1.0]), ["x"], "regression")
    with pytest.raises(DataError, match=r"needs single texts. Received: pairs"):
        few_shot_examples(TOKENIZER, pairs(["x", "y", "x"]), ["x", "y"])


def test_batches_of_labelled_texts() -> None:
    texts = Texts([*FIRST, *SECOND], None, ["x", "x", "y", "y", "y", "y"])
    source = few_shot_examples(TOKENIZER, texts, ["x", "y"], batch_size=100, max_length=8)
    x, y, _ = source.batch(0, 0)
    rows = encode(TOKENIZER, texts.texts, max_length=8)
    number = {tuple(rows[index].tolist()): index for index in range(len(rows))}
    assert len(number) == len(rows)
    for ids, mask, score in zip(x["token_ids"], x["padding_mask"], y["similarity"], strict=True):
        first, second = (
            number[tuple(row[: valid.sum()].tolist())] for row, valid in zip(ids, mask, strict=True)
        )
        assert score == float((first < 2) == (second < 2))
