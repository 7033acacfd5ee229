"""A validation split is drawn, and leaves rows of one first text together."""

from __future__ import annotations

import pytest

from bert_keras.data.splitting import rows_to_learn, validation_split
from bert_keras.errors import DataError


@pytest.mark.parametrize(
    ("count", "share", "left"),
    [(10, 0.1, 9), (10, 0.01, 9), (10, 0.99, 1), (2, 0.1, 1), (1, 0.5, 0)],
)
def test_a_row_is_left_on_each_side(count: int, share: float, left: int) -> None:
    assert rows_to_learn(count, share) == left


def test_every_row_is_on_one_side_in_the_order_of_the_data() -> None:
    learned, validated = validation_split(100, 0.2)
    assert (len(learned), len(validated)) == (80, 20)
    assert sorted(learned + validated) == list(range(100))
    assert learned == sorted(learned)
    assert validated == sorted(validated) != list(range(80, 100))


def test_the_seed_draws() -> None:
    assert validation_split(100, 0.2, seed=1) == validation_split(100, 0.2, seed=1)
    assert validation_split(100, 0.2, seed=1) != validation_split(100, 0.2, seed=2)


def test_rows_of_one_first_text_stay_together() -> None:
    firsts = [f"text {number % 10}" for number in range(60)]
    learned, validated = validation_split(60, 0.3, firsts=firsts)
    assert not {firsts[row] for row in learned} & {firsts[row] for row in validated}
    assert len(validated) == 18


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(DataError, match="1 rows cannot be split"):
        validation_split(1, 0.5)
    for share in (0.0, 1.0, -0.1):
        with pytest.raises(ValueError, match="above 0 and below 1"):
            validation_split(10, share)
