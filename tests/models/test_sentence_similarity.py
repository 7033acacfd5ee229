"""The sentence encoder: texts as vectors."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, SentenceEncoder, features, load_checkpoint, optimizer
from tests import contracts
from tests.contracts import TINY, numpy

# Name -> options, and the number of weights that they add.
OPTIONS: dict[str, tuple[dict[str, Any], int]] = {
    "max": ({"pooling": "max", "normalize": False}, 0),
    "several": ({"pooling": ["lasttoken", "weightedmean"], "truncate_dim": 9}, 0),
    "dense": ({"dense": [{"units": 4, "activation": "tanh"}, {"units": 3, "residual": True}]}, 5),
    "prompt": ({"include_prompt": False, "prompts": {"a": "b "}, "default_prompt_name": "a"}, 0),
    "compared": ({"similarity": "dot", "pooling": "mean_sqrt_len_tokens"}, 0),
}


def _inputs(task: SentenceEncoder, length: int = 7) -> dict[str, np.ndarray]:
    x = contracts.inputs_of(task, length)
    if any(tensor.name == features.PROMPT_LENGTH for tensor in task.inputs):
        x[features.PROMPT_LENGTH] = np.full((len(x[features.TOKEN_IDS]), 1), 2, "int32")
    return x


@pytest.mark.parametrize("kind", OPTIONS)
def test_contract(kind: str, tmp_path):
    config = TINY.replace(num_layers=1, pooler=False)
    options, count = OPTIONS[kind]
    encoder = contracts.as_trained(BertEncoder(config))
    task = SentenceEncoder(encoder, **options)
    assert len(task.weights) == len(encoder.weights) + count
    x = _inputs(task)
    contracts._check_calls(task, x, _inputs(task, 5))
    contracts._check_model_config(task, x, tmp_path)
    contracts.check_format(task, x, tmp_path / "folder")
    assert load_checkpoint(tmp_path / "folder").options == task.options


def test_options_that_are_as_usual_are_not_written():
    """Options with default values are not saved, so that earlier versions can open the folder."""
    assert SentenceEncoder(BertEncoder(TINY)).options == {"pooling": "mean", "normalize": True}


def test_an_unknown_similarity():
    with pytest.raises(ValueError, match="`similarity` must be one of cosine, dot"):
        SentenceEncoder(BertEncoder(TINY), similarity="maxsim")


def test_padding_does_not_count():
    task = contracts.as_trained(SentenceEncoder(BertEncoder(TINY)))
    x = contracts.inputs_of(task)
    expected = numpy(task(x))[features.SENTENCE_VECTOR]
    x[features.TOKEN_IDS] = np.where(x[features.PADDING_MASK] == 1, x[features.TOKEN_IDS], 3)
    contracts.assert_close(numpy(task(x))[features.SENTENCE_VECTOR], expected, 1e-6)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=-1), 1.0, rtol=1e-5)


def test_learns_the_vectors_of_a_teacher():
    keras.utils.set_random_seed(0)
    config = TINY.replace(pooler=False, dropout=0.0, attention_dropout=0.0, initializer_range=0.2)
    teacher = contracts.as_trained(SentenceEncoder(BertEncoder(config)))
    student = SentenceEncoder(BertEncoder(config))
    student.compile(optimizer(0.02, total_steps=150), **student.loss_and_metrics())
    x = contracts.inputs_of(teacher)
    y = {features.SENTENCE_VECTOR: numpy(teacher(x))[features.SENTENCE_VECTOR]}
    contracts.learn(student, x, y, steps=150)
    similarity = student.evaluate(x, y, verbose=0, return_dict=True)["cosine_similarity"]
    assert similarity > 0.95
