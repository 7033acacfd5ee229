"""Users' models over our layers and views: shared weights stay shared."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from bert_keras import features, layers, models
from bert_keras.models import BertEncoder
from bert_keras.models.encoder import EncoderView
from tests import contracts
from tests.contracts import TINY, numpy
from tests.rebuilding import OPERATIONS, by_file, check_operations, sharing


def _positions() -> Any:
    return keras.Input((None,), dtype="int32", name=features.MASK_POSITIONS)


class _Parts(NamedTuple):
    """Encoder with its symbolic inputs and the positions of the tokens to predict."""

    encoder: BertEncoder
    x: dict[str, Any]
    positions: Any


def _over(outputs: Callable[[_Parts], Any]) -> Callable[[], tuple[Any, Any]]:
    """Return a function that makes a functional model over the symbolic inputs of an encoder."""

    def make() -> tuple[Any, Any]:
        encoder = BertEncoder(TINY)
        inputs = {**encoder.input, features.MASK_POSITIONS: _positions()}
        found = outputs(_Parts(encoder, encoder.input, inputs[features.MASK_POSITIONS]))
        if not isinstance(found, keras.Model):
            found = keras.Model(inputs, found)
        names = [tensor.name for tensor in found.inputs]
        return found, {name: contracts.batch(TINY, predictions=2)[name] for name in names}

    return make


def _tied(encoder: BertEncoder) -> layers.MaskedLMHead:
    return layers.MaskedLMHead(encoder.embeddings.token, name="mlm")


def _block_output(encoder: BertEncoder, index: int) -> Any:
    return encoder.get_layer(f"block_{index}").output


def _over_task(m: _Parts) -> keras.Model:
    task = models.MaskedLM(m.encoder)
    return keras.Model(task.input, keras.layers.Softmax()(task.output[features.MLM]))


def _two_tasks(m: _Parts) -> list[Any]:
    task, other = models.MaskedLM(m.encoder), models.SequenceClassifier(m.encoder, 3)
    vectors = m.encoder(m.x)[features.SEQUENCE_OUTPUT]
    outputs = [task({**m.x, features.MASK_POSITIONS: m.positions}), other(m.x)]
    return [*outputs, task.mlm(vectors, m.positions)]


def _nested(m: _Parts) -> Any:
    within = keras.Model(m.x, _block_output(m.encoder, 0), name="within")
    return _tied(m.encoder)(within(m.x), m.positions)


# Functional models that a user may build from the parts of an encoder.
USERS: dict[str, Callable[[_Parts], Any]] = {
    "output of a block": lambda m: keras.Model(
        m.encoder.input, keras.layers.Dense(3)(_block_output(m.encoder, 1))
    ),
    "view": lambda m: keras.Model(
        m.encoder.input,
        keras.layers.Dense(3)(m.encoder.first_token()(m.x)[features.SEQUENCE_OUTPUT]),
    ),
    "tied head": lambda m: _tied(m.encoder)(m.encoder(m.x)[features.SEQUENCE_OUTPUT], m.positions),
    "tied head on a view": lambda m: _tied(m.encoder)(
        m.encoder.at_positions()({**m.x, features.MASK_POSITIONS: m.positions})[
            features.SEQUENCE_OUTPUT
        ]
    ),
    "tied head on a block": lambda m: _tied(m.encoder)(_block_output(m.encoder, 0), m.positions),
    "tied head on a nested model": _nested,
    "first token twice": lambda m: [
        layers.FirstToken(m.encoder.blocks[1])(
            _block_output(m.encoder, 0), m.x[features.PADDING_MASK]
        ),
        layers.FirstToken(m.encoder.blocks[1])(
            _block_output(m.encoder, 1), m.x[features.PADDING_MASK]
        ),
        _block_output(m.encoder, 1),
        m.positions,
    ],
    "tokens of a block": lambda m: layers.TokensOf(m.encoder.blocks[1], True)(
        _block_output(m.encoder, 0), m.positions, m.x[features.PADDING_MASK]
    ),
    "probabilities of a block": lambda m: [
        layers.AttentionProbabilities(m.encoder.blocks[1].attention)(
            _block_output(m.encoder, 0), m.x[features.PADDING_MASK]
        ),
        _block_output(m.encoder, 1),
        m.positions,
    ],
    "encoder, view, block, pooler": lambda m: [
        m.encoder(m.x),
        m.encoder.first_token()(m.x),
        m.encoder.with_outputs(hidden_states=True)(m.x)[features.HIDDEN_STATES][1],
        _block_output(m.encoder, 1),
        m.encoder.pooler(_block_output(m.encoder, 0)),
        m.positions,
    ],
    "outputs of a task": _over_task,
    "two tasks and a head": _two_tasks,
}


@pytest.mark.parametrize("name", USERS)
def test_models_of_users(name: str, tmp_path: Path) -> None:
    check_operations(name, {"": _over(USERS[name])}, tmp_path)


_PROBE = """
import sys
import bert_keras.models
import keras, numpy as np
model = keras.models.load_model(sys.argv[1])
x = dict(np.load(sys.argv[2]))
head, embeddings = model.get_layer("mlm"), model.get_layer("embeddings")
assert head.token_embedding.embeddings is embeddings.token.embeddings
np.save(sys.argv[3], model.predict(x, verbose=0))
"""


def test_a_new_process_opens_a_users_model(tmp_path: Path) -> None:
    model, x = _over(USERS["tied head on a block"])()
    contracts.as_trained(model).save(tmp_path / "model.keras")
    np.savez(tmp_path / "x.npz", **x)
    files = [str(tmp_path / name) for name in ("model.keras", "x.npz", "y.npy")]
    subprocess.run([sys.executable, "-c", _PROBE, *files], check=True)
    contracts.assert_close(np.load(files[2]), numpy(model(x)), 1e-5)


# === Views keep their class and their shared weights ===


def test_a_tied_head_is_tied_after_every_operation(tmp_path: Path) -> None:
    model, _ = _over(USERS["tied head on a view"])()
    for name in ("save, load_model", "clone_model", "copy.deepcopy"):
        rebuilt = OPERATIONS[name](model, tmp_path)
        (view,) = (layer for layer in rebuilt.layers if isinstance(layer, EncoderView))
        table = view.get_layer("embeddings").token
        assert rebuilt.get_layer("mlm").token_embedding is table, name
        # A second file also records the sharing.
        again = by_file(rebuilt, tmp_path)
        assert sharing(again) == sharing(model), name


def test_a_file_names_no_other_method() -> None:
    """A config of a view may name only methods that make views."""
    config = BertEncoder(TINY).first_token().get_config()
    with pytest.raises(ValueError, match="`view` must be one of with_outputs"):
        EncoderView.from_config({**config, "view": "save_to_preset"})
