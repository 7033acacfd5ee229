"""Coverage of a text by a vocabulary: shares of [UNK], and of words that WordPiece does not read.

BERT's WordPiece makes a word of more than 100 characters one [UNK]. In text without spaces between
words, such as Thai, a whole sentence is one word.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

MAX_WORD_LENGTH = 100  # characters; in BERT's WordPiece, a longer word is [UNK]
NEGLIGIBLE = 0.01  # share of words, characters or tokens that is not worth a message

# Sentences that end a message, for texts that a given tokenizer reads.
TRAIN_ANOTHER = (
    'train a tokenizer with model="unigram", "bpe" or "char" (bert-keras prepare model=unigram, '
    "bert-keras pretrain tokenizer_model=unigram)"
)
OTHER_ENCODER = "use an encoder whose tokenizer is SentencePiece or byte-level BPE, such as XLM-R"
CHECK_TOKENIZER = "Check that the tokenizer fits the language and the case of the texts."


@dataclasses.dataclass(frozen=True)
class Coverage:
    """Counts of texts and of the parts that a tokenizer cannot spell. Counts can be added.

    Attributes:
        tokens: tokens of the texts, without special tokens.
        unknown_tokens: those that are [UNK].
        words: words of the texts.
        long_words: words that are too long for WordPiece. Each is one [UNK].
        characters: characters of the texts.
        long_characters: characters in the long words.
    """

    tokens: int = 0
    unknown_tokens: int = 0
    words: int = 0
    long_words: int = 0
    characters: int = 0
    long_characters: int = 0

    def __add__(self, other: Coverage) -> Coverage:
        """Return the counts of both texts together."""
        counts = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Coverage(*(one + another for one, another in counts))

    @property
    def is_long(self) -> bool:
        """True if long words are a share of the words or characters that is not negligible."""
        shares = (
            self.long_words / max(1, self.words),
            self.long_characters / max(1, self.characters),
        )
        return max(shares) >= NEGLIGIBLE

    def message(self, cure: str = OTHER_ENCODER, of_unknown: str = CHECK_TOKENIZER) -> str:
        """Return a message on the parts that are [UNK]; "" if they are negligible.

        Args:
            cure: end of the sentence "For text without spaces between words, …".
            of_unknown: sentence that says what to do if many words of usual length are [UNK].
        """
        unknown = self.unknown_tokens / max(1, self.tokens)
        words = self.long_words / max(1, self.words)
        characters = self.long_characters / max(1, self.characters)
        if self.is_long:
            of_tokens = f" {percent(unknown)} of the tokens are [UNK]." if self.tokens else ""
            return (
                f"{percent(words)} of the words, with {percent(characters)} of the characters, are "
                f"longer than {MAX_WORD_LENGTH} characters: WordPiece makes each of them one "
                f"[UNK].{of_tokens} For text without spaces between words, {cure}. Remove strings "
                "that are no text, such as base64."
            )
        if unknown >= NEGLIGIBLE:
            return f"{percent(unknown)} of the tokens are [UNK]. {of_unknown}"
        return ""


def percent(share: float) -> str:
    """Return a share as a percentage, such as "98 %" or "1.5 %"."""
    return f"{100 * share:.{0 if share == 0 or share >= 0.1 else 1}f} %"


def long_words(text: str, words: Sequence[str], limit: int = MAX_WORD_LENGTH) -> tuple[int, int]:
    """Return the number of words of a text over `limit` characters, and their characters.

    The characters are those of the text: the share of the normalised ones, times its length.

    Args:
        text: the text.
        words: its normalised words.
        limit: number of characters of the longest word that is read.
    """
    lengths = np.fromiter(map(len, words), np.int64)
    is_long = lengths > limit
    count = int(is_long.sum())
    share = float(lengths[is_long].sum()) / max(1, int(lengths.sum()))
    return count, round(share * len(text))


def measure_coverage(
    texts: Sequence[str],
    ids: np.ndarray,
    lengths: np.ndarray,
    *,
    unk_id: int,
    continuation: np.ndarray,
    split: Callable[[str], list[str]],
    limit: int | None,
) -> Coverage:
    """Count the words and tokens of texts that were encoded. Only texts with [UNK] are split.

    Args:
        texts: the texts.
        ids: ids of all texts, without special tokens: int [ids].
        lengths: number of ids of each text: int [texts].
        unk_id: id of [UNK].
        continuation: for each entry of the vocabulary, whether it continues a word: bool [entries].
        split: function from a text to its normalised words.
        limit: number of characters of the longest word that is read; None for a tokenizer that
            reads all words.
    """
    unknown = np.flatnonzero(ids == unk_id)
    count = characters = 0
    if limit is not None and len(unknown):
        ends = np.cumsum(lengths)
        rows: list[int] = np.unique(np.searchsorted(ends, unknown, side="right")).tolist()
        for row in rows:
            text = texts[row]
            # Splitting at spaces is quick, and leaves a long word whole. Most texts have none.
            # Normalisation may make up to four characters of one, as of a Korean syllable.
            if max(map(len, text.split()), default=0) <= limit // 4:
                continue
            of_text = long_words(text, split(text), limit)
            count, characters = count + of_text[0], characters + of_text[1]
    return Coverage(
        tokens=len(ids),
        unknown_tokens=len(unknown),
        words=len(ids) - int(np.count_nonzero(continuation.take(ids))),
        long_words=count,
        characters=sum(map(len, texts)),
        long_characters=characters,
    )
