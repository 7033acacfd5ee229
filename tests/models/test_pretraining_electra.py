"""ELECTRA's pretraining task: a generator and a discriminator."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    ElectraPretrainer,
    MaskedLM,
    ReplacedTokenDetector,
    features,
    load_checkpoint,
    save_checkpoint,
)
from tests import contracts, reference
from tests.contracts import TINY, numpy

CONFIG = TINY.replace(hidden_size=16, embedding_size=8, num_heads=4, pooler=False, family="electra")


def batch(config=CONFIG, **sizes: int) -> tuple[dict[str, np.ndarray], dict, dict]:
    """Return inputs, labels and weights. The tokens to predict are masked."""
    x = contracts.batch(config, predictions=3, **sizes)
    positions = x[features.MASK_POSITIONS]
    y = {
        "mlm": np.take_along_axis(x[features.TOKEN_IDS], positions, axis=1),
        "rtd": x[features.TOKEN_IDS].copy(),
    }
    np.put_along_axis(x[features.TOKEN_IDS], positions, 4, axis=1)
    weights = {
        "mlm": (positions > 0).astype("float32"),
        "rtd": x[features.PADDING_MASK].astype("float32"),
    }
    return x, y, weights


def test_contract(tmp_path):
    config = CONFIG.replace(num_layers=1, dropout=0.0, attention_dropout=0.0)
    contracts.check_task(ElectraPretrainer, config, tmp_path)


def test_format(tmp_path):
    contracts.check_format(
        ElectraPretrainer(BertEncoder(CONFIG), generator_size=0.5), batch()[0], tmp_path
    )


@pytest.mark.parametrize("generator_size", [0.25, 0.5, 1.0])
def test_equals_its_parts(generator_size: float):
    """Outputs equal those of the generator, and of the discriminator on the generated tokens."""
    encoder = BertEncoder(CONFIG)
    task = contracts.as_trained(ElectraPretrainer(encoder, generator_size=generator_size))
    x, _, _ = batch()
    found = numpy(task(x))
    generator, discriminator = task.to_generator(), task.to_discriminator()
    assert generator.encoder.config.num_heads == 4 * generator_size
    assert discriminator.encoder is encoder
    mlm = reference.numpy_outputs(generator, x)["mlm"]
    np.testing.assert_allclose(found["mlm"], mlm, rtol=0, atol=reference.TOLERANCE)
    logits, seen = found["rtd"][..., 0], found["rtd"][..., 1].astype(int)
    read = {name: x[name] for name in contracts.inputs_of(encoder)} | {features.TOKEN_IDS: seen}
    rtd = reference.numpy_outputs(discriminator, read)["rtd"][..., 0]
    np.testing.assert_allclose(logits, rtd, rtol=0, atol=reference.TOLERANCE)
    changed = seen != x[features.TOKEN_IDS]
    masked = np.zeros_like(changed)
    np.put_along_axis(masked, x[features.MASK_POSITIONS], True, axis=1)
    masked[:, 0] = False
    assert changed.any()
    assert not (changed & ~masked).any()


def test_losses_are_those_of_the_paper():
    task = contracts.as_trained(ElectraPretrainer(BertEncoder(CONFIG), rtd_weight=7.0))
    task.compile(keras.optimizers.SGD(0.0), **task.loss_and_metrics())
    x, y, weights = batch()
    outputs = numpy(task(x))
    z, replaced = outputs["rtd"][..., 0], outputs["rtd"][..., 1] != y["rtd"]
    entropy = np.where(replaced, np.logaddexp(0, -z), np.logaddexp(0, z))
    real = weights["rtd"]
    rtd = (entropy * real).sum() / real.sum()
    likelihood = np.take_along_axis(outputs["mlm"], y["mlm"][..., None], -1)[..., 0]
    likelihood = likelihood - np.log(np.exp(outputs["mlm"]).sum(-1))
    mlm = -(likelihood * weights["mlm"]).sum() / weights["mlm"].sum()
    logs: Any = task.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    found = [logs[name] for name in ("mlm_loss", "rtd_loss", "loss")]
    np.testing.assert_allclose(found, [mlm, rtd, mlm + 7.0 * rtd], rtol=1e-5)
    right = ((z > 0) == replaced) * real
    np.testing.assert_allclose(logs["rtd_accuracy"], right.sum() / real.sum(), rtol=1e-5)
    np.testing.assert_allclose(logs["rtd_share"], (replaced * real).sum() / real.sum(), rtol=1e-5)


def test_learns_both():
    """The generator learns the masked tokens, and the encoder learns which tokens were replaced."""
    keras.utils.set_random_seed(0)
    config = CONFIG.replace(num_layers=1, dropout=0.0, attention_dropout=0.0)
    task = ElectraPretrainer(BertEncoder(config), generator_size=0.5, rtd_weight=10.0)
    task.compile(keras.optimizers.AdamW(1e-2), **task.loss_and_metrics())
    x, y, weights = batch(config, length=12, rows=8)
    first: Any = task.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    repeated = [{k: np.concatenate([v] * 20) for k, v in part.items()} for part in (x, y, weights)]
    task.fit(*repeated[:2], sample_weight=repeated[2], batch_size=8, epochs=12, verbose=0)
    last: Any = task.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    assert first["mlm_loss"] > 3 > 0.5 > last["mlm_loss"]
    assert first["rtd_loss"] > 0.5 > 0.2 > last["rtd_loss"]


def test_the_generator_learns_nothing_from_the_detector():
    """No gradient flows through the sampled tokens. The shared tables learn from both parts."""
    config = CONFIG.replace(dropout=0.0, attention_dropout=0.0)
    task = contracts.as_trained(ElectraPretrainer(BertEncoder(config)))
    before = contracts.weights(task)
    loss = task.loss_and_metrics()
    loss["loss_weights"]["mlm"] = 0.0
    task.compile(keras.optimizers.SGD(1.0), **loss)
    x, y, weights = batch(config)
    task.fit(x, y, sample_weight=weights, batch_size=3, verbose=0)
    moved = {
        path for path, values in contracts.weights(task).items() if (values != before[path]).any()
    }
    assert not any(path.startswith(("generator/", "mlm/")) for path in moved)
    assert {"embeddings/token/embeddings", "rtd/dense/kernel"} <= moved


def test_parts_are_what_was_published(tmp_path, transformers):
    """Hugging Face's classes open the saved generator and discriminator with equal outputs."""
    import torch

    config = CONFIG.replace(layer_norm_epsilon=1e-12)
    task = contracts.as_trained(ElectraPretrainer(BertEncoder(config)))
    x, _, _ = batch()
    theirs = {
        "input_ids": torch.tensor(x[features.TOKEN_IDS]),
        "token_type_ids": torch.tensor(x[features.SEGMENT_IDS]),
        "attention_mask": torch.tensor(x[features.PADDING_MASK]),
    }
    for part, name in (
        (task.to_generator(), "ElectraForMaskedLM"),
        (task.to_discriminator(), "ElectraForPreTraining"),
    ):
        save_checkpoint(part, tmp_path / name)
        model = getattr(transformers, name).from_pretrained(tmp_path / name).eval()
        with torch.no_grad():
            logits = model(**theirs).logits.numpy()
        if isinstance(part, MaskedLM):
            logits = np.take_along_axis(logits, x[features.MASK_POSITIONS][..., None], axis=1)
            found = numpy(part(x))["mlm"]
        else:
            inputs = {key: x[key] for key in contracts.inputs_of(part)}
            found = numpy(part(inputs))["rtd"][..., 0]
        np.testing.assert_allclose(found, logits, rtol=0, atol=1e-5)


def test_parts_open_from_the_whole(tmp_path):
    task = contracts.as_trained(ElectraPretrainer(BertEncoder(CONFIG)))
    save_checkpoint(task, tmp_path)
    assert isinstance(load_checkpoint(tmp_path), ElectraPretrainer)
    contracts.assert_same_weights(BertEncoder.from_preset(tmp_path), task.encoder)
    unused = ("generator", "mlm")
    detector = ReplacedTokenDetector.from_preset(tmp_path, allow_unused=unused)
    contracts.assert_same_weights(detector, task.to_discriminator())


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"generator_size": 0}, "must be above 0 and at most 1"),
        ({"num_unique_layers": 1}, {}, "without shared blocks, without pruned heads"),
        ({"pruned_heads": ((1,), ())}, {}, "without shared blocks, without pruned heads"),
        ({"position_embedding": "relative_key"}, {}, "with positions in a table alone"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict, options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        ElectraPretrainer(BertEncoder(CONFIG.replace(**changes)), **options)
