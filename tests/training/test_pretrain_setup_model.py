"""The model of a pretraining, as its recipe describes it."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, TokenClassifier, Tokenizer, load_checkpoint
from bert_keras.errors import UsageError
from bert_keras.models import ChunkedTask, ElectraPretrainer, MaskedLM, PackedTask, Pretrainer
from bert_keras.optimization import Lamb
from bert_keras.training.dry_run import plan
from bert_keras.training.prepare import open_tokenizer
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.pretrain_setup import build_task, start_from_frequencies, task_to_train
from tests import contracts, hub
from tests.contracts import TINY

_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]


def recipe(**values: object) -> PretrainRecipe:
    return PretrainRecipe(
        **{
            "corpus": "demo",
            "steps": 10,
            "log_every": 5,
            "config": "bert_tiny_uncased",
            **values,
        }
    )


def test_sizes_come_from_preset_recipe_and_vocabulary() -> None:
    values = {"dropout": 0.2, "max_positions": 64, "sequence_length": 32}
    config = build_task(recipe(initializer_range=0.05, **values), 50).encoder.config
    assert (config.vocab_size, config.max_positions, config.num_layers) == (50, 64, 2)
    assert (config.dropout, config.attention_dropout) == (0.2, 0.1)
    assert config.initializer_range == 0.05


@pytest.mark.parametrize(
    ("loss", "kind", "pooler"),
    [
        ("nsp", Pretrainer, True),
        ("sop", Pretrainer, True),
        ("mlm", MaskedLM, False),
        ("rtd", ElectraPretrainer, False),
    ],
)
def test_loss(loss: str, kind: type, pooler: bool) -> None:
    task = build_task(recipe(loss=loss), 50)
    assert isinstance(task, kind)
    assert task.encoder.config.pooler is pooler
    assert task.options.get("loss", loss) == loss
    assert task.encoder.config.family == ("electra" if loss == "rtd" else "bert")


def test_size_of_the_generator() -> None:
    task = build_task(recipe(loss="rtd", generator_size=0.5), 50)
    assert task.to_generator().encoder.config.hidden_size == 64


def test_optimizer() -> None:
    values = {
        "optimizer": "lamb",
        "gradient_accumulation_steps": 2,
        "ema_momentum": 0.9,
        "clip_norm": 0.0,
    }
    asked = recipe(warmup_steps=4, **values)
    optimizer = task_to_train(asked, build_task(asked, 50)).optimizer
    assert isinstance(optimizer, Lamb)
    assert optimizer.global_clipnorm is None
    assert (optimizer.gradient_accumulation_steps, optimizer.ema_momentum) == (2, 0.9)
    schedule = optimizer.get_config()["learning_rate"]["config"]
    assert (schedule["total_steps"], schedule["warmup_steps"]) == (5, 2)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({}, Pretrainer),
        ({"packed_length": 256}, PackedTask),
        ({"loss_chunks": 3}, ChunkedTask),
        ({"packed_length": 256, "loss_chunks": 3}, ChunkedTask),
    ],
)
def test_the_task_or_a_view_of_it_learns(values: dict, kind: type) -> None:
    asked = recipe(**values)
    task = build_task(asked, 50)
    model = task_to_train(asked, task)
    assert isinstance(model, kind)
    assert model.compiled
    names = {tensor.name for tensor in model.inputs}
    assert ("example_ids" in names) == ("packed_length" in values)
    assert {id(weight) for weight in model.weights} == {id(weight) for weight in task.weights}


def test_precision() -> None:
    task = build_task(recipe(precision="mixed_bfloat16"), 50)
    assert task.encoder.dtype_policy == keras.dtype_policies.get("mixed_bfloat16")
    assert {variable.dtype for variable in task.trainable_variables} == {"float32"}


def test_gradient_checkpointing() -> None:
    for on in (True, False):
        task = build_task(recipe(gradient_checkpointing=on), 50)
        assert [block.checkpoints_gradients for block in task.encoder.blocks] == [on, on]


@pytest.mark.parametrize("loss", ["nsp", "mlm"])
def test_a_head_that_sees_nothing_guesses_by_frequency(loss: str) -> None:
    task = build_task(recipe(loss=loss), 4)
    shares = np.array([0.0, 0.5, 0.25, 0.25])  # the first id is a special token

    with np.errstate(divide="ignore"):
        start_from_frequencies(task, np.log(shares))
    task.mlm.token_embedding.set_weights([np.zeros((4, 128), np.float32)])
    logits = task.mlm(np.zeros((1, 3, 128), np.float32), np.zeros((1, 1), np.int32))
    guessed = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[0, 0]
    np.testing.assert_allclose(guessed, np.array([0.25, 0.5, 0.25, 0.25]) / 1.25, rtol=1e-6)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Return a checkpoint with an MLM head and a tokenizer."""
    config = TINY.replace(vocab_size=50, max_positions=64)
    contracts.as_trained(MaskedLM(BertEncoder(config))).save_to_preset(tmp_path / "begun")
    Tokenizer(_PIECES).save_to_preset(tmp_path / "begun")
    return tmp_path / "begun"


