"""docs/trying_values.md: its code prints what it says, and its commands are accepted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import keras
import pytest

from bert_keras.predictor import Predictor
from bert_keras.training.finetune import quicktest
from bert_keras.training.finetune_grid import read_grid, split_words
from bert_keras.training.finetune_recipe import FinetuneRecipe, load_finetuning
from bert_keras.training.recipe_files import read_command
from tests.markdown import blocks, run_python

PAGE = Path(__file__).parents[1] / "docs" / "trying_values.md"


@pytest.fixture(scope="module")
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.slow  # test_sklearn.py has a quick grid search
# KerasTuner calls methods of threads that Python has renamed.
@pytest.mark.filterwarnings("ignore:currentThread:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:getName:DeprecationWarning")
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="one backend for both libraries")
def test_the_code_prints_what_it_says(
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("keras_tuner")
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(0)
    found = blocks(text)
    values = run_python(found, str(PAGE))
    lines = capsys.readouterr().out.splitlines()
    printed = [line for line in lines if "with random weights" not in line]
    expected = [block.text for block in found if block.language == "text"][-2:]
    assert printed == "\n".join(expected).splitlines()
    model = values["tuner"].get_best_models()[0]
    assert model.predict_labels(["A fine film."])[0].label == "positive"
    model.save_to_preset("best")
    assert Predictor.from_preset("best").predict_labels(["A dull film."])[0].label == "negative"


def test_commands_are_accepted(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reviews.py").write_text(
        "from bert_keras.training import FinetuneRecipe\n"
        "recipe = FinetuneRecipe(task='text_classification')\n",
        encoding="utf-8",
    )
    lines = [
        line
        for block in blocks(text)
        if block.language == "bash"
        for line in block.text.split("\n")
    ]
    assert len(lines) == 3

    def read(words: list[str]) -> tuple[FinetuneRecipe, set[str]]:
        known = (FinetuneRecipe, ("--quicktest", "--dry-run"), load_finetuning, quicktest)
        return read_command(words, *known, "finetune", named="")

    for line in lines:
        program, name, *words = shlex.split(line)
        assert (program, name) == ("bert-keras", "finetune")
        grid, _ = read_grid(*split_words(words), read)
        assert len(grid.points) > 1
    for tried in re.findall(r'`try="([^"]+)"`', text):
        assert len(read_grid([f"try={tried}"], ["sst2"], read)[0].points) > 1
