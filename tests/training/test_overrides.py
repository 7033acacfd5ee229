"""key=value on a command line."""

from __future__ import annotations

import dataclasses

import pytest

from bert_keras.errors import UsageError
from bert_keras.training import FinetuneRecipe, PretrainRecipe
from bert_keras.training.overrides import ALIASES, RENAMED, nearest, parse_overrides

_DEFAULTS = {"corpus": "demo", "steps": 100, "learning_rate": 1e-4, "lowercase": True, "out": ""}


def test_overrides_take_the_type_of_the_default() -> None:
    given = ["steps=1_000", "learning_rate=3e-4", "lowercase=No", "corpus=a=b c.txt", "out="]

    assert parse_overrides(given, _DEFAULTS) == {
        "corpus": "a=b c.txt",
        "steps": 1000,
        "learning_rate": 3e-4,
        "lowercase": False,
        "out": "",
    }
    assert _DEFAULTS["steps"] == 100
    assert parse_overrides([], _DEFAULTS) == _DEFAULTS


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), ("-7", -7), ("1e5", 100_000), ("2.5E3", 2500)]
)
def test_whole_numbers_as_written(text: str, value: int) -> None:
    steps = parse_overrides([f"steps={text}"], _DEFAULTS)["steps"]

    assert (steps, type(steps)) == (value, int)


@pytest.mark.parametrize("text", ["true", "YES", "1", "false", "no", "0"])
def test_truth_values(text: str) -> None:
    lowercase = parse_overrides([f"lowercase={text}"], _DEFAULTS)["lowercase"]

    assert lowercase is (text in ("true", "YES", "1"))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("steps", "Expected key=value. Received: 'steps'"),
        ("stpes=3", "Unknown key. Received: 'stpes=3'. Did you mean 'steps'"),
        ("--steps=3", "Did you mean 'steps'"),
        ("lr=1e-4", "Did you mean 'learning_rate'"),
        ("zzzzz=3", "Known keys: corpus, steps"),
        ("steps=ten", "steps must be a whole number. Received: 'ten'"),
        ("steps=1.5", "steps must be a whole number. Received: '1.5'"),
        ("steps=15e-1", "steps must be a whole number"),
        ("steps=1e999", "steps must be a whole number"),
        ("steps=", "steps must be a whole number"),
        ("learning_rate=fast", "learning_rate must be a number. Received: 'fast'"),
        ("lowercase=maybe", "lowercase must be true or false. Received: 'maybe'"),
    ],
)
def test_a_bad_override_is_named(argument: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_overrides([argument], _DEFAULTS)


def test_a_key_given_twice() -> None:
    with pytest.raises(UsageError, match=r"steps is given twice[.] Received: 'steps=2'"):
        parse_overrides(["steps=1", "steps=2"], _DEFAULTS)


def test_names_of_other_libraries_are_suggested() -> None:
    pretraining, finetuning = (
        {field.name for field in dataclasses.fields(kind)}
        for kind in (PretrainRecipe, FinetuneRecipe)
    )
    assert nearest("batch", finetuning) == " Did you mean 'batch_size'?"
    assert nearest("--max_seq_length", finetuning) == " Did you mean 'max_length'?"
    assert nearest("max_seq_length", pretraining) == " Did you mean 'sequence_length'?"
    assert nearest("model", finetuning) == " Did you mean 'encoder'?"
    for alias, names in ALIASES.items():
        assert alias not in pretraining | finetuning | RENAMED.keys()
        assert set(names) <= pretraining | finetuning
