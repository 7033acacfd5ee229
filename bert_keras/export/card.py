"""What lies beside an exported model for those who find it: its labels, and a page about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bert_keras import atomic
from bert_keras.escaping import markdown
from bert_keras.predictor import Predictor

LABELS, CARD = "labels.txt", "model_card.md"
_LINE_BREAK = re.compile(r"[\r\n]+")

_TOLD = ("prompts", "similarity", "activation")  # options that say how answers are to be used

# By the function's name, what it takes and what it gives, by name.
Functions = Mapping[str, tuple[Iterable[str], Iterable[str]]]


def name_of(path: Path) -> str:
    """By what name a model in <name>/<version> is known, or in a folder without a version."""
    return path.absolute().parent.name if path.name.isdecimal() else path.name


def write(
    predictor: Predictor, folder: Path, path: Path, functions: Functions, *, by: str = ""
) -> None:
    """Writes both.

    Args:
        predictor: the model, and how it is asked.
        folder: where they go.
        path: of the model, when it is complete.
        functions: that it has.
        by: what wrote it, beside this package.
    """
    options: Mapping[str, Any] = predictor.task.options
    if labels := options.get("labels"):
        lines = "".join(f"{_LINE_BREAK.sub(' ', label)}\n" for label in labels)
        atomic.write_text(folder / LABELS, lines)
    lines = _card(predictor, name_of(path), functions)
    written = [*lines, "", f"{by} Written by bert_keras.".lstrip(), ""]
    atomic.write_text(folder / CARD, "\n".join(written))


def _card(predictor: Predictor, name: str, functions: Functions) -> Iterator[str]:
    """What one has to know who finds the folder."""
    task, encoder = predictor.task, predictor.encoder
    yield from (f"# {markdown(name)}", "")
    yield f"A {type(task).__name__} of {task.count_params():,} parameters: {encoder.config.family},"
    yield (
        f"{encoder.config.num_layers} layers, {encoder.config.hidden_size} wide. Texts are read to "
        f"{predictor.max_length} tokens of a vocabulary of {predictor.tokenizer.vocab_size:,}."
    )
    if predictor.options:
        options = ", ".join(f"{key}={value}" for key, value in predictor.options.items())
        yield f"It answers with {markdown(options)}."
    if predictor.prompt:
        yield f"Before each text it reads the prompt {markdown(repr(predictor.prompt))}."
    if told := {name: task.options[name] for name in _TOLD if name in task.options}:
        options = ", ".join(f"{name}={value!r}" for name, value in told.items())
        yield f"It keeps these options: {markdown(options)}."
    yield from ("", "| function | takes | gives |", "| --- | --- | --- |")
    for key, names in functions.items():
        taken, given = (", ".join(f"`{name}`" for name in part) for part in names)
        yield f"| `{key}` | {taken} | {given} |"
