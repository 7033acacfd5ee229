"""Help and shell completion of the programs that run recipes."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bert_keras.errors import UsageError
from bert_keras.training import finetune, finetune_recipe, pretrain, pretrain_recipe, recipe_files
from bert_keras.training.recipe_base import RENAMED, VALUE_TYPES, rules_of
from bert_keras.training.recipe_help import complete_words, describe, header_of

_PROGRAMS: list[tuple[Any, type[Any], Path]] = [
    (pretrain, pretrain_recipe.PretrainRecipe, pretrain_recipe.FOLDER),
    (finetune, finetune_recipe.FinetuneRecipe, finetune_recipe.FOLDER),
]


@pytest.mark.parametrize(("program", "kind", "folder"), _PROGRAMS)
def test_help_lists_every_recipe_and_every_value(program, kind, folder: Path) -> None:
    shown = program.describe([])
    assert shown.startswith(program.__doc__.split("\n")[0])
    for name in recipe_files.known_recipes(folder):
        assert f"\n    {name} " in shown
    words = " ".join(shown.split())
    for field, rule in rules_of(kind):
        assert f"\n    {field.name}=" in shown
        assert rule.meaning in words
        assert f"\n{rule.section}:\n" in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize(("program", "kind", "folder"), _PROGRAMS)
def test_help_explains_one_key(program, kind, folder: Path) -> None:
    del folder
    for field, rule in rules_of(kind):
        shown = program.describe([f"--{field.name}=x"])
        default = "" if field.default is dataclasses.MISSING else str(field.default)
        assert shown.split("\n")[0].lower() == f"{field.name}={default}".lower()
        words = " ".join(shown.split())
        for told in (rule.meaning, *rule.choices, *rule.tasks):
            assert told in words
        assert rule.choices or VALUE_TYPES[str(field.type)].removeprefix("a ") in words
        for meaning in rule.choices.values() if isinstance(rule.choices, dict) else ():
            assert meaning in words
    for old, name in RENAMED.items():
        if name in {field.name for field in dataclasses.fields(kind)}:
            assert program.describe([old]) == program.describe([name])


@pytest.mark.parametrize(("program", "kind", "folder"), _PROGRAMS)
def test_help_shows_a_recipe(program, kind, folder: Path) -> None:
    del kind
    for name in recipe_files.known_recipes(folder):
        shown = program.describe([name, "learning_rate=3"])
        assert shown.startswith(header_of(folder / f"{name}.py").title)
        assert f"\n    name={name} " in shown
        assert "must be given" not in shown


def test_a_recipe_shows_the_values_of_its_task_alone() -> None:
    assert "max_question=" in finetune.describe(["squad"])
    assert "max_question=" not in finetune.describe(["sst2"])


@pytest.mark.parametrize(("program", "kind", "folder"), _PROGRAMS)
def test_no_recipe_is_called_as_a_key(program, kind, folder: Path) -> None:
    keys = {field.name for field in dataclasses.fields(kind)}
    assert not keys.intersection(recipe_files.known_recipes(folder))
    with pytest.raises(UsageError, match=r"There is no recipe, key or value.*'learning_rate'\?"):
        program.describe(["lerning_rate"])


def test_a_value_of_a_key_is_answered_with_the_key() -> None:
    assert pretrain.describe(["whole_word"]) == pretrain.describe(["masking"])
    assert "span                            several neighbouring" in pretrain.describe(["span"])
    shown = finetune.describe(["true"])  # several keys accept this value
    assert "quoting=auto\n" in shown
    assert "jit_compile=auto\n" in shown


def test_every_key_has_a_type_or_words() -> None:
    shown = " ".join(finetune.describe([]).split())
    assert "file of examples to train on (text)" in shown
    assert "weights to keep (best or last)" in shown
    assert "0: the default, 1e-4 (token_classification: 5e-4), lower" in shown


def test_the_header_of_a_recipe(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        '"""A recipe.\n\nResult:   one\n          two\nTime:     3\n\nMore: text.\n"""\n'
    )
    header = header_of(path)
    assert header.title == "A recipe."
    assert header.parts == {"Result": "one two", "Time": "3", "More": "text."}
    path.write_text("x = 1\n")
    assert header_of(path).title == ""


def test_help_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = describe([], pretrain_recipe.PretrainRecipe, pretrain_recipe.FOLDER, "Usage.")
    assert max(map(len, shown.splitlines())) <= 60


# === Shell completion, called by environment variables as a shell does


_MASKING = ("token", "whole_word", "span")
_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import sys
from bert_keras import cli
sys.argv = ["bert-keras"]
try:
    cli.main()
finally:
    print(sorted({"keras", "tensorflow", "torch", "jax"} & set(sys.modules)), file=sys.stderr)
"""


def _run(**variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": str(_ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "[]\n"  # no library that takes seconds to import
    return done.stdout


def test_bash() -> None:
    words = "bert-keras finetune ss"
    shown = _run(COMP_WORDS=words, COMP_CWORD="2", _BERT_KERAS_COMPLETE="complete_bash")
    assert shown.split() == ["sst2", "sst2_distilled"]
    words = "bert-keras pretrain demo masking = "  # bash splits masking= into two words
    shown = _run(COMP_WORDS=words, COMP_CWORD="5", _BERT_KERAS_COMPLETE="complete_bash")
    assert shown.split() == ["token", "whole_word", "span"]


def test_zsh() -> None:
    words = "bert-keras pretrain demo learning_r"
    shown = _run(_TYPER_COMPLETE_ARGS=words, _BERT_KERAS_COMPLETE="complete_zsh")
    assert shown.startswith("_arguments")
    assert '"learning_rate="' in shown


def _completed(command: str, *words: str) -> list[str]:
    return [word for word, _ in complete_words(command, list(words[:-1]), words[-1])]


def test_names_of_recipes() -> None:
    pretraining = recipe_files.known_recipes(pretrain_recipe.FOLDER)
    finetuning = recipe_files.known_recipes(finetune_recipe.FOLDER)
    assert _completed("pretrain", "") == pretraining
    assert _completed("finetune", "--dry-run", "") == finetuning
    assert _completed("recipes", "") == pretraining + finetuning
    assert _completed("recipes", "demo", "") == []
    assert _completed("predict", "") == []


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("demo", "learn"), ["learning_rate=", "learning_rate=0.005"]),
        (("demo", "masking"), ["masking=token", "masking=whole_word", "masking=span"]),
        (("demo", "masking=sp"), ["masking=span"]),
        (("demo", "masking", "=", "wh"), ["whole_word"]),
        (("demo", "lowercase", "=", ""), ["true", "false"]),
        # `masking=` is before the cursor
        (("demo", "masking", ""), ["token", "whole_word", "span"]),
        (("demo", "mask_rate", "=", "0.2", "mask"), [f"masking={v}" for v in _MASKING]),
        (("demo", "mask_rate=0.2", "mask_"), []),
        (("demo", "vocab=x", "ou"), ["output_bias=", "out="]),
        (("demo", "corpus=x"), []),
        (("demo", "nonsense=x"), []),
        (("--help", "masking"), ["masking"]),
    ],
)
def test_keys_and_values(words: tuple[str, ...], completed: list[str]) -> None:
    assert _completed("pretrain", *words) == completed


def test_a_recipe_has_the_keys_of_its_task() -> None:
    assert "max_question=" in _completed("finetune", "squad", "")
    assert "max_question=" not in _completed("finetune", "sst2", "")
    # keys of all tasks, because the recipe's task is unknown
    assert "max_question=" in _completed("finetune", "mine.py", "max_")
