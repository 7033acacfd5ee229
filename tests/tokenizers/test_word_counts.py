"""Counting the words of a corpus: long words, bounded memory, progress."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from bert_keras.tokenizers.word_counts import (
    FEWEST_WORDS,
    WORDS_PER_ENTRY,
    WordCounts,
    count_words,
    most_words,
    no_progress,
)


def count(documents: Iterable[str | Iterable[str]], max_words: int = 50) -> WordCounts:
    return count_words(documents, str.split, no_progress, max_words)


def test_words_and_long_words_are_counted() -> None:
    counts, coverage = count([["a b a", "c" * 101], "a " + "d" * 200, ""])
    assert counts == {"a": 3, "b": 1}
    assert (coverage.words, coverage.long_words) == (6, 2)
    assert (coverage.characters, coverage.tokens) == (5 + 101 + 202, 0)
    # Spaces count for the share of the words of their text.
    assert coverage.long_characters == 101 + round(202 * 200 / 201)


def test_a_word_of_100_characters_is_counted() -> None:
    counts, coverage = count(["x" * 100])
    assert counts == {"x" * 100: 1}
    assert coverage.long_words == 0


def test_the_table_of_words_is_bounded() -> None:
    common = ["the world"] * 5
    rare = [f"{chr(97 + i)}{chr(97 + j)}" for i in range(20) for j in range(20)]
    counts, coverage = count([*common, *rare])
    assert len(counts) <= 51
    assert (counts["the"], counts["world"]) == (5, 5)
    assert coverage.words == 410
    assert counts == count([*common, *rare]).counts


def test_the_characters_of_the_table_are_bounded() -> None:
    documents = [f"{number:090}" for number in range(100)] + ["common"] * 9
    exact, _ = count_words(documents, str.split, no_progress, 1_000)
    assert len(exact) == 101
    counts, _ = count_words(documents, str.split, no_progress, 1_000, max_characters=1_000)
    assert sum(map(len, counts)) <= 1_250
    assert counts["common"] == 9
    assert len(counts) > 3


def test_of_words_that_occur_once_a_sample_of_the_whole_corpus_stays() -> None:
    documents = [f"word{number}" for number in range(1_000)]
    counts, _ = count(documents)
    assert 25 <= len(counts) <= 51
    numbers = [int(word.removeprefix("word")) for word in counts]
    assert min(numbers) < 250
    assert sum(number < 900 for number in numbers) > len(numbers) // 3


def test_the_limit_grows_with_the_vocabulary() -> None:
    assert most_words(5) == FEWEST_WORDS
    assert most_words(10**6) == WORDS_PER_ENTRY * 10**6


def test_one_string_is_refused() -> None:
    with pytest.raises(TypeError, match="one string"):
        count("a text")


def test_progress() -> None:
    calls: list[tuple[object, ...]] = []
    count_words(["a"] * 150, str.split, lambda *call: calls.append(call), 50)
    assert calls == [(100, None, "counting words"), (150, 150, "counting words")]
