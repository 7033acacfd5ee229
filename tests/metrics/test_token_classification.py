"""Entity scores: cases computed by hand, seqeval's answers, and the counts of CoNLL 2003."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.metrics import EntitySpan, entity_scores, entity_spans

PREFIXES = {
    None: "BIES",
    "IOB1": "BI",
    "IOB2": "BI",
    "IOE1": "IE",
    "IOE2": "IE",
    "IOBES": "BIES",
    "BILOU": "BILU",
}


@pytest.fixture(scope="session")
def seqeval() -> Any:
    """Return the module `seqeval`. Warnings of its imports are ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("seqeval.metrics.v1")
        pytest.importorskip("seqeval.scheme")
        return pytest.importorskip("seqeval")


def spans(text: str, scheme: str | None = None) -> list[EntitySpan]:
    return entity_spans(text.split(), scheme)


@pytest.mark.parametrize(
    ("scheme", "text", "expected"),
    [
        (None, "B-X I-X O B-Y", [("X", 0, 2), ("Y", 3, 4)]),
        (None, "I-X I-Y I-Y O I-Y", [("X", 0, 1), ("Y", 1, 3), ("Y", 4, 5)]),
        (None, "B-X E-X I-X S-X E-X", [("X", 0, 2), ("X", 2, 3), ("X", 3, 4), ("X", 4, 5)]),
        (None, "B I B-X-Y", [("_", 0, 2), ("X-Y", 2, 3)]),
        ("IOB2", "I-X B-X I-X I-Y B-Y", [("X", 1, 3), ("Y", 4, 5)]),
        ("IOB1", "I-X B-X O B-X I-X", [("X", 0, 1), ("X", 1, 2), ("X", 4, 5)]),
        ("IOE2", "I-X E-X E-X I-X O", [("X", 0, 2), ("X", 2, 3)]),
        ("IOE1", "I-X E-X I-X I-X", [("X", 0, 2), ("X", 2, 4)]),
        ("IOBES", "B-X I-X E-X S-X B-X O E-X", [("X", 0, 3), ("X", 3, 4)]),
        ("BMES", "B-X M-X E-X S-X B-X O E-X", [("X", 0, 3), ("X", 3, 4)]),
        ("BILOU", "B-X I-X L-X U-X B-X O L-X", [("X", 0, 3), ("X", 3, 4)]),
        ("IOB2", "", []),
    ],
)
def test_spans(scheme: str | None, text: str, expected: list[tuple[str, int, int]]) -> None:
    assert spans(text, scheme) == expected


def test_names_of_one_scheme() -> None:
    text = "I-X B-X I-X O"
    assert spans(text, "BIO") == spans(text, "IOB2") == [("X", 1, 3)]
    assert spans("B-X E-X", "BIOES") == spans("B-X E-X", "IOBES") == [("X", 0, 2)]
    assert entity_spans(["B-X"]) == [EntitySpan(label="X", start=0, end=1)]


@pytest.mark.parametrize(
    ("tag", "scheme"),
    [
        *[(tag, None) for tag in ("PER", "B_PER", "B-", "O-X", "", "o", "b-X", "X-B", "BI-X")],
        *[("M-X", None), ("E-X", "IOB2"), ("S-X", "IOB1"), ("I-X", "BMES"), ("B-X", "IOE2")],
        *[("E-X", "BILOU"), (None, None), (0, None)],
    ],
)
def test_tags_that_are_refused(tag: Any, scheme: str | None) -> None:
    with pytest.raises(ValueError, match="is no tag of"):
        entity_spans(["O", tag], scheme)


def test_scores_by_hand() -> None:
    true = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O"]]
    predicted = [["B-PER", "I-PER", "O", "B-ORG"], ["B-LOC", "I-LOC"]]
    zero = {"f1": 0, "precision": 0, "recall": 0}
    parts = {
        "": {"f1": pytest.approx(1 / 3), "precision": 1 / 3, "recall": 1 / 3, "support": 3},
        "LOC_": zero | {"support": 2},
        "ORG_": zero | {"support": 0},
        "PER_": {"f1": 1, "precision": 1, "recall": 1, "support": 1},
    }
    assert entity_scores(true, predicted) == {
        f"{part}{name}": value for part, values in parts.items() for name, value in values.items()
    }
    assert entity_scores([["O"]], [["O"]]) == zero | {"support": 0}
    assert entity_scores([], []) == zero | {"support": 0}


