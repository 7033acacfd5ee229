"""Direct calls without the preparations of Keras give the outputs of `keras.Model`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras import BertEncoder, Distiller, MaskedLM, SequenceClassifier, optimizer
from bert_keras.layers import core
from tests import contracts
from tests.contracts import TINY, numpy

CONFIG = bk.BertConfig(
    vocab_size=40, hidden_size=8, num_layers=2, num_heads=2, intermediate_size=16, max_positions=12
)
IDS = np.random.default_rng(0).integers(5, 40, (3, 7)).astype("int32")
INPUTS = {
    "token_ids": IDS,
    "segment_ids": IDS % 2,
    "padding_mask": (np.arange(7) < np.array([[7], [4], [1]])).astype("int32"),
}
MODELS = {
    "encoder": lambda dtype: bk.BertEncoder(CONFIG, hidden_states=True, dtype=dtype),
    "view": lambda dtype: bk.BertEncoder(CONFIG, dtype=dtype).with_outputs(attentions=True),
    "classifier": lambda dtype: bk.SequenceClassifier(bk.BertEncoder(CONFIG, dtype=dtype), 3),
    "tagger": lambda dtype: bk.TokenClassifier(bk.BertEncoder(CONFIG, dtype=dtype), 3),
    "sentences": lambda dtype: bk.SentenceEncoder(bk.BertEncoder(CONFIG, dtype=dtype)),
}


def _outputs(model: keras.Model) -> list[np.ndarray]:
    found = keras.tree.flatten(model(INPUTS))
    assert found
    return [numpy(keras.ops.cast(each, "float32")) for each in found]


torch_alone = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="this backend compiles its models"
)


@torch_alone
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_answers(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS[name](dtype)
    found = _outputs(model)
    monkeypatch.setattr(core, "is_prepared", lambda *_: False)
    # In bfloat16, oneDNN's GELU and PyTorch's GELU round differently.
    atol = 1e-5 if dtype == "float32" else 0.05
    for one, other in zip(found, _outputs(model), strict=True):
        np.testing.assert_allclose(one, other, atol=atol)


@torch_alone
@pytest.mark.parametrize("training", [None, False, True])
def test_keras_prepares_the_model_alone(
    training: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = bk.BertEncoder(CONFIG)
    prepared, call = [], keras.layers.Layer.__call__

    def record(layer: Any, *inputs: Any, **options: Any) -> Any:
        prepared.append(layer)
        return call(layer, *inputs, **options)

    monkeypatch.setattr(keras.layers.Layer, "__call__", record)
    assert keras.tree.flatten(encoder(INPUTS, training=training))
    assert prepared == [encoder]


@torch_alone
def test_hooks_of_pytorch_are_called() -> None:
    encoder, seen = bk.BertEncoder(CONFIG), []
    block: Any = encoder.blocks[1]
    block.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    encoder(INPUTS)
    assert [tuple(output.shape) for output in seen] == [(3, 7, 8)]


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize("at", [0, 1])
def test_an_error_costs_no_weight(method: str, at: int) -> None:
    """A model keeps its weights if a step fails. Keras 3.15 on JAX would lose them."""

    class Failing(keras.utils.PyDataset):
        begun = False

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            if self.begun and index >= at:
                raise OSError("The file is gone.")
            return INPUTS, np.zeros(3, "int32")

    task: Any = contracts.as_trained(MODELS["classifier"]("float32"))
    task.compile(bk.optimizer(0.0, total_steps=5), **task.loss_and_metrics())
    data = Failing()
    getattr(task, method)(data, verbose=0)
    weights = contracts.weights(task)
    steps = int(task.optimizer.iterations)
    data.begun = True
    options = {"shuffle": False} if method == "fit" else {}
    with pytest.raises(Exception, match=r"The file is gone"):
        getattr(task, method)(data, verbose=0, **options)
    for path, values in contracts.weights(task).items():
        np.testing.assert_array_equal(values, weights[path])
    assert steps <= int(task.optimizer.iterations) <= steps + at
    assert np.isfinite(task.predict(INPUTS, verbose=0)["label"]).all()
    assert len(task.fit(INPUTS, np.zeros(3, "int32"), verbose=0).history["loss"]) == 1


# === A pooler that a task does not use stays unchanged and still belongs to the task ===


def _ids(variables: list[Any]) -> list[int]:
    return sorted(map(id, variables))


@pytest.fixture
def encoder() -> BertEncoder:
    return BertEncoder(TINY)


@pytest.fixture
def pooler(encoder: BertEncoder) -> list[Any]:
    assert encoder.pooler is not None
    return encoder.pooler.weights


def test_it_decays_on_no_backend_and_another_task_may_train_it(
    encoder: BertEncoder, pooler: list[Any]
) -> None:
    """Weight decay leaves an unused pooler unchanged, and a task that uses it trains it."""
    reader, task = SequenceClassifier(encoder, 2), MaskedLM(encoder)
    contracts.as_trained(reader)
    before = [contracts.numpy(weight).copy() for weight in pooler]
    task.compile(optimizer(0.1, total_steps=10, weight_decay=0.5), **task.loss_and_metrics())
    x = contracts.batch(TINY, predictions=2)
    task.fit(x, {"mlm": x["mask_positions"]}, verbose=0)  # pyright: ignore[reportArgumentType]
    contracts.assert_close(contracts.numpy(pooler), before)
    reader.compile(optimizer(0.1, total_steps=10), **reader.loss_and_metrics())
    reader.fit(contracts.inputs_of(reader), np.zeros(3), verbose=0)  # pyright: ignore[reportArgumentType]
    assert all((a != b).any() for a, b in zip(contracts.numpy(pooler), before, strict=True))


def test_who_reads_it_trains_it(encoder: BertEncoder, pooler: list[Any]) -> None:
    """The pooler is trainable in a task that uses it, and fixed in others."""
    reader = SequenceClassifier(encoder, 2)
    assert {id(weight) for weight in pooler} <= set(_ids(reader.trainable_weights))
    own = SequenceClassifier(encoder, 2, hidden_activation="tanh")
    assert _ids(own.non_trainable_weights) == _ids(pooler)
    assert all(weight.trainable for weight in pooler)


@pytest.mark.parametrize("names", ["weights", "variables"])
@pytest.mark.parametrize("is_distilled", [False, True], ids=["task", "distiller"])
def test_all_variables_are_of_one_kind(
    encoder: BertEncoder, pooler: list[Any], names: str, is_distilled: bool
) -> None:
    """Each variable is either trainable or not, and an unused pooler is not."""
    task: keras.Model = MaskedLM(encoder)
    if is_distilled:
        task = Distiller(task, MaskedLM(BertEncoder(TINY)))
    trained, others = (getattr(task, f"{kind}trainable_{names}") for kind in ("", "non_"))
    assert _ids([*trained, *others]) == _ids(getattr(task, names))
    assert {id(weight) for weight in pooler} <= set(_ids(others))


def test_a_fixed_encoder_stays_fixed(encoder: BertEncoder) -> None:
    task = MaskedLM(encoder)
    encoder.trainable = False
    assert not {id(weight) for weight in encoder.weights} & set(_ids(task.trainable_weights))
