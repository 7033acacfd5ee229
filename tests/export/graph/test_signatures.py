"""Signatures of every task. TensorFlow's disk errors become a `ResourceError`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bert_keras as bk
from bert_keras.errors import ResourceError
from bert_keras.export.graph import signatures
from bert_keras.predictor import Predictor
from bert_keras.task_names import FINETUNED, PRETRAINED
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer
from tests.answering import PAIRS, VOCABULARY, columns_of, new_tasks, texts_with
from tests.contracts import MAY_CUT
from tests.export.test_clients import CHECKS

tf = pytest.importorskip("tensorflow")


@pytest.mark.parametrize(
    "error", [tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError]
)
def test_a_full_disk(error, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_, **__) -> None:
        raise error(None, None, "variables.data; No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(ResourceError, match=r"variables\.data: could not be written: No space"):
        signatures.save_program(tf.Module(), tmp_path / "demo", {})


def test_other_errors_are_faults(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Trackable"):
        signatures.save_program(object(), tmp_path, {})


def test_every_task_that_answers_texts_has_signatures() -> None:
    """Models of the recipe "retrieval" have the signatures of "sentence_similarity"."""
    answering = {
        name
        for name, classes in {**FINETUNED, **PRETRAINED}.items()
        if all(getattr(bk, each).answers_texts for each in classes)
    }
    names = (answering - {"retrieval"}) | {bk.BertEncoder.task_name}
    assert signatures.SIGNATURES.keys() == names


@pytest.fixture(scope="module")
def tasks() -> dict[str, Any]:
    return new_tasks()


@pytest.mark.parametrize("name", ["pairs", "vectors", "numbers", "several", "cosines", "encoder"])
@MAY_CUT
def test_functions_answer_as_the_predictor(name: str, tasks: dict[str, Any]) -> None:
    """The functions give the predictor's answers, with prompts, all poolings and all similarities.

    test_clients.py exports few of these combinations.
    """
    tokenizer = Tokenizer(VOCABULARY)
    predictor = Predictor(tasks[name], tokenizer, pairs=name in PAIRS)
    functions = signatures.text_functions(predictor, InGraphTokenizer(tokenizer, portable=True))
    columns = columns_of(name, texts_with([], 64))
    outputs = functions[signatures.DEFAULT](**{key: tf.constant(columns[key]) for key in columns})

    def found(output: str, row: int) -> Any:
        return outputs[output][row].numpy()

    CHECKS[name](found, predictor, list(columns.values()))
