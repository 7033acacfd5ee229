"""A model that runs in chunks of rows, and windows of long texts."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras import Predictor, SentenceEncoder, SequenceClassifier
from bert_keras.data import encode_long
from bert_keras.export.graph import text_classification
from tests.contracts import as_trained

tf = pytest.importorskip("tensorflow")

from bert_keras.export.graph.signatures import text_functions  # noqa: E402
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer  # noqa: E402


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_parts_give_what_the_whole_gives(count: int) -> None:
    seen = []

    def double(part):
        seen.append(part["x"].shape)
        return [2 * part["x"], tf.reduce_sum(part["x"], axis=1)]

    specs = [tf.TensorSpec([None, 3]), tf.TensorSpec([None])]
    x = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
    found = text_classification.call_in_parts(double, {"x": tf.constant(x)}, specs)
    np.testing.assert_array_equal(found[0], 2 * x)
    np.testing.assert_array_equal(found[1], x.sum(axis=1))
    assert max(shape[0] for shape in seen) <= 64
    assert len(seen) == max(1, -(-count // 64))


def test_a_model_is_given_what_it_takes(encoder) -> None:
    model = encoder(num_segments=0)
    ids = tf.constant([[2, 5, 3]])
    inputs = {"token_ids": ids, "padding_mask": tf.ones_like(ids), "segment_ids": ids}
    assert text_classification.call_model(model, inputs)["sequence_output"].shape == (
        1,
        3,
        model.config.hidden_size,
    )


LENGTHS = (0, 1, 5, 6, 7, 20, 33)
TEXTS = [" ".join("abcdefgh"[(n + i) % 8] for i in range(n)) for n in LENGTHS]


@pytest.mark.parametrize("stride", [None, 2])
@pytest.mark.parametrize("pairs", [None, TEXTS[::-1], ["a b"] * len(TEXTS)])
def test_windows_are_those_of_the_predictor(stride, pairs, tokenizer) -> None:
    in_graph = InGraphTokenizer(tokenizer, portable=True)
    for prefix in (0, 1):
        options = {"max_length": 11, "long_texts": "windows", "stride": stride, "prefix": prefix}
        expected = encode_long(tokenizer, TEXTS, pairs, **options)
        columns = [column for column in (TEXTS, pairs) if column is not None]
        parts = [in_graph.tokenize(tf.constant(column)) for column in columns]
        room = 11 - len(parts) - 1
        rows, sources = text_classification.split_texts(parts, room, stride, prefix)
        found = in_graph.add_special_tokens(*rows)
        width = int(expected.lengths.max())
        for name, values in expected.inputs(np.arange(len(expected)), width).items():
            np.testing.assert_array_equal(found[name], values)
        np.testing.assert_array_equal(sources, expected.sources)
    with pytest.raises(ValueError, match="too few for windows"):
        text_classification.split_texts(parts, room, stride, room)


@pytest.mark.parametrize("kind", ["labels", "numbers", "vectors", "encoder"])
def test_windows_in_a_graph_answer_as_the_predictor(kind, encoder, tokenizer) -> None:
    prompts = {"prompts": {"q": "the "}, "default_prompt_name": "q"}
    model = {
        "labels": lambda: SequenceClassifier(encoder(), 3, **prompts),
        "numbers": lambda: SequenceClassifier(encoder(), 1),
        "vectors": lambda: SentenceEncoder(encoder(), include_prompt=False, **prompts),
        "encoder": encoder,
    }[kind]()
    options = {"long_texts": "windows", "stride": 3}
    predictor = Predictor(as_trained(model), tokenizer, max_length=10, options=options)
    functions = text_functions(predictor, InGraphTokenizer(tokenizer, portable=True))
    found = functions["serving_default"](tf.constant(TEXTS))
    if kind == "labels":
        scores = np.sort(predictor.predict_scores(TEXTS), axis=1)[:, ::-1]
        np.testing.assert_allclose(found["scores"], scores, atol=1e-5)
        pairs = functions["pairs"](tf.constant(TEXTS), tf.constant(TEXTS[::-1]))
        assert pairs["scores"].shape == scores.shape
    elif kind == "numbers":
        np.testing.assert_allclose(found["scores"], predictor.predict_scores(TEXTS), atol=1e-5)
    else:
        np.testing.assert_allclose(found["sentence_vector"], predictor.encode(TEXTS), atol=1e-5)
