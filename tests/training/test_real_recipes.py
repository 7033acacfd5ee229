"""The recipes with the commands of their headers, on the real data."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import shlex
from pathlib import Path

import keras
import pytest

from bert_keras.training import finetune_recipe
from bert_keras.training.finetune_data import Data
from bert_keras.training.finetune_recipe import FinetuneRecipe, known_finetunings, load_finetuning
from bert_keras.training.recipe_files import parse_overrides
from bert_keras.training.tasks import task_of

_FOLDERS = {
    "chnsenticorp": "zh_chnsenticorp",
    "cmrc": "cmrc2018",
    "few_shot": "sst2",
    "lcqmc": "zh_pairs",
    "weibo_ner": "zh_ner",
}
# The number of labels if it is not two, and the number of entity types.
_LABELS = {"trec": 6, "sick": 3, "snli": 3, "snli_vectors": 3}
_TYPES = {"conll2003": 4, "conll2003_distilled": 4, "wnut17": 6, "wikigold": 4, "weibo_ner": 8}


def _header(name: str) -> str:
    path = Path(inspect.getfile(finetune_recipe)).parent / "recipes" / "finetuning" / f"{name}.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _commanded(name: str) -> FinetuneRecipe:
    """Return the recipe with the values of the command in its header."""
    command = re.search(r"^Command: +(.+?)(?=^\w+:|\Z)", _header(name), re.MULTILINE | re.DOTALL)
    assert command is not None
    words = shlex.split(command[1])
    assert words[:3] == ["bert-keras", "finetune", name]
    recipe = load_finetuning(name)
    return dataclasses.replace(recipe, **parse_overrides(words[3:], dataclasses.asdict(recipe)))


_OWN_TABLES = ("ranking", "retrieval")  # recipes for tables of the user


@pytest.mark.data
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="one backend for all recipes")
@pytest.mark.parametrize("name", [name for name in known_finetunings() if name not in _OWN_TABLES])
def test_every_recipe_reads_its_files(name: str, shared_data: Path) -> None:
    recipe = _commanded(name)
    folder = shared_data / _FOLDERS.get(name, name.partition("_")[0])
    for side in ("train", "dev"):
        if named := getattr(recipe, side):
            recipe = dataclasses.replace(recipe, **{side: str(folder / named)})
    data = Data.read(recipe, task_of(recipe))
    assert len(data.train) == recipe.rows or not recipe.rows
    if recipe.task == "token_classification":
        assert len(data.labels or ()) == 1 + 2 * _TYPES[name]
    elif recipe.task in ("text_classification", "pair_classification"):
        assert len(data.labels or ()) == _LABELS.get(name, 2)
    else:
        assert data.labels is None
    header = " ".join(_header(name).split())
    assert "Result:" not in header or f", on {len(data.validation):,} " in header
