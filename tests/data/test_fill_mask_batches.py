"""Batches of masked texts: new masks in every epoch, and no masks on special tokens.

The masks of a text do not depend on its batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras import Tokenizer
from bert_keras.data import MaskedTexts, encode
from bert_keras.features import MASK_POSITIONS, PADDING_MASK, TOKEN_IDS
from tests.tokenizers.samples import VOCABULARY

TOKENIZER = Tokenizer(VOCABULARY)
TEXTS = [
    "the hello world " * 6,
    "want",
    "unaffable mask sep hello",
    "the world want hello the world",
    "mask",
] * 4
ROWS = encode(TOKENIZER, TEXTS, max_length=24)


def made(**options: Any) -> MaskedTexts:
    """Return masked texts in batches of three."""
    return MaskedTexts(TOKENIZER, ROWS, batch_size=3, **options)


def row_of(source: MaskedTexts, epoch: int, number: int, others: list[int]) -> Any:
    """Return the mask positions, token ids and masked ids of one text in a batch with others."""
    x, y, weights = source.batch_of(epoch, np.array([number, *others]))
    count = int(weights["mlm"][0].sum())
    length = int(x[PADDING_MASK][0].sum())
    return (
        x[MASK_POSITIONS][0, :count].tolist(),
        x[TOKEN_IDS][0, :length].tolist(),
        y["mlm"][0, :count].tolist(),
    )


def test_labels_are_the_ids_that_were_there() -> None:
    source = made(seed=3)
    for position in range(source.num_batches()):
        numbers = source.order(0)[position]
        x, y, weights = source.batch(0, position)
        for row, number in enumerate(numbers):
            ids = ROWS[int(number)]
            used = weights["mlm"][row] > 0
            places = x[MASK_POSITIONS][row][used]
            assert len(places) == max(1, round(0.15 * (len(ids) - 2)))
            assert (y["mlm"][row][used] == ids[places]).all()
            assert ((places > 0) & (places < len(ids) - 1)).all()
            kept = np.delete(np.arange(len(ids)), places)
            assert (x[TOKEN_IDS][row][kept] == ids[kept]).all()


def test_masks_are_new_in_every_epoch_and_depend_on_nothing_but_the_text() -> None:
    source = made(seed=3)
    first = row_of(source, 0, 0, [1, 2])
    assert first == row_of(source, 0, 0, [3]) == row_of(made(seed=3, multiple_of=32), 0, 0, [])
    assert first != row_of(source, 1, 0, [1, 2])
    assert first != row_of(made(seed=4), 0, 0, [1, 2])


def test_without_a_seed_every_epoch_is_the_same() -> None:
    source = made(seed=None)
    assert source.order(0)[0].tolist() == [0, 1, 2]
    assert row_of(source, 0, 0, [1]) == row_of(source, 5, 0, [1])


def test_texts_have_weights() -> None:
    weights = np.linspace(0, 2, len(TEXTS)).astype(np.float32)
    _, _, plain = made(seed=3).batch_of(0, np.arange(5))
    _, _, weighed = made(seed=3, weights=weights).batch_of(0, np.arange(5))
    np.testing.assert_allclose(weighed["mlm"], plain["mlm"] * weights[:5, None])


@pytest.mark.parametrize("masking", ["token", "whole_word", "span"])
def test_every_unit_masks(masking: str) -> None:
    _, _, weights = made(seed=3, masking=masking).batch_of(0, np.arange(5))
    # A word that is longer than the room left for masks is skipped.
    assert weights["mlm"][0].sum() == 3


def test_masks_are_of_the_text_wherever_it_stands_in_a_batch() -> None:
    source = made(seed=3)
    numbers = [8, 0, 5]
    x, y, weights = source.batch_of(0, np.array(numbers))
    for row, number in enumerate(numbers):
        count = int(weights["mlm"][row].sum())
        length = len(ROWS[number])
        positions, ids, labels = row_of(source, 0, number, [])
        assert x[MASK_POSITIONS][row, :count].tolist() == positions
        assert x[TOKEN_IDS][row, :length].tolist() == ids
        assert y["mlm"][row, :count].tolist() == labels


def test_weights_follow_their_texts() -> None:
    weights = np.linspace(1, 2, len(TEXTS)).astype(np.float32)
    numbers = np.array([7, 2])
    _, _, plain = made(seed=3).batch_of(0, numbers)
    _, _, weighed = made(seed=3, weights=weights).batch_of(0, numbers)
    np.testing.assert_allclose(weighed["mlm"], plain["mlm"] * weights[numbers][:, None])


def test_the_rate_is_the_share_of_predicted_tokens() -> None:
    _, _, weights = made(seed=3, mask_rate=0.5).batch_of(0, np.array([0]))
    assert weights["mlm"][0].sum() == round(0.5 * (len(ROWS[0]) - 2))


def test_most_predicted_tokens_are_hidden() -> None:
    """About 80% of the predicted tokens are replaced by [MASK]."""
    source, hidden, total = made(seed=3), 0, 0
    for epoch in range(40):
        x, _, weights = source.batch_of(epoch, np.arange(5))
        used = weights["mlm"] > 0
        seen = np.take_along_axis(x[TOKEN_IDS], x[MASK_POSITIONS], axis=1)[used]
        hidden += int((seen == TOKENIZER.mask_id).sum())
        total += int(used.sum())
    assert 0.7 < hidden / total < 0.9


def test_a_whole_word_is_predicted_with_all_its_pieces() -> None:
    # The text has 8 words of 3 pieces.
    rows = encode(TOKENIZER, ["unaffable " * 8] * 4, max_length=26)
    whole = MaskedTexts(TOKENIZER, rows, masking="whole_word", mask_rate=0.25, seed=3)
    for epoch in range(5):
        x, _, weights = whole.batch_of(epoch, np.arange(4))
        for places, counts in zip(x[MASK_POSITIONS], weights["mlm"], strict=True):
            words = (places[counts > 0] - 1) // 3
            assert len(words) == 6
            assert sorted(set(words)) == sorted(words[::3])
