"""WordPiece vocabularies: reading, checking and training."""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path

from bert_keras.errors import DataError
from bert_keras.file_io import read_bytes


def read_vocabulary(path: Path) -> list[str]:
    """Read and check a vocab.txt: UTF-8, one piece on each line; line n has id n - 1.

    Raises:
        DataError: if the vocabulary is not valid. The message names file and line.
    """
    data = read_bytes(path)
    if not data:
        raise DataError(f"{path}: the vocabulary is empty. Write one piece on each line.")
    if data.startswith(b"\xef\xbb\xbf"):
        raise DataError(f"{path}:1: starts with a byte order mark. Save it as UTF-8 without one.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        wrong = data[error.start : error.end]
        raise DataError(
            f"{path}:{line}: not UTF-8. Received: the bytes {wrong!r}. Convert the file to UTF-8."
        ) from None
    # `splitlines` would split at U+2028 and similar characters, which are published entries.
    vocabulary = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    check_vocabulary(vocabulary, str(path), lines=True)
    return vocabulary


def vocabulary_text(vocabulary: Iterable[str]) -> bytes:
    """Return the content of a vocab.txt; `read_vocabulary` is the inverse."""
    return "".join(f"{piece}\n" for piece in vocabulary).encode()


# === Training and checks ===
# Training counts the distinct words of a corpus. It then merges the most frequent pair of adjacent
# pieces until the vocabulary is full (Sennrich et al., 2016, section 3.2, with WordPiece's "##").
# The result is deterministic: pairs of equal count are ordered by their text. It depends on the
# order of documents only for a corpus with more distinct words than are held (see `count_words`).


SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"
MAX_WORD_LENGTH = 100  # characters; a longer word is [UNK]
# Limit of distinct words held while counting, for each vocabulary entry and at least. It bounds the
# memory for any corpus; rarer words have hardly any effect on the entries.
WORDS_PER_ENTRY = 8
FEWEST_WORDS = 100_000
COVERAGE = 0.9999  # share of the characters in the corpus that the alphabet covers
_UNWRITABLE = re.compile("[\0\r\n\ud800-\udfff]")

Progress = Callable[[int, int | None, str], object]


def check_vocabulary(
    vocabulary: Sequence[str], name: str = "vocabulary", lines: bool = False
) -> None:
    """Check that a vocabulary is valid for BERT.

    Args:
        vocabulary: all pieces.
        name: name of the vocabulary in messages, such as a path.
        lines: whether the entries are the lines of the file `name`.

    Raises:
        DataError: if an entry is blank, occurs twice or cannot be written, or a special token is
            missing.
    """

    def place(index: int) -> str:
        """Return the place of an entry for a message."""
        return f"{name}:{index + 1}" if lines else f"{name}[{index}]"

    seen: dict[str, int] = {}
    for index, token in enumerate(vocabulary):
        if not isinstance(token, str):
            raise DataError(f"{place(index)}: an entry must be a string. Received: {token!r}")
        if not token:
            raise DataError(f"{place(index)}: a blank entry. Every entry is a piece; remove it.")
        if _UNWRITABLE.search(token):
            raise DataError(
                f"{place(index)}: line break, NUL or lone surrogate. Received: {token!r}. Remove "
                "the character: a vocab.txt cannot hold it."
            )
        if token in seen:
            raise DataError(
                f"{place(index)}: {token!r} is also at {place(seen[token])}. Replace one of them "
                "by an unused entry, so that all other ids stay."
            )
        seen[token] = index
    if missing := [token for token in SPECIAL_TOKENS if token not in seen]:
        raise DataError(
            f"{name}: lacks {', '.join(missing)}. Received: {len(seen)} entries. "
            "Every special token needs an entry of its own."
        )


def no_progress(*_: object) -> None:
    """Take the place of a missing function for progress."""


def learn_vocabulary(
    documents: Iterable[str | Iterable[str]],
    split: Callable[[str], list[str]],
    vocab_size: int,
    progress: Progress | None = None,
) -> list[str]:
    """Train a WordPiece vocabulary with exactly `vocab_size` entries.

    Args:
        documents: documents, each a string or an iterable of strings. They are read once.
        split: function from a text to its words, as the tokenizer will split it.
        vocab_size: number of entries.
        progress: function that is called with (number done, total or None, description).

    Returns:
        Special tokens, then the alphabet, then merged pieces by frequency.

    Raises:
        DataError: if the corpus is too small. The message states how many entries it gives.
        ValueError: if `vocab_size` leaves no room beside the special tokens.
    """
    if vocab_size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"`vocab_size` must be more than the {len(SPECIAL_TOKENS)} special tokens. "
            f"Received: {vocab_size}"
        )
    report = progress or no_progress
    max_words = max(FEWEST_WORDS, WORDS_PER_ENTRY * vocab_size)
    counts = count_words(documents, split, report, max_words)
    vocabulary: list[str] = []
    # Rare characters get entries only if the frequent ones do not fill the vocabulary.
    for coverage in (COVERAGE, 1.0):
        alphabet, words = _alphabet(counts, vocab_size - len(SPECIAL_TOKENS), coverage)
        vocabulary = _merge(words, [*SPECIAL_TOKENS, *alphabet], vocab_size, report)
        if len(vocabulary) == vocab_size:
            return vocabulary
        if len(words) == len(counts):
            break
    raise DataError(
        f"the corpus ({counts.total():,} words, {len(counts):,} different) gives at most "
        f"{len(vocabulary):,} vocabulary entries. Received: vocab_size={vocab_size:,}. "
        "Ask for fewer, or add text."
    )


