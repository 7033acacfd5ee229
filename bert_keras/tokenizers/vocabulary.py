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
from bert_keras.tokenizers.vocabulary_coverage import TRAIN_ANOTHER, Coverage
from bert_keras.tokenizers.word_counts import Progress, count_words, most_words, no_progress

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # of BERT


def read_vocabulary(path: Path, special_tokens: Sequence[str] = SPECIAL_TOKENS) -> list[str]:
    """Read and check a vocab.txt: UTF-8, one piece on each line; line n has id n - 1.

    Args:
        path: path of the file.
        special_tokens: tokens that it must have.

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
    check_vocabulary(vocabulary, str(path), lines=True, special_tokens=special_tokens)
    return vocabulary


def vocabulary_text(vocabulary: Iterable[str]) -> bytes:
    """Return the content of a vocab.txt; `read_vocabulary` is the inverse."""
    return "".join(f"{piece}\n" for piece in vocabulary).encode()


# === Training and checks ===
# Training counts the distinct words of a corpus. It then merges the most frequent pair of adjacent
# pieces until the vocabulary is full (Sennrich et al., 2016, section 3.2, with WordPiece's "##").
# The result is deterministic: pairs of equal count are ordered by their text. It depends on the
# order of documents only for a corpus with more distinct words than are held (see `word_counts`).


CONTINUATION = "##"
COVERAGE = 0.9999  # share of the characters in the corpus that the alphabet covers
_UNWRITABLE = re.compile("[\0\r\n\ud800-\udfff]")


def check_vocabulary(
    vocabulary: Sequence[str],
    name: str = "vocabulary",
    lines: bool = False,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
) -> None:
    """Check that a vocabulary is valid for WordPiece.

    Args:
        vocabulary: all pieces.
        name: name of the vocabulary in messages, such as a path.
        lines: whether the entries are the lines of the file `name`.
        special_tokens: tokens that it must have.

    Raises:
        DataError: if an entry is blank, occurs twice or cannot be written, or a special token is
            missing.
    """

    def place(index: int) -> str:
        """Return the place of an entry for a message."""
        return f"{name}:{index + 1}" if lines else f"{name}[{index}]"

    if isinstance(vocabulary, str | Path):
        raise DataError(
            "A vocabulary is a list of pieces. For a file or a folder use Tokenizer.from_preset. "
            f"Received: {str(vocabulary)!r:.100}"
        )
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
    if missing := [token for token in special_tokens if token not in seen]:
        raise DataError(
            f"{name}: lacks {', '.join(missing)}. Received: {len(seen)} entries. "
            "Every special token needs an entry of its own."
        )


def learn_vocabulary(
    documents: Iterable[str | Iterable[str]],
    split: Callable[[str], list[str]],
    vocab_size: int,
    progress: Progress | None = None,
) -> tuple[list[str], Coverage]:
    """Train a WordPiece vocabulary with exactly `vocab_size` entries.

    Args:
        documents: documents, each a string or an iterable of strings. They are read once.
        split: function from a text to its words, as the tokenizer will split it.
        vocab_size: number of entries.
        progress: function that is called with (number done, total or None, description).

    Returns:
        Special tokens, then the alphabet, then merged pieces by frequency; and the numbers of words
        of the corpus, and of those that are too long for WordPiece.

    Raises:
        DataError: if the corpus does not give so many entries, or its alphabet needs more. The
            message states the cause and how many entries are right.
    """
    report = progress or no_progress
    counts, coverage = count_words(documents, split, report, most_words(vocab_size))
    vocabulary: list[str] = []
    words: dict[str, int] = {}
    # Rare characters get entries only if the frequent ones do not fill the vocabulary.
    for share in (COVERAGE, 1.0):
        alphabet, words = _alphabet(counts, vocab_size - len(SPECIAL_TOKENS), share)
        vocabulary = _merge(words, [*SPECIAL_TOKENS, *alphabet], vocab_size, report)
        if len(vocabulary) == vocab_size:
            return vocabulary, coverage
        if len(words) == len(counts):
            break
    raise DataError(_too_few(counts, words, vocabulary, vocab_size, coverage))


def _too_few(
    counts: Counter[str],
    spelled: dict[str, int],
    vocabulary: list[str],
    vocab_size: int,
    coverage: Coverage,
) -> str:
    """Return the message on a vocabulary that is too small: its cause, and what to do.

    Args:
        counts: word -> count.
        spelled: word -> count of the words that the alphabet can spell.
        vocabulary: all entries that were found.
        vocab_size: number of entries that was asked for.
        coverage: numbers of all words, and of those that are too long.
    """
    if len(spelled) < len(counts):
        forms = len({piece for word in counts for piece in _pieces(word)})
        return (
            f"the alphabet of the corpus does not fit into the vocabulary: it has {forms:,} "
            "entries, one for a character that begins a word and one for a character within words. "
            f"Received: vocab_size={vocab_size:,}. Pass {len(SPECIAL_TOKENS) + forms:,} or more."
        )
    cures = [f"Pass {len(vocabulary):,} or less, or add text."] if counts else []
    cures.append(coverage.message(TRAIN_ANOTHER))
    return (
        f"the corpus ({coverage.words:,} words, {len(counts):,} different) gives at most "
        f"{len(vocabulary):,} vocabulary entries. Received: vocab_size={vocab_size:,}. "
        + (" ".join(filter(None, cures)) or "Add text.")
    )


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
