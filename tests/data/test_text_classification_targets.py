"""Labels and tags become numbers, each with its text or its piece."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

from bert_keras.data.examples import TaggedWords, Texts
from bert_keras.data.model_inputs import encode
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.text_classification import targets_of, text_examples
from bert_keras.data.token_classification import tag_examples
from bert_keras.errors import DataError
from bert_keras.tokenizers import Tokenizer
from tests.tokenizers.samples import VOCABULARY

TOKENIZER = Tokenizer(VOCABULARY)
TEXTS = ["hello", "the world is wanted", "un", "a mask"]
PLACES = [f"train.tsv:{line}" for line in (2, 3, 4, 7)]


def texts(targets: Any, **columns: Any) -> Texts:
    return Texts(TEXTS, targets=targets, places=PLACES, **columns)


def in_order(source: SupervisedExamples) -> list[Any]:
    return [source.batch(0, position) for position in range(source.num_batches())]


def test_single_labels() -> None:
    source = text_examples(
        TOKENIZER,
        texts(["b", "a", "b", "c"]),
        labels=["c", "b", "a"],
        seed=None,
        batch_size=3,
        max_length=5,
    )
    batches = in_order(source)
    assert [y["label"].tolist() for _, y, _ in batches] == [[1, 2, 1], [0]]
    assert batches[0][1]["label"].dtype == np.int32
    rows = encode(TOKENIZER, TEXTS, max_length=5)
    np.testing.assert_array_equal(source.rows.token_ids, rows.token_ids)
    # Padding 5 tokens to 8 could exceed the positions of the model.
    assert batches[0][0]["token_ids"].shape == (3, 5)


def test_pairs() -> None:
    source = text_examples(TOKENIZER, texts(["a"] * 4, pairs=TEXTS[::-1]), labels=["a"], seed=None)
    expected = TOKENIZER(TEXTS, TEXTS[::-1])
    ((x, _, _),) = in_order(source)
    width = expected["token_ids"].shape[1]
    for name, values in expected.items():
        np.testing.assert_array_equal(x[name][:, :width], values)
        assert not x[name][:, width:].any()


def test_several_labels_each() -> None:
    targets = [("b", "a"), (), "c", ("a", "b", "c")]
    source = text_examples(
        TOKENIZER, texts(targets), labels=["a", "b", "c"], problem="multi_label", seed=None
    )
    ((_, y, _),) = in_order(source)
    assert y["label"].dtype == np.float32
    assert y["label"].tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1]]


def test_numbers() -> None:
    source = text_examples(TOKENIZER, texts([0.5, 3, -1, 2.25]), problem="regression", seed=None)
    ((_, y, weights),) = in_order(source)
    assert y["label"].dtype == np.float32
    assert y["label"].tolist() == [[0.5], [3.0], [-1.0], [2.25]]
    assert weights["label"].tolist() == [1.0] * 4


def test_weights_of_classes() -> None:
    source = text_examples(
        TOKENIZER,
        texts(["b", "a", "b", "c"]),
        labels=["a", "b", "c"],
        class_weights={"b": 0.5, "c": 4.0},
        seed=None,
    )
    ((_, _, weights),) = in_order(source)
    assert weights["label"].dtype == np.float32
    assert weights["label"].tolist() == [0.5, 1.0, 0.5, 4.0]


def test_weights_that_would_change_nothing() -> None:
    labels = ["a", "b"]
    data = texts(["a", "b", "a", "a"])
    with pytest.raises(ValueError, match=r"class_weights=\{'x': 2.0\}"):
        text_examples(TOKENIZER, data, labels=labels, class_weights={"x": 2.0})
    with pytest.raises(ValueError, match="problem='multi_label'"):
        text_examples(
            TOKENIZER, data, labels=labels, class_weights={"a": 2.0}, problem="multi_label"
        )


def test_labels_that_are_none() -> None:
    for missing in (None, float("nan")):  # pandas marks a missing label with NaN.
        with pytest.raises(DataError, match=r"targets: train.tsv:3 is missing"):
            texts(["a", missing, "b", "c"])
    with pytest.raises(DataError, match=r"train.tsv:4: unknown label 'd'. The labels are a, b"):
        targets_of(texts(["a", "b", "d", "e"]), ["a", "b"], "single_label")
    with pytest.raises(DataError, match=r"train.tsv:7: unknown label 'x'"):
        targets_of(texts([("a",), (), ("b",), ("a", "x")]), ["a", "b"], "multi_label")
    with pytest.raises(DataError, match="example 1: unknown label 'z'"):
        targets_of(Texts(["a", "b"], targets=["a", "z"]), ["a"], "single_label")
    with pytest.raises(DataError, match="no labels to train on"):
        text_examples(TOKENIZER, texts(None), labels=["a"])
    with pytest.raises(DataError, match="no labels to train on"):
        text_examples(TOKENIZER, Texts([], targets=[]), problem="regression")
    with pytest.raises(ValueError, match="one of single_label, multi_label, regression"):
        targets_of(texts([1, 2, 3, 4]), None, "numbers")


@pytest.mark.parametrize(
    ("problem", "targets", "place"),
    [
        ("single_label", ["a", ("a", "b"), "a", "a"], "train.tsv:3"),
        ("single_label", ["a", "b", 0.37, "a"], "train.tsv:4"),
        ("multi_label", [("a",), "a", 1.5, "a"], "train.tsv:4"),
        ("multi_label", [("a",), "a", (0.5,), "a"], "train.tsv:4"),
        ("regression", [1.0, 2.0, 3.0, "a"], "train.tsv:7"),
        ("regression", [1.0, 2.0, float("inf"), 3.0], "train.tsv:4"),
    ],
)
def test_targets_of_another_kind(problem: str, targets: Any, place: str) -> None:
    with pytest.raises(DataError, match=f"{place}: a target of the problem '{problem}' must be"):
        targets_of(texts(targets), ["a", "b"], problem)


@pytest.mark.parametrize(
    "targets",
    [
        [2, 0, 1, 2],
        np.array([2, 0, 1, 2], np.int64),
        [2.0, 0.0, 1.0, 2.0],
        np.array([2, 0, 1, 2], np.float32),
    ],
    ids=repr,
)
def test_whole_numbers_are_the_indices_of_classes(targets: Any) -> None:
    for labels in (["c", "b", "a"], np.array(["c", "b", "a"]), ["0", "1", "2"], [0, 1, 2], None):
        found = targets_of(texts(targets), labels, "single_label")  # pyright: ignore[reportArgumentType]
        assert found.dtype == np.int32
        assert found.tolist() == [2, 0, 1, 2]


def test_truth_values_are_the_indices_0_and_1() -> None:
    for values in ([True, False, True, True], np.array([True, False, True, True])):
        assert targets_of(texts(values), ["no", "yes"], "single_label").tolist() == [1, 0, 1, 1]


def test_several_whole_numbers_of_a_row() -> None:
    found = targets_of(texts([[0, 2], [], 1, (2,)]), ["c", "b", "a"], "multi_label")
    assert found.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
    with pytest.raises(DataError, match=r"train.tsv:3: a row must .* once.*not a 0 or 1"):
        targets_of(texts([[0, 1], [1, 0, 1], [1], []]), ["c", "b", "a"], "multi_label")


def test_whole_numbers_mean_the_labels_that_are_whole_numbers() -> None:
    """Whole numbers mean the label names with these digits.

    They are not positions among the labels of the data, because a test set may lack the lowest
    label.
    """
    found = targets_of(texts([2, 5, 2, 5]), ["1", "2", "5"], "single_label")
    assert found.tolist() == [1, 2, 1, 2]
    with pytest.raises(DataError, match=r"train.tsv:4: unknown label 3. The labels are 1, 2, 5"):
        targets_of(texts([1, 2, 3, 5]), ["1", "2", "5"], "single_label")


@pytest.mark.parametrize("labels", [["a", "b"], None])
def test_an_index_that_no_class_has_is_refused_by_row(labels: Any) -> None:
    with pytest.raises(DataError, match=r"train.tsv:3: unknown label -1\."):
        targets_of(texts([1, -1, 0, 0]), labels, "single_label")
    if labels:
        with pytest.raises(DataError, match=r"train.tsv:7: unknown label 2\. .* from 0 to 1 stand"):
            targets_of(texts([1, 0, 0, 2]), labels, "single_label")


def test_names_need_labels() -> None:
    for problem in ("single_label", "multi_label"):
        with pytest.raises(DataError, match=r"Pass labels=label_names\(examples\)"):
            targets_of(texts(["a", "b", "a", "b"]), None, problem)


def test_a_fraction_as_a_label_is_refused_with_the_name_of_its_problem() -> None:
    with pytest.raises(DataError, match=r'train.tsv:2: .*problem="regression"') as caught:
        targets_of(texts([0.37, 1.0, 0.0, 1.0]), ["a", "b"], "single_label")
    assert "task=text_regression" in str(caught.value)


def test_class_weights_with_numpy_labels() -> None:
    source = text_examples(
        TOKENIZER,
        texts([1, 0, 1, 1]),
        labels=np.array(["a", "b"]),  # pyright: ignore[reportArgumentType]
        class_weights={"b": 0.5},
        seed=None,
    )
    ((_, y, weights),) = in_order(source)
    assert y["label"].tolist() == [1, 0, 1, 1]
    assert weights["label"].tolist() == [0.5, 1.0, 0.5, 0.5]


WORDS = [["the", "unaffable", "\x07", "world"], ["wanted"], ["hello", "wanted", "hello"]]
TAGS = [["O", "B-X", "O", "B-Y"], ["I-X"], ["B-Y", "I-Y", "I-X"]]
NAMES = ["O", "B-X", "B-Y", "I-X", "I-Y"]


def tagged(source: SupervisedExamples) -> list[list[tuple[str, str]]]:
    """Return (piece, tag) for the pieces of each row whose weight is not zero."""
    found = []
    for x, y, weights in in_order(source):
        for ids, tags, counts in zip(x["token_ids"], y["tags"], weights["tags"], strict=True):
            assert len(set(counts.tolist()) - {0.0}) == 1
            found.append(
                [
                    (TOKENIZER.id_to_token(int(ids[place])), NAMES[tags[place]])
                    for place in np.flatnonzero(counts)
                ]
            )
    return found


def test_tags_stand_at_the_first_piece_of_a_word() -> None:
    data = TaggedWords(WORDS, TAGS)
    source = tag_examples(TOKENIZER, data, labels=NAMES, seed=None)
    assert tagged(source) == [
        [("the", "O"), ("un", "B-X"), ("world", "B-Y")],
        [("want", "I-X")],
        [("hello", "B-Y"), ("want", "I-Y"), ("hello", "I-X")],
    ]
    ((x, y, weights),) = in_order(source)
    assert y["tags"].dtype == np.int32
    assert weights["tags"].dtype == np.float32
    assert y["tags"].shape == weights["tags"].shape == x["token_ids"].shape
    assert not x["segment_ids"].any()
    # Three rows have seven tagged words.
    np.testing.assert_allclose(np.unique(weights["tags"]), [0, 3 / 7])


def test_tags_of_all_pieces_go_on_with_an_entity() -> None:
    source = tag_examples(
        TOKENIZER, TaggedWords(WORDS, TAGS), labels=NAMES, all_pieces=True, seed=None
    )
    assert tagged(source) == [
        [("the", "O"), ("un", "B-X"), ("##aff", "I-X"), ("##able", "I-X"), ("world", "B-Y")],
        [("want", "I-X"), ("##ed", "I-X")],
        [("hello", "B-Y"), ("want", "I-Y"), ("##ed", "I-Y"), ("hello", "I-X")],
    ]


def test_tags_without_an_inside() -> None:
    """Tags without an inside tag are given unchanged to all pieces of a word.

    Examples are parts of speech, and names that only resemble tags of a span.
    """
    names = ["B-X", "NOUN-B-Y", "NOUN-I-Y"]
    source = tag_examples(
        TOKENIZER,
        TaggedWords([["wanted", "wanted"]], [["B-X", "NOUN-B-Y"]]),
        labels=names,
        all_pieces=True,
    )
    ((_, y, weights),) = in_order(source)
    assert y["tags"][weights["tags"] > 0].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("all_pieces", [False, True])
def test_a_long_sentence_is_several_rows(all_pieces: bool) -> None:
    data = TaggedWords([WORDS[2] * 9], [TAGS[2] * 9])
    whole = tag_examples(TOKENIZER, data, labels=NAMES, all_pieces=all_pieces, max_length=128)
    parts = tag_examples(
        TOKENIZER, data, labels=NAMES, all_pieces=all_pieces, max_length=8, seed=None
    )
    assert len(whole) == 1
    assert len(parts) > 5
    assert list(chain.from_iterable(tagged(parts))) == tagged(whole)[0]
    assert parts.rows.lengths.max() <= 8


def test_tags_that_are_none() -> None:
    data = TaggedWords(WORDS, TAGS, ["a.conll:1", "a.conll:6", "a.conll:8"])
    with pytest.raises(DataError) as caught:
        tag_examples(TOKENIZER, data, labels=["O"])
    found = [(i, j) for i, tags in enumerate(TAGS) for j, tag in enumerate(tags) if tag != "O"]
    numbers: dict[str, list[int]] = {}
    for sentence, word in found:
        numbers.setdefault(TAGS[sentence][word], []).append((1, 6, 8)[sentence] + word)
    assert max(map(len, numbers.values())) == 2
    for line, (tag, of_tag) in zip(str(caught.value).split("\n")[1:], numbers.items(), strict=True):
        place = f" lines {of_tag[0]} and {of_tag[1]}" if len(of_tag) == 2 else f"{of_tag[0]}"
        assert line == f"a.conll:{place}: unknown tag {tag!r}. The tags are O."
    with pytest.raises(DataError, match="sentence 0, word"):
        tag_examples(TOKENIZER, TaggedWords(WORDS, TAGS), labels=["O"])
    with pytest.raises(DataError, match="no tags to train on"):
        tag_examples(TOKENIZER, TaggedWords(WORDS), labels=NAMES)
    with pytest.raises(DataError, match="no tags to train on"):
        tag_examples(TOKENIZER, TaggedWords([], []), labels=NAMES)
    with pytest.raises(ValueError, match="leaves no room for words"):
        tag_examples(TOKENIZER, data, labels=NAMES, max_length=2)