def count_words(
    documents: Iterable[str | Iterable[str]],
    split: Callable[[str], list[str]],
    report: Progress,
    max_words: int,
) -> Counter[str]:
    """Count the words of a corpus. The counts are exact for up to `max_words` distinct words.

    When there are more after a document, the rarest words are dropped until half of the limit are
    left. Then the result also depends on the order of the documents.

    Args:
        documents: documents, each a string or an iterable of strings.
        split: function from a text to its words.
        report: progress callback.
        max_words: limit of distinct words.

    Returns:
        Word -> count, without words longer than `MAX_WORD_LENGTH`.
    """
    if isinstance(documents, str):
        raise TypeError(
            f"`documents` must be an iterable of documents. Received: one string, "
            f"{documents!r:.80}. Put it into a list."
        )
    counts: Counter[str] = Counter()
    done = 0
    for done, document in enumerate(documents, start=1):
        for text in (document,) if isinstance(document, str) else document:
            counts.update(split(text))
        if len(counts) > max_words:
            counts = _without_rare(counts, max_words // 2)
        if done % 100 == 0:
            report(done, None, "counting words")
    report(done, done, "counting words")
    return Counter({word: n for word, n in counts.items() if len(word) <= MAX_WORD_LENGTH})


def _without_rare(counts: Counter[str], keep: int) -> Counter[str]:
    """Return the words with higher counts than word number `keep`, so at most `keep` words."""
    floor = sorted(counts.values(), reverse=True)[keep]
    return Counter({word: n for word, n in counts.items() if n > floor})


def _pieces(word: str) -> list[str]:
    """Split a word into its characters: "word" -> ["w", "##o", "##r", "##d"]."""
    return [word[0], *[CONTINUATION + character for character in word[1:]]]


def _alphabet(counts: Counter[str], room: int, coverage: float) -> tuple[list[str], dict[str, int]]:
    """Choose the alphabet: the most frequent characters, which cover a share of the corpus.

    Args:
        counts: word -> count.
        room: number of entries for the alphabet. A character may need two, with and without "##".
        coverage: share of all characters in the corpus that the alphabet should cover.

    Returns:
        The entries of the alphabet, and word -> count of the words that it can spell.
    """
    forms: Counter[str] = Counter()
    for word, n in counts.items():
        for piece in _pieces(word):
            forms[piece] += n
    characters: Counter[str] = Counter()
    for piece, n in forms.items():
        characters[piece[-1]] += n
    kept: set[str] = set()
    left = (1.0 - coverage) * characters.total()
    uncovered = characters.total()
    for character, n in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        room -= (character in forms) + (CONTINUATION + character in forms)
        if uncovered <= left or room < 0:
            break
        uncovered -= n
        kept.add(character)
    words = {word: n for word, n in counts.items() if kept.issuperset(word)}
    alphabet = {piece for word in words for piece in _pieces(word)}
    return sorted(alphabet, key=lambda piece: (len(piece), piece)), words


def _merge(
    words: dict[str, int], vocabulary: list[str], vocab_size: int, report: Progress
) -> list[str]:
    """Add the most frequent pairs to `vocabulary` until it has `vocab_size` entries.

    The result is shorter if there are not enough pairs.

    The heap is lazy: a pair has an entry with at least its count. An outdated entry is replaced
    when it reaches the top.

    Args:
        words: word -> count, for words that the alphabet can spell.
        vocabulary: special tokens and alphabet; it is extended in place.
        vocab_size: number of entries to reach.
        report: progress callback.

    Returns:
        `vocabulary`.
    """
    known = set(vocabulary)
    spelled = [_pieces(word) for word in words]
    frequency = list(words.values())
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    where: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for index, pieces in enumerate(spelled):
        for pair in pairwise(pieces):
            counts[pair] += frequency[index]
            where[pair].append(index)
    heap = [(-count, *pair) for pair, count in counts.items()]
    heapify(heap)
    while heap and len(vocabulary) < vocab_size:
        negative, left, right = heappop(heap)
        count = counts.get((left, right), 0)
        if count != -negative:
            if 0 < count < -negative:
                heappush(heap, (-count, left, right))
            continue
        merged = left + right[len(CONTINUATION) :]
        if merged not in known:
            known.add(merged)
            vocabulary.append(merged)
            if len(vocabulary) % 500 == 0:
                report(len(vocabulary), vocab_size, "learning entries")
        changes: defaultdict[tuple[str, str], int] = defaultdict(int)
        for index in where.pop((left, right)):
            before = spelled[index]
            after = _joined(before, left, right, merged)
            if len(after) == len(before):  # another merge changed the pair, or a duplicate index
                continue
            spelled[index] = after
            for pair in pairwise(before):
                changes[pair] -= frequency[index]
            for pair in pairwise(after):
                changes[pair] += frequency[index]
                if merged in pair:
                    where[pair].append(index)
        for pair, change in changes.items():
            counts[pair] += change
            if change > 0:
                heappush(heap, (-counts[pair], *pair))
            elif counts[pair] == 0:
                del counts[pair]
    report(len(vocabulary), vocab_size, "learning entries")
    return vocabulary


def _joined(pieces: list[str], left: str, right: str, merged: str) -> list[str]:
    """Return `pieces` with each adjacent pair (left, right) replaced by `merged`, from the left."""
    result: list[str] = []
    for piece in pieces:
        if piece == right and result and result[-1] == left:
            result[-1] = merged
        else:
            result.append(piece)
    return result