def test_scores_that_are_refused() -> None:
    with pytest.raises(ValueError, match="2 sentences with true tags, 1 with predicted"):
        entity_scores([["O"], ["O"]], [["O"]])
    with pytest.raises(ValueError, match="sentence 1: 2 true tags, 1 predicted"):
        entity_scores([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match=r"`scheme` must be None or one of IOB1.*scheme='IOB'"):
        entity_scores([["O"]], [["O"]], "IOB")


def sentences(scheme: str | None, count: int) -> st.SearchStrategy[list[Any]]:
    """Return a strategy for true and predicted tags of sentences, most of them malformed."""
    tags = ["O", *(f"{prefix}{label}" for prefix in PREFIXES[scheme] for label in ("-X", "-Y", ""))]
    words = st.lists(st.tuples(st.sampled_from(tags), st.sampled_from(tags)), max_size=8)
    pair = words.map(lambda rows: ([true for true, _ in rows], [guess for _, guess in rows]))
    return st.lists(pair, min_size=count, max_size=count)


@pytest.mark.parametrize("scheme", PREFIXES)
def test_seqeval_finds_the_same(seqeval: Any, scheme: str | None) -> None:
    """The seqeval library gives the same entities and scores.

    It is compared on 200 examples of 5 pairs of sentences for each of 7 schemes, which are 14,000
    sequences of tags.
    """
    kind, metrics = scheme and getattr(seqeval.scheme, scheme), seqeval.metrics
    compared = 0

    def of_seqeval(tags: list[str]) -> list[tuple[str, int, int]]:
        if kind is None:
            found = metrics.sequence_labeling.get_entities(tags)
            return [(label, start, end + 1) for label, start, end in found]
        entities = seqeval.scheme.Entities([tags], kind).entities[0]
        return [entity.to_tuple()[1:] for entity in entities]

    @settings(deadline=None, derandomize=True, max_examples=200, database=None)
    @given(sentences(scheme, 5))
    def compare(pairs: list[tuple[list[str], list[str]]]) -> None:
        nonlocal compared
        true, predicted = [list(each) for each in zip(*pairs, strict=True)]
        for tags in (*true, *predicted):
            assert entity_spans(tags, scheme) == of_seqeval(tags)
            compared += 1
        found = entity_scores(true, predicted, scheme)
        options = {"zero_division": 0} | ({"scheme": kind} if kind else {})
        measure = (
            metrics.v1 if kind else metrics.sequence_labeling
        ).precision_recall_fscore_support
        precision, recall, f1, _ = measure(true, predicted, average="micro", **options)
        assert (found["precision"], found["recall"], found["f1"]) == (precision, recall, f1)
        labels = [name.removesuffix("_f1") for name in found if name.endswith("_f1")]
        if labels:
            every = measure(true, predicted, average=None, **options)
            for name, values in zip(("precision", "recall", "f1", "support"), every, strict=True):
                assert [found[f"{label}_{name}"] for label in labels] == list(values)

    compare()
    assert compared >= 1500


@pytest.mark.data
@pytest.mark.parametrize("scheme", [None, "IOB1"])
def test_the_entities_of_conll_2003(shared_data: Path, scheme: str | None) -> None:
    """The entity counts of the development set are those of table 2 in the paper.

    The paper is by Tjong Kim Sang and De Meulder (2003).
    """
    text = (shared_data / "conll2003" / "eng.testa").read_text(encoding="utf-8")
    sentences = [
        [line.split()[-1] for line in part.splitlines()] for part in text.split("\n\n") if part
    ]
    found = entity_scores(sentences, sentences, scheme)
    counts = {"LOC": 1837, "MISC": 922, "ORG": 1341, "PER": 1842}
    assert {label: found[f"{label}_support"] for label in counts} == counts
    assert found["support"] == sum(counts.values())
    assert found["f1"] == 1
