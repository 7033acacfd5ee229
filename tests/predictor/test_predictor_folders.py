"""Predictors that are opened from folders and saved to folders, and their progress."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY


@pytest.mark.parametrize("kind", ["answers", "vectors"])
def test_a_predictor_there_and_back(task, tokenizer, tmp_path: Path, kind: str) -> None:
    """A saved predictor opens with its options and its maximum length."""
    options = {"answers": {"stride": 4, "max_question": 3, "null_threshold": -1.5}, "vectors": {}}
    written = Predictor(task(kind), tokenizer, max_length=12, options=options[kind])
    written.save_to_preset(tmp_path)
    read = Predictor.from_preset(tmp_path, batch_size=3)
    assert type(read.task) is type(written.task)
    assert (read.max_length, read.batch_size, read.options) == (12, 3, options[kind])
    assert Predictor.from_preset(tmp_path, max_length=9).max_length == 9


def test_a_folder_that_says_nothing_reads_all_positions(task, tokenizer, tmp_path: Path) -> None:
    task("labels").save_to_preset(tmp_path)
    tokenizer.save_to_preset(tmp_path)
    assert Predictor.from_preset(tmp_path).max_length == 32
    with pytest.raises(ValueError, match="`max_length` must be from 3 to 32"):
        Predictor.from_preset(tmp_path, max_length=33)


@pytest.mark.parametrize(("told", "length"), [(9, 9), (514, 32)])
def test_the_length_of_sentence_transformers(
    task, tokenizer, tmp_path: Path, told: int, length: int
) -> None:
    task("vectors").save_to_preset(tmp_path)
    tokenizer.save_to_preset(tmp_path)
    values = {"max_seq_length": told, "do_lower_case": False}
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(values))
    assert Predictor.from_preset(tmp_path).max_length == length


def test_progress_is_told_after_every_batch(task, tokenizer) -> None:
    predictor = Predictor(task("labels"), tokenizer, batch_size=2)
    told: list[tuple[int, int]] = []
    predictor.progress = lambda done, total: told.append((done, total))
    predictor(["a", "b", "c"])
    assert told == [(2, 3), (3, 3)]


def test_the_tokenizer_of_the_task_is_the_default() -> None:
    tokenizer = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
    task = SequenceClassifier(BertEncoder(TINY), 2)
    with pytest.raises(ValueError, match="This SequenceClassifier has no tokenizer: pass one"):
        Predictor(task)
    task.tokenizer = tokenizer
    assert Predictor(task).tokenizer is tokenizer
