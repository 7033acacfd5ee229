"""The list of all recipes."""

from __future__ import annotations

from bert_keras.training import finetune_recipe, pretrain_recipe, recipe_files
from bert_keras.training.recipe_list import main


def test_all_recipes_are_listed(call, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = call(main)
    assert done.code == 0, done.err
    for folder in (pretrain_recipe.FOLDER, finetune_recipe.FOLDER):
        for name in recipe_files.known_recipes(folder):
            assert f" {name} " in done.out
    assert "accuracy 0.8635" in done.out  # a result from a recipe's header
    assert "question_answering" in done.out


def test_cut_results_say_how_to_see_all(call, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = call(main)
    *tables, last = done.out.splitlines()
    assert any("…" in line for line in tables)
    assert "`bert-keras recipes NAME`" in last
    assert max(map(len, done.out.splitlines())) <= 80


def test_one_recipe(call) -> None:
    done = call(main, "sst2")
    assert done.code == 0
    assert done.out.startswith("bert-keras finetune sst2\n")
    assert "learning_rate=0.0001" in done.out
    assert call(main, "demo").out.startswith("bert-keras pretrain demo\n")


def test_bad_names(call) -> None:
    done = call(main, "sst")
    assert done.code == 2
    assert "There is no recipe of that name. Received: 'sst'. Did you mean 'sst2'?" in done.err
    assert call(main, "a", "b").code == 2
