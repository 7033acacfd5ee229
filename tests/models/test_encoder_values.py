"""Values of encoders beyond BERT: views, packing, training, adapters and files of each of them.

test_encoder.py compares the outputs of every value with NumPy. Families combine values, so they
need no such tests of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, features, load_checkpoint
from bert_keras.config import _LATER
from bert_keras.layers import attention, local_attention
from tests import contracts
from tests.contracts import TINY, VALUES, numpy
from tests.gradients import step_of

# A value beside positions of BERT's first followers: relative, with a local last layer.
_VIEWED = {**VALUES, "relative_window": VALUES["window"].replace(position_embedding="relative_key")}
# Values with local layers once more, in bands that are as small as the window.
_IN_BANDS = [f"{name}_in_bands" for name in ("window", "like_modernbert")]
_SEQUENCE, _POOLED = features.SEQUENCE_OUTPUT, features.POOLED_OUTPUT
_FIXED = {"dropout": 0.0, "attention_dropout": 0.0, "intermediate_dropout": 0.0}


@pytest.fixture
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a value; of one in `_IN_BANDS`, the local layers compute in bands."""
    if request.param not in _IN_BANDS:
        yield request.param
        return
    masks = Mock(wraps=local_attention.band_mask)
    monkeypatch.setattr(local_attention, "_LEAST", 1)
    monkeypatch.setattr(attention, "band_mask", masks)
    yield request.param.removesuffix("_in_bands")
    assert masks.called


def test_every_value_has_a_config_here() -> None:
    for name in _LATER:
        assert any(getattr(config, name) != getattr(TINY, name) for config in VALUES.values()), name


@pytest.mark.parametrize("name", [*_VIEWED, *_IN_BANDS], indirect=True)
def test_views_compute_the_vectors_of_the_encoder(name: str) -> None:
    config = _VIEWED[name]
    encoder = contracts.as_trained(BertEncoder(config))
    x = contracts.batch(config, predictions=3)
    positions = x[features.MASK_POSITIONS]
    whole = {key: values for key, values in x.items() if key != features.MASK_POSITIONS}
    expected = numpy(encoder(whole))
    first = numpy(encoder.first_token()(whole))
    np.testing.assert_allclose(first[_SEQUENCE], expected[_SEQUENCE][:, :1], atol=1e-5)
    found = numpy(encoder.at_positions(pooled=config.pooler)(x))
    some = np.take_along_axis(expected[_SEQUENCE], positions[..., None], axis=1)
    np.testing.assert_allclose(found[_SEQUENCE], some, atol=1e-5)
    if config.pooler:
        np.testing.assert_allclose(found[_POOLED], expected[_POOLED], atol=1e-5)
    before = numpy(encoder.first_token()(whole))[features.BEFORE_LAST]
    last = numpy(encoder.last_block(before, whole[features.PADDING_MASK]))
    np.testing.assert_allclose(last, expected[_SEQUENCE], atol=1e-5)


@pytest.mark.parametrize("name", [*_VIEWED, *_IN_BANDS], indirect=True)
def test_masked_tokens_of_packed_rows(name: str) -> None:
    encoder = contracts.as_trained(BertEncoder(_VIEWED[name]))
    generator, lengths = np.random.default_rng(0), (6, 5)
    texts = [generator.integers(5, TINY.vocab_size, (1, n)) for n in lengths]
    apart = [
        numpy(encoder(_plain_inputs(encoder, ids, np.zeros_like(ids))))[_SEQUENCE] for ids in texts
    ]
    ids = np.concatenate(texts, axis=1)
    rows: dict[str, Any] = {
        **_plain_inputs(encoder, ids, np.zeros_like(ids)),
        features.POSITION_IDS: np.concatenate([np.arange(n) for n in lengths])[None],
        features.EXAMPLE_IDS: np.repeat([1, 2], lengths)[None],
        features.FIRST_POSITIONS: np.array([[0, lengths[0]]]),
        features.MASK_POSITIONS: np.array([[2, 5, 10]]),
    }
    del rows[features.PADDING_MASK]
    view = encoder.at_positions(packed=True, pooled=encoder.config.pooler)
    found = numpy(view(rows))
    expected = np.concatenate(apart, axis=1)[:, [2, 5, 10]]
    np.testing.assert_allclose(found[_SEQUENCE], expected, atol=1e-5)


