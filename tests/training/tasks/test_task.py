"""The behaviour that all fine-tuning tasks share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.data import Texts
from bert_keras.errors import UsageError
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.tasks import TASKS, task_of
from bert_keras.training.tasks.task import shown, write_glue

_TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "good", "in"])


@pytest.mark.parametrize("task", TASKS)
def test_a_package_that_is_missing_is_named_before_anything_is_done(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = FinetuneRecipe(task=task)
    assert isinstance(task_of(recipe), TASKS[task])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    if TASKS[task].packages:
        with pytest.raises(
            UsageError, match=rf"task={task} is measured with .*bert-keras\[finetune"
        ):
            task_of(recipe)
    else:
        task_of(recipe)


@pytest.mark.parametrize("task", TASKS)
def test_lengths_are_those_of_the_rows_that_are_not_cut(task: str, tmp_path: Path) -> None:
    finetuning = task_of(FinetuneRecipe(task=task, max_length=400))
    values: dict[str, Any] = finetuning.quicktest_data(tmp_path)
    finetuning = task_of(FinetuneRecipe(task=task, max_length=400, **values))
    data = finetuning.read(values["train"])
    examples = finetuning.examples(_TOKENIZER, data, finetuning.labels(data), batch_size=2, seed=0)
    lengths = finetuning.row_lengths(_TOKENIZER, data)
    assert lengths is not None
    # An example of several rows has the length of its longest row.
    count = len(examples.lengths)
    is_apart = getattr(finetuning, "reads_apart", False)
    rows = lengths.reshape(-1, count).T if is_apart else lengths.reshape(count, -1)
    assert sorted(rows.max(axis=1).tolist()) == sorted(np.ravel(examples.lengths).tolist())


# === Tables of texts: reading, splitting, predictions


def test_columns_by_name_and_by_number(tmp_path: Path, kind) -> None:
    table = tmp_path / "train.tsv"
    table.write_text("id\tfirst\tsecond\tgold\n1\ta b\tc\tyes\n2\td\te\tno\n")
    found = kind("text_classification", text="first", pair="second", label="gold").read(str(table))
    assert (found.texts, found.pairs, found.targets) == (("a b", "d"), ("c", "e"), ("yes", "no"))
    found = kind("text_classification", text="1", label="3", header=False).read(str(table))
    assert found.texts[0] == "first"
    assert found.places[1] == f"{table}:2"
    found = kind("text_classification", text="first", label="missing").read(
        str(table), labelled=False
    )
    assert found.targets is None


@pytest.mark.parametrize(
    ("name", "quoting", "text"),
    [("a.csv", "auto", "a,b"), ("a.csv", "false", '"a'), ("a.tsv", "auto", '"a,b"')],
)
def test_quotes(name: str, quoting: str, text: str, tmp_path: Path, kind) -> None:
    separator = "\t" if name.endswith("tsv") else ","
    path = tmp_path / name
    path.write_text(separator.join(['"a,b"', "x"]) + "\n")
    values = {"text": "0", "label": "1", "header": False, "quoting": quoting}
    assert kind("text_classification", **values).read(str(path)).texts == (text,)


def test_splitting_and_taking_keep_rows_together(kind) -> None:
    data = Texts(list("abcd"), list("efgh"), list("1234"), [f"x:{i}" for i in range(4)])
    train, validation = kind("text_classification").split(data, 0.3)
    assert (train.texts, validation.texts) == (["a", "b", "c"], ["d"])
    assert (validation.pairs, validation.targets, validation.places) == (["h"], ["4"], ["x:3"])
    some = kind("text_classification").take(Texts(list("abcd")), [2, 0])
    assert (some.texts, some.pairs, some.targets, some.places) == (["c", "a"], None, None, ())


def test_pairs_of_one_first_text_stay_together(kind) -> None:
    firsts = [f"t{number // 3}" for number in range(30)]
    data = Texts(firsts, [f"p{number}" for number in range(30)], ["x", "y"] * 15)
    train, validation = kind("text_classification").split(data, 0.3)
    assert (len(train), len(validation)) == (21, 9)
    assert not set(train.texts) & set(validation.texts)
    alone = kind("text_classification").split(Texts(["t"] * 4, list("abcd")), 0.25)
    # rows with one first text are split if there is no other text
    assert [len(part) for part in alone] == [3, 1]


def test_glue_form(tmp_path: Path) -> None:
    write_glue(tmp_path / "out.tsv", ["yes", "", "a b"])
    assert (tmp_path / "out.tsv").read_bytes() == b"index\tprediction\n0\tyes\n1\t\n2\ta b\n"
    write_glue(tmp_path / "out.tsv", ['he said "no"', "a\t\r\nb"])
    assert (tmp_path / "out.tsv").read_bytes().endswith(b'\n0\the said "no"\n1\ta b\n')


def test_shown() -> None:
    assert shown(Texts(["a"]), 0) == "a"
    assert shown(Texts(["a"], ["b"]), 0) == "a / b"
