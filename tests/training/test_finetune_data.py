"""Training and validation data of a fine-tuning."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras import BertEncoder, SequenceClassifier, Tokenizer
from bert_keras.data import PackedExamples, SupervisedExamples
from bert_keras.errors import DataError, UsageError
from bert_keras.training.finetune_data import (
    Data,
    quicktest_recipe,
    read,
    training_examples,
    unknown_note,
)
from bert_keras.training.finetune_recipe import TASK_NAMES, FinetuneRecipe
from bert_keras.training.finetune_seed import build_task
from bert_keras.training.tasks import task_of
from tests.contracts import TINY
from tests.data.test_table_columns import write_folder


def _rows(path: Path, count: int) -> str:
    rows = [{"text": f"t{i}", "label": "ab"[i % 2]} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def _read(**values) -> Data:
    recipe = FinetuneRecipe(task="text_classification", **values)
    return Data.read(recipe, task_of(recipe))


def test_without_dev_some_rows_are_kept_for_it(tmp_path: Path) -> None:
    train = _rows(tmp_path / "t.jsonl", 20)
    data = _read(train=train, validation_split=0.2)
    assert (len(data.train), len(data.validation), data.labels) == (16, 4, ["a", "b"])
    assert sorted([*data.train.texts, *data.validation.texts]) == sorted(f"t{n}" for n in range(20))
    # the last rows of a sorted table would be a biased sample
    assert list(data.validation.texts) != ["t16", "t17", "t18", "t19"]
    # The split depends on `data_seed` alone, so all seeds of a run have the same validation rows.
    assert _read(train=train, validation_split=0.2, seed=1) == data
    assert _read(train=train, validation_split=0.2, data_seed=1) != data


def test_a_label_of_the_validation_split_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [{"text": "t", "label": label} for label in "abcdefghij"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = _read(train=str(path), validation_split=0.3)
    assert data.labels == list("abcdefghij")
    assert len(data.validation) == 3


def test_rows_are_drawn_by_their_own_seed(tmp_path: Path) -> None:
    train = _rows(tmp_path / "t.jsonl", 50)

    def drawn(**values) -> list[str]:
        return list(_read(train=train, dev=train, rows=10, **values).train.texts)

    first = drawn()
    assert len(set(first)) == 10
    # drawn rows keep the order of the file
    assert first == sorted(first, key=lambda text: int(text[1:]))
    assert drawn(seed=7) == first != drawn(data_seed=1)
    assert len(_read(train=train, dev=train, dev_rows=3).validation) == 3
    assert drawn(draw=False) == [f"t{i}" for i in range(10)]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    train = _rows(tmp_path / "t.jsonl", 1)
    with pytest.raises(DataError, match=r"t\.jsonl: no examples remain .* Name dev=FILE"):
        _read(train=train)
    with pytest.raises(UsageError, match=r"the ending '.xyz' stands for no known format"):
        _read(train="a.xyz")
    with pytest.raises(UsageError, match="encoding must name"):
        _read(train=train, encoding="utf-9")
    with pytest.raises(DataError, match="No such file"):
        read(task_of(FinetuneRecipe(task="token_classification")), "nowhere.txt")


def test_a_file_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("text\tlabel\na\tx\nb\tx\n")
    with pytest.raises(DataError, match=rf"^{path}: At least two labels are needed"):
        _read(train=str(path))
    path.write_text("text\tlabel\na\t0.5\nb\tx\nc\t0.7\n".replace("x", "0.6"))
    with pytest.raises(DataError) as caught:
        _read(train=str(path))
    assert all(line.count(str(path)) == 1 for line in str(caught.value).splitlines()[1:])


@pytest.mark.parametrize("dev", [True, False])
def test_a_file_without_examples_to_learn_from(dev: bool, tmp_path: Path) -> None:
    """It is no advice to name dev=FILE where there is one."""
    path = tmp_path / "t.json"
    path.write_text('{"data": [{"paragraphs": []}]}')
    recipe = FinetuneRecipe(
        task="question_answering", train=str(path), dev=str(path) if dev else ""
    )
    with pytest.raises(DataError, match=r"no examples to train on\..*train=FILE") as caught:
        Data.read(recipe, task_of(recipe))
    assert "dev=FILE" not in str(caught.value)


def test_splits_of_a_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """train= and dev= may be the folder of a `DatasetDict`; each takes its own split."""
    columns = {"text": ["a b", "b", "c"], "label": [0, 1, 0]}
    features = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}
    folder = tmp_path / "set"
    for split in ("train", "validation"):
        write_folder(folder / split, columns, features)
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    data = _read(train=str(folder), dev=str(folder))
    assert data.labels == ["neg", "pos"]
    assert data.train.places[0] == f"{folder / 'train'}:1"
    assert data.validation.places[0] == f"{folder / 'validation'}:1"
    assert f"{folder}: the split validation is read" in capsys.readouterr().out
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(UsageError, match=r"splits train, test\. Name the folder"):
        _read(train=str(folder), dev=str(folder))


def test_labels_of_dev_are_those_of_train(tmp_path: Path) -> None:
    train = _rows(tmp_path / "t.jsonl", 4)
    dev = tmp_path / "d.jsonl"
    dev.write_text('{"text": "t", "label": "c"}\n')
    with pytest.raises(DataError, match=r"d\.jsonl:1: unknown label 'c'. The labels are a, b"):
        _read(train=train, dev=str(dev))


def test_packed_batches_have_about_as_many_examples(tmp_path: Path) -> None:
    """Packed batches have all 100 examples in as few rows as possible."""
    train = _rows(tmp_path / "t.jsonl", 100)
    tokenizer = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    task = SequenceClassifier(BertEncoder(TINY), 2)

    def examples(**values) -> SupervisedExamples | PackedExamples:
        recipe = FinetuneRecipe(task="text_classification", batch_size=16, max_length=12, **values)
        kind = task_of(recipe)
        data = Data.read(dataclasses.replace(recipe, train=train, dev=train), kind)
        return training_examples(recipe, kind, data, tokenizer, task, 0)

    plain, packed = examples(), examples(packing=True)
    assert isinstance(plain, SupervisedExamples)
    assert isinstance(packed, PackedExamples)
    assert packed.batch_size == 4  # a row holds four examples of three tokens
    assert packed.num_rows() == 25
    assert packed.statistics()["tokens"] == plain.statistics()["tokens"] == 300


# === The generated files of a quick test


# Values of a recipe that describe other files than the generated ones.
_OF_OTHER_FILES: dict[str, dict[str, Any]] = {
    "text_classification": {"text": "x", "labels": "a,z", "positive": "z", "separator": ";"},
    "multi_label_classification": {"text": "x", "label": "y", "label_separator": ";"},
    "retrieval": {"text": "x", "pair": "y"},
    "text_ranking": {"text": "x", "pair": "y", "label": "z"},
    "token_classification": {"tag_column": 5, "scheme": "bmes", "encoding": "gb18030"},
    "question_answering": {},
    "multiple_choice": {
        "prompt": "",
        "options": "a,b",
        "lead": "c",
        "answer": "d",
        "format": "csv",
    },
}


@pytest.mark.parametrize("task", TASK_NAMES)
def test_files_of_every_task(task: str, tmp_path: Path) -> None:
    recipe = FinetuneRecipe(task=task, **_OF_OTHER_FILES.get(task, {"text": "x", "label": "y"}))
    recipe = quicktest_recipe(recipe, tmp_path / "made")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    data = Data.read(recipe, task_of(recipe))
    assert len(data.train) == len(data.validation) >= 6


def test_they_are_the_same_each_time(tmp_path: Path) -> None:
    recipe = FinetuneRecipe(task="text_classification")

    def contents() -> dict[Path, bytes]:
        assert quicktest_recipe(recipe, tmp_path) == quicktest_recipe(recipe, tmp_path)
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert contents() == contents()


@pytest.mark.parametrize("task", TASK_NAMES)
def test_text_that_is_unknown_is_noted_for_every_task(task: str, tmp_path: Path) -> None:
    recipe = FinetuneRecipe(task=task, **_OF_OTHER_FILES.get(task, {"text": "x", "label": "y"}))
    recipe = quicktest_recipe(recipe, tmp_path / "made")
    finetuning = task_of(recipe)
    data = Data.read(recipe, finetuning)
    known = Tokenizer.from_preset(recipe.encoder)
    assert unknown_note(recipe, finetuning, data, known) == ""
    unknown = Tokenizer([*known.vocabulary[:5], "zzz"])
    expected = "100 % of the tokens are [UNK]. Check that the tokenizer fits"
    note = unknown_note(recipe, finetuning, data, unknown)
    assert note.startswith(f"note: {recipe.train}: {expected}")


def test_long_texts_of_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recipe with windows trains and answers in windows; another one prints what it cuts."""
    recipe = FinetuneRecipe(task="text_classification", text="x")
    recipe = dataclasses.replace(quicktest_recipe(recipe, tmp_path), max_length=8)
    rows = [{"text": "the film was good " * n, "label": "gb"[n % 2]} for n in (1, 2, 5)]
    (tmp_path / "long.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = dataclasses.replace(recipe, train=str(tmp_path / "long.jsonl"))
    recipe = dataclasses.replace(recipe, dev=recipe.train)
    tokenizer = Tokenizer.from_preset(recipe.encoder)
    counts, options = {}, {}
    for reading in ("", "truncate", "windows"):
        one = dataclasses.replace(
            recipe, long_texts=reading, stride=3 if reading == "windows" else 0
        )
        finetuning = task_of(one)
        data = Data.read(one, finetuning)
        task = build_task(one, finetuning, data.labels, tokenizer)
        examples = training_examples(one, finetuning, data, tokenizer, task, one.seed)
        assert isinstance(examples, SupervisedExamples)
        counts[reading] = len(examples)
        options[reading] = finetuning.predictor(task, tokenizer).options
        printed = capsys.readouterr().out
        assert ("2 of 3 texts are longer than 8 tokens" in printed) == (reading == "")
        assert (
            len(finetuning.evaluate(finetuning.predictor(task, tokenizer), data.train).predictions)
            == 3
        )
    assert counts == {"": 3, "truncate": 3, "windows": 1 + 2 + 6}
    assert options == {"": {}, "truncate": {}, "windows": {"long_texts": "windows", "stride": 3}}
    with pytest.raises(UsageError, match="stride needs long_texts=windows"):
        dataclasses.replace(recipe, stride=3)
    with pytest.raises(UsageError, match="long_texts is for text_classification"):
        FinetuneRecipe(task="retrieval", long_texts="windows")