def _plain_inputs(encoder: BertEncoder, ids: np.ndarray, segments: np.ndarray) -> dict[str, Any]:
    x = {features.TOKEN_IDS: ids, features.PADDING_MASK: np.ones_like(ids)}
    return x | ({features.SEGMENT_IDS: segments} if encoder.config.num_segments > 1 else {})


@pytest.mark.parametrize("name", [*VALUES, *_IN_BANDS], indirect=True)
def test_every_weight_learns_and_checkpointing_changes_nothing(name: str) -> None:
    config = VALUES[name].replace(**_FIXED, initializer_range=0.5)
    task = contracts.as_trained(MaskedLM(BertEncoder(config)))
    x = contracts.batch(config, predictions=4)
    y = {features.MLM: np.arange(12, dtype="int32").reshape(3, 4)}
    logs, gradients = step_of(task, (x, y, None))
    for path, gradient in gradients.items():
        is_unused = "pooler" in path or path.endswith("key/bias")
        assert is_unused or np.abs(gradient).max() > 1e-6, path
    task.encoder.checkpoint_gradients()
    again_logs, again = step_of(task, (x, y, None))
    assert again_logs == pytest.approx(logs, abs=1e-5)
    for path, gradient in gradients.items():
        np.testing.assert_allclose(again[path], gradient, atol=2e-5, err_msg=path)


