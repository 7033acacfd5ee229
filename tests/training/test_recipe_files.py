"""Recipe files by name and by path, and `key=value` on the command line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bert_keras.errors import UsageError
from bert_keras.tokenizers import MODELS
from bert_keras.training import recipe_files
from bert_keras.training.recipe_files import check_learned, parse_overrides

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
        ("steps", "Received: 'steps'"),
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
    with pytest.raises(UsageError, match=r"steps= is given twice[.] Received: 'steps=2'"):
        parse_overrides(["steps=1", "steps=2"], _DEFAULTS)


# === Recipes by name and by path, and error messages


@dataclasses.dataclass(frozen=True)
class _Recipe:
    name: str = ""


def _write(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"from types import SimpleNamespace\n{body}\n")
    return path


def test_known_names_are_sorted_and_leave_out_what_is_private(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "_c.py", "__init__.py", "d.txt"):
        (tmp_path / name).touch()
    assert recipe_files.known_recipes(tmp_path) == ["a", "b"]
    assert recipe_files.known_recipes(tmp_path / "nowhere") == []


def test_a_recipe_takes_the_name_of_its_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("builtins.dataclass_recipe", _Recipe, raising=False)
    _write(tmp_path, "mine.py", "recipe = dataclass_recipe()")
    _write(tmp_path, "named.py", "recipe = dataclass_recipe('other')")
    assert recipe_files.load_recipe("mine", _Recipe, tmp_path).name == "mine"
    assert recipe_files.load_recipe("named", _Recipe, tmp_path).name == "other"
    assert recipe_files.load_recipe(str(tmp_path / "mine.py"), _Recipe, Path("x")).name == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnie", r"'mnie'. Did you mean 'mine'\? Known recipes: mine; or give the path"),
        ("nowhere/mine.py", "There is no recipe file nowhere/mine.py"),
    ],
)
def test_no_such_recipe(name: str, message: str, tmp_path: Path) -> None:
    _write(tmp_path, "mine.py", "")
    with pytest.raises(UsageError, match=message):
        recipe_files.load_recipe(name, _Recipe, tmp_path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("recipe = (", "line 2: the file is not valid Python"),
        ("recipe = SimpleNamespace()", r"must define recipe = _Recipe\(…\). Received: recipe=name"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_bad_file_is_named(body: str, message: str, tmp_path: Path) -> None:
    path = _write(tmp_path, "mine.py", body)
    with pytest.raises(UsageError, match=rf"mine\.py.*{message}"):
        recipe_files.load_recipe(str(path), _Recipe, tmp_path)


@pytest.mark.parametrize("model", MODELS)
def test_a_tokenizer_to_learn_is_checked_before_the_text_is_read(model: str) -> None:
    if model == "unigram":
        pytest.importorskip("sentencepiece")
    check_learned("model", model, 300, "")
    with pytest.raises(
        UsageError, match=rf"^model={model}: `vocab_size` must be .*Received: vocab_size=5"
    ):
        check_learned("model", model, 5, "")


def test_a_tokenizer_that_cannot_be_learned_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"^tokenizer_model=words: `model` must be one of wordpiece"
    ):
        check_learned("tokenizer_model", "words", 300, "")
    check_learned("model", "wordpiece", 0, "vocab.txt")  # the size is that of the file
    with pytest.raises(UsageError, match=r"model=bpe .* that of vocab\.txt\. Leave model= out"):
        check_learned("model", "bpe", 300, "vocab.txt")
