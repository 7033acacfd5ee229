"""One message for all bad rows of a file or column."""

from __future__ import annotations

import pytest

from bert_keras.data.source_files import ErrorCollector
from bert_keras.errors import DataError


def test_none() -> None:
    with ErrorCollector().whole() as errors:
        pass
    assert not errors
    errors.check()


def test_one_is_told_as_it_is() -> None:
    error = DataError("a:1: no text.")
    with pytest.raises(DataError) as found, ErrorCollector().whole() as errors, errors.row():
        raise error
    assert found.value is error


def test_many_are_counted() -> None:
    errors = ErrorCollector()
    for number in range(1, 1_501):
        errors.add(DataError(f"a:{number}: no text."))
    with pytest.raises(DataError) as found:
        errors.check()
    assert str(found.value) == "1,500 errors:\na: lines 1, 2, 3 and 1,497 more: no text."


def told(*messages: str) -> list[str]:
    """Return the lines below the count of the message about these errors."""
    errors = ErrorCollector()
    for message in messages:
        errors.add(DataError(message))
    with pytest.raises(DataError) as found:
        errors.check()
    first, *lines = str(found.value).splitlines()
    assert first == f"{len(messages):,} errors:"
    return lines


def test_equal_errors_of_several_rows_are_one_line() -> None:
    assert told("a b.csv:1: no text.", "a b.csv:7: long: 5.", "a b.csv:9: no text.") == [
        "a b.csv: lines 1 and 9: no text.",
        "a b.csv:7: long: 5.",
    ]
    assert told(*(f"row {row}: no text." for row in (0, 4, 7, 9))) == [
        "rows 0, 4, 7 and 1 more: no text."
    ]
    assert told("a:1: no text.", "b:1: no text.") == ["a:1: no text.", "b:1: no text."]
    assert told("broken", "broken", "whole") == ["broken (2 times)", "whole"]


@pytest.mark.parametrize(("place", "unit"), [("row ", "row"), ("a b.csv:", "line")])
def test_places_within_a_message(place: str, unit: str) -> None:
    messages = [f"x: {place}{row} is missing. Drop it." for row in range(30)]
    assert told(*messages[:2]) == [f"{messages[0]} The same holds for {unit} 1."]
    assert told(*messages) == [f"{messages[0]} The same holds for {unit}s 1, 2 and 27 more."]


def test_three_values_are_shown_apart_and_more_together() -> None:
    messages = [f"a:{row}: too few fields. Received: {row}. Check it." for row in range(2, 30)]
    assert told(*messages[:3]) == messages[:3]
    assert told(*messages) == [
        "a: lines 2, 3, 4 and 25 more: too few fields. Received in line 2: 2. Check it."
    ]


def test_different_errors_are_told_up_to_a_number() -> None:
    messages = [f"a:{number}: no {number}." for number in range(33)]
    assert told(*messages) == [*messages[:20], "and 13 more."]
    values = [f"a:{row}: no {row % 11}. Received: {row // 11}" for row in range(33)]
    assert told(*values) == [*values[:20], "and 13 more."]


def test_what_ends_the_reading_comes_last() -> None:
    with pytest.raises(DataError) as found, ErrorCollector().whole() as errors:  # noqa: PT012
        errors.add(DataError("a:1: no text."))
        raise DataError("a:9: NUL")
    assert str(found.value) == "2 errors:\na:1: no text.\na:9: NUL"


def test_other_errors_are_not_gathered() -> None:
    with (
        pytest.raises(ValueError, match="an argument"),
        ErrorCollector().whole() as errors,
        errors.row(),
    ):
        raise ValueError("an argument")
