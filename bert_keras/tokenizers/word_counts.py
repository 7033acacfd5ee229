"""Counts of the words of a corpus in bounded memory, from which a vocabulary is learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple
from zlib import crc32

from bert_keras.tokenizers.vocabulary_coverage import MAX_WORD_LENGTH, Coverage, long_words

# Limit of distinct words held while counting, for each vocabulary entry and at least. It bounds the
# memory for any corpus; rarer words have hardly any effect on the entries.
WORDS_PER_ENTRY = 8
FEWEST_WORDS = 100_000

Progress = Callable[[int, int | None, str], object]


class WordCounts(NamedTuple):
    """Words of a corpus.

    Attributes:
        counts: word -> count, without words longer than `MAX_WORD_LENGTH`.
        coverage: numbers of all words and characters, and of those in long words.
    """

    counts: Counter[str]
    coverage: Coverage


def most_words(vocab_size: int) -> int:
    """Return the limit of distinct words to count for a vocabulary of this size."""
    return max(FEWEST_WORDS, WORDS_PER_ENTRY * vocab_size)


def no_progress(*_: object) -> None:
    """Take the place of a missing function for progress."""


def count_words(
    documents: Iterable[str | Iterable[str]],
    split: Callable[[str], list[str]],
    report: Progress,
    max_words: int,
    max_characters: int | None = None,
) -> WordCounts:
    """Count the words of a corpus. The counts are exact for up to `max_words` distinct words.

    When there are more after a document, the rarest words are dropped until half of the limit are
    left. Then the result also depends on the order of the documents.

    Args:
        documents: documents, each a string or an iterable of strings.
        split: function from a text to its words.
        report: progress callback.
        max_words: limit of distinct words.
        max_characters: limit of their characters, for text whose words are long; None for none.
    """
    if isinstance(documents, str):
        raise TypeError(
            f"`documents` must be an iterable of documents. Received: one string, "
            f"{documents!r:.80}. Put it into a list."
        )
    counts: Counter[str] = Counter()
    done = num_words = num_long = characters = long_characters = 0
    checked = 0  # characters of the text when those of the table were counted last
    for done, document in enumerate(documents, start=1):
        for text in (document,) if isinstance(document, str) else document:
            words = split(text)
            num_words += len(words)
            characters += len(text)
            # Long words are whole sentences in text without spaces, and would fill the memory.
            if max(map(len, words), default=0) > MAX_WORD_LENGTH:
                count, of_long = long_words(text, words)
                num_long, long_characters = num_long + count, long_characters + of_long
                words = [word for word in words if len(word) <= MAX_WORD_LENGTH]
            counts.update(words)
        if len(counts) > max_words:
            counts = _without_rare(counts, max_words // 2)
        if max_characters is not None and characters - checked > max_characters // 4:
            checked = characters
            if sum(map(len, counts)) > max_characters:
                counts = _without_rare(counts, len(counts) // 2)
        if done % 100 == 0:
            report(done, None, "counting words")
    report(done, done, "counting words")
    return WordCounts(
        counts,
        Coverage(
            words=num_words,
            long_words=num_long,
            characters=characters,
            long_characters=long_characters,
        ),
    )


def _without_rare(counts: Counter[str], keep: int) -> Counter[str]:
    """Return the words with higher counts than word number `keep`, so at most `keep` words.

    In text without spaces nearly all words occur once. If so few are left, words with the count of
    word number `keep` are added, drawn by a hash: they are a sample of the whole corpus.
    """
    floor = sorted(counts.values(), reverse=True)[keep]
    frequent = Counter({word: n for word, n in counts.items() if n > floor})
    if len(frequent) < keep // 4:
        ties = [word for word, n in counts.items() if n == floor]
        ties.sort(key=lambda word: (crc32(word.encode(errors="surrogatepass")), word))
        frequent.update(dict.fromkeys(ties[: keep - len(frequent)], floor))
    return frequent
