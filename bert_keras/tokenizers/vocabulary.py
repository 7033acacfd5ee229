"""WordPiece vocabularies: reading, checking and training one."""

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
    """Reads and checks a vocab.txt: UTF-8, one piece per line; line n is id n - 1."""
    data = read_bytes(path)
    if not data:
        raise DataError(f"{path}: the vocabulary is empty.")
    if data.startswith(b"\xef\xbb\xbf"):
        raise DataError(f"{path}:1: starts with a byte order mark. Save it as UTF-8 without one.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = data[error.start : error.end]
        raise DataError(f"{path}:{line}: not UTF-8. Received: the bytes {found!r}") from None
    # Not splitlines: U+2028 and its like are entries of published vocabularies.
    vocabulary = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    check_vocabulary(vocabulary, str(path), lines=True)
    return vocabulary


def vocabulary_text(vocabulary: Iterable[str]) -> bytes:
    """The content of a vocab.txt, as `read_vocabulary` reads it."""
    return "".join(f"{piece}\n" for piece in vocabulary).encode()


# === Training and checks ===
# Learning merges the most frequent pair of neighbouring pieces until the vocabulary is full
# (Sennrich et al., 2016, section 3.2, with WordPiece's "##"), over the counts of different words.
# Nothing in it depends on hashing or threads: the pieces themselves settle equal counts. The order
# of documents matters only where a corpus has more different words than are held (see
# `count_words`).


SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"
MAX_WORD_LENGTH = 100  # characters; a longer word is [UNK]
# Different words held while counting, which bounds memory whatever the corpus: rarer ones decide
# none of so few entries.
WORDS_PER_ENTRY = 8
FEWEST_WORDS = 100_000
COVERAGE = 0.9999  # share of the corpus' characters that the alphabet covers
_UNWRITABLE = re.compile("[\r\n\ud800-\udfff]")

Progress = Callable[[int, int | None, str], object]


def check_vocabulary(
    vocabulary: Sequence[str], name: str = "vocabulary", lines: bool = False
) -> None:
    """Raises `DataError` unless BERT can use the vocabulary.

    Args:
        vocabulary: the pieces.
        name: what the message calls it, such as a path.
        lines: whether entries are lines of the file `name`.
    """

    def place(index: int) -> str:
        return f"{name}:{index + 1}" if lines else f"{name}[{index}]"

    seen: dict[str, int] = {}
    for index, token in enumerate(vocabulary):
        if not isinstance(token, str):
            raise DataError(f"{place(index)}: an entry must be a string. Received: {token!r}")
        if not token:
            raise DataError(f"{place(index)}: a blank entry. Every entry is a piece; remove it.")
        if _UNWRITABLE.search(token):
            raise DataError(f"{place(index)}: line break or lone surrogate. Received: {token!r}")
        if token in seen:
            raise DataError(f"{place(index)}: {token!r} is also at {place(seen[token])}.")
        seen[token] = index
    if missing := [token for token in SPECIAL_TOKENS if token not in seen]:
        raise DataError(
            f"{name}: lacks {', '.join(missing)}. Received: {len(seen)} entries. "
            "Every special token needs an entry of its own."
        )


def learn_vocabulary(
    documents: Iterable[str | Iterable[str]],
    split: Callable[[str], list[str]],
    vocab_size: int,
    progress: Progress | None = None,
) -> list[str]:
    """Learns exactly `vocab_size` entries: specials, alphabet, then merges by frequency.

    Args:
        documents: documents, each a string or an iterable of strings; read once.
        split: text to words, as the tokenizer will split it.
        vocab_size: number of entries.
        progress: called with (done, total or None, what).

    Raises:
        DataError: the corpus cannot give that many entries; says how many it can.
    """
    if vocab_size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"vocab_size must be more than the {len(SPECIAL_TOKENS)} special tokens. "
            f"Received: {vocab_size}"
        )
    report = progress or (lambda *_: None)
    max_words = max(FEWEST_WORDS, WORDS_PER_ENTRY * vocab_size)
    counts = count_words(documents, split, report, max_words)
    vocabulary: list[str] = []
    # Rare characters are worth an entry only where there is room for all of them.
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
    """Counts the words of a corpus, exactly while at most `max_words` are different.

    When a document overfills the table the rarest words are forgotten, until half are left: then
    the result depends on the order of the documents as well, and still on nothing else.
    """
    if isinstance(documents, str):
        raise TypeError("documents must be an iterable of documents. Received: one string")
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
    """The words seen more often than word number `keep`, so at most `keep` of them."""
    floor = sorted(counts.values(), reverse=True)[keep]
    return Counter({word: n for word, n in counts.items() if n > floor})


def _pieces(word: str) -> list[str]:
    return [word[0], *[CONTINUATION + character for character in word[1:]]]


def _alphabet(counts: Counter[str], room: int, coverage: float) -> tuple[list[str], dict[str, int]]:
    """The most frequent characters, in the forms that occur, and the words made of them alone."""
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
    """Adds the most frequent pairs to `vocabulary` until it has `vocab_size` entries, if it can.

    The heap is lazy: a pair has an entry of at least its count, and a stale one is mended when met.
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
            if len(after) == len(before):  # listed twice, or another merge took the pair
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
    """`pieces` with every (left, right), from the left, as one."""
    result: list[str] = []
    for piece in pieces:
        if piece == right and result and result[-1] == left:
            result[-1] = merged
        else:
            result.append(piece)
    return result
