"""Text to words, exactly as the engine does it, several times faster.

Everything before WordPiece works character by character, and a corpus says few things that were not
said before. So the engine is asked once for each character (`words.py`) and once for each word
(`word_table.py`). One thing does look at its neighbours: canonical decomposition sorts adjacent
combining marks. Texts with a mark that survives the cleaning go through the engine itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

TEXT_END = b"\xff"  # a word of its own, between texts: never in UTF-8
SPACE, PART, ALONE = range(3)  # what a byte of cleaned text is: of a word, or a word

_SURROGATES = re.compile("[\ud800-\udfff]")
_FOREIGN = re.compile("[^\0-\x7f]+")
_END = "\udcff"  # TEXT_END by "surrogateescape"; cleaned away where a text has it
_ASK_THE_ENGINE = "\ud800"  # a text's own surrogates are cleaned away
_FIRST_MARK, _LAST_MARK = "\ua953", "\U0001d16d"  # combining classes 9 and 226


def without_surrogates(text: str) -> str:
    """Lone surrogates, which the engine refuses, as U+FFFD, which it drops."""
    if not isinstance(text, str):
        raise TypeError(f"a text must be a string. Received: {text!r}")
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def list_of_texts(texts: Sequence[str]) -> Sequence[str]:
    """The same. Raises `TypeError` for one string, and for what is not a string."""
    if isinstance(texts, str):
        raise TypeError("texts must be a list of strings. Received: one string")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a text must be a string. Received: {text!r}")
    return texts


class WordSplitter:
    """`splitter(text)`: the words that WordPiece gets to see.

    Attributes:
        kinds: of each byte of cleaned text, `SPACE`, `PART` or `ALONE`, for `bytes.translate`.
        words: all words of cleaned text, those of `TEXT_END` too.
    """

    def __init__(self, normalizer: Normalizer, pre_tokenizer: PreTokenizer):
        self._normalizer = normalizer
        self._pre_tokenizer = pre_tokenizer
        self._characters = _Characters(self)
        # ASCII's become one byte or none, which `bytes.translate` does faster than anything else.
        ascii_ = {code: self._characters[code] for code in range(128)}
        table, kinds = bytearray(range(256)), bytearray([PART] * 256)
        for code, spaced in ascii_.items():
            table[code] = ord(spaced.strip() or " ")
            if len(spaced) > 1:
                kinds[table[code]] = ALONE
        kinds[ord(" ")], kinds[TEXT_END[0]] = SPACE, ALONE
        self._dropped = bytes(code for code, spaced in ascii_.items() if not spaced)
        self._ascii, self.kinds = bytes(table), bytes(kinds)
        alone = re.escape(bytes(code for code in range(256) if kinds[code] == ALONE))
        self.words = re.compile(b"[%b]|[^ %b]+" % (alone, alone)).findall

    def __call__(self, text: str) -> list[str]:
        """The words of the text."""
        return [word.decode() for word in self.words(self.cleaned([text]))]

    def cleaned(self, texts: Sequence[str]) -> bytes:
        """The texts normalised, `TEXT_END` between two, spaces where words end.

        But no spaces around ASCII's punctuation, which `kinds` tells.
        """
        parts = [text if text.isascii() else self._without_foreign(text) for text in texts]
        joined = _END.join(parts).encode(errors="surrogateescape")
        return joined.translate(self._ascii, self._dropped)

    def by_engine(self, text: str) -> list[str]:
        """The words of the text, slowly."""
        normalized = self.normalize(without_surrogates(text))
        return [word for word, _ in self._pre_tokenizer.pre_tokenize_str(normalized)]

    def normalize(self, text: str) -> str:
        """The text, cleaned."""
        return self._normalizer.normalize_str(text)

    def _without_foreign(self, text: str) -> str:
        """The text, cleaned but for what is ASCII."""
        spaced = _FOREIGN.sub(lambda found: found[0].translate(self._characters), text)
        return " ".join(self.by_engine(text)) if _ASK_THE_ENGINE in spaced else spaced


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
