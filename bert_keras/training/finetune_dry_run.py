"""Dry run of a fine-tuning: its examples, steps, memory and time before it starts.

The model is built without values (`setup.build_shapes`): it may be larger than the machine.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Column, Table

from bert_keras import escaping
from bert_keras.config import BertConfig
from bert_keras.models import BertEncoder, Task
from bert_keras.task_names import FINETUNING
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.best_checkpoint import checked_selection_metric, measure
from bert_keras.training.dry_run import (
    EFFICIENCY,
    FLOAT,
    activation_bytes,
    add_costs,
    files_of_steps,
    matrix_product_speed,
    products_of,
)
from bert_keras.training.finetune_data import Data, unknown_note
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.finetune_report import STEPS
from bert_keras.training.finetune_seed import build_task, distiller_of, tokenizer_of
from bert_keras.training.run_folder import FinetuneFolder
from bert_keras.training.setup import build_shapes
from bert_keras.training.tasks import FinetuningTask, task_of

_SAMPLE = 1_000  # examples to tokenise
_MEASURED = 16  # validation examples to measure, for the names of the metrics
_SHOWN = 8  # names of labels to print
_SMALL, _SMALL_LAYERS = 8, 4  # width and layers of the model that is measured for those names


@dataclasses.dataclass(frozen=True)
class FinetunePlan:
    """Estimates of a fine-tuning run.

    Attributes:
        examples: number of training examples, and number of validation examples.
        labels: names of the labels; None for a task without labels.
        lengths: tokens of the rows of a sample.
        steps: steps of an epoch.
        batch: rows of a batch; fewer than `batch_size` where there are no more.
        rate: highest learning rate.
        parameters: number of parameters of the encoder.
        memory: bytes of weights, gradients, moments and activations.
        seconds: time of the training with all seeds, without evaluations.
        note: message on text that is [UNK]; "" if it is negligible.
    """

    examples: tuple[int, int]
    labels: list[str] | None
    lengths: np.ndarray
    steps: int
    batch: int
    rate: float
    parameters: int
    memory: int
    seconds: float
    note: str = ""


def plan(recipe: FinetuneRecipe, data: Data | None = None) -> FinetunePlan:
    """Estimate a run from its files, the tokens of a sample, and the encoder's config.

    Args:
        recipe: recipe of the run.
        data: examples of its files, if they were read before.

    Raises:
        UsageError: values of the recipe that do not fit the files or the encoder, as the run would
            refuse them before its first step.
        DataError: a bad row; names file and line.
        ArtifactError: no such encoder or teacher.
    """
    finetuning = task_of(recipe)
    data = data or Data.read(recipe, finetuning)
    tokenizer = tokenizer_of(recipe)
    task = build_without_values(recipe, finetuning, data, tokenizer)
    encoder = task.encoder
    if recipe.metric and not _is_of_an_entity_type(recipe.metric, data.labels):
        _check_metric(recipe, finetuning, data, tokenizer, encoder.config)
    lengths, rows = _lengths(recipe, finetuning, data, tokenizer, encoder)
    per_batch: float = recipe.batch_size
    if recipe.packing:  # as many rows of max_length as hold about batch_size examples
        share = float(lengths.mean()) / recipe.max_length
        per_batch = max(1, round(recipe.batch_size * share)) / share
    steps = math.ceil(rows / per_batch)
    batch = min(recipe.batch_size, rows)
    config = encoder.config
    # Forward and backward: six operations for each product and token; frozen blocks have two.
    passes = 2 if recipe.freeze else 6
    products = products_of(encoder.blocks, config, round(lengths.mean()))
    operations = passes * products * lengths.mean() * rows * recipe.epochs * recipe.seeds
    return FinetunePlan(
        (len(data.train), len(data.validation)),
        data.labels,
        lengths,
        steps,
        batch,
        recipe.learning_rate or FINETUNING.learning_rate_of(recipe.task, config.hidden_size),
        encoder.count_params(),
        _memory(recipe, encoder, batch, int(np.percentile(lengths, 95))),
        operations / (matrix_product_speed() * EFFICIENCY),
        unknown_note(recipe, finetuning, data, tokenizer),
    )


def build_without_values(
    recipe: FinetuneRecipe, finetuning: FinetuningTask, data: Data, tokenizer: Tokenizer
) -> Task:
    """Build the model of the run from configs alone, and its teacher, which must fit.

    Raises:
        UsageError: values of the recipe that do not fit the encoder or the teacher.
        ArtifactError: no such encoder or teacher.
    """

    def build() -> Task:
        """Build the models of the run."""
        task = build_task(recipe, finetuning, data.labels, tokenizer, load_weights=False)
        if recipe.teacher:
            distiller_of(recipe, task, tokenizer, load_weights=False)
        return task

    return build_shapes(build)


def _check_metric(
    recipe: FinetuneRecipe,
    finetuning: FinetuningTask,
    data: Data,
    tokenizer: Tokenizer,
    config: BertConfig,
) -> None:
    """Check the name of the metric: a small model of the same task measures a few examples.

    Raises:
        UsageError: the task has no metric of that name.
    """
    part = finetuning.take(data.validation, range(min(len(data.validation), _MEASURED)))
    task = finetuning.build(BertEncoder(small_config(config)), data.labels)
    checked_selection_metric(recipe, measure(finetuning, task, tokenizer, part).metrics)


def small_config(config: BertConfig) -> BertConfig:
    """Return a config of the same kind with small sizes, but for the tables of ids."""
    layers = min(config.num_layers, _SMALL_LAYERS)
    return config.replace(
        hidden_size=_SMALL,
        embedding_size=_SMALL,
        intermediate_size=_SMALL,
        num_heads=1,
        num_key_value_heads=1,
        num_layers=layers,
        num_unique_layers=layers,
        pruned_heads=(),
    )


def _is_of_an_entity_type(metric: str, tags: list[str] | None) -> bool:
    """Return whether a metric is of one type of entity, which a few examples may not have."""
    types = {tag.partition("-")[2] for tag in tags or ()} - {""}
    return metric.rpartition("_")[0] in types


def _lengths(
    recipe: FinetuneRecipe,
    finetuning: FinetuningTask,
    data: Data,
    tokenizer: Tokenizer,
    encoder: Any,
) -> tuple[np.ndarray, int]:
    """Return the lengths of a sample's rows in tokens, and an estimate of the number of rows."""
    count = min(len(data.train), _SAMPLE)
    numbers = np.linspace(0, len(data.train) - 1, count).astype(int)
    sample = finetuning.examples(
        tokenizer,
        finetuning.take(data.train, numbers.tolist()),
        data.labels,
        segments=encoder.config.num_segments > 0,
        batch_size=1,
        seed=recipe.data_seed,
    )
    lengths = np.asarray(sample.lengths)
    return lengths, round(len(lengths) / count * len(data.train))


