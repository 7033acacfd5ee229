"""Dry run of a pretraining: counts, memory and time before it starts.

Counts are those of the model, which is built without values (`setup.build_shapes`), so that a model
may be larger than the machine.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from bert_keras import escaping
from bert_keras.config import BertConfig
from bert_keras.data import Corpus, demo_documents, read
from bert_keras.errors import Step
from bert_keras.layers import compared_keys
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import last_steps, machine
from bert_keras.training.prepare import find_prepared, open_tokenizer
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.pretrain_setup import build_task, check_validation_split
from bert_keras.training.progress import clock
from bert_keras.training.recipe_base import RunRecipe
from bert_keras.training.run_folder import PretrainFolder
from bert_keras.training.setup import build_shapes

_BYTES_PER_TOKEN = 4.5  # of English in a vocabulary learned from it
_GZIP = 2.8  # bytes of text for a byte of its file
# Share of the speed of matrix products that a training step reaches, roughly.
EFFICIENCY = 0.5
FLOAT = 4  # bytes
_LONG = 2048  # tokens; of longer rows no scores are kept, see `kernels.query_blocks`


@dataclasses.dataclass(frozen=True)
class PretrainPlan:
    """Estimates of a pretraining run: sizes in bytes and tokens, time in seconds."""

    text_bytes: int
    vocab_size: int
    parameters: int
    tokens_read: int
    epochs: float
    memory: int
    seconds: float
    attention: str  # the kernel in training


def plan(recipe: PretrainRecipe) -> PretrainPlan:
    """Estimate a run without reading the text.

    Raises:
        UsageError: values that the run refuses.
        ArtifactError: init_checkpoint= is missing or damaged.
    """
    vocab_size = _vocab_size(recipe)
    task = build_shapes(lambda: build_task(recipe, vocab_size, load_weights=False))
    text_bytes = _text_bytes(recipe)
    prepared = _prepared(recipe)
    text_tokens = prepared.num_tokens if prepared else text_bytes / _BYTES_PER_TOKEN
    tokens_read = recipe.steps * recipe.batch_size * recipe.sequence_length
    flops = recipe.steps * _step_flops(recipe, task)
    return PretrainPlan(
        text_bytes=text_bytes,
        vocab_size=vocab_size,
        parameters=task.count_params(),
        tokens_read=tokens_read,
        epochs=tokens_read / max(text_tokens, 1),
        memory=_memory(recipe, task),
        seconds=flops / (matrix_product_speed() * EFFICIENCY),
        attention=task.encoder.describe_kernels()["training"],
    )


def print_plan(
    recipe: PretrainRecipe, *, is_quicktest: bool = False, console: Console | None = None
) -> None:
    """Print what `bert-keras pretrain` would do with this recipe, in a quick test or not.

    Raises:
        DataError: the run would have too little text to evaluate on.
    """
    estimates = plan(recipe)
    check_validation_split(recipe)
    columns = "", *(Column(name, overflow="fold") for name in ("value", "remark"))
    table = Table(*columns, title=f"{recipe.name}: the plan; nothing was written")
    text = f"{estimates.text_bytes / 1e6:,.1f} MB"
    table.add_row("text", text, recipe.corpus)
    learned = f"{recipe.tokenizer_model}, learned from the text"
    origin = recipe.vocab or ("prepared" if _prepared(recipe) else learned)
    table.add_row("vocabulary", f"{estimates.vocab_size:,} pieces", origin)
    table.add_row(
        "model", f"{estimates.parameters:,} parameters", recipe.init_checkpoint or _sizes(recipe)
    )
    table.add_row(
        "examples",
        f"{recipe.steps * recipe.batch_size:,} of {recipe.sequence_length} tokens",
        f"{recipe.steps:,} steps of {recipe.batch_size}, {recipe.loss}, {recipe.masking}",
    )
    epochs = f"about {estimates.epochs:,.1f}"
    table.add_row("passes over the text", epochs, f"{estimates.tokens_read:,} tokens read")
    table.add_row("attention", "in training", Text(estimates.attention))
    add_costs(table, estimates.memory, estimates.seconds)
    folder = recipe.out or ("a temporary folder" if is_quicktest else f"runs/{recipe.name}")
    table.add_row("run folder", folder, ", ".join(files_of_run(recipe)))
    if _exports(recipe):
        path = f"saved_models/{recipe.name}/<version>"
        part = "the discriminator's encoder" if recipe.loss == "rtd" else ""
        place = "in the run folder" if is_quicktest else ""
        takes = "" if _takes_text(recipe) else "takes ids, because the tokenizer has no graph"
        table.add_row("SavedModel", path, ", ".join(filter(None, (part, place, takes))))
    (console or escaping.console()).print(table)


def files_of_run(recipe: PretrainRecipe) -> list[str]:
    """Return what a run writes into its folder, files and folders, in the order of writing."""
    folder = PretrainFolder(recipe)
    demo = ["demo.txt"] if recipe.corpus == "demo" else []
    corpus = [] if _prepared(recipe) else [*demo, folder.corpus.name]
    files = folder.training
    training = [path.name for path in (files.checkpoints, files.metrics, files.speed)]
    left_out = set()
    if not _exports(recipe):
        left_out.add("SavedModel")
    if importlib.util.find_spec("matplotlib") is None:
        left_out.add("picture")
    if not recipe.tensorboard:
        left_out.add("TensorBoard")
    last = files_of_steps([step for step in last_steps.STEPS if step.name not in left_out])
    last = [name for name in last if name != "saved_models"]  # has a row of its own in the plan
    return [folder.run.name, *corpus, *training, *last]


def files_of_steps(steps: Sequence[Step]) -> list[str]:
    """Return what the last steps of a training write; a model or a tokenizer is one name."""
    names: list[str] = []
    for step in steps:
        names += [step.name] if step.name in ("model", "tokenizer") else step.writes
    return names


def _exports(recipe: PretrainRecipe) -> bool:
    """Return whether the run will export a SavedModel: asked for, and TensorFlow Text is there."""
    return recipe.export and importlib.util.find_spec("tensorflow_text") is not None


def _takes_text(recipe: PretrainRecipe) -> bool:
    """Return whether a SavedModel can hold the tokenizer of the run, as all that are trained."""
    if prepared := find_prepared(recipe.corpus):
        return Tokenizer.from_preset(prepared).has_graph
    return not recipe.vocab or open_tokenizer(recipe.vocab, recipe.lowercase).has_graph


def _sizes(recipe: PretrainRecipe) -> str:
    """Return the name of the configuration, with the sizes that the recipe changes."""
    changed = ", ".join(f"{name}={value}" for name, value in recipe.own_sizes.items())
    return f"{recipe.config}, but {changed}" if changed else recipe.config


def _text_bytes(recipe: PretrainRecipe) -> int:
    """Return the bytes of the text: counted for the demo and a prepared corpus, else estimated."""
    if recipe.corpus == "demo":
        return sum(len(text) + 1 for document in demo_documents() for text in document)
    if prepared := _prepared(recipe):
        return prepared.manifest["counts"]["text_bytes"]
    documents = read(recipe.corpus)
    return sum(
        int(size * (_GZIP if file.suffix == ".gz" else 1))
        for file, size in zip(documents.files, documents.sizes, strict=True)
    )


def _prepared(recipe: PretrainRecipe) -> Corpus | None:
    """Return the corpus of `bert-keras prepare` that the recipe names; None without one."""
    folder = find_prepared(recipe.corpus)
    return Corpus.open(folder / "train") if folder else None


def _vocab_size(recipe: PretrainRecipe) -> int:
    """Return the vocabulary's size: of the prepared corpus, of `vocab=`, or that to be learned."""
    if prepared := _prepared(recipe):
        return prepared.manifest["tokenizer"]["vocab_size"]
    if recipe.vocab:
        return open_tokenizer(recipe.vocab, recipe.lowercase).vocab_size
    return recipe.vocab_size


