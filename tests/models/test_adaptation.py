"""LoRA: adapters start at zero, only they are trained, and merged files hold plain kernels.

Pruning.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    Distiller,
    ElectraPretrainer,
    SequenceClassifier,
    features,
    load_checkpoint,
    save_checkpoint,
)
from bert_keras import optimizer as make_optimizer
from bert_keras.errors import UsageError
from bert_keras.models import adaptation
from bert_keras.resume import TrainingCheckpoints
from tests import contracts, reference
from tests.contracts import TINY, numpy

_LABELS = {"label": np.array([0, 1, 1])}


def _encoder(**options: Any) -> BertEncoder:
    return contracts.as_trained(BertEncoder(TINY, **options))


def _adapted(encoder: BertEncoder, **options: Any) -> BertEncoder:
    """Return an encoder with LoRA adapters of large random weights, which change its outputs."""
    encoder.enable_lora(3, **options)
    generator = np.random.default_rng(1)
    for weight in encoder.trainable_weights:
        weight.assign(generator.normal(0.0, 0.3, weight.shape))
    return encoder


def _fit(task: Any, epochs: int = 3, **options: Any) -> None:
    task.compile(make_optimizer(0.02, total_steps=100, **options), **task.loss_and_metrics())
    task.fit(contracts.inputs_of(task), _LABELS, epochs=epochs, batch_size=3, verbose=0)


# All projections of an encoder without gates.
_ALL = tuple(name for name in adaptation.LAYERS if name != "gate")


@pytest.mark.parametrize("layers", [("query", "value"), _ALL])
def test_it_begins_as_nothing(layers: tuple[str, ...]):
    """New adapters do not change the outputs, and only their weights are trainable."""
    encoder = _encoder()
    x, plain = contracts.inputs_of(encoder), {weight.path for weight in encoder.weights}
    expected, size = numpy(encoder(x)), encoder.count_params()
    encoder.enable_lora(3, layers=layers)
    contracts.assert_close(numpy(encoder(x)), expected)
    shapes = {"intermediate": 8 + 16, "output": 16 + 8}
    adapters = 2 * 3 * sum(shapes.get(layer, 8 + 8) for layer in layers)
    assert encoder.count_params() == size + adapters
    assert sum(np.prod(w.shape) for w in encoder.trainable_weights) == adapters
    assert len(encoder.trainable_weights) == 2 * 2 * len(layers)
    # Each weight has its own path within the block.
    found = {weight.path for weight in encoder.trainable_weights}
    assert found == {weight.path for weight in encoder.weights} - plain
    assert "block_1/attention/query/lora_kernel_a" in found


def test_only_adapters_and_the_head_learn():
    task = contracts.as_trained(SequenceClassifier(_encoder(), 2))
    task.encoder.enable_lora(2, alpha=8.0)
    before = contracts.weights(task)
    _fit(task)
    for path, value in contracts.weights(task).items():
        learns = "lora_kernel" in path or path.startswith("label")
        assert (value != before[path]).any() == learns, path


def test_gradients_are_those_of_the_whole_kernel():
    """Gradients of A and B follow from the gradient of the merged kernel by the chain rule.

    The expected values are computed in NumPy. No gradient is kept for the next step.
    """
    config = TINY.replace(dropout=0.0, attention_dropout=0.0)
    tasks = [contracts.as_trained(SequenceClassifier(BertEncoder(config), 2)) for _ in range(2)]
    adapted, whole = tasks
    _adapted(adapted.encoder, alpha=6.0, layers=["key"])
    for weight, plain in zip(whole.weights, adaptation.plain_weights(adapted), strict=True):
        weight.assign(plain.value)
    for task in tasks:
        task.compile(keras.optimizers.SGD(1.0), **task.loss_and_metrics())
    x, before = contracts.inputs_of(whole), contracts.weights(adapted)
    merged = contracts.weights(whole)
    whole.fit(x, _LABELS, batch_size=3, verbose=0)
    after = contracts.weights(whole)
    for _ in range(2):
        for weight in adapted.weights:
            weight.assign(before[weight.path])
        adapted.fit(x, _LABELS, batch_size=3, verbose=0)
        found = contracts.weights(adapted)
        for block in range(2):
            name = f"block_{block}/attention/key"
            gradient = merged[f"{name}/kernel"] - after[f"{name}/kernel"]
            a, b = before[f"{name}/lora_kernel_a"], before[f"{name}/lora_kernel_b"]
            for path, expected in (("a", gradient @ b.T), ("b", a.T @ gradient)):
                step = before[f"{name}/lora_kernel_{path}"] - found[f"{name}/lora_kernel_{path}"]
                np.testing.assert_allclose(step, 2.0 * expected, atol=1e-5)
                assert np.abs(step).max() > 1e-3


@pytest.mark.parametrize("policy", contracts.POLICIES[:2])
def test_merged_equals_unmerged(policy: str):
    encoder = _encoder(dtype=policy)
    x = contracts.inputs_of(encoder)
    plain = numpy(encoder(x))["sequence_output"]
    trainable = [weight.path for weight in encoder.trainable_weights]
    _adapted(encoder, alpha=2.0)
    expected, predicted = numpy(encoder(x)), encoder.predict(x, verbose=0)
    assert np.abs(np.subtract(expected["sequence_output"], plain, dtype="float32")).max() > 0.05
    encoder.merge_lora()
    # Merging adds numbers that are rounded to the policy's precision.
    tolerance = 1e-6 if policy == "float32" else 0.1
    for found in (numpy(encoder(x)), encoder.predict(x, verbose=0)):
        for name, values in found.items():
            for each in (expected, predicted):
                close = np.asarray(each[name], "float32")
                np.testing.assert_allclose(values.astype("float32"), close, atol=tolerance)
    assert [weight.path for weight in encoder.weights] == [w.path for w in _encoder().weights]
    assert [weight.path for weight in encoder.trainable_weights] == trainable
    encoder.enable_lora(2)  # adapters can be enabled again after merging
    assert len(encoder.trainable_weights) == 2 * 2 * 2


def test_what_was_frozen_before_stays_frozen():
    encoder = BertEncoder(TINY.replace(position_embedding="sinusoidal"))
    encoder.blocks[0].feedforward.trainable = False
    before = {weight.path: weight.trainable for weight in encoder.weights}
    encoder.enable_lora(2)
    encoder.merge_lora()
    assert {weight.path: weight.trainable for weight in encoder.weights} == before
    assert len(set(before.values())) == 2


_FORMATS = ["hugging_face", "keras_hub"]
if importlib.util.find_spec("tensorflow"):
    _FORMATS.append("google_tf1")


@pytest.mark.parametrize("format", _FORMATS)
@pytest.mark.parametrize("merge", [False, True])
def test_a_folder_is_that_of_a_plain_encoder(merge: bool, format: str, tmp_path):  # noqa: A002
    encoder = contracts.as_trained(BertEncoder(TINY.replace(activation="gelu_tanh")))
    _adapted(encoder, layers=_ALL)
    x = contracts.inputs_of(encoder)
    expected = numpy(encoder(x))
    if merge:
        encoder.merge_lora()
    before = contracts.weights(encoder)
    save_checkpoint(encoder, tmp_path, format=format)
    assert contracts.weights(encoder).keys() == before.keys()  # saving does not change the encoder
    contracts.assert_close(numpy(encoder(x)), expected, 1e-5)
    opened = load_checkpoint(tmp_path, plain=True)
    assert isinstance(opened, BertEncoder)
    assert [w.path for w in opened.weights] == [w.path for w in BertEncoder(TINY).weights]
    contracts.assert_close(numpy(opened(x)), expected, 1e-5)


def test_merging_after_loading_leaves_frozen_what_was_frozen_before(tmp_path):
    encoder = _encoder()
    encoder.blocks[0].feedforward.trainable = False
    encoder.blocks[1].attention.query.bias.trainable = False
    before = [weight.path for weight in encoder.trainable_weights]
    _adapted(encoder)
    encoder.save(tmp_path / "encoder.keras")
    loaded: Any = keras.saving.load_model(tmp_path / "encoder.keras")
    assert [weight.path for weight in loaded.trainable_weights] != before
    loaded.merge_lora()
    assert [weight.path for weight in loaded.trainable_weights] == before


def test_training_goes_on_from_a_file_as_without_it(tmp_path):
    """Training that goes on from a file gives the bits of training without a break.

    Four epochs are compared with two epochs, a file, and two more epochs. Some parts are frozen.
    """

    def begun() -> Any:
        keras.utils.set_random_seed(3)
        config = TINY.replace(dropout=0.0, attention_dropout=0.0)
        task = contracts.as_trained(SequenceClassifier(BertEncoder(config), 2, dropout=0.0))
        task.encoder.blocks[1].trainable = False
        task.encoder.enable_lora(2)
        task.encoder.blocks[0].feedforward.trainable = True
        task.compile(make_optimizer(0.02, total_steps=100), **task.loss_and_metrics())
        return task

    def fit(task: Any) -> None:
        x = contracts.inputs_of(task)
        task.fit(x, _LABELS, epochs=2, batch_size=3, shuffle=False, verbose=0)

    whole, interrupted = begun(), begun()
    start = contracts.weights(whole)
    for _ in range(2):
        fit(whole)
    fit(interrupted)
    interrupted.save(tmp_path / "task.keras")
    loaded: Any = keras.saving.load_model(tmp_path / "task.keras")
    assert int(loaded.optimizer.iterations) == 2
    fit(loaded)
    contracts.assert_same_weights(loaded, whole)
    assert int(loaded.optimizer.iterations) == 4
    moved = {
        path for path, value in contracts.weights(loaded).items() if (value != start[path]).any()
    }
    assert moved == {weight.path for weight in loaded.trainable_weights}


def test_a_quantised_kernel_is_not_merged():
    encoder = _adapted(_encoder())
    encoder.quantize("int8", filters=lambda layer: isinstance(layer, keras.layers.Dense))
    before = contracts.weights(encoder)
    with pytest.raises(ValueError, match=r"without rounding again.*block_0/attention/query"):
        encoder.merge_lora()
    assert contracts.weights(encoder).keys() == before.keys()


def test_smaller_encoders_have_the_adapters_in_them():
    encoder = _adapted(_encoder())
    x = contracts.inputs_of(encoder)
    contracts.assert_close(numpy(encoder.keep_layers(2)(x)), numpy(encoder(x)), 1e-5)


def test_the_training_checkpoint_has_them(tmp_path):
    def new_task(seed: int) -> Any:
        keras.utils.set_random_seed(seed)
        task = SequenceClassifier(BertEncoder(TINY), 2)
        task.encoder.enable_lora(2)
        _fit(task, epochs=0, layer_decay=0.9)
        return task

    def train(task: Any) -> None:
        x = contracts.inputs_of(task)
        task.fit(x, _LABELS, batch_size=3, shuffle=False, verbose=0)

    whole, resumed = new_task(1), new_task(2)
    train(whole)
    TrainingCheckpoints(tmp_path).save(whole, {"step": 1})
    train(whole)
    assert TrainingCheckpoints(tmp_path).restore(resumed) == {"step": 1}
    train(resumed)
    contracts.assert_same_weights(resumed, whole)
    learned = [w for w in whole.encoder.trainable_weights if w.name == "lora_kernel_b"]
    assert len(learned) == 4
    assert all(numpy(weight).any() for weight in learned)


@pytest.mark.parametrize(
    ("rank", "options", "message"),
    [
        (0, {}, "`rank` must be a whole number of at least 1. Received: rank=0"),
        (1.5, {}, "Received: rank=1.5"),
        (2, {"alpha": 0.0}, "`alpha` must be above 0. Received: alpha=0.0"),
        (2, {"layers": ("query", "norm")}, r"some of query, key, .* Received: .*'norm'"),
        (2, {"layers": ()}, r"Received: layers=\(\)"),
        (2, {"layers": "query"}, "Received: layers='query'"),
    ],
)
def test_bad_values(rank: Any, options: dict[str, Any], message: str):
    encoder = BertEncoder(TINY)
    with pytest.raises(ValueError, match=message):
        encoder.enable_lora(rank, **options)
    assert len(encoder.trainable_weights) == len(encoder.weights)


def test_what_cannot_be_done():
    encoder = BertEncoder(TINY)
    with pytest.raises(ValueError, match="no adapters: enable_lora"):
        encoder.merge_lora()
    encoder.enable_lora(2)
    with pytest.raises(ValueError, match="adapters already: merge_lora"):
        encoder.enable_lora(2)
    encoder.merge_lora()
    table: Any = encoder.embeddings.token
    table.enable_lora(2)
    with pytest.raises(
        UsageError, match=r"embeddings/token: a .* can be neither merged nor written"
    ):
        encoder.merge_lora()


def test_a_rank_of_numpy_is_stored_as_plain_int():
    encoder = BertEncoder(TINY)
    rank: Any = np.int64(2)
    encoder.enable_lora(rank)
    json.dumps(encoder.get_config())
    assert type(encoder.blocks[0].attention.query.lora_rank) is int


# === Pruned encoders: exact outputs, smaller weights, and a config that records the heads ===


_CONFIG = TINY.replace(hidden_size=12, num_heads=3, num_layers=3)


@pytest.fixture(scope="module")
def encoder() -> BertEncoder:
    return contracts.as_trained(BertEncoder(_CONFIG))


def _masked(encoder: BertEncoder, heads: dict[int, list[int]]) -> BertEncoder:
    """Return a copy of the encoder whose output projection ignores the given heads."""
    other = BertEncoder(encoder.config)
    other.set_weights(encoder.get_weights())
    size = encoder.config.head_size
    for block, numbers in heads.items():
        kernel = other.blocks[block].attention.output_projection.kernel
        values = numpy(kernel).copy()
        for head in numbers:
            values[head * size : (head + 1) * size] = 0.0
        kernel.assign(values)
    return other


@pytest.mark.parametrize("heads", [{0: [1]}, {0: [0, 2], 2: [1]}, {}])
def test_pruning_is_exact(heads: dict[int, list[int]], encoder: BertEncoder, tmp_path):
    pruned = encoder.prune_heads(heads)
    x = contracts.inputs_of(encoder)
    contracts.assert_close(numpy(pruned(x)), numpy(_masked(encoder, heads)(x)), 1e-5)
    gone = sum(map(len, heads.values()))
    of_a_head = 4 * 12 * 4 + 3 * 4  # four kernels and three biases
    assert pruned.count_params() == encoder.count_params() - gone * of_a_head
    pruned.save_to_preset(tmp_path)
    opened = load_checkpoint(tmp_path)
    assert opened.config == pruned.config
    contracts.assert_same_weights(opened, pruned)


def test_pruning_twice_is_pruning_once(encoder: BertEncoder):
    """A second pruning takes the original numbers of the heads."""
    twice = encoder.prune_heads({0: [0], 1: [1]}).prune_heads({0: [2]})
    contracts.assert_same_weights(twice, encoder.prune_heads({0: [0, 2], 1: [1]}))


def test_pruned_attention_looks_as_before(encoder: BertEncoder):
    """The remaining heads keep their attention probabilities."""
    x = contracts.inputs_of(encoder)
    pruned = encoder.prune_heads({0: [1]}).with_outputs(attentions=True)
    before = numpy(encoder.with_outputs(attentions=True)(x)[features.ATTENTIONS][0])
    found = numpy(pruned(x)[features.ATTENTIONS][0])
    np.testing.assert_allclose(found, before[:, [0, 2]], atol=1e-5)


@pytest.mark.parametrize("heads", [{3: [0]}, {-1: [0]}, {0: [3]}, {0: [0, 1, 2]}])
def test_what_cannot_be_pruned(heads: dict[int, list[int]], encoder: BertEncoder):
    with pytest.raises(ValueError, match=r"block numbers from 0 to 2|heads from 0 to 2"):
        encoder.prune_heads(heads)


def test_the_first_layers(encoder: BertEncoder):
    """`keep_layers(2)` returns an encoder with the outputs of the first two layers."""
    x = contracts.inputs_of(encoder)
    states = numpy(encoder.with_outputs(hidden_states=True)(x)[features.HIDDEN_STATES])
    shallow = encoder.keep_layers(2)
    assert shallow.config.num_layers == 2
    found = numpy(shallow(x))[features.SEQUENCE_OUTPUT]
    np.testing.assert_allclose(found, states[2], atol=1e-5)


def test_chosen_layers(encoder: BertEncoder, tmp_path):
    pruned = encoder.prune_heads({2: [0]})
    shallow = pruned.keep_layers([0, 2])
    assert shallow.config.pruned_heads == ((), (0,))
    weights, before = contracts.weights(shallow), contracts.weights(pruned)
    for path, values in weights.items():
        old = path.replace("block_1/", "block_2/")
        assert values.tobytes() == before[old].tobytes(), path
    x = contracts.inputs_of(shallow)
    assert reference.difference(numpy(shallow(x)), reference.numpy_outputs(shallow, x)) < 1e-5
    shallow.save_to_preset(tmp_path)
    contracts.assert_same_weights(load_checkpoint(tmp_path), shallow)


def _addresses(model: Any) -> set[int]:
    """Return the places of the weights in memory."""
    values = [weight.value for weight in model.weights]
    if keras.backend.backend() == "torch":
        return {value.data_ptr() for value in values}
    return {value.unsafe_buffer_pointer() for value in values}


_DERIVED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "keep_layers": lambda: ((whole := BertEncoder(_CONFIG)), whole.keep_layers([0, 2])),
    "prune_heads": lambda: ((whole := BertEncoder(_CONFIG)), whole.prune_heads({0: [1]})),
    "to_generator": lambda: (
        (whole := ElectraPretrainer(BertEncoder(_CONFIG.replace(pooler=False)))),
        whole.to_generator(),
    ),
}


@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="variables of this backend share no memory"
)
@pytest.mark.parametrize("name", _DERIVED)
def test_a_copy_has_memory_of_its_own(name: str):
    whole, copy = _DERIVED[name]()
    assert not _addresses(whole) & _addresses(copy)


def test_a_smaller_encoder_learns_from_the_whole_one(encoder: BertEncoder):
    """One training step of a student that was copied from its teacher."""
    teacher = SequenceClassifier(encoder, 2)
    student = SequenceClassifier(encoder.keep_layers([0, 2]), 2)
    distiller = Distiller(student, teacher)
    distiller.compile("sgd", **distiller.loss_and_metrics())
    before = contracts.weights(teacher)
    x = contracts.inputs_of(teacher, 4)
    distiller.fit(x, _LABELS, verbose=0)
    for path, values in contracts.weights(teacher).items():
        assert values.tobytes() == before[path].tobytes(), path


@pytest.mark.parametrize("layers", [0, 4, [], [0, 3], [-1], [1, 0], [0, 0]])
def test_layers_that_cannot_be_kept(layers, encoder: BertEncoder):
    with pytest.raises(ValueError, match="`layers` must be a number from 1 to 3"):
        encoder.keep_layers(layers)


def test_shared_blocks_have_no_layers_of_their_own():
    with pytest.raises(ValueError, match="The layers share blocks"):
        BertEncoder(TINY.replace(num_unique_layers=1)).keep_layers(1)


def test_layers_as_numbers_of_numpy():
    encoder = BertEncoder(TINY)
    for layers in (np.int64(1), np.array([0])):
        shallow = encoder.keep_layers(layers)  # pyright: ignore[reportArgumentType]
        assert type(shallow.config.num_layers) is int
        assert shallow.config.num_layers == 1
