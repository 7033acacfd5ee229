"""The training of one seed: continuation with identical bytes, steps, precision, frozen layers."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from bert_keras import Tokenizer
from bert_keras.errors import UsageError
from bert_keras.models import SequenceClassifier, compiling
from bert_keras.task_names import FINETUNING, FinetuningDefaults
from bert_keras.training import best_checkpoint, finetune_seed
from bert_keras.training.finetune import main
from bert_keras.training.finetune_data import Data
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.finetune_seed import open_best
from bert_keras.training.run_folder import QUICKTEST, recipe_of
from bert_keras.training.tasks import task_of
from tests import contracts, hub
from tests.processes import kill, start_training, wait_until

_EPOCHS = 6


def _command(recipe: str, folder: Path, *values: str) -> list[str]:
    return [recipe, "--quicktest", f"epochs={_EPOCHS}", f"out={folder}", *values]


@pytest.fixture(scope="module")
def whole(finetuning, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main(_command(finetuning("text_classification"), folder)) == 0
    return folder


def _intervals(folder: Path) -> int:
    log = folder / "seed-0" / "metrics.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def _check_same(folder: Path, whole: Path) -> None:
    assert _intervals(folder) == _EPOCHS
    for name in ("best/model.safetensors", "metrics.jsonl"):
        assert (folder / "seed-0" / name).read_bytes() == (whole / "seed-0" / name).read_bytes()
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    last = [max((run / "seed-0" / "checkpoints").iterdir()) for run in (folder, whole)]
    assert last[0].name == last[1].name
    for name in ("model.safetensors", "optimizer.safetensors", "seeds.safetensors"):
        # Variable names depend on the number of models in the process, so only values are compared.
        files = [load_file(checkpoint / name).values() for checkpoint in last]
        assert len(files[0]) > 0
        assert len({tuple(sorted(a.tobytes() for a in values)) for values in files}) == 1
    results = [json.loads((run / "seed-0" / "result.json").read_text()) for run in (folder, whole)]
    for key in ("seed", "metrics", "step", "steps"):
        assert results[0][key] == results[1][key]


def test_fit_of_text_with_the_same_values_is_the_same_training(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fit` with the recipe's values gives the same loss in every epoch."""
    recipe = recipe_of(whole)
    assert recipe is not None
    data = Data.read(recipe, task_of(recipe))
    shared = [field.name for field in dataclasses.fields(FINETUNING) if hasattr(recipe, field.name)]
    values = FinetuningDefaults(**{name: getattr(recipe, name) for name in shared})
    monkeypatch.setattr(compiling, "FINETUNING", values)
    keras.utils.set_random_seed(recipe.seed)
    task = SequenceClassifier.from_preset(
        recipe.encoder, labels=data.labels, dropout=recipe.dropout
    )
    history = task.fit(
        data.train.texts,
        data.train.targets,
        batch_size=recipe.batch_size,
        epochs=recipe.epochs,
        learning_rate=recipe.learning_rate,
        max_length=recipe.max_length,
        seed=recipe.seed,
        verbose=0,
    )
    lines = (whole / "seed-0" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    np.testing.assert_allclose(history.history["loss"], losses, atol=1e-5)


def test_a_killed_run_goes_on_exactly(finetuning, whole: Path, tmp_path: Path) -> None:
    """A run with dropout continues exactly after `kill -9`."""
    folder = tmp_path / "run"
    config = json.loads((whole / QUICKTEST / "encoder" / "config.json").read_text())
    assert config["hidden_dropout_prob"] > 0
    command = _command(finetuning("text_classification"), folder)
    with start_training("finetune", *command, folder=tmp_path) as process:
        wait_until(process, lambda: _intervals(folder) >= 2)
        kill(process)
    assert 0 < _intervals(folder) < _EPOCHS, "killed too late: this tests nothing"
    assert main(command) == 0
    _check_same(folder, whole)


class _Stop(best_checkpoint.KeepBest):
    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        if epoch == 3:
            signal.raise_signal(signal.SIGTERM)


def _interrupted(command: list[str], folder: Path, call: Callable) -> None:
    """Interrupt a run after its fourth logging interval, and continue it to the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bert_keras.training.finetune_seed.KeepBest", _Stop)
        done = call(main, *command)
    assert done.code == 143
    assert "Stopped by SIGTERM after a checkpoint; the same command goes on." in done.err
    assert _intervals(folder) == 4
    assert not (folder / "seed-0" / "result.json").exists()
    assert call(main, *command).code == 0


def test_a_signal_stops_after_a_checkpoint(
    finetuning, whole: Path, tmp_path: Path, call: Callable
) -> None:
    """A signal causes a checkpoint at once, and the interval of checkpoints has no effect."""
    folder = tmp_path / "run"
    _interrupted(
        _command(finetuning("text_classification"), folder, "checkpoint_every=3"), folder, call
    )
    _check_same(folder, whole)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="one backend for all ways to train")
@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("text_classification", ("lora=2", "class_weights=balanced")),
        ("text_classification", ("packing=true", "gradient_checkpointing=true")),
        ("text_classification", ("hidden=1",)),  # distillation from a generated teacher
        ("token_classification", ("crf=true", "unfreeze_every=2")),
        ("retrieval", ("precision=mixed_bfloat16",)),
    ],
    ids=str,
)
def test_every_way_to_train_goes_on_exactly(
    task: str, values: tuple[str, ...], finetuning, tmp_path: Path, call: Callable
) -> None:
    folders = tmp_path / "whole", tmp_path / "run"
    commands = [_command(finetuning(task), folder, *values) for folder in folders]
    assert call(main, *commands[0]).code == 0
    _interrupted(commands[1], folders[1], call)
    _check_same(folders[1], folders[0])


def test_steps_patience_and_frozen_encoders(finetuning, tmp_path: Path, call: Callable) -> None:
    """Steps are limited by the batches; patience ends the run; a frozen encoder stays the same."""
    values = ("evaluations=10", "epochs=3", "freeze=true", "learning_rate=1e-9", "patience=2")
    values = (*values, "precision=mixed_bfloat16", "metric=accuracy")
    done = call(main, finetuning("text_classification"), "--quicktest", "out=run", *values)
    assert done.code == 0, done.err
    folder = tmp_path / "run"
    result = json.loads((folder / "seed-0" / "result.json").read_text())
    assert result["steps"] == 3  # of 6: step 1 was best, and patience=2 ended the run
    assert result["step"] == 1
    before = load_file(folder / QUICKTEST / "encoder" / "model.safetensors")
    after = load_file(folder / "model.safetensors")
    kept = [name for name in after if name.removeprefix("bert.") in before]
    assert len(kept) == len(before)
    for name in kept:
        np.testing.assert_array_equal(after[name], before[name.removeprefix("bert.")])
    best = open_best(folder / "seed-0", "mixed_bfloat16")
    assert isinstance(best, SequenceClassifier)
    assert best.encoder.dtype_policy.name == "mixed_bfloat16"


def test_each_layer_has_its_rate(finetuning, tmp_path: Path, call: Callable) -> None:
    """With a decay near 0, the pooler is trained and the embeddings stay the same."""
    values = ("weight_decay=0", "layer_decay=1e-4", "epochs=1", "out=run")
    done = call(main, finetuning("multi_label_classification"), "--quicktest", *values)
    assert done.code == 0, done.err
    before = load_file(tmp_path / "run" / QUICKTEST / "encoder" / "model.safetensors")
    after = load_file(tmp_path / "run" / "model.safetensors")

    def moved(name: str) -> float:
        return float(np.abs(after[f"bert.{name}"] - before[name]).max())

    assert moved("embeddings.word_embeddings.weight") < 1e-6
    assert moved("pooler.dense.weight") > 1e-4


def test_an_unknown_metric_is_said_once_and_can_be_corrected(
    finetuning, tmp_path: Path, call: Callable
) -> None:
    command = (finetuning("token_classification"), "--quicktest", "out=run", "epochs=1")
    done = call(main, *command, "metric=acuracy")
    assert done.code == 2
    assert "error: metric must be one of f1, precision, recall" in done.err
    assert not (tmp_path / "run" / "seed-0" / "metrics.jsonl").exists()  # no training began
    done = call(main, *command, "metric=recall")
    assert done.code == 0, done.err
    assert "**recall: " in (tmp_path / "run" / "report.md").read_text()


# === The model of a fine-tuning run: its encoder, its head, its teacher.


def test_a_name_of_a_preset_is_an_encoder_and_a_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`encoder=` and `teacher=` accept a preset name and open the published weights."""
    hub.offline_cache(tmp_path, monkeypatch)
    recipe = FinetuneRecipe(
        task="text_classification", encoder=hub.NAME, teacher=hub.NAME, max_length=8
    )
    encoder = finetune_seed.open_encoder(recipe)
    contracts.assert_same_weights(encoder, hub.published().encoder)
    tokenizer = Tokenizer.from_preset(recipe.encoder)
    task = SequenceClassifier(encoder, 2)
    with pytest.raises(UsageError, match=f"teacher={hub.NAME}: .*Pretrainer"):
        finetune_seed.distiller_of(recipe, task, tokenizer)


def test_a_task_is_built_by_the_values_of_its_recipe(finetuned) -> None:
    recipe = recipe_of(finetuned("text_classification"))
    assert recipe is not None
    tokenizer = finetune_seed.tokenizer_of(recipe)

    def build(**values: object) -> SequenceClassifier:
        changed = dataclasses.replace(recipe, **values)
        labels = ["bad", "good"]
        task = finetune_seed.build_task(changed, task_of(changed), labels, tokenizer)
        assert isinstance(task, SequenceClassifier)
        return task

    task, frozen, adapted = build(), build(freeze=True), build(lora=2)
    contracts.assert_same_weights(task.encoder, finetune_seed.open_encoder(recipe))
    assert task.encoder.trainable_variables
    assert not frozen.encoder.trainable_variables
    assert len(frozen.trainable_variables) > 0
    assert adapted.count_params() > task.count_params()
    with pytest.raises(UsageError, match=r"encoder=.*max_length"):
        build(max_length=10_000)


def test_a_dry_run_reads_no_weights(finetuned) -> None:
    recipe = recipe_of(finetuned("text_classification"))
    assert recipe is not None
    tokenizer = finetune_seed.tokenizer_of(recipe)
    labels = ["bad", "good"]
    task = finetune_seed.build_task(recipe, task_of(recipe), labels, tokenizer, load_weights=False)
    whole = finetune_seed.build_task(recipe, task_of(recipe), labels, tokenizer)
    assert task.count_params() == whole.count_params()
    with pytest.raises(AssertionError):
        contracts.assert_same_weights(task.encoder, whole.encoder)
