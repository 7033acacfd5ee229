"""key=value on a command line: the values of a program, changed by its user."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bert_keras.errors import UsageError

# Keys of earlier versions -> their names today. An old run folder goes on with the new names.
RENAMED = {
    "accumulate": "gradient_accumulation_steps",
    "ema": "ema_momentum",
    "evaluation_pairs": "eval_examples",
    "held_out": "validation_split",
    "highest": "max_score",
    "jit": "jit_compile",
    "max_predictions": "max_predictions_per_seq",
    "objective": "loss",
    "preset": "config",
    "report_every": "log_every",
    "row_length": "packed_length",
    "short_probability": "short_seq_prob",
    "start": "init_checkpoint",
    "vocabulary_chunks": "loss_chunks",
}
# Likewise of the values of `task`.
RENAMED_TASKS = {
    "labels": "text_classification",
    "multi_label": "multi_label_classification",
    "scores": "text_regression",
    "entities": "token_classification",
    "questions": "question_answering",
    "choices": "multiple_choice",
    "similarity": "sentence_similarity",
    "pair_labels": "pair_classification",
}
# Names of such keys in other libraries -> ours, the first of which a program has is suggested.
ALIASES: dict[str, tuple[str, ...]] = {
    "batch": ("batch_size",),
    "checkpoint": ("encoder", "init_checkpoint"),
    "data": ("train", "corpus"),
    "lr": ("learning_rate",),
    "max_grad_norm": ("clip_norm",),
    "max_seq_len": ("max_length", "sequence_length"),
    "max_seq_length": ("max_length", "sequence_length"),
    "max_steps": ("steps", "epochs"),
    "mlm_probability": ("mask_rate",),
    "model": ("encoder", "init_checkpoint"),
    "num_epochs": ("epochs", "steps"),
    "num_train_epochs": ("epochs", "steps"),
    "output_dir": ("out",),
    "seq_len": ("max_length", "sequence_length"),
    "seq_length": ("max_length", "sequence_length"),
    "warmup_ratio": ("warmup", "warmup_steps"),
}
# What a value must be, by the name of its type.
KINDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a run by the names of today, where an earlier version stored them."""
    found = {RENAMED.get(name, name): value for name, value in values.items()}
    if isinstance(task := found.get("task"), str):
        found["task"] = RENAMED_TASKS.get(task, task)
    return found


def parse_overrides(arguments: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults with the values of `key=value` arguments, each of its default's type.

    Args:
        arguments: as given on the command line.
        defaults: every known key, with a text, whole number, number or truth value.

    Raises:
        UsageError: not key=value, an unknown or repeated key, or a value of another type.
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals:
            raise UsageError(f"Expected key=value. Received: {argument!r}")
        if key not in defaults:
            if (today := RENAMED.get(key)) in defaults:
                raise UsageError(f"{key}= is called {today}= now. Received: {argument!r}")
            raise UsageError(
                f"Unknown key. Received: {argument!r}.{nearest(key, defaults)} "
                f"Known keys: {', '.join(defaults)}."
            )
        if key in values:
            raise UsageError(f"{key} is given twice. Received: {argument!r}")
        kind = type(defaults[key])
        try:
            values[key] = _PARSERS[kind](text)
        except (ValueError, OverflowError, KeyError):
            raise UsageError(f"{key} must be {KINDS[kind.__name__]}. Received: {text!r}") from None
    return {**defaults, **values}


def _integer(text: str) -> int:
    """A whole number as written: 100_000 or 1e5."""
    number = float(text)
    return int(text) if "e" not in text.lower() or not number.is_integer() else int(number)


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_PARSERS = {
    str: str,
    int: _integer,
    float: float,
    bool: lambda text: _TRUTH[text.lower()],
}


def nearest(word: str, known: Collection[str]) -> str:
    """Return a sentence that suggests the known word most like `word`; empty where none is."""
    word = word.lstrip("-")
    found = [name for name in ALIASES.get(word, ()) if name in known]
    found = found or difflib.get_close_matches(word, known, n=1)
    return f" Did you mean {found[0]!r}?" if found else ""
