"""Passages have exact places, keep all of a document, and fit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras import Tokenizer
from bert_keras.data import Passage, sentence_passages, token_passages
from bert_keras.data.documents import sentence_spans
from bert_keras.data.sliding_windows import Pieces
from tests.tokenizers import learners
from tests.tokenizers.samples import VOCABULARY

UNCASED = Tokenizer(VOCABULARY)
LETTERS = "abé̈EİßñÑ 1.,!?中国ーかﾃＡｂ１　👩‍👧😀한\t\n\u200b\u00a0\x00ſﬁ½"
TEXTS = st.text(alphabet=st.sampled_from(LETTERS) | st.characters(), max_size=40)
SENTENCES = st.lists(
    st.sampled_from(
        ["The un wanted", "hello a b.", "Is it 中国?", "wanted! ", "\n\n", "é", "No. 1"]
    ),
    max_size=12,
).map(" ".join)
DOCUMENTS = st.lists(TEXTS | SENTENCES, max_size=3)
LENGTHS = st.integers(1, 9)


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Return a byte-level BPE tokenizer that was learned on a few texts."""
    folder = tmp_path_factory.mktemp("bytes")
    learners.byte_level(folder)
    return Tokenizer.from_preset(folder)


@pytest.fixture(scope="module", params=["uncased", "bytes"])
def tokenizer(request: pytest.FixtureRequest, byte_level: Tokenizer) -> Tokenizer:
    return UNCASED if request.param == "uncased" else byte_level


def check(
    tokenizer: Tokenizer, documents: list[str], passages: list[Passage], max_tokens: int
) -> None:
    """Check places, order, cover and length of the passages of documents."""
    assert [p.document for p in passages] == sorted(p.document for p in passages)
    for number, text in enumerate(documents):
        parts = [p for p in passages if p.document == number]
        covered = [False] * len(text)
        pieces = Pieces.of(tokenizer, text)
        starts = pieces.starts[pieces.ends > pieces.starts]  # the others are white space
        for part in parts:
            assert text[part.start : part.end] == part.text == part.text.strip() != ""
            covered[part.start : part.end] = [True] * (part.end - part.start)
            within = starts[(starts >= part.start) & (starts < part.end)]
            letters = [char for char in part.text if not category(char).startswith("M")]
            assert len(within) <= max_tokens or len(letters) <= 1
        assert all(done or char.isspace() for done, char in zip(covered, text, strict=True))
        assert [(p.start, p.end) for p in parts] == sorted((p.start, p.end) for p in parts)


@given(DOCUMENTS, LENGTHS, st.integers(1, 9) | st.none())
def test_passages_by_tokens(
    tokenizer: Tokenizer, documents: list[str], max_tokens: int, stride: int | None
) -> None:
    stride = stride and min(stride, max_tokens)
    found = list(token_passages(tokenizer, documents, max_tokens=max_tokens, stride=stride))
    check(tokenizer, documents, found, max_tokens)
    if stride is None:
        check_apart(found)


@given(DOCUMENTS, LENGTHS)
def test_passages_by_sentences(tokenizer: Tokenizer, documents: list[str], max_tokens: int) -> None:
    found = list(sentence_passages(tokenizer, documents, max_tokens=max_tokens))
    check(tokenizer, documents, found, max_tokens)
    check_apart(found)


def check_apart(passages: list[Passage]) -> None:
    """Check that no two passages of a document overlap."""
    for first, second in pairwise(passages):
        assert first.document < second.document or first.end <= second.start


@given(SENTENCES, st.integers(4, 30))
def test_sentences_stay_whole(text: str, max_tokens: int) -> None:
    """A passage holds whole sentences, and as many as fit."""
    tokens = Pieces.of(UNCASED, text).starts
    spans = list(sentence_spans(text))
    sizes = [((tokens >= start) & (tokens < end)).sum() for start, end in spans]
    passages = list(sentence_passages(UNCASED, [text], max_tokens=max_tokens))
    if max(sizes, default=0) > max_tokens:
        return
    starts, ends = {start for start, _ in spans}, {end for _, end in spans}
    assert {p.start for p in passages} <= starts
    assert {p.end for p in passages} <= ends
    for first, second in pairwise(passages):
        size = sum(
            n
            for n, (start, _) in zip(sizes, spans, strict=True)
            if first.start <= start < second.start
        )
        following = next(
            n for n, (start, _) in zip(sizes, spans, strict=True) if start == second.start
        )
        assert size <= max_tokens < size + following


def test_words_stay_whole() -> None:
    """The model reads as many tokens of a passage as were counted, and no more."""
    text = "the un wanted, hello (a unwanted) b wanted! 中国中国 hello-hello " * 9
    passages = list(token_passages(UNCASED, [text], max_tokens=7, stride=3))
    starts = Pieces.of(UNCASED, text).starts
    for part in passages:
        inside = ((starts >= part.start) & (starts < part.end)).sum()
        read = len(UNCASED.encode(part.text, add_special_tokens=False))
        assert read == inside <= 7
    firsts = [int((starts < part.start).sum()) for part in passages]
    steps = [b - a for a, b in pairwise(firsts)]
    assert max(steps) <= 3
    assert any(step == 3 for step in steps)


def test_documents_are_read_one_at_a_time() -> None:
    read: list[int] = []

    def documents() -> Iterator[str]:
        for number in range(1_000_000):
            read.append(number)
            yield "hello a b."

    for function in (token_passages, sentence_passages):
        read.clear()
        found = list(islice(function(UNCASED, documents()), 5))
        assert [p.document for p in found] == [0, 1, 2, 3, 4]
        assert len(read) == 5


@pytest.mark.parametrize(
    "values", [{"max_tokens": 0}, {"stride": 0}, {"max_tokens": 4, "stride": 5}]
)
def test_bad_sizes(values: dict) -> None:
    with pytest.raises(ValueError, match="Received"):
        next(token_passages(UNCASED, ["a"], **values))
    with pytest.raises(ValueError, match="max_tokens"):
        next(sentence_passages(UNCASED, ["a"], max_tokens=0))