@pytest.mark.parametrize("name", _IN_BANDS, indirect=True)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_step_in_bands_is_that_without(
    name: str, checkpointed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = VALUES[name].replace(**_FIXED, initializer_range=0.5)
    x = contracts.batch(config, predictions=4)
    y = {features.MLM: np.arange(12, dtype="int32").reshape(3, 4)}
    steps = []
    for least in (1, 32):
        monkeypatch.setattr(local_attention, "_LEAST", least)
        task = contracts.as_trained(MaskedLM(BertEncoder(config)))
        task.encoder.checkpoint_gradients(checkpointed)
        steps.append(step_of(task, (x, y, None)))
    (logs, gradients), (expected_logs, expected) = steps
    assert logs == pytest.approx(expected_logs, abs=1e-5)
    for path, gradient in expected.items():
        np.testing.assert_allclose(gradients[path], gradient, atol=2e-5, err_msg=path)


@pytest.mark.parametrize("name", [*VALUES, *_IN_BANDS], indirect=True)
def test_dropout_with_checkpointing_drops_the_same_numbers(name: str) -> None:
    config = VALUES[name].replace(dropout=0.3, attention_dropout=0.2, initializer_range=0.5)
    x = contracts.batch(config, predictions=2)
    y = {features.MLM: np.ones((3, 2), "int32")}
    steps = []
    for is_on in (False, True):
        keras.utils.set_random_seed(5)
        task = MaskedLM(BertEncoder(config))
        task.encoder.checkpoint_gradients(is_on)
        steps.append(step_of(task, (x, y, None))[1])
    plain, checkpointed = steps
    for path, gradient in plain.items():
        np.testing.assert_allclose(checkpointed[path], gradient, atol=2e-5, err_msg=path)


@pytest.mark.parametrize("name", [*VALUES, *_IN_BANDS], indirect=True)
def test_half_precision_is_close(name: str) -> None:
    config, x = VALUES[name], contracts.batch(VALUES[name])
    whole = contracts.as_trained(BertEncoder(config))
    expected = numpy(whole(x))[_SEQUENCE]
    for policy, tolerance in (("mixed_bfloat16", 0.15), ("mixed_float16", 0.02)):
        half = contracts.as_trained(BertEncoder(config, dtype=policy))
        found = numpy(half(x))[_SEQUENCE].astype("float32")
        is_real = x[features.PADDING_MASK] == 1
        assert np.abs(found - expected)[is_real].max() < tolerance * np.abs(expected).max(), policy


@pytest.mark.parametrize("name", [*VALUES, *_IN_BANDS], indirect=True)
def test_adapters_merge(name: str) -> None:
    encoder, x = contracts.as_trained(BertEncoder(VALUES[name])), contracts.batch(VALUES[name])
    before = numpy(encoder(x))[_SEQUENCE]
    encoder.enable_lora(2, layers=("query", "key", "value", "intermediate"))
    np.testing.assert_allclose(numpy(encoder(x))[_SEQUENCE], before, atol=1e-5)
    for weight in encoder.trainable_weights:
        weight.assign(np.full(weight.shape, 0.05))
    expected = numpy(encoder(x))[_SEQUENCE]
    assert np.abs(expected - before).max() > 1e-4
    encoder.merge_lora()
    np.testing.assert_allclose(numpy(encoder(x))[_SEQUENCE], expected, atol=1e-5)


@pytest.mark.parametrize("name", [*VALUES, *_IN_BANDS], indirect=True)
def test_heads_are_pruned_or_refused_by_name(name: str) -> None:
    encoder, x = contracts.as_trained(BertEncoder(VALUES[name])), contracts.batch(VALUES[name])
    config = encoder.config
    if config.key_value_heads < config.num_heads or config.attention_positions in (
        "alibi",
        "buckets",
    ):
        with pytest.raises(ValueError, match="Heads cannot be pruned with grouped keys"):
            encoder.prune_heads({0: [1]})
        return
    pruned = encoder.prune_heads({0: [1]})
    kernel = encoder.blocks[0].attention.output_projection.kernel
    values = numpy(kernel).copy()
    values[config.head_size : 2 * config.head_size] = 0.0
    kernel.assign(values)
    np.testing.assert_allclose(numpy(pruned(x))[_SEQUENCE], numpy(encoder(x))[_SEQUENCE], atol=1e-5)


@pytest.mark.parametrize("name", VALUES, indirect=True)
def test_files_open_again(name: str, tmp_path: Path) -> None:
    task = contracts.as_trained(MaskedLM(BertEncoder(VALUES[name])))
    x = contracts.inputs_of(task)
    expected = numpy(task(x))[features.MLM]
    task.save(tmp_path / "task.keras")
    task.save_to_preset(tmp_path / "folder")
    loaded: Any = keras.models.load_model(tmp_path / "task.keras")
    np.testing.assert_array_equal(numpy(loaded(x))[features.MLM], expected)
    opened: Any = load_checkpoint(tmp_path / "folder")
    assert opened.encoder.config == VALUES[name]
    np.testing.assert_array_equal(numpy(opened(x))[features.MLM], expected)
    clone: Any = keras.models.clone_model(task)
    clone.set_weights(task.get_weights())
    np.testing.assert_array_equal(numpy(clone(x))[features.MLM], expected)


def test_layers_that_change_their_kind_are_not_kept() -> None:
    encoder = BertEncoder(VALUES["window"])
    assert len(encoder.keep_layers(2).blocks) == 2
    with pytest.raises(ValueError, match="Local and global layers alternate"):
        encoder.keep_layers([1, 2])
    with pytest.raises(ValueError, match="first layer"):
        BertEncoder(VALUES["like_modernbert"].replace(window=None)).keep_layers([1, 2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position_embedding": "relative_key", "attention_positions": "alibi"}, "beside a rel"),
        ({"attention_positions": "rotary", "hidden_size": 6}, "even size"),
        ({"attention_positions": "buckets", "position_buckets": 5}, "even number"),
        ({"attention_positions": "disentangled", "position_buckets": 300}, "`max_distance` than"),
        ({"attention_positions": "disentangled", "position_buckets": 3}, "4 `position_buckets`"),
        ({"global_every": 2, "global_offset": 2}, "less than `global_every`"),
        ({"first_norm": False}, "`first_norm` must be true"),
        ({"num_key_value_heads": 3}, "must divide `num_heads`"),
        ({"attention_positions": "alibi", "pruned_heads": ((0,), ())}, "cannot be pruned"),
    ],
)
def test_values_that_contradict_each_other(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TINY.replace(**changes)
