"""Reading of requests: what is shown of a value, and texts with limits."""

from __future__ import annotations

from typing import Any

import pytest

from bert_keras.serving.http_requests import (
    Limits,
    RequestError,
    Service,
    check_amount,
    shown,
    texts_from,
)


def test_one_text_is_a_list_of_one() -> None:
    assert texts_from("a", "input", Limits()) == ["a"]
    assert texts_from(["a", ""], "input", Limits()) == ["a", ""]


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "null"), ([], "[]"), ({}, "{}"), (["a", 1], "`input[1]`"), (3, "3")],
)
def test_other_values_are_refused(value: Any, words: str) -> None:
    with pytest.raises(RequestError) as error:
        texts_from(value, "input", Limits())
    assert error.value.status == 400
    assert words in error.value.message


def test_amounts_above_the_limits_are_refused() -> None:
    limits = Limits(max_texts=2, max_characters=10)
    check_amount(2, 10, limits)
    for rows, characters, words in ((3, 1, "2 texts"), (1, 11, "10 characters")):
        with pytest.raises(RequestError, match=words) as error:
            check_amount(rows, characters, limits)
        assert error.value.status == 413


def test_a_value_is_shown_short() -> None:
    assert shown({"a": [1, None]}) == '{"a":[1,null]}'
    assert len(shown("x" * 1000)) == 80


def test_a_model_that_is_not_there() -> None:
    with pytest.raises(RequestError) as error:
        Service({}).model("nobody")
    assert (error.value.status, error.value.code) == (404, "model_not_found")
    assert Service({}).first(lambda _: True) is None
