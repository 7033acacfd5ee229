"""Fine-tuning with one seed: the model, its training, its best weights.

An interrupted training is resumed. A dry run builds the same model without values, so that it
refuses what the run refuses.
"""

from __future__ import annotations

import math
from pathlib import Path
from time import perf_counter
from typing import Any

from bert_keras import file_io
from bert_keras.checkpoints import open_checkpoint
from bert_keras.errors import ArtifactError, NumericError, UsageError
from bert_keras.loading import load_checkpoint, load_opened
from bert_keras.models import (
    BertEncoder,
    Distiller,
    FewShot,
    SentenceEncoder,
    SequenceClassifier,
    Task,
    checked_length,
    encoder_for,
)
from bert_keras.predictor import PredictorConfig
from bert_keras.task_names import FINETUNING
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import machine
from bert_keras.training.best_checkpoint import KeepBest
from bert_keras.training.finetune_data import Data, training_examples
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.run_folder import TrainingFiles
from bert_keras.training.setup import compile_for, set_seed_and_devices
from bert_keras.training.tasks import FinetuningTask
from bert_keras.training.training_loop import Fitting


def tokenizer_of(recipe: FinetuneRecipe) -> Tokenizer:
    """Return the tokenizer of the recipe's encoder.

    Raises:
        ArtifactError: there is none, or a damaged one.
    """
    try:
        return Tokenizer.from_preset(recipe.encoder)
    except ArtifactError as error:
        raise ArtifactError(f"encoder={recipe.encoder}: {error}") from error


def build_task(
    recipe: FinetuneRecipe,
    finetuning: FinetuningTask,
    labels: list[str] | None,
    tokenizer: Tokenizer,
    *,
    load_weights: bool = True,
) -> Task:
    """Build the task that a recipe trains, over its encoder.

    Args:
        recipe: names the encoder, and says which of its weights are trained.
        finetuning: task of the recipe.
        labels: names of the labels; None for a task without labels.
        tokenizer: tokenizer of the encoder.
        load_weights: False to read the config alone; the weights are then new.

    Raises:
        UsageError: encoder, tokenizer and values of the recipe do not fit together.
        ArtifactError: no such encoder, or a damaged one.
    """
    encoder = open_encoder(recipe, load_weights=load_weights)
    _check(recipe, encoder, tokenizer)
    encoder.trainable = not recipe.freeze
    if recipe.lora:
        encoder.enable_lora(recipe.lora)
    try:
        return finetuning.build(encoder, labels)
    except ValueError as error:
        raise UsageError(f"encoder={recipe.encoder}: {error}") from error


def open_encoder(recipe: FinetuneRecipe, *, load_weights: bool = True) -> BertEncoder:
    """Open the encoder of a recipe, with the layers that the recipe keeps.

    Raises:
        UsageError: there are no such layers.
        ArtifactError: no such encoder, or a damaged one.
    """
    # Adapters and frozen weights of the checkpoint are dropped: the recipe decides on them.
    encoder = BertEncoder.from_preset(
        recipe.encoder, dtype=recipe.precision, plain=True, load_weights=load_weights
    )
    if recipe.layers:
        try:
            numbers = [int(number) for number in recipe.layers.split(",")]
            encoder = encoder.keep_layers(numbers, copy_weights=load_weights)
        except ValueError as error:
            raise UsageError(f"layers={recipe.layers}: {error}") from error
    encoder.checkpoint_gradients(recipe.gradient_checkpointing)
    return encoder


def distiller_of(
    recipe: FinetuneRecipe, task: Task, tokenizer: Tokenizer, *, load_weights: bool = True
) -> Distiller:
    """Return the task as the student of the recipe's teacher.

    Raises:
        UsageError: the teacher does not fit the task or the tokenizer.
        ArtifactError: no such teacher, or a damaged one.
    """
    opened = open_checkpoint(recipe.teacher)
    is_encoder_for_pairs = opened.class_name == SentenceEncoder.__name__
    options: dict[str, Any] = {"dtype": recipe.precision, "load_weights": load_weights}
    if task.reads_apart and is_encoder_for_pairs:  # such runs save the encoder
        loss = task.options["loss"]
        teacher: Any = type(task).from_preset(recipe.teacher, loss=loss, **options)
    else:
        teacher = load_opened(opened, **options)
    if Tokenizer.from_preset(recipe.teacher) != tokenizer:
        raise UsageError(
            f"teacher={recipe.teacher}: its tokenizer differs from that of "
            f"encoder={recipe.encoder}. "
            "Choose a teacher with the same vocabulary and settings."
        )
    if not isinstance(teacher, Task):
        raise UsageError(
            f"teacher={recipe.teacher}: an encoder without a head, which gives no answers to learn "
            "from. Name a model that was fine-tuned for the task."
        )
    values = {"temperature": recipe.temperature, "alpha": recipe.alpha, "hidden": recipe.hidden}
    try:
        checked_length(recipe.max_length, teacher.encoder)
        return Distiller(task, teacher, **values)
    except ValueError as error:
        raise UsageError(f"teacher={recipe.teacher}: {error}") from error


def few_shot_of(recipe: FinetuneRecipe, task: Task, data: Data, tokenizer: Tokenizer) -> FewShot:
    """Return the view that trains a classifier on few examples.

    Raises:
        DataError: a label without examples to train on.
    """
    assert isinstance(task, SequenceClassifier)
    task.tokenizer = tokenizer
    task.predictor_config = PredictorConfig(recipe.max_length)
    return FewShot(task, data.train.texts, data.train.targets or ())


