"""Windows fit and lose no token, and their offsets refer to the original text."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data.sliding_windows import Pieces, question_windows, word_windows
from bert_keras.tokenizers import Tokenizer
from tests.tokenizers import learners
from tests.tokenizers.samples import TRICKY, VOCABULARY

CASED = Tokenizer(VOCABULARY, lowercase=False)
TOKENIZERS = {"uncased": Tokenizer(VOCABULARY), "cased": CASED}
LETTERS = "abé̈EİßñÑ 1.,!中国ーかﾃＡｂ１　👩‍👧😀한\t\u200b\u00a0\x00ſﬁ½"
TEXTS = st.text(alphabet=st.sampled_from(LETTERS) | st.characters(), max_size=24)
WORDS = st.lists(TEXTS.filter(bool), max_size=12)
SOME = ("the", "un", "want", "wanted", "hello", "a", "b", "中国", "é")


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Return a byte-level BPE tokenizer that was learned on a few texts."""
    folder = tmp_path_factory.mktemp("bytes")
    learners.byte_level(folder)
    return Tokenizer.from_preset(folder)


@pytest.fixture(scope="module", params=["uncased", "cased", "bytes"])
def tokenizer(request: pytest.FixtureRequest, byte_level: Tokenizer) -> Tokenizer:
    return TOKENIZERS.get(request.param, byte_level)


def plain(text: str) -> str:
    """Return the text as an uncased tokenizer sees it: lower case, without accents."""
    letters = unicodedata.normalize("NFD", text.lower())
    return "".join(c for c in letters if unicodedata.category(c) != "Mn")


def visible(text: str) -> str:
    """Return the text without control characters, which a tokenizer drops."""
    return "".join(c for c in text if not unicodedata.category(c).startswith("C"))


def check_pieces(tokenizer: Tokenizer, text: str) -> Pieces:
    """Return the pieces of a text, and check their ids and offsets."""
    pieces = Pieces.of(tokenizer, text)
    assert pieces.ids.tolist() == tokenizer.text_ids([text])[0]
    assert len(pieces) == len(pieces.ids) == len(pieces.starts) == len(pieces.ends)
    assert (pieces.starts >= 0).all()
    assert (pieces.starts <= pieces.ends).all()
    assert (pieces.ends <= len(text)).all()
    assert (np.diff(pieces.starts) >= 0).all()
    assert (np.diff(pieces.ends) >= 0).all()
    for start, end in zip(pieces.starts, pieces.ends, strict=True):
        part = text[start:end]
        assert part == part.strip()
    return pieces


@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_offsets_cut_the_text(tokenizer: Tokenizer, text: str) -> None:
    pieces = check_pieces(tokenizer, text)
    for index, start, end in zip(pieces.ids, pieces.starts, pieces.ends, strict=True):
        piece = tokenizer.id_to_token(int(index)).removeprefix("##")
        # With byte-level BPE one character may become several pieces.
        if tokenizer.lowercase is None:
            continue
        if piece != "[UNK]":
            same = plain if tokenizer.lowercase else str
            assert visible(same(text[start:end])) in (piece, same(piece))


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet=LETTERS.replace("\x00", ""), max_size=30))
def test_no_character_of_a_text_in_bytes_is_left_out(byte_level: Tokenizer, text: str) -> None:
    pieces = check_pieces(byte_level, text)
    shown = np.zeros(len(text), bool)
    for start, end in zip(pieces.starts, pieces.ends, strict=True):
        shown[start:end] = True
    assert all(shown[place] for place, letter in enumerate(text) if not letter.isspace())


@pytest.mark.parametrize("text", TRICKY)
def test_offsets_of_tricky_texts(tokenizer: Tokenizer, text: str) -> None:
    check_pieces(tokenizer, text)


def test_special_tokens_in_a_text_are_text() -> None:
    pieces = Pieces.of(CASED, "a [MASK] b")
    assert CASED.mask_id not in pieces.ids
    assert pieces.starts[1] == 2


