"""Question answering in a graph gives the answers of the predictor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras.export.graph.question_answering import Questions
from bert_keras.models import QuestionAnswerer
from bert_keras.predictor import Predictor
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer
from tests.contracts import MAY_CUT, as_trained

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

SMALL = {"stride": 3, "max_question": 6, "max_pieces": 4, "n_best": 5}


@pytest.mark.parametrize(
    ("max_length", "options"),
    [
        (16, SMALL),
        (16, SMALL | {"null_threshold": 0.5, "n_best": 1, "max_pieces": 1}),
        (24, SMALL | {"stride": 100, "null_threshold": -1.0, "n_best": 200}),
        (64, {"max_question": 20}),
    ],
)
@MAY_CUT
def test_answers_are_the_predictors(
    max_length: int, options: dict[str, Any], encoder, tokenizer, texts
) -> None:
    task = as_trained(QuestionAnswerer(encoder()))
    asked = [text[:30] for text in reversed(texts)]
    expected = Predictor(task, tokenizer, max_length=max_length).predict_answers(
        asked, texts, **options
    )
    questions = Questions(task, InGraphTokenizer(tokenizer), max_length=max_length, **options)
    spec = tf.TensorSpec([None], tf.string)
    run = tf.function(lambda q, c: questions(q, c), input_signature=[spec, spec])
    for start in range(0, len(texts), 32):
        part = slice(start, start + 32)
        found = run(tf.constant(asked[part]), tf.constant(texts[part]))
        found = {name: value.numpy() for name, value in found.items()}
        for row, answer in enumerate(expected[part]):
            got = found["answer"][row].decode(), found["start"][row], found["end"][row]
            assert got == (answer.text, answer.start, answer.end), ascii(texts[part][row])
            assert found["score"][row] == pytest.approx(answer.score, abs=1e-5)
            null_score = min(answer.null_score, np.finfo(np.float32).max)
            assert found["null_score"][row] == pytest.approx(null_score, abs=1e-4)
    assert len({answer.text for answer in expected}) > 20
    nothing = tf.constant([], tf.string)
    assert {value.shape for value in run(nothing, nothing).values()} == {(0,)}
