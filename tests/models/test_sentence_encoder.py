"""Texts as vectors."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras import BertEncoder, SentenceEncoder, features, optimizer
from tests import contracts
from tests.contracts import TINY, numpy


def test_contract(tmp_path):
    config = TINY.replace(num_layers=1, pooler=False)
    encoder = contracts.as_trained(BertEncoder(config))
    task = SentenceEncoder(encoder, pooling="max", normalize=False)
    x = contracts.inputs_of(task)
    contracts._check_calls(task, x, contracts.inputs_of(task, 5))
    contracts._check_model_config(task, x, tmp_path)


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
    student.compile(optimizer(0.02, total_steps=150), **student.objective())
    x = contracts.inputs_of(teacher)
    y = {features.SENTENCE_VECTOR: numpy(teacher(x))[features.SENTENCE_VECTOR]}
    contracts.learn(student, x, y, steps=150)
    similarity = student.evaluate(x, y, verbose=0, return_dict=True)["cosine_similarity"]
    assert similarity > 0.95
