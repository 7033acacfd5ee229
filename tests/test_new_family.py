"""Rehearsal: with two rows of tables a new family of known values works; see CONTRIBUTING.md.

The family has pre-norm blocks and rotary positions. Its checkpoints store queries, keys and values
in one tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from bert_keras import (
    BertConfig,
    BertEncoder,
    MaskedLM,
    SequenceClassifier,
    config_checks,
    features,
)
from bert_keras.checkpoints import hugging_face_names
from bert_keras.checkpoints.hugging_face_family import Family
from bert_keras.errors import UsageError
from tests import contracts

# === New rows of tables ===


_ENCODER = {
    "embeddings/token": "embeddings.tok_embeddings",
    "embeddings/layer_norm": "embeddings.norm",
    **{f"block_#/attention/{name}": "layers.#.attn.Wqkv" for name in ("query", "key", "value")},
    "block_#/attention/output": "layers.#.attn.Wo",
    "block_#/attention_layer_norm": "layers.#.attn_norm",
    "block_#/feedforward/intermediate": "layers.#.mlp.Wi",
    "block_#/feedforward/output": "layers.#.mlp.Wo",
    "block_#/feedforward_layer_norm": "layers.#.mlp_norm",
    "final_norm": "final_norm",
}
_BERT = hugging_face_names.FAMILIES["bert"]
_FIXED = {
    "num_segments": 0,
    "pooler": False,
    "block": "pre_norm",
    "position_embedding": "none",
    "attention_positions": "rotary",
}
_CONSTANTS = {ours: theirs for ours, theirs in _BERT.constants.items() if ours not in _FIXED}
FAMILY = Family(
    model_types=("rehearsal",),
    prefix="model.",
    encoder=_ENCODER,
    heads={"mlm/dense": "head.dense", "mlm/layer_norm": "head.norm", "mlm": "decoder"},
    classes={"BertEncoder": "RehearsalModel", "MaskedLM": "RehearsalForMaskedLM"},
    constants=_CONSTANTS,
    fixed=_FIXED,
    redundant=(),
)
# Table, key, and new value. The first table is the choices of a config value.
ROWS: list[tuple[Any, str, Any]] = [
    (config_checks._CHOICES, "family", (*config_checks.FAMILIES, "rehearsal")),
    (hugging_face_names.FAMILIES, "rehearsal", FAMILY),
]


@pytest.fixture(autouse=True)
def family() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for table, key, value in ROWS:
            patch.setitem(table, key, value)
        yield


def _config() -> BertConfig:
    return contracts.TINY.replace(family="rehearsal", **_FIXED)


def _encoder(**options: Any) -> BertEncoder:
    return contracts.as_trained(BertEncoder(_config(), **options))


# === Tests ===


# They read the formats of Google, which have BERT, ALBERT and ELECTRA alone.
_OF_GOOGLE = {"google_tf1.py", "tf_hub.py"}


def test_no_code_asks_for_the_name_of_a_family() -> None:
    """Values of a table say what families do differently."""
    found: set[str] = set()
    for path in Path(config_checks.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Compare):
                continue
            sides = [getattr(side, "attr", getattr(side, "id", "")) for side in ast.walk(node)]
            texts = {getattr(each, "value", None) for each in ast.walk(node)}
            if "family" in sides and texts & {*config_checks.FAMILIES}:
                found.add(path.name)
    assert found == _OF_GOOGLE


def test_positions_matter_and_padding_does_not() -> None:
    encoder, x = _encoder(), contracts.batch(_config())
    y = contracts.numpy(encoder(x))[features.SEQUENCE_OUTPUT]
    turned = {**x, features.TOKEN_IDS: x[features.TOKEN_IDS][:, ::-1].copy()}
    turned[features.PADDING_MASK] = np.ones_like(x[features.PADDING_MASK])
    plain = {**x, features.PADDING_MASK: turned[features.PADDING_MASK]}
    forward, backward = (
        contracts.numpy(encoder(each))[features.SEQUENCE_OUTPUT] for each in (plain, turned)
    )
    assert np.abs(forward - backward[:, ::-1]).max() > 1e-3
    padded = {name: np.pad(values, ((0, 0), (0, 3))) for name, values in x.items()}
    more = contracts.numpy(encoder(padded))[features.SEQUENCE_OUTPUT]
    is_real = x[features.PADDING_MASK].astype(bool)
    np.testing.assert_allclose(more[:, : y.shape[1]][is_real], y[is_real], atol=1e-5)


def test_a_folder_has_the_fused_tensor_and_opens_again(tmp_path: Path) -> None:
    task = contracts.as_trained(MaskedLM(BertEncoder(_config())))
    task.save_to_preset(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    width = _config().hidden_size
    assert tensors["model.layers.0.attn.Wqkv.weight"].shape == (3 * width, width)
    assert tensors["model.layers.1.attn.Wqkv.bias"].shape == (3 * width,)
    query = next(w for w in task.weights if w.path == "block_0/attention/query/kernel")
    np.testing.assert_array_equal(
        tensors["model.layers.0.attn.Wqkv.weight"][:width].T, contracts.numpy(query)
    )
    x = contracts.inputs_of(task)
    expected = contracts.numpy(task(x))
    for again in (MaskedLM.from_preset(tmp_path), MaskedLM.from_preset(tmp_path, plain=True)):
        np.testing.assert_array_equal(
            contracts.numpy(again(x))[features.MLM], expected[features.MLM]
        )
    assert BertEncoder.from_preset(tmp_path).config == _config()


def test_a_keras_file_opens_again(tmp_path: Path) -> None:
    encoder, x = _encoder(), contracts.batch(_config())
    encoder.save(tmp_path / "model.keras")
    again: Any = keras.models.load_model(tmp_path / "model.keras")
    for name, expected in contracts.numpy(encoder(x)).items():
        np.testing.assert_array_equal(contracts.numpy(again(x))[name], expected)


def test_it_learns() -> None:
    task = SequenceClassifier(BertEncoder(_config()), 2, hidden_activation="tanh")
    task.compile(keras.optimizers.Adam(0.01), **task.loss_and_metrics())
    x = contracts.batch(_config(), rows=6)
    y = {features.LABEL: np.arange(6) % 2}
    before, after = contracts.learn(task, x, y, steps=30)
    assert after < 0.5 * before


@pytest.mark.parametrize("format", ["google_tf1", "keras_hub"])
def test_formats_without_the_family_refuse_it(format: str, tmp_path: Path) -> None:  # noqa: A002
    from bert_keras import save_checkpoint

    with pytest.raises(UsageError, match="rehearsal"):
        save_checkpoint(_encoder(), tmp_path / "folder", format=format)
    assert not (tmp_path / "folder").exists()