def _step_flops(recipe: PretrainRecipe, task: Any) -> float:
    """Return multiplications and additions of the matrix products, forward and backward."""
    tokens = recipe.batch_size * recipe.sequence_length
    blocks = products_of(task.encoder.blocks, task.encoder.config, recipe.sequence_length)
    if recipe.loss == "rtd":
        narrow = task.encoder.config.narrowed(recipe.generator_size)
        blocks += products_of(task.generator.blocks, narrow, recipe.sequence_length)
    return 6.0 * tokens * (blocks + recipe.mask_rate * _matrices(task.mlm))


def _memory(recipe: PretrainRecipe, task: Any) -> int:
    """Return bytes of weights, gradients, two moments, activations and logits."""
    config, tokens = task.encoder.config, recipe.batch_size * recipe.sequence_length
    logits = 3 * tokens * recipe.mask_rate * config.vocab_size / recipe.loss_chunks
    activations = activation_bytes(recipe, config, recipe.batch_size, recipe.sequence_length)
    return int(4 * FLOAT * task.count_params() + activations + FLOAT * logits)


# === Estimates that fine-tuning shares ===


def products_of(blocks: Sequence[Any], config: BertConfig, length: int) -> float:
    """Return the multiplications of an encoder's blocks for one token, forward.

    Args:
        blocks: blocks with weights of their own; several layers may share one.
        config: config of the encoder.
        length: number of tokens in a row.
    """
    weights = sum(map(_matrices, blocks)) * config.num_layers / len(blocks)
    return weights + 2 * sum(_keys_of_layers(config, length)) * config.hidden_size


