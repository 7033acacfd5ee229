"""Coverage of texts by a vocabulary: counts, and messages on [UNK]."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras.tokenizers import Coverage, Tokenizer
from bert_keras.tokenizers.vocabulary_coverage import (
    CHECK_TOKENIZER,
    MAX_WORD_LENGTH,
    OTHER_ENCODER,
    TRAIN_ANOTHER,
    long_words,
    percent,
)
from tests.tokenizers.samples import VOCABULARY
from tests.tokenizers.spaceless import sentences

TOKENIZER = Tokenizer(VOCABULARY)


def by_hand(tokenizer: Tokenizer, texts: list[str]) -> Coverage:
    """Count without ids: by the words of the library's own pre-tokenizer."""
    total = Coverage()
    for text in texts:
        engine = tokenizer._kind.plain
        normalized = engine.normalizer.normalize_str(text)
        words = [word for word, _ in engine.pre_tokenizer.pre_tokenize_str(normalized)]
        ids = tokenizer.text_ids([text])[0]
        long = [word for word in words if len(word) > MAX_WORD_LENGTH]
        share = sum(map(len, long)) / max(1, sum(map(len, words)))
        total += Coverage(
            tokens=len(ids),
            unknown_tokens=ids.count(tokenizer.unk_id),
            words=len(words),
            long_words=len(long),
            characters=len(text),
            long_characters=round(share * len(text)),
        )
    return total


def test_counts_are_those_of_the_words() -> None:
    texts = [
        *sentences(5, length=60),
        "the lowest tower",
        "",
        f"{'z' * 101} the {'!' * 300} {'y' * 100}",
        "\uac01" * 40,  # Korean syllables, of three characters each after normalisation
        "see https://example.org/" + "a" * 90 + " and " + "QUJD" * 50,
    ]
    coverage = TOKENIZER.coverage(texts)
    assert coverage == by_hand(TOKENIZER, texts)
    assert coverage.long_words == 5 + 1 + 1 + 1
    assert coverage == TOKENIZER.coverage(texts, TOKENIZER.ragged_ids(texts))
    halves = TOKENIZER.coverage(texts[:4]) + TOKENIZER.coverage(texts[4:])
    assert halves == coverage


def test_a_wordpiece_tokenizer_of_another_program_has_the_rule_too(tmp_path: Path) -> None:
    """The tokenizer.json of a WordPiece model may have another limit."""
    TOKENIZER.save_to_preset(tmp_path)
    path = tmp_path / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('word": 100', 'word": 20'), encoding="utf-8")
    (tmp_path / "vocab.txt").unlink()
    coverage = Tokenizer.from_preset(tmp_path).coverage(["the " + "z" * 21])
    assert (coverage.long_words, coverage.words) == (1, 2)


def test_a_tokenizer_without_the_rule_has_no_long_words() -> None:
    tokenizer = Tokenizer.train(sentences(50), vocab_size=20, model="char")
    coverage = tokenizer.coverage(sentences(3))
    assert coverage.long_words == coverage.long_characters == 0
    assert coverage.tokens > 0


def test_messages() -> None:
    assert Coverage().message() == ""
    assert Coverage(1_000, 9, 1_000, 9, 10_000, 99).message() == ""
    long = Coverage(100, 98, 100, 98, 9_900, 9_800)
    assert long.is_long
    assert long.message(TRAIN_ANOTHER) == (
        "98 % of the words, with 99 % of the characters, are longer than 100 characters: WordPiece "
        "makes each of them one [UNK]. 98 % of the tokens are [UNK]. For text without spaces "
        f"between words, {TRAIN_ANOTHER}. Remove strings that are no text, such as base64."
    )
    assert OTHER_ENCODER in long.message()
    # One word in a hundred thousand may still be a tenth of the characters.
    assert (
        Coverage(10**5, 1, 10**5, 1, 10**6, 10**5).message().startswith("0.0 % of the words, with")
    )
    unknown = Coverage(200, 3, 200, 0, 1_000, 0)
    assert not unknown.is_long
    assert unknown.message() == f"1.5 % of the tokens are [UNK]. {CHECK_TOKENIZER}"
    assert "words" not in Coverage(words=100, tokens=100).message()


@pytest.mark.parametrize(
    ("share", "text"), [(0.98, "98 %"), (1, "100 %"), (0.015, "1.5 %"), (0, "0 %"), (0.1, "10 %")]
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_long_words_of_words() -> None:
    assert long_words("aa bbbb", ["aa", "bbbb"], limit=3) == (1, round(7 * 4 / 6))
    assert long_words("", [], limit=3) == (0, 0)
