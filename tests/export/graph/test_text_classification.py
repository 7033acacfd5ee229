"""A model that runs in chunks of rows."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.export.graph import text_classification

tf = pytest.importorskip("tensorflow")


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