def _keys_of_layers(config: BertConfig, length: int) -> list[int]:
    """Return for each layer the number of keys that a query is compared with."""
    window = config.band_window
    local = length if window is None else compared_keys(length, window)
    return [local if config.is_local(layer) else length for layer in range(config.num_layers)]


def _matrices(layer: Any) -> int:
    """Return the number of weights in a layer's matrices, each a multiplication for a token."""
    return sum(math.prod(weight.shape) for weight in layer.weights if len(weight.shape) == 2)


def activation_bytes(recipe: RunRecipe, config: BertConfig, rows: int, length: int) -> float:
    """Return bytes of the activations that a step with rows of so many tokens keeps.

    With gradient checkpointing these are the activations of one block, and the inputs of all.
    Of long rows, without attention dropout, only what distances add to the scores is counted.
    PyTorch on a CPU keeps the probabilities too where it learns distances.
    """
    keeps_all = length <= _LONG or config.attention_dropout > 0
    keys = _keys_of_layers(config, length)
    # Numbers for each query and head: of each layer, and of all layers together.
    scores = [5 * count if count < length or keeps_all else 0 for count in keys]
    shared = 0
    if not keeps_all and config.attention_positions in ("alibi", "buckets"):
        shared = length
    elif not keeps_all and config.learns_distances:
        scores = [2 * length] * config.num_layers  # what a layer adds, and its gradient
    of_all = config.num_heads * shared
    of_one = 20 * config.hidden_size + 3 * config.intermediate_size
    kept = of_all + config.num_layers * of_one + config.num_heads * sum(scores)
    if recipe.gradient_checkpointing:
        of_one += config.num_heads * max(scores)
        kept = of_all + of_one + config.num_layers * config.hidden_size
    width = FLOAT if recipe.precision == "float32" else FLOAT // 2
    return width * rows * length * kept


def add_costs(table: Table, memory: int, seconds: float) -> None:
    """Add the rows of memory and time to the table of a plan."""
    there = machine.facts()["memory_bytes"]
    remark = Text("beside the backend's own")
    if isinstance(there, int) and memory > there:
        remark = Text(f"more than this machine has, {machine.gibibytes(there)}", "red")
    table.add_row("memory", f"about {machine.gibibytes(memory)}", remark)
    remark = "on this CPU, from its matrix product"
    table.add_row("training time", f"about {clock(seconds)}", remark)


def matrix_product_speed() -> float:
    """Return the floating-point operations per second of NumPy here, the best of three."""
    size = 1024
    a = np.ones((size, size), np.float32)
    best = float("inf")
    for _ in range(4):  # the first one warms up
        start = perf_counter()
        np.matmul(a, a)
        best = min(best, perf_counter() - start)
    return 2.0 * size**3 / best
