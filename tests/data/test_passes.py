"""Keras's calls, told apart by what they announce."""

from __future__ import annotations

import pytest

from bert_keras.data.passes import Passes


def _passes(events: str, *, epoch: int | None = 0) -> list[int]:
    """The first batches of passes of ten; "a": a reader announces itself, "p": a pass starts."""
    passes, found = Passes(10, epoch=epoch), []
    for event in events.replace(" ", ""):
        if event == "a":
            passes.announce()
        else:
            found.append(passes.start())
    return found


FIT_3, EVALUATE, PREDICT, VALIDATE_AGAIN = "aappp", "aap", "ap", "ap"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("ppp", [0, 10, 20]),
        (FIT_3 + FIT_3, [0, 10, 20, 0, 10, 20]),
        (EVALUATE + EVALUATE, [0, 0]),
        (FIT_3 + EVALUATE + PREDICT + PREDICT, [0, 10, 20, 0, 0, 0]),
        (PREDICT + FIT_3, [0, 0, 10, 20]),
        # A validation by the same dataset after each epoch, and predictions between.
        ("aap" + EVALUATE + "p" + VALIDATE_AGAIN + "p" + VALIDATE_AGAIN, [0, 0, 10, 0, 20, 0]),
        ("aapp" + PREDICT + "p" + PREDICT + "p", [0, 10, 0, 20, 0, 30]),
        (PREDICT + "p", [0, 10]),
        # Keras builds a model from the first batch of a pass that it abandons.
        (FIT_3 + "apappp", [0, 10, 20, 0, 0, 10, 20]),
    ],
)
def test_where_passes_begin(events: str, expected: list[int]) -> None:
    assert _passes(events) == expected


def test_passes_that_are_all_the_same() -> None:
    assert _passes("pp" + FIT_3 + EVALUATE, epoch=None) == [0] * 6


def test_a_new_reader_begins_with_the_first_batch() -> None:
    passes = Passes(10)
    assert [passes.start() for _ in range(3)] == [0, 10, 20]
    passes.restart()
    assert [passes.start() for _ in range(2)] == [0, 10]
