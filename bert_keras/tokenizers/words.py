"""Text to words and words to ids, exactly as the engine does them, several times faster.

Everything before WordPiece works character by character, and a corpus says few things that were not
said before. So the engine is asked once for each character and once for each word. One thing does
look at its neighbours: canonical decomposition sorts adjacent combining marks. Texts with a mark
that survives the cleaning go through the engine itself.
"""

from __future__ import annotations

import re
from itertools import chain

import tokenizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from bert_keras.tokenizers.vocabulary import MAX_WORD_LENGTH

_SURROGATES = re.compile("[\ud800-\udfff]")
_ASK_THE_ENGINE = "\0"  # never in normalised text
_FIRST_MARK, _LAST_MARK = "\ua953", "\U0001d16d"  # combining classes 9 and 226
_MAX_CACHED_WORDS = 50_000


def without_surrogates(text: str) -> str:
    """Lone surrogates, which the engine refuses, as U+FFFD, which it drops."""
    if not isinstance(text, str):
        raise TypeError(f"a text must be a string. Received: {text!r}")
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


class WordSplitter:
    """`splitter(text)`: the words that WordPiece gets to see."""

    def __init__(self, normalizer: Normalizer, pre_tokenizer: PreTokenizer):
        self._normalizer = normalizer
        self._pre_tokenizer = pre_tokenizer
        self._characters = _Characters(self)

    def __call__(self, text: str) -> list[str]:
        """The words of the text."""
        spaced = text.translate(self._characters)
        return self.by_engine(text) if _ASK_THE_ENGINE in spaced else spaced.split()

    def by_engine(self, text: str) -> list[str]:
        """The same, slowly."""
        normalized = self.normalize(without_surrogates(text))
        return [word for word, _ in self._pre_tokenizer.pre_tokenize_str(normalized)]

    def normalize(self, text: str) -> str:
        """The text, cleaned."""
        return self._normalizer.normalize_str(text)


class _Characters(dict[int, str]):
    """For `str.translate`: a character as it is normalised, with spaces where words end."""

    def __init__(self, splitter: WordSplitter):
        self._splitter = splitter

    def __missing__(self, code: int) -> str:
        character = without_surrogates(chr(code))
        if self._moves(character):
            spaced = _ASK_THE_ENGINE
        else:
            spaced = " ".join(self._splitter.by_engine(f"a{character}b"))[1:-1]
        self[code] = spaced
        return spaced

    def _moves(self, character: str) -> bool:
        """Whether a neighbouring mark changes places with what this character becomes."""
        normalize = self._splitter.normalize
        alone = normalize(character)
        return (
            normalize(character + _FIRST_MARK) != alone + normalize(_FIRST_MARK)
            or normalize(_LAST_MARK + character) != normalize(_LAST_MARK) + alone
        )


class WordIds(dict[str, list[int]]):
    """A word's ids. Bounded: starts afresh when it has grown too large."""

    def __init__(self, model: tokenizers.models.WordPiece):
        self._model = model

    def __missing__(self, word: str) -> list[int]:
        ids = [piece.id for piece in self._model.tokenize(word)]
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        if len(word) <= MAX_WORD_LENGTH:
            self[word] = ids
        return ids

    def of(self, words: list[str]) -> list[int]:
        """The ids of several words, in one list."""
        return list(chain.from_iterable(map(self.__getitem__, words)))
