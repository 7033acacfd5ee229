"""Losses from the frequencies of tokens alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bert_keras.training import unigram


def test_entropy_of_known_frequencies() -> None:
    ids = np.array([5, 5, 6, 7, 0, 1, 1, 1], np.uint16)  # 0 and 1 are special

    expected = -(0.5 * math.log(0.5) + 2 * 0.25 * math.log(0.25))
    assert unigram.entropy(ids, (0, 1)) == pytest.approx(expected)
    assert unigram.entropy(np.full(10, 3), ()) == 0.0
    assert unigram.entropy(np.arange(100), (100,)) == pytest.approx(math.log(100))


def test_cross_entropy_under_smoothed_training_frequencies() -> None:
    train = np.array([2, 2, 3, 0], np.int32)
    held_out = np.array([2, 4, 1], np.int32)  # 4 was never seen in training

    # Of ids 2, 3 and 4: (2 + 1) / 6, (1 + 1) / 6, (0 + 1) / 6.
    expected = -(math.log(3 / 6) + math.log(1 / 6)) / 2
    assert unigram.cross_entropy(train, held_out, (0, 1), 5) == pytest.approx(expected)


def test_cross_entropy_is_never_below_the_entropy() -> None:
    rng = np.random.default_rng(0)
    train, held_out = rng.zipf(1.5, (2, 5_000)) % 50
    entropy = unigram.entropy(held_out, (0, 1))

    assert unigram.cross_entropy(train, held_out, (0, 1), 50) > entropy
    assert unigram.cross_entropy(held_out, held_out, (0, 1), 50) == pytest.approx(entropy, abs=0.01)


def test_a_corpus_is_counted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.random.default_rng(0).integers(0, 30, 1_000).astype(np.uint16)
    whole = unigram.entropy(ids, (0,))
    monkeypatch.setattr(unigram, "_CHUNK", 7)

    assert unigram.entropy(ids, (0,)) == whole


@pytest.mark.parametrize("ids", [[], [0, 1, 0]])
def test_no_real_token_is_an_error(ids: list[int]) -> None:
    with pytest.raises(ValueError, match=f"Received: {len(ids)} token ids"):
        unigram.entropy(np.array(ids, np.int32), (0, 1))


def test_log_shares_are_a_distribution_over_the_tokens_that_are_not_special() -> None:
    shares = np.exp(unigram.log_shares(np.array([2, 2, 3, 0], np.int32), (0, 1), 5))

    assert shares == pytest.approx([0, 0, 3 / 6, 2 / 6, 1 / 6])