def test_a_space_before_a_word_is_not_of_it(byte_level: Tokenizer) -> None:
    """The offsets of byte-level pieces leave out the space before a word."""
    text = "the low tower"
    pieces = Pieces.of(byte_level, text)
    words = [text[a:b] for a, b in zip(pieces.starts, pieces.ends, strict=True)]
    assert "".join(words) == "thelowtower"
    assert not any(word.startswith(" ") for word in words)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Ann, e\u0301 a\u0308\u0301. b", ["e\u0301", "a\u0308\u0301", ".", "b"]),
        ("b\u0301\u0301", ["b\u0301\u0301"]),
        ("a \u0301b", ["a", "b"]),  # This accent follows a space and no letter.
    ],
)
def test_a_letter_keeps_its_accents(text: str, parts: list[str]) -> None:
    """The offsets of a letter include the accents that an uncased tokenizer strips."""
    pieces = Pieces.of(TOKENIZERS["uncased"], text)
    found = [text[a:b] for a, b in zip(pieces.starts, pieces.ends, strict=True)]
    assert found[-len(parts) :] == parts


def read_back(windows, tokenizer: Tokenizer, max_length: int) -> dict[int, list[int]]:
    """Return the pieces of each word in all windows, and check the rest of each window."""
    found: dict[int, list[int]] = {}
    last = -1
    for window in windows:
        assert len(window.ids) == len(window.words) <= max_length
        assert window.ids[0] == tokenizer.cls_id
        assert window.ids[-1] == tokenizer.sep_id
        assert window.words[0] == window.words[-1] == -1
        inside = window.words[1:-1]
        assert (inside >= 0).all()
        assert (np.diff(inside) >= 0).all()
        numbers = list(dict.fromkeys(inside.tolist()))
        assert all(number > last for number in numbers), "a word in two windows"
        last = numbers[-1] if numbers else last
        assert window.words[window.is_first].tolist() == numbers
        for word, index in zip(inside.tolist(), window.ids[1:-1], strict=True):
            found.setdefault(word, []).append(index)
    return found


@settings(max_examples=200, deadline=None)
@given(words=WORDS, room=st.integers(1, 12))
def test_words_are_whole_and_none_is_lost(
    tokenizer: Tokenizer, words: list[str], room: int
) -> None:
    """No window cuts a word or drops one, except that a word longer than a window loses its end."""
    max_length = room + tokenizer.scheme.num_added(1)
    everything = read_back(word_windows(tokenizer, 3, words, max_length=10_000), tokenizer, 10_000)
    windows = word_windows(tokenizer, 3, words, max_length=max_length)
    found = read_back(windows, tokenizer, max_length)
    assert all(window.source == 3 for window in windows)
    assert sorted(found) == sorted(everything)
    for word, ids in everything.items():
        assert found[word] == ids[:room]


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.sampled_from(SOME), max_size=12))
def test_the_pieces_of_a_word_are_its_own(words: list[str]) -> None:
    """A word has the same pieces alone and among other words."""
    (window,) = word_windows(CASED, 0, words, max_length=200)
    found = read_back([window], CASED, 200)
    alone = {number: ids for number, ids in enumerate(CASED.text_ids(words)) if ids}
    assert found == alone


def test_words_fill_a_window_before_the_next_begins() -> None:
    # These words have 1, 2, 1, 1, 3 and 1 pieces.
    words = ["a", "wanted", "b", "c", "unaffable", "d"]
    assert [len(ids) for ids in CASED.text_ids(words)] == [1, 2, 1, 1, 3, 1]
    windows = word_windows(CASED, 0, words, max_length=6)
    shown = [window.words[1:-1].tolist() for window in windows]
    assert shown == [[0, 1, 1, 2], [3, 4, 4, 4], [5]]
    # A word longer than a window is cut, and the next window begins with the next word.
    shown = [w.words[1:-1].tolist() for w in word_windows(CASED, 0, words, max_length=4)]
    assert shown == [[0], [1, 1], [2, 3], [4, 4], [5]]
    assert [w.is_first.tolist() for w in windows][1] == [False, True, True, False, False, False]


