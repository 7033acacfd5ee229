"""Prompts: texts that a model was trained to read before the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def prompt_options(
    prompts: Mapping[str, str] | None, default_prompt_name: str | None
) -> dict[str, Any]:
    """Return what a task keeps of its prompts: nothing where there are none.

    Raises:
        ValueError: a prompt is not a text, or the default is not one of them.
    """
    told = dict(prompts or {})
    if not all(isinstance(word, str) for pair in told.items() for word in pair):
        raise ValueError(f"`prompts` must give a text to each name. Received: prompts={told!r}")
    if default_prompt_name is not None and default_prompt_name not in told:
        raise ValueError(
            "`default_prompt_name` must be None or one of "
            f"{', '.join(told) or 'the names of `prompts`, which is empty'}. "
            f"Received: default_prompt_name={default_prompt_name!r}"
        )
    options: dict[str, Any] = {"prompts": told} if told else {}
    if default_prompt_name is not None:
        options["default_prompt_name"] = default_prompt_name
    return options


def prompt_of(
    options: Mapping[str, Any], prompt: str | None = None, prompt_name: str | None = None
) -> str:
    """Return the text that stands before every text; "" for none.

    Args:
        options: of the task.
        prompt: the text itself.
        prompt_name: its name among the task's prompts. Without either, the task's default.

    Raises:
        ValueError: both are given, or there is no prompt of this name.
    """
    if prompt is not None and prompt_name is not None:
        raise ValueError(
            "Give `prompt` or `prompt_name`, not both. "
            f"Received: prompt={prompt!r}, prompt_name={prompt_name!r}"
        )
    if prompt is not None:
        return prompt
    prompts: Mapping[str, str] = options.get("prompts", {})
    name = options.get("default_prompt_name") if prompt_name is None else prompt_name
    if name is None:
        return ""
    if name not in prompts:
        raise ValueError(
            f"`prompt_name` must be one of {', '.join(prompts) or 'the prompts of the model'}"
            f"{'' if prompts else ', which has none'}. Received: prompt_name={prompt_name!r}"
        )
    return prompts[name]
