"""Both libraries train on the same rows, and their scores are compared by the stated rule."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import keras
import pytest

from benchmarks import finetune_parity
from benchmarks.finetune_parity import MIXED, OURS, PEER
from bert_keras import Tokenizer, features
from bert_keras.data import Answer, Question, TaggedWords, Texts
from bert_keras.training.finetune_data import Data
from bert_keras.training.finetune_recipe import FinetuneRecipe, known_finetunings
from bert_keras.training.tasks import task_of

_WORDS = [["Germany", "'s", "unaffable", "Ölfilme"], ["Rome"], ["x", "\u200b", "y"]]
_TAGS = [["B-LOC", "O", "B-X", "I-X"], ["B-LOC"], ["O", "O", "B-X"]]
_CONTEXT = "The naïve café of Zürich opened in 1884."
_TRAIN: dict[str, Any] = {
    "text_classification": Texts(
        ["one two", "Déjà vu!"], ["three", "four unaffable"], ["no", "yes"]
    ),
    "text_regression": Texts(["one two", "Déjà vu!"], ["three", "four unaffable"], [0.5, 4.25]),
    "token_classification": TaggedWords(_WORDS, _TAGS),
    "question_answering": [
        Question(str(at), "When, and where?", _CONTEXT, (Answer(text, at),))
        for text in ("1884", "Zürich", "naïve café")
        for at in (_CONTEXT.index(text),)
    ],
}


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="the peer's backend is torch")
@pytest.mark.parametrize("task", _TRAIN)
def test_both_sides_learn_the_same_rows(task: str, mini_lm: Path, transformers) -> None:
    from benchmarks.finetune_peer import WORKS

    sizes: dict[str, Any] = (
        {"stride": 32, "max_question": 32} if task == "question_answering" else {}
    )
    recipe = FinetuneRecipe(task=task, max_length=64, **sizes)
    kind, train = task_of(recipe), _TRAIN[task]
    data = Data(train, train, kind.labels(train))
    ours = kind.examples(
        Tokenizer.from_preset(mini_lm),
        train,
        data.labels,
        segments=True,
        batch_size=len(train),
        seed=None,
    )
    x, y, counted = ours.batch(0, 0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(mini_lm)
    work = WORKS[task](recipe, data, tokenizer)
    rows = work.training_rows()
    assert len(rows) == len(train) == len(x[features.TOKEN_IDS])
    for number, row in enumerate(rows):
        length = int(x[features.PADDING_MASK][number].sum())
        assert row["input_ids"] == x[features.TOKEN_IDS][number, :length].tolist()
        assert row["token_type_ids"] == x[features.SEGMENT_IDS][number, :length].tolist()
        if task == "question_answering":
            told = [row["start_positions"], row["end_positions"]]
            assert told == [int(y[name][number]) for name in (features.START, features.END)]
            assert told[0] > 0
        elif task == "token_classification":
            learned = y[features.TAGS][number][counted[features.TAGS][number] > 0]
            assert [label for label in row["labels"] if label >= 0] == learned.tolist()
        else:
            assert row["labels"] == y[features.LABEL][number].item()
    found = kind.evaluate(work.predictor(work.model(str(mini_lm)).eval()), train)
    assert len(found.predictions) == len(train)
    assert found.metrics


def _runs(*found: tuple[float, float]) -> dict[str, dict[str, Any]]:
    return {
        str(seed): {"score": score, "seconds": seconds, "metric": "f1"}
        for seed, (score, seconds) in enumerate(found)
    }


def test_what_is_compared() -> None:
    """Our score may be lower by at most the peer's standard deviation, which is 0.1 here."""
    runs = {
        OURS: _runs((0.7, 10.0), (0.71, 50.0), (0.72, 12.0)),
        PEER: _runs((0.9, 20.0), (0.8, 24.0), (0.7, 90.0)),
        MIXED: _runs((0.6, 6.0), (0.7, 6.0), (0.7, 6.0)),
    }
    found = finetune_parity._compared(runs)
    assert found["ratio"] == {OURS: 0.5, PEER: 1.0, MIXED: 0.25}
    assert found["within"] == {OURS: True, PEER: True, MIXED: False}
    assert found["metric"] == "f1"
    assert finetune_parity._compared({OURS: _runs((0.8, 1)), PEER: _runs((0.9, 2))})["within"] == {
        OURS: False,
        PEER: True,
    }


def test_figures_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    settings = {"seeds": 3, "epochs": 0, "mixed": False, "quick": False}
    options = argparse.Namespace(data="somewhere", tasks="sst2", **settings)
    path = tmp_path / "parity.json"
    record = finetune_parity._record(options, path)
    assert record["runs"] == {}
    assert record["command"] == (
        "python -m benchmarks.finetune_parity --data DIR --encoder DIR --tasks sst2 --seeds 3"
    )
    record["runs"] = {"sst2": {OURS: _runs((0.5, 1.0))}}
    path.write_text(json.dumps(record))
    assert finetune_parity._record(options, path)["runs"] == record["runs"]
    with pytest.raises(SystemExit, match="measured with other epochs: name another --out"):
        finetune_parity._record(argparse.Namespace(**vars(options) | {"epochs": 1}), path)


def test_tasks_are_recipes(tmp_path: Path) -> None:
    assert set(finetune_parity.TASKS) <= set(known_finetunings())
    options = argparse.Namespace(data="somewhere", encoder="e", quick=True, epochs=0)
    for task in finetune_parity.TASKS:
        recipe = finetune_parity._recipe(task, options, tmp_path)
        assert recipe.train.startswith("somewhere")
        assert (recipe.rows, recipe.epochs, recipe.encoder) == (200, 1, "e")


def test_quick_needs_no_data(tmp_path: Path) -> None:
    options = argparse.Namespace(data=None, encoder="", quick=True, epochs=0)
    recipe = finetune_parity._recipe("sst2", options, tmp_path)
    assert Path(recipe.train).parent == tmp_path
    assert Path(recipe.encoder, "config.json").is_file()
    assert recipe.epochs == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--data DIR, or --quick"),
        (["--data", "d", "--encoder", ""], "--encoder HANDLE, or: pip install"),
        (["--quick", "--tasks", "sst2,nothing"], "no task nothing"),
    ],
)
def test_what_is_missing_is_told(arguments: list[str], words: str, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        finetune_parity.main(arguments)
    assert words in capsys.readouterr().err