def _memory(recipe: FinetuneRecipe, encoder: Any, batch: int, length: int) -> int:
    """Return bytes of weights, gradients and moments, and of activations of a long batch."""
    copies = 1 if recipe.freeze or recipe.lora else 4
    activations = activation_bytes(recipe, encoder.config, batch, length)
    return int(copies * FLOAT * encoder.count_params() + activations)


def files_of_run(recipe: FinetuneRecipe) -> list[str]:
    """Return what a run writes into its folder, files and folders, in the order of writing."""
    folder, finetuning = FinetuneFolder(recipe), task_of(recipe)
    seeds = [folder.of_seed(recipe.seed + number).name for number in range(recipe.seeds)]
    if len(seeds) > _SHOWN:
        seeds = [seeds[0], "…", seeds[-1]]
    left_out = [
        name
        for name, is_there in (
            ("grid", False),  # of tried values
            ("confusion matrix", finetuning.has_confusion),
            ("reliability diagram", finetuning.has_confidences),
        )
        if not is_there
    ]
    last = files_of_steps([step for step in STEPS if step.name not in left_out])
    last = [
        f"predictions.{finetuning.extension}" if "predictions." in name else name for name in last
    ]
    return [folder.run.name, *seeds, *last]


def print_plan(recipe: FinetuneRecipe, *, console: Console | None = None) -> None:
    """Print what `bert-keras finetune` would do with this recipe; write nothing.

    Raises:
        UsageError, DataError, ArtifactError: as for `plan`.
    """
    estimates = plan(recipe)
    table = table_of_facts(recipe, estimates)
    seeds = f", {recipe.seeds} seeds" if recipe.seeds > 1 else ""
    table.add_row(
        "steps",
        f"{estimates.steps * recipe.epochs * recipe.seeds:,}",
        f"{estimates.steps:,} an epoch, {recipe.epochs} epoch{'s' if recipe.epochs > 1 else ''}, "
        f"batches of {estimates.batch}{seeds}",
    )
    is_default = "the default of this task and encoder"
    remark = "at the end of the warm-up" if recipe.learning_rate else is_default
    table.add_row("learning rate", f"{estimates.rate:g}", remark)
    add_costs(table, estimates.memory, estimates.seconds)
    table.add_row(
        "run folder", recipe.out or f"runs/{recipe.name}", ", ".join(files_of_run(recipe))
    )
    console = console or escaping.console()
    console.print(table)
    if estimates.note:
        console.print(estimates.note)


def table_of_facts(recipe: FinetuneRecipe, estimates: FinetunePlan) -> Table:
    """Return the table of a plan with its first rows: task, examples, labels, encoder, lengths."""
    columns = "", *(Column(name, overflow="fold") for name in ("value", "remark"))
    table = Table(*columns, title=f"{recipe.name}: the plan; nothing was written")
    train, validation = estimates.examples
    table.add_row("task", recipe.task, f"precision {recipe.precision}")
    drawn = (
        f"{recipe.train}, drawn by data_seed={recipe.data_seed}" if recipe.rows else recipe.train
    )
    table.add_row("training examples", f"{train:,}", drawn)
    table.add_row(
        "validation examples",
        f"{validation:,}",
        recipe.dev or f"{recipe.validation_split:.0%} of train",
    )
    if estimates.labels is not None:
        more = ", …" if len(estimates.labels) > _SHOWN else ""
        table.add_row(
            "labels", f"{len(estimates.labels)}", ", ".join(estimates.labels[:_SHOWN]) + more
        )
    table.add_row("encoder", f"{estimates.parameters:,} parameters", recipe.encoder)
    full = float((estimates.lengths >= recipe.max_length).mean())
    table.add_row(
        "tokens of a row",
        f"median {np.median(estimates.lengths):.0f}, longest {estimates.lengths.max():,}",
        f"{full:.1%} of the rows reach max_length={recipe.max_length}"
        + ("; a long text has several rows" if recipe.long_texts == "windows" else ""),
    )
    return table