def _check(recipe: FinetuneRecipe, encoder: BertEncoder, tokenizer: Tokenizer) -> None:
    """Check that encoder, tokenizer and values fit together, before anything is computed."""
    try:
        encoder_for(encoder, tokenizer)
        checked_length(recipe.max_length, encoder)
    except ValueError as error:
        raise UsageError(f"encoder={recipe.encoder}: {error}") from error
    for name in ("layer_decay", "unfreeze_every", "lora"):
        if getattr(recipe, name) and recipe.freeze:
            raise UsageError(
                f"{name}={getattr(recipe, name):g} trains the encoder, which freeze=true keeps as "
                f"it is. Leave {name}= or freeze= out."
            )
    if (name := recipe.first_distillation_key) and not recipe.teacher:
        value = getattr(recipe, name)
        raise UsageError(
            f"{name}={value:g} needs a teacher to compare with. Name one with teacher=HANDLE, or "
            f"leave {name}= out."
        )
    if recipe.schedule == "slanted_triangular" and recipe.warmup:
        raise UsageError(
            "schedule=slanted_triangular has a warm-up of its own, so warmup must be 0. Received: "
            f"warmup={recipe.warmup:g}. Give warmup=0."
        )


# === Training with one seed ===


BEST, RESULT = "best", "result.json"
# State before the first step: the best metrics and their step, whether all answers were the same
# there, intervals without a gain, and the seconds spent on opening, measuring and writing the
# model.
_START = {"best": None, "best_step": 0, "constant": False, "waited": 0, "aside": 0.0}


def run_seed(
    recipe: FinetuneRecipe,
    finetuning: FinetuningTask,
    data: Data,
    tokenizer: Tokenizer,
    seed: int,
    folder: Path,
) -> dict[str, Any]:
    """Train with one seed, or resume an interrupted training; return its result.

    Args:
        recipe: recipe of the run.
        finetuning: task of the recipe.
        data: examples to train and to measure on.
        tokenizer: tokenizer of the encoder.
        seed: seed of new weights, dropout and the order of the examples.
        folder: folder of this seed. The result of a finished training is read from it.

    Returns:
        The content of `result.json`: the seed, the best metrics and their step, or the failure.

    Raises:
        Stopped: by a signal.
    """
    if (folder / RESULT).is_file():
        return file_io.read_object(folder / RESULT)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        state = _train(recipe, finetuning, data, tokenizer, seed, folder)
        result = {
            "seed": seed,
            "metrics": state["best"],
            "step": state["best_step"],
            "constant": state["constant"],
            "steps": state["step"],
            "seconds": state["seconds"],
            "training_seconds": state["seconds"] - state["aside"],
            "peak_memory": machine.peak_memory_bytes(),
        }
    except NumericError as error:
        result = {"seed": seed, "failed": str(error)}
    file_io.write_json(folder / RESULT, result)
    return result


def open_best(folder: Path, precision: str) -> Task:
    """Open the best model of a seed, in the precision that it was trained and measured in."""
    model = load_checkpoint(folder / BEST, dtype=precision)
    assert isinstance(model, Task)
    return model


def _train(
    recipe: FinetuneRecipe,
    finetuning: FinetuningTask,
    data: Data,
    tokenizer: Tokenizer,
    seed: int,
    folder: Path,
) -> dict[str, Any]:
    """Train with one seed from the last checkpoint on; return the state after the last step."""
    start = perf_counter()
    # === Model and batches ===
    set_seed_and_devices(seed)
    task = build_task(recipe, finetuning, data.labels, tokenizer)
    model: Any = task.packed() if recipe.packing else task
    if recipe.teacher:
        model = distiller_of(recipe, task, tokenizer)
    if recipe.examples_per_label:
        model = few_shot_of(recipe, task, data, tokenizer)
    opened = perf_counter() - start
    examples = training_examples(recipe, finetuning, data, tokenizer, task, seed)
    log_every = math.ceil(examples.num_batches() / recipe.evaluations)
    # The last interval is as long as the others, so the training may be some steps longer.
    intervals = math.ceil(recipe.epochs * examples.num_batches() / log_every)
    rate = recipe.learning_rate
    rate = rate or FINETUNING.learning_rate_of(recipe.task, task.encoder.config.hidden_size)
    total_steps = intervals * log_every
    compile_for(
        recipe,
        model,
        total_steps,
        warmup_steps=round(recipe.warmup * total_steps),
        learning_rate=rate,
        layer_decay=recipe.layer_decay or 1.0,
        unfreeze_every=recipe.unfreeze_every,
    )
    # === Resume ===
    fitting = Fitting(
        model,
        examples,
        files=TrainingFiles(folder),
        log_every=log_every,
        began=start,
        start=_START,
    )
    state, step = fitting.state, fitting.state["step"]
    state["aside"] += opened
    best = KeepBest(
        *(recipe, finetuning, data.validation, tokenizer, folder / BEST, log_every, state),
        fitting.show,
    )
    # === Training ===
    fitting.run(
        intervals,
        statistics=examples.statistics(),
        extra_state=lambda: best.state,
        callbacks=[best],
        checkpoint_every=recipe.checkpoint_every,
        workers=recipe.workers,
        note=_note(recipe, seed, step),
        later_steps=(recipe.seed + recipe.seeds - 1 - seed) * intervals * log_every,
        score_name=lambda: best.score_name,
        is_over=best.is_over,
    )
    return {**fitting.state_after(best.intervals), **best.state, "learning_rate": rate}


def _note(recipe: FinetuneRecipe, seed: int, step: int) -> str:
    """Return the line that is shown when training begins: seed, and the step it goes on from."""
    many = f" ({seed - recipe.seed + 1} of {recipe.seeds})" if recipe.seeds > 1 else ""
    return f"seed {seed}{many}" + (f": going on after step {step:,}" if step else "")