@pytest.mark.parametrize("loss", ["mlm", "nsp", "sop"])
def test_going_on_from_a_checkpoint(begun: Path, loss: str) -> None:
    task = build_task(recipe(init_checkpoint=str(begun), loss=loss, sequence_length=32), 50)
    before = load_checkpoint(begun)
    assert isinstance(task, MaskedLM if loss == "mlm" else Pretrainer)
    contracts.assert_same_weights(task.encoder, before.encoder)
    bias = keras.ops.convert_to_numpy(task.mlm.bias)
    np.testing.assert_array_equal(bias, keras.ops.convert_to_numpy(before.mlm.bias))
    start_from_frequencies(task, np.zeros(50))  # a trained output bias is kept
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(task.mlm.bias), bias)


def test_going_on_from_a_padded_table(begun: Path) -> None:
    """A table with more rows than the vocabulary has entries is trained on, and stays as it is."""
    before = load_checkpoint(begun).resize_vocabulary(64)
    before.mlm.bias.assign(np.zeros(64))
    before.save_to_preset(begun)
    asked = recipe(init_checkpoint=str(begun), loss="mlm", sequence_length=32)
    assert plan(asked).vocab_size == 50
    task = build_task(asked, 50)
    assert task.encoder.config.vocab_size == 64
    start_from_frequencies(task, np.append(-np.inf, np.linspace(-5, -1, 49)))
    bias = keras.ops.convert_to_numpy(task.mlm.bias)
    assert np.ptp(bias[50:]) == 0.0
    assert bias[50] == bias[0] == bias.min() < bias[49]
    # A token that was added later takes a padded row.
    assert build_task(asked, 51).encoder.config.vocab_size == 64


def test_going_on_from_a_name_of_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`init_checkpoint=` accepts a preset name: it opens the published weights and vocabulary."""
    hub.offline_cache(tmp_path, monkeypatch)
    begun = recipe(init_checkpoint=hub.NAME, loss="nsp", sequence_length=8)
    tokenizer = open_tokenizer(begun.vocab, lowercase=True)
    assert tokenizer.vocab_size == len(hub.WORDS)
    contracts.assert_same_weights(build_task(begun, tokenizer.vocab_size), hub.published())


def test_heads_that_a_checkpoint_has_not_are_new(tmp_path: Path) -> None:
    encoder = BertEncoder(TINY.replace(vocab_size=50, max_positions=64, pooler=False))
    contracts.as_trained(TokenClassifier(encoder, 2)).save_to_preset(tmp_path)
    with pytest.raises(UsageError, match="Sentence pairs need a pooler"):
        build_task(recipe(init_checkpoint=str(tmp_path), loss="nsp", sequence_length=32), 50)
    (tmp_path / "bert_keras.json").unlink()  # this file says that the encoder has no pooler
    made = build_task(recipe(init_checkpoint=str(tmp_path), loss="nsp", sequence_length=32), 50)
    assert made.encoder.pooler is not None
    trained = {w.path: w for w in encoder.weights}
    for weight in made.encoder.weights:
        if "pooler" not in weight.path:
            found, wanted = (keras.ops.convert_to_numpy(w) for w in (weight, trained[weight.path]))
            np.testing.assert_array_equal(found, wanted)


def test_a_checkpoint_that_does_not_fit(begun: Path) -> None:
    with pytest.raises(UsageError, match=r"has 60 entries, .* table 50 rows\. .*resize_vocab"):
        build_task(recipe(init_checkpoint=str(begun), loss="mlm", sequence_length=32), 60)
    with pytest.raises(UsageError, match=r"a vocabulary of 50 and 64 positions\. .* of 40"):
        build_task(recipe(init_checkpoint=str(begun), loss="mlm", sequence_length=32), 40)
    with pytest.raises(UsageError, match="sequence_length=128"):
        build_task(recipe(init_checkpoint=str(begun), loss="mlm"), 50)
    with pytest.raises(UsageError, match="loss must be mlm, nsp or sop with init_checkpoint="):
        recipe(init_checkpoint=str(begun), loss="rtd")


def test_the_vocabulary_is_the_checkpoints(begun: Path) -> None:
    assert recipe(init_checkpoint=str(begun)).vocab == str(begun)
    assert recipe(init_checkpoint=str(begun), vocab="other").vocab == "other"
    assert plan(recipe(init_checkpoint=str(begun), sequence_length=32)).vocab_size == 50
