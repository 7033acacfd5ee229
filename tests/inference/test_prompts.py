"""Prompts: kept where there are any, and found by name."""

from __future__ import annotations

from typing import Any

import pytest

from bert_keras.inference.prompts import prompt_of, prompt_options

_PROMPTS = {"query": "query: ", "plain": ""}


def test_options() -> None:
    assert prompt_options(None, None) == prompt_options({}, None) == {}
    assert prompt_options(_PROMPTS, None) == {"prompts": _PROMPTS}
    options = prompt_options(_PROMPTS, "query")
    assert options == {"prompts": _PROMPTS, "default_prompt_name": "query"}


@pytest.mark.parametrize(
    ("prompts", "default", "message"),
    [
        ({"query": 1}, None, "`prompts` must give a text to each name"),
        ({1: "query"}, None, "`prompts` must give a text to each name"),
        (_PROMPTS, "other", "`default_prompt_name` must be None or one of query, plain"),
        (None, "query", "which is empty"),
    ],
)
def test_options_that_are_no_use(prompts: Any, default: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prompt_options(prompts, default)


def test_the_call_comes_before_the_default() -> None:
    options = prompt_options(_PROMPTS, "query")
    assert prompt_of(options) == "query: "
    assert prompt_of(options, prompt_name="plain") == ""
    assert prompt_of(options, prompt="") == ""
    assert prompt_of(options, prompt="new ") == "new "
    assert prompt_of({}) == prompt_of({"prompts": _PROMPTS}) == ""
    with pytest.raises(ValueError, match="`prompt` or `prompt_name`, not both"):
        prompt_of(options, "a", "query")
    with pytest.raises(ValueError, match="must be one of query, plain"):
        prompt_of(options, prompt_name="other")
    with pytest.raises(ValueError, match="the prompts of the model, which has none"):
        prompt_of({}, prompt_name="query")
