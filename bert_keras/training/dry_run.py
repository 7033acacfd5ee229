"""Dry run: counts, memory and time of a run before it starts."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from bert_keras import escaping
from bert_keras.config import BertConfig
from bert_keras.data import Corpus, read
from bert_keras.errors import Step
from bert_keras.features import PAIR_LOSSES
from bert_keras.training import demo_corpus, last_steps, machine
from bert_keras.training.prepare import find_prepared, open_tokenizer
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.pretrain_setup import check_held_out
from bert_keras.training.progress import clock
from bert_keras.training.run_folder import PretrainFolder

_BYTES_PER_TOKEN = 4.5  # of English in a vocabulary learned from it
_GZIP = 2.8  # how much text packs
# Share of a machine's matrix product speed that a training step reaches, roughly.
EFFICIENCY = 0.5
_FLOAT = 4


@dataclasses.dataclass(frozen=True)
class Plan:
    """Estimates of a run. Bytes, tokens, seconds."""

    text_bytes: int
    vocab_size: int
    parameters: int
    tokens_read: int
    epochs: float
    memory: int
    seconds: float


def plan(recipe: PretrainRecipe) -> Plan:
    """Estimates without reading the text."""
    vocab_size = _vocab_size(recipe)
    config = _config(recipe, vocab_size)
    text_bytes = _text_bytes(recipe)
    prepared = _prepared(recipe)
    text_tokens = prepared.num_tokens if prepared else text_bytes / _BYTES_PER_TOKEN
    tokens_read = recipe.steps * recipe.batch_size * recipe.sequence_length
    epochs = tokens_read / max(text_tokens, 1)
    flops = recipe.steps * _step_flops(recipe, config)
    return Plan(
        text_bytes=text_bytes,
        vocab_size=vocab_size,
        parameters=_parameters(recipe, config),
        tokens_read=tokens_read,
        epochs=epochs,
        memory=_memory(recipe, config),
        seconds=flops / (matrix_product_speed() * EFFICIENCY),
    )


def print_plan(
    recipe: PretrainRecipe, *, is_quicktest: bool = False, console: Console | None = None
) -> None:
    """Print what `bert-keras pretrain` would do with this recipe, in a quick test or not.

    Raises:
        DataError: the run would have too little text to evaluate on.
    """
    found = plan(recipe)
    check_held_out(recipe)
    columns = "", *(Column(name, overflow="fold") for name in ("value", "remark"))
    table = Table(*columns, title=f"{recipe.name}: the plan; nothing was written")
    text = f"{found.text_bytes / 1e6:,.1f} MB"
    table.add_row("text", text, recipe.corpus)
    origin = recipe.vocab or ("prepared" if _prepared(recipe) else "learned from the text")
    table.add_row("vocabulary", f"{found.vocab_size:,} pieces", origin)
    table.add_row(
        "model", f"{found.parameters:,} parameters", recipe.init_checkpoint or _sizes(recipe)
    )
    table.add_row(
        "examples",
        f"{recipe.steps * recipe.batch_size:,} of {recipe.sequence_length} tokens",
        f"{recipe.steps:,} steps of {recipe.batch_size}, {recipe.loss}, {recipe.masking}",
    )
    epochs = f"about {found.epochs:,.1f}"
    table.add_row("passes over the text", epochs, f"{found.tokens_read:,} tokens read")
    memory = machine.facts()["memory_bytes"]
    remark = Text("beside the backend's own")
    if isinstance(memory, int) and found.memory > memory:
        remark = Text(f"more than this machine has, {machine.gibibytes(memory)}", "red")
    table.add_row("memory", f"about {machine.gibibytes(found.memory)}", remark)
    table.add_row(
        "training time", f"about {clock(found.seconds)}", "on this CPU, from its matrix product"
    )
    folder = recipe.out or ("a temporary folder" if is_quicktest else f"runs/{recipe.name}")
    table.add_row("run folder", folder, ", ".join(files_of_run(recipe)))
    if _exports(recipe):
        path = f"saved_models/{recipe.name}/<version>"
        table.add_row("SavedModel", path, "in the run folder" if is_quicktest else "")
    (console or escaping.console()).print(table)


def files_of_run(recipe: PretrainRecipe) -> list[str]:
    """Return what a run writes into its folder, files and folders, in the order of writing."""
    folder = PretrainFolder(recipe)
    demo = ["demo.txt"] if recipe.corpus == "demo" else []
    corpus = [] if _prepared(recipe) else [*demo, folder.corpus.name]
    training = [path.name for path in (folder.checkpoints, folder.metrics, folder.speed)]
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
    return recipe.export and importlib.util.find_spec("tensorflow_text") is not None


def _sizes(recipe: PretrainRecipe) -> str:
    own = ", ".join(f"{name}={value}" for name, value in recipe.own_sizes.items())
    return f"{recipe.config}, but {own}" if own else recipe.config


def _config(recipe: PretrainRecipe, vocab_size: int) -> BertConfig:
    if recipe.init_checkpoint:
        from bert_keras.models import BertEncoder

        return BertEncoder.from_preset(recipe.init_checkpoint, load_weights=False).config
    return recipe.sizes().replace(vocab_size=vocab_size)


def _text_bytes(recipe: PretrainRecipe) -> int:
    if recipe.corpus == "demo":
        return sum(len(text) + 1 for document in demo_corpus.documents() for text in document)
    if prepared := _prepared(recipe):
        return prepared.manifest["counts"]["text_bytes"]
    documents = read(recipe.corpus)
    return sum(
        int(size * (_GZIP if file.suffix == ".gz" else 1))
        for file, size in zip(documents.files, documents.sizes, strict=True)
    )


def _prepared(recipe: PretrainRecipe) -> Corpus | None:
    """The corpus of `bert-keras prepare` that the recipe names, if it does."""
    folder = find_prepared(recipe.corpus)
    return Corpus.open(folder / "train") if folder else None


def _vocab_size(recipe: PretrainRecipe) -> int:
    if prepared := _prepared(recipe):
        return prepared.manifest["tokenizer"]["vocab_size"]
    if recipe.vocab:
        return open_tokenizer(recipe.vocab, recipe.lowercase).vocab_size
    return recipe.vocab_size


def _parameters(recipe: PretrainRecipe, config: BertConfig) -> int:
    """Of the encoder and the MLM head, and of what stands beside that."""
    h, width = config.hidden_size, config.table_size
    rows = config.vocab_size + config.position_rows + config.num_segments
    total = rows * width + 2 * width + _body(config) + config.vocab_size
    # What predicts masked tokens, to which the head is a dense layer and a normalisation.
    predictor = config.narrowed(recipe.generator_size) if recipe.loss == "rtd" else config
    total += (predictor.hidden_size * width + width) + 2 * width
    if recipe.loss == "rtd":
        total += _body(predictor) + (h * h + h) + (h + 1)
    if recipe.loss in PAIR_LOSSES:
        total += (h * h + h) + (2 * h + 2)
    return total


def _body(config: BertConfig) -> int:
    """Parameters of the blocks, and of the projection before them."""
    h, i, width = config.hidden_size, config.intermediate_size, config.table_size
    block = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 4 * h
    return config.unique_layers * block + ((width + 1) * h if width != h else 0)


def _step_flops(recipe: PretrainRecipe, config: BertConfig) -> float:
    """Multiplications and additions of the matrix products, forward and backward."""
    tokens = recipe.batch_size * recipe.sequence_length
    predictor = config.narrowed(recipe.generator_size) if recipe.loss == "rtd" else config
    width = config.table_size
    logits = tokens * recipe.mask_rate * width * (predictor.hidden_size + config.vocab_size)
    blocks = _block_flops(recipe, config)
    if recipe.loss == "rtd":
        blocks += _block_flops(recipe, predictor)
    return 6.0 * (tokens * blocks + logits)


def _block_flops(recipe: PretrainRecipe, config: BertConfig) -> int:
    """Multiplications of all blocks for a token, forward."""
    h = config.hidden_size
    block = 4 * h * h + 2 * h * config.intermediate_size + 2 * recipe.sequence_length * h
    return config.num_layers * block


def _memory(recipe: PretrainRecipe, config: BertConfig) -> int:
    """Weights, gradients and two moments; activations kept for the gradient; logits."""
    tokens = recipe.batch_size * recipe.sequence_length
    per_token = 20 * config.hidden_size + 5 * config.num_heads * recipe.sequence_length
    per_token += 3 * config.intermediate_size
    activations = tokens * config.num_layers * per_token
    if recipe.gradient_checkpointing:  # of one block, and the inputs of all
        activations = tokens * (per_token + config.num_layers * config.hidden_size)
    logits = 3 * tokens * recipe.mask_rate * config.vocab_size / recipe.loss_chunks
    width = _FLOAT if recipe.precision == "float32" else _FLOAT // 2
    return int(4 * _FLOAT * _parameters(recipe, config) + width * activations + _FLOAT * logits)


def matrix_product_speed() -> float:
    """Floating-point operations per second of this machine's NumPy, the best of three."""
    size = 1024
    a = np.ones((size, size), np.float32)
    best = float("inf")
    for _ in range(4):  # the first one warms up
        start = perf_counter()
        np.matmul(a, a)
        best = min(best, perf_counter() - start)
    return 2.0 * size**3 / best