@pytest.mark.parametrize("nothing", ["\x07", "\u3000", "\u200b", "\ufffd"])
def test_words_without_pieces_are_in_no_window(nothing: str) -> None:
    (window,) = word_windows(CASED, 0, ["the", nothing, "world", nothing], max_length=9)
    assert window.words.tolist() == [-1, 0, 2, -1]
    (window,) = word_windows(CASED, 0, [nothing], max_length=9)
    assert window.ids == [CASED.cls_id, CASED.sep_id]
    assert not window.is_first.any()
    (window,) = word_windows(CASED, 0, [], max_length=9)
    assert window.words.tolist() == [-1, -1]


def reference_windows(length: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Return (first, count) of each window as run_squad.py of google-research/bert does."""
    found, start = [], 0
    while start < length:
        count = min(room, length - start)
        found.append((start, count))
        if start + count == length:
            break
        start += min(count, stride)
    return found


def reference_owner(spans: list[tuple[int, int]], piece: int) -> int:
    """Return the window in which a piece has the most context.

    As in run_squad.py, the score is the context on the shorter side plus 0.01 times the length.
    """
    best, owner = float("-inf"), -1
    for number, (first, count) in enumerate(spans):
        if first <= piece < first + count:
            left, right = piece - first, first + count - 1 - piece
            if min(left, right) + 0.01 * count > best:
                best, owner = min(left, right) + 0.01 * count, number
    return owner


@settings(max_examples=200, deadline=None)
@given(
    length=st.integers(0, 40),
    question=st.integers(0, 6),
    room=st.integers(1, 20),
    stride=st.integers(1, 25),
)
def test_questions_are_asked_of_every_part(
    tokenizer: Tokenizer, length: int, question: int, room: int, stride: int
) -> None:
    context = Pieces(np.arange(100, 100 + length), np.arange(length), np.arange(1, length + 1))
    asked = np.arange(50, 50 + question)
    max_length = room + question + tokenizer.scheme.num_added(2)
    windows = question_windows(tokenizer, 5, asked, context, max_length=max_length, stride=stride)
    spans = reference_windows(length, room, stride)
    assert [(window.first, window.count) for window in windows] == (spans or [(0, 0)])
    for window in windows:
        assert window.source == 5
        assert len(window.ids) == len(window.segments) <= max_length
        assert window.ids[0] == tokenizer.cls_id
        assert window.ids[1 : 1 + question] == asked.tolist()
        part = slice(window.offset, window.offset + window.count)
        assert window.ids[part] == context.ids[window.first :][: window.count].tolist()
        assert window.ids[part.stop :] == [tokenizer.sep_id]
        second = int(tokenizer.scheme.two_segments)
        assert window.segments == [0] * window.offset + [second] * (window.count + 1)
    owners = [
        [n for n, w in enumerate(windows) if 0 <= p - w.first < w.count and w.central[p - w.first]]
        for p in range(length)
    ]
    assert owners == [[reference_owner(spans, piece)] for piece in range(length)]


def test_what_leaves_no_room() -> None:
    """A maximum length or stride without room for text is refused."""
    context = Pieces.of(CASED, "hello world")
    with pytest.raises(ValueError, match=r"max_length=8 leaves no room.*question of 5"):
        question_windows(CASED, 0, np.arange(5), context, max_length=8, stride=1)
    with pytest.raises(ValueError, match=r"stride must be at least 1\. Received: stride=0"):
        question_windows(CASED, 0, np.arange(5), context, max_length=20, stride=0)
    with pytest.raises(ValueError, match=r"max_length=2 leaves no room for words. .* at least 3"):
        word_windows(CASED, 0, ["hello"], max_length=2)


def test_an_added_token_with_a_space_takes_no_second_word() -> None:
    """Words are read apart, so that each keeps a piece for its tag."""
    tokenizer = CASED.add_tokens(["the want", "wanted"])
    words = ["the", "want", "wanted", "the wants"]
    (window,) = word_windows(tokenizer, 0, words, max_length=20)
    assert set(window.words.tolist()) == {-1, 0, 1, 2, 3}
    token = tokenizer.vocabulary.index("the want")
    assert window.ids.index(token) == window.words.tolist().index(3)
