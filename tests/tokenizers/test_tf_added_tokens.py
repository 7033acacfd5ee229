"""Added tokens in a TensorFlow graph: the same ids and places as in Python."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.tokenizers import Tokenizer
from tests.tokenizers.samples import VOCABULARY
from tests.tokenizers.test_added_tokens import SPECIAL, TEXTS, WORDS

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from bert_keras.tokenizers.tf_added_tokens import TokenMatcher  # noqa: E402
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer  # noqa: E402

# Begin like others, overlap, and end within others.
CHAINS = ("ab", "abc", "bcd", "cdab", "dd", "d")
MATCHER = TokenMatcher([[*map(ord, chain)] for chain in CHAINS], range(len(CHAINS)))


def _matches(text: str) -> list[tuple[int, int]]:
    """Return the leftmost longest matches of `CHAINS` in one text: start and number."""
    found, at = [], 0
    while at < len(text):
        longest = max((c for c in CHAINS if text.startswith(c, at)), key=len, default="")
        if longest:
            found.append((at, CHAINS.index(longest)))
        at += len(longest) or 1
    return found


@given(st.lists(st.text("abcd", max_size=24), max_size=4))
@settings(max_examples=40, deadline=None)
def test_leftmost_then_longest(texts: list[str]) -> None:
    rows = tf.ragged.constant([[*map(ord, text)] for text in texts], tf.int32, ragged_rank=1)
    starts, ends, numbers = MATCHER(rows.flat_values, rows.row_splits)
    borders = rows.row_splits.numpy()
    expected = [
        (int(border) + start, number)
        for border, text in zip(borders, texts, strict=False)
        for start, number in _matches(text)
    ]
    assert [*zip(starts.numpy().tolist(), numbers.numpy().tolist(), strict=True)] == expected
    sizes = [len(CHAINS[number]) for _, number in expected]
    assert (ends - starts).numpy().tolist() == sizes


def _grown(**switches: Any) -> Tokenizer:
    tokenizer = Tokenizer(VOCABULARY, **switches).add_tokens(WORDS)
    return tokenizer.add_tokens(SPECIAL, special=True)


def _check(tokenizer: Tokenizer, in_graph: InGraphTokenizer, texts: list[str]) -> None:
    batch = tf.constant(texts, tf.string)
    ids, starts, ends = (rows.to_list() for rows in in_graph.tokenize_with_offsets(batch))
    plain = in_graph.pieces(batch, special_tokens_in_text=False).to_list()
    assert plain == tokenizer.text_ids(texts)
    for row, text in enumerate(texts):
        encoding = tokenizer.encode(text, add_special_tokens=False)
        assert ids[row] == encoding.ids, ascii(text)
        assert [*zip(starts[row], ends[row], strict=True)] == encoding.offsets, ascii(text)
    tokens = in_graph.id_to_token(tf.range(tokenizer.vocab_size)).numpy()
    assert [token.decode() for token in tokens] == [*tokenizer.vocabulary]


@pytest.mark.parametrize(
    "portable", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["portable", "fast"]
)
def test_the_same_as_in_python(portable: bool) -> None:
    texts = [text for text in TEXTS if "\ua953" not in text]  # decision 56
    _check(_grown(), _in_graph(portable), texts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "switches", [{"lowercase": False}, {"strip_accents": False, "split_cjk": False}], ids=str
)
def test_other_normalisations(switches: dict[str, bool]) -> None:
    tokenizer = _grown(**switches)
    for portable in (False, True):
        _check(tokenizer, InGraphTokenizer(tokenizer, portable=portable), [*TEXTS[-20:], ""])


@pytest.mark.slow
@pytest.mark.parametrize("portable", [False, True])
def test_saved_and_loaded(portable: bool, tmp_path: Path) -> None:
    module: Any = tf.Module()
    module.tokenizer = _in_graph(portable)
    tf.saved_model.save(module, str(tmp_path / "model"))
    loaded: Any = tf.saved_model.load(str(tmp_path / "model"))
    texts = tf.constant(TEXTS)
    expected = _in_graph(portable).tokenize(texts)
    assert loaded.tokenizer.tokenize(texts).to_list() == expected.to_list()


@functools.cache
def _in_graph(portable: bool) -> InGraphTokenizer:
    return InGraphTokenizer(_grown(), portable=portable)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from(
                (*WORDS, *SPECIAL, "cov", "-", " ", "q", "\t", "\u200b", "[MASK]", "[")
            ),
            max_size=8,
        ).map("".join),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_any_text(texts: list[str], portable: bool) -> None:
    _check(_grown(), _in_graph(portable), texts)


@pytest.mark.slow
def test_very_many_tokens() -> None:
    """More tokens than one page of code points has."""
    tokenizer = Tokenizer(VOCABULARY).add_tokens([f"tok{n}x" for n in range(600)])
    _check(tokenizer, InGraphTokenizer(tokenizer), ["tok0xtok599x tok300 tok255x[MASK]tok256x"])
