"""Hard negatives of texts are those of sentence-transformers, where both define the same."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.retrieval import MinedNegatives, NegativeLimits, mine_hard_negatives

SIZE = 16
QUERIES = [f"q{n % 50}" for n in range(60)]  # ten queries have two answers
ANSWERS = [f"answer {n}" for n in range(60)]
OTHERS = [f"text {n}" for n in range(150)]


@functools.cache
def vector(text: str) -> np.ndarray:
    """Return a vector of a text: random, and near to those of texts with the same last digit."""
    base = np.random.default_rng(ord(text[-1])).standard_normal(SIZE)
    draw = np.random.default_rng([*text.encode()])
    return (base + draw.standard_normal(SIZE)).astype(np.float32)


class Stub:
    """An encoder and a cross-encoder, with the methods of both libraries."""

    device = "cpu"

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.scored: list[tuple[str, str]] = []

    def encode_documents(self, texts: Sequence[str], **_: Any) -> np.ndarray:
        self.encoded += texts
        return np.stack([vector(text) for text in texts])

    encode_queries = encode_documents

    def predict_pair_scores(
        self, firsts: Sequence[str], seconds: Sequence[str], **_: Any
    ) -> np.ndarray:
        self.scored += zip(firsts, seconds, strict=True)
        return np.array(
            [vector(a)[:4] @ vector(b)[:4] for a, b in zip(firsts, seconds, strict=True)]
        )

    # === sentence-transformers ===

    def encode_document(self, texts: Sequence[str], **_: Any) -> np.ndarray:
        vectors = self.encode_documents(texts)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    encode_query = encode_document

    def similarity(self, first: Any, second: Any) -> Any:
        import torch

        return torch.as_tensor(first) @ torch.as_tensor(second).T

    def similarity_pairwise(self, first: Any, second: Any) -> Any:
        import torch

        return (torch.as_tensor(first) * torch.as_tensor(second)).sum(dim=1)

    def predict(self, pairs: Any, **_: Any) -> Any:
        import torch

        return torch.as_tensor(self.predict_pair_scores(*zip(*pairs, strict=True))).float()


def as_rows(mined: MinedNegatives) -> dict[tuple[str, str], list[str]]:
    pairs = zip(mined.queries, mined.answers, strict=True)
    return {pair: row for pair, row in zip(pairs, mined.negatives, strict=True) if row}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"num_negatives": 1},
        {"range_min": 4, "range_max": 20},
        {"absolute_margin": 0.2},
        {"relative_margin": 0.3},
        {"relative_margin": 0.05, "absolute_margin": 0.01, "max_score": 0.6, "min_score": 0.4},
        {"max_score": 0.5, "range_min": 3, "num_negatives": 5},
        {"min_score": 0.6},
    ],
)
@pytest.mark.parametrize(
    ("corpus", "is_rescored"),
    [(None, False), (OTHERS, False), (OTHERS, True)],
    ids=["answers", "corpus", "cross_encoder"],
)
def test_sentence_transformers(values: dict, corpus: Any, is_rescored: bool) -> None:
    util = pytest.importorskip("sentence_transformers.util")
    datasets = pytest.importorskip("datasets")
    limits = NegativeLimits(**values)
    if is_rescored and not limits.limits_scores:
        with pytest.raises(ValueError, match="leaves candidates out by a limit"):
            mine_hard_negatives(Stub(), QUERIES, ANSWERS, limits=limits, cross_encoder=Stub())
        return
    ranker = Stub() if is_rescored else None
    found = mine_hard_negatives(
        Stub(), QUERIES, ANSWERS, corpus=corpus, limits=limits, cross_encoder=ranker
    )
    with contextlib.redirect_stderr(io.StringIO()):
        theirs = util.mine_hard_negatives(
            datasets.Dataset.from_dict({"query": QUERIES, "answer": ANSWERS}),
            Stub(),
            corpus=corpus,
            cross_encoder=ranker,
            verbose=False,
            output_scores=True,
            **values,
        )
    expected: dict[tuple[str, str], list[str]] = {}
    scores: dict[tuple[str, str], list[float]] = {}
    for row in theirs:
        pair = row["query"], row["answer"]
        expected.setdefault(pair, []).append(row["negative"])
        scores.setdefault(pair, [row["scores"][0]]).append(row["scores"][1])
    assert len(expected) > 10, "the limits leave too little for a test"
    assert as_rows(found) == expected
    ours = dict(zip(zip(found.queries, found.answers, strict=True), found.scores, strict=True))
    for pair, wanted in scores.items():
        np.testing.assert_allclose(ours[pair], wanted, atol=1e-5)


def test_equal_texts_are_no_negatives() -> None:
    """Neither copies of a right answer nor of the query, whatever their case and white space."""
    corpus = ["Q1", " answer  1", "ANSWER 1", "answer 1 ", "text 1", "text 2"]
    mined = mine_hard_negatives(
        Stub(),
        ["q1", "q2", "q1"],
        ["answer 1", "answer 2", "answer 1"],
        corpus=corpus,
        limits=NegativeLimits(num_negatives=9),
    )
    assert mined.queries == ["q1", "q2"]  # a pair that comes twice is there once
    assert set(mined.negatives[0]) == {"text 1", "text 2", "answer 2"}
    assert set(mined.negatives[1]) == {*corpus, "answer 1"}


def test_columns_of_the_pairs_with_enough_negatives() -> None:
    limits = NegativeLimits(num_negatives=3, relative_margin=0.5)
    mined = mine_hard_negatives(Stub(), QUERIES, ANSWERS, limits=limits)
    counts = [len(row) for row in mined.negatives]
    assert {0, 3} <= set(counts) or len(set(counts)) > 1
    for wanted in (1, 3):
        columns = mined.columns(wanted)
        assert len(columns) == 2 + wanted
        assert len(columns[0]) == sum(count >= wanted for count in counts)
        rows = as_rows(mined)
        for query, answer, *negatives in zip(*columns, strict=True):
            assert rows[query, answer][:wanted] == negatives


def test_files_are_used_again(tmp_path: Path) -> None:
    """Other limits need nothing new of the encoder; other texts, models or formats do."""
    limits = NegativeLimits(relative_margin=0.1)
    options: dict[str, Any] = {"corpus": OTHERS, "folder": tmp_path, "key": "model 1"}
    encoder, ranker, progress = Stub(), Stub(), []
    first = mine_hard_negatives(
        encoder, QUERIES, ANSWERS, limits=limits, cross_encoder=ranker,
        progress=lambda *work: progress.append(work), **options,
    )  # fmt: skip
    assert len(encoder.encoded) == 50 + 60 + 150
    assert {name for _, _, name in progress} == {"queries", "corpus", "pairs", "search"}
    assert progress[-1] == (50, 50, "search")
    plain = mine_hard_negatives(
        Stub(), QUERIES, ANSWERS, corpus=OTHERS, limits=limits, cross_encoder=Stub()
    )
    assert first == plain
    again, scores = Stub(), Stub()
    second = mine_hard_negatives(
        again, QUERIES, ANSWERS, limits=limits, cross_encoder=scores, **options
    )
    assert (second, again.encoded, scores.scored) == (first, [], [])
    mine_hard_negatives(again, QUERIES, ANSWERS, limits=NegativeLimits(), **options)
    assert again.encoded == []
    mine_hard_negatives(again, QUERIES, ANSWERS, precision="float16", **options)
    assert len(again.encoded) == 210
    mine_hard_negatives(again, QUERIES, ANSWERS, **{**options, "key": "model 2"})
    assert len(again.encoded) == 210 + 260


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_fewer_bytes_change_little(precision: str) -> None:
    options: dict[str, Any] = {"corpus": OTHERS, "limits": NegativeLimits(num_negatives=10)}
    whole = mine_hard_negatives(Stub(), QUERIES, ANSWERS, **options)
    small = mine_hard_negatives(Stub(), QUERIES, ANSWERS, precision=precision, **options)
    pairs = zip(whole.negatives, small.negatives, strict=True)
    shared = np.mean([len({*a} & {*b}) / 10 for a, b in pairs])
    assert shared > 0.95
    np.testing.assert_allclose(small.scores, whole.scores, atol=0.05)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="Received: 60 queries, 59 answers"):
        mine_hard_negatives(Stub(), QUERIES, ANSWERS[1:])

    class Classes(Stub):
        def predict_pair_scores(self, firsts: Any, seconds: Any, **_: Any) -> np.ndarray:
            return np.zeros((len([*zip(firsts, seconds, strict=True)]), 3))

    limits = NegativeLimits(max_score=0.5)
    with pytest.raises(ValueError, match="Received: a model with 3 classes"):
        mine_hard_negatives(Stub(), QUERIES, ANSWERS, limits=limits, cross_encoder=Classes())
