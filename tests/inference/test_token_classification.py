"""Token classification: the offsets of an entity refer to the unchanged text."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data.sliding_windows import word_windows
from bert_keras.inference import token_classification
from bert_keras.inference.token_classification import entities_of, entity_tags, words_of
from bert_keras.metrics.token_classification import entity_spans
from bert_keras.predictor import Entity, Label, Predictor
from tests.paths import every_path, potentials

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@settings(max_examples=300, deadline=None)
@given(tags=st.lists(st.sampled_from(TAGS), max_size=12))
def test_entities_are_those_of_conlleval(tags: list[str]) -> None:
    """Entities are the spans that the metric `entity_spans` finds in the same tags."""
    text = " ".join(f"w{number}" for number in range(len(tags)))
    words = words_of(text)
    scores = np.arange(len(tags)).tolist()
    labels = [Label(tag, score) for tag, score in zip(tags, scores, strict=True)]
    found = entities_of(text, words, labels, entity_tags(TAGS))
    expected = entity_spans(tags)
    assert [(e.label, e.start, e.end) for e in found] == [
        (span.label, words[span.start][0], words[span.end - 1][1]) for span in expected
    ]
    for entity, span in zip(found, expected, strict=True):
        assert entity.text == text[entity.start : entity.end]
        assert entity.score == pytest.approx(np.mean(scores[span.start : span.end]))


def _joined(text: str, tags: str, scores: list[float] | None = None) -> list[Entity]:
    """Return the entities of a text whose words have these tags."""
    names = tags.split()
    labels = [Label(*each) for each in zip(names, scores or [1.0] * len(names), strict=True)]
    return entities_of(text, words_of(text), labels, entity_tags(names))


def test_words_join_to_entities() -> None:
    text = "Ann Lee, of New  York"
    tags = "B-PER I-PER O O I-LOC I-LOC"
    assert _joined(text, tags, [1.0, 0.5, 0, 0, 0.5, 0.25]) == [
        Entity("PER", "Ann Lee", 0, 7, 0.75),
        Entity("LOC", "New  York", 12, 21, 0.375),
    ]
    assert [entity.start for entity in _joined("a b", "B-X B-X")] == [0, 2]
    assert _joined("a b", "LABEL_0 B-") == []


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-X I-X O B-X B-X", [(0, 3), (6, 7), (8, 9)]),
        ("B-X E-X O S-X S-X", [(0, 3), (6, 7), (8, 9)]),
        ("B-X M-X E-X S-X O", [(0, 5), (6, 7)]),
        ("B-X I-X L-X U-X O", [(0, 5), (6, 7)]),
        ("B I O B B", [(0, 3), (6, 7), (8, 9)]),
        ("S I B-X N I", [(4, 5)]),  # labels without a prefix (parts of speech) beside an entity tag
        ("S N V N S", []),
    ],
)
def test_tags_of_any_scheme(tags: str, spans: list[tuple[int, int]]) -> None:
    assert [(entity.start, entity.end) for entity in _joined("a b c d e", tags)] == spans


SENTENCES = [
    ["the", "unaffable", "\x07", "world"],
    ["hello"],
    [],
    ["wanted", "hello", "un"] * 20,
    ["\u3000"],
]


def expected_tags(model, tokenizer, words: list[str]) -> list[Label]:
    """Return the labels that the model gives to a sentence that fits into one window."""
    ids = [tokenizer.text_ids([word])[0] for word in words]
    row = [tokenizer.cls_id, *[i for word in ids for i in word], tokenizer.sep_id]
    x = {"token_ids": np.array([row]), "segment_ids": np.zeros((1, len(row)))}
    x["padding_mask"] = np.ones((1, len(row)))
    x = {name: values.astype(np.int32) for name, values in x.items()}
    logits = model.predict_on_batch(x)["tags"][0].astype(np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    found, place = [], 1
    for pieces in ids:
        best = int(shares[place].argmax()) if pieces else 0
        found.append(Label(TAGS[best], shares[place, best] if pieces else 0.0))
        place += len(pieces)
    return found


def assert_alike(found: list[Label], expected: list[Label]) -> None:
    assert [label.label for label in found] == [label.label for label in expected]
    np.testing.assert_allclose([e.score for e in found], [e.score for e in expected], atol=1e-5)


def test_tags_are_those_of_first_pieces(task, tokenizer) -> None:
    found = Predictor(task("tags"), tokenizer, batch_size=2).predict_tags(SENTENCES)
    assert [len(tags) for tags in found] == [len(words) for words in SENTENCES]
    for words, tags in zip(SENTENCES[:2], found, strict=False):
        assert_alike(tags, expected_tags(task("tags"), tokenizer, words))
    assert found[0][2] == found[4][0] == Label("O", 0.0)


def test_a_long_sentence_is_tagged_to_its_end(task, tokenizer) -> None:
    """A long sentence is split between words. Each part gets the tags that it gets by itself."""
    words = SENTENCES[3]
    parts = [w.words[w.is_first] for w in word_windows(tokenizer, 0, words, max_length=32)]
    assert len(parts) == 3
    expected = [
        label
        for part in parts
        for label in expected_tags(task("tags"), tokenizer, [words[place] for place in part])
    ]
    assert_alike(Predictor(task("tags"), tokenizer).predict_tags([words])[0], expected)


def test_entities_cut_the_text(task, tokenizer) -> None:
    texts = ["Héllo, the  WORLD wanted 中国!", "", "(un) unaffable\u3000mask " * 20]
    found = Predictor(task("tags"), tokenizer, batch_size=2)(texts)
    assert len(found) == 3
    assert found[1] == []
    assert found[0]
    for text, entities in zip(texts, found, strict=True):
        for entity in entities:
            assert entity.text == text[entity.start : entity.end] != ""
            assert entity.label in ("PER", "LOC")
            assert 0 < entity.score <= 1
        assert all(a.end <= b.start for a, b in pairwise(entities))
    assert found[2][-1].start > 200  # after the end of the first window


def test_no_sentences_and_wrong_ones(task, tokenizer) -> None:
    predictor = Predictor(task("tags"), tokenizer)
    assert predictor.predict_tags([]) == predictor.predict_entities([]) == []
    assert predictor.predict_tags([[]]) == predictor.predict_entities([""]) == [[]]
    for wrong in ("the world", ["the world"]):
        with pytest.raises(TypeError, match="`sentences` must be"):
            predictor.predict_tags(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`predict_entities` needs .*'tags'.*SequenceClassifier"):
        Predictor(task("labels"), tokenizer).predict_entities(["a"])


# === Viterbi decoding and marginals, compared with an enumeration of all paths ===


# Rows with one token, with gaps, with no token, and with all tokens.
COUNTED = np.array([[0, 0, 1, 0, 0], [0, 1, 0, 1, 1], [0] * 5, [1] * 5])


@pytest.mark.parametrize("seed", range(5))
def test_decode_finds_the_best_of_all_paths(seed: int):
    values = potentials(4, 5, 3, seed)
    found = token_classification.decode(values, COUNTED)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found < 0, COUNTED == 0)
    for row, counted in enumerate(COUNTED == 1):
        paths = every_path(values[row], counted)
        assert tuple(found[row][counted]) == max(paths, key=lambda tags: paths[tags])


def test_marginals_are_sums_over_all_paths():
    values = potentials(4, 5, 3)
    found = token_classification.marginals(values, COUNTED)
    expected = np.zeros((4, 5, 3))
    for row, counted in enumerate(COUNTED == 1):
        paths = every_path(values[row], counted)
        total = np.logaddexp.reduce(list(paths.values()))
        for tags, score in paths.items():
            for place, tag in zip(np.flatnonzero(counted), tags, strict=True):
                expected[row, place, tag] += np.exp(score - total)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(-1), COUNTED, atol=1e-6)


def test_tags_that_a_field_forbids():
    """A transition with a score of minus infinity is never decoded.

    Here tag 0 may follow only tag 1.
    """
    values = potentials(1, 5, 3)
    values[:, :, [0, 2, 3], 0] = -np.inf
    tags = token_classification.decode(values, np.ones((1, 5)))[0]
    assert not any(b == 0 and a != 1 for a, b in zip([3, *tags], tags, strict=False))
    assert np.isfinite(token_classification.marginals(values, np.ones((1, 5)))).all()


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"one value for each token\. .*\(4, 5, 4, 4\) and \(4, 6"):
        token_classification.decode(potentials(4, 5, 3), np.ones((4, 6)))
