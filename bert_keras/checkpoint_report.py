"""Tables of `bert-keras inspect` and `bert-keras verify`: one checkpoint, two models compared."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bert_keras import escaping, features
from bert_keras.checkpoints import Checkpoint
from bert_keras.errors import DataError, UsageError
from bert_keras.loading import load_opened
from bert_keras.models import BertEncoder, Task
from bert_keras.tokenizers import Tokenizer

_TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "Paris is the capital of France, and Rome is that of Italy.",
    "1 + 1 = 2",
)
_ROWS, _LENGTH = 4, 32
_WIDE = 160  # width of a table in a file, in characters


def print_checkpoint(opened: Checkpoint, console: Console | None = None) -> None:
    """Print family, config and tensors of a checkpoint, and which tensors are missing or unused.

    Args:
        opened: opened checkpoint.
        console: console to print on; None for standard output.
    """
    console = console or _console()
    class_name = opened.class_name
    with opened.source() as source:
        for note in source.notes:
            escaping.print_line(note, stderr=True)
        shapes = dict(source.shapes)
        config = opened.read_config(shapes, ())
        opened.check_sizes(config, source, (), only_there=True)
    console.print(f"family: {config.family}", soft_wrap=True)
    unusual = "; ".join(opened.unusual(config)) or "nothing"
    console.print(f"unusual in it: {unusual}", soft_wrap=True)
    names = opened.names(class_name, config, shapes)
    model = load_opened(opened, load_weights=False)
    expected = {
        spec.tensor: spec
        for spec in names.tensor_specs([w for w in model.weights if names.knows(w.path)])
    }
    values = Table("value", "", title=f"{opened.directory}: {class_name}")
    for name, value in config.to_dict().items():
        values.add_row(name, str(value))
    values.add_row("parameters", f"{model.count_params():,}")
    console.print(values)
    table = Table("tensor", "shape", "variable", title=f"{len(shapes)} tensors")
    for name, shape in sorted(shapes.items()):
        owner: str | Text = expected[name].path if name in expected else ""
        if not owner:
            is_second = name in names.redundant
            owner = Text("second name", "dim") if is_second else Text("not used", "red")
        table.add_row(name, " x ".join(map(str, shape)) or "1", owner)
    for name in sorted(set(expected) - set(shapes)):
        table.add_row(name, Text("missing", "red"), expected[name].path)
    console.print(table)


def print_comparison(
    first: BertEncoder | Task,
    second: BertEncoder | Task,
    *,
    folder: Path,
    console: Console | None = None,
) -> float:
    """Print the largest differences of two models' outputs and, if they differ, of their weights.

    Args:
        first: a model.
        second: a model of the same class and sizes.
        folder: folder whose tokenizer, if there is one, encodes texts for the comparison.
        console: console to print on; None for standard output.

    Returns:
        The largest absolute difference of an output; infinite if shapes or outputs differ.

    Raises:
        UsageError: if the models have different classes or inputs.
    """
    console = console or escaping.console()
    if type(first) is not type(second):
        raise UsageError(
            f"A {type(first).__name__} and a {type(second).__name__} cannot be compared. Name two "
            "checkpoints of one class."
        )
    inputs = {"random ids": _random(first)}
    if texts := _texts(first, folder):
        inputs["texts"] = texts
    table = Table("inputs", "output", "largest difference", title="outputs")
    largest = 0.0
    for title, x in inputs.items():
        left, right = (_outputs(model, x) for model in (first, second))
        for name in sorted(left.keys() | right.keys()):
            difference = _difference(left.get(name), right.get(name))
            largest = max(largest, difference) if not math.isnan(difference) else math.inf
            table.add_row(title, name, f"{difference:.3g}")
    console.print(table)
    if largest > 0:
        _print_weights(first, second, console)
    return largest


def _print_weights(first: Any, second: Any, console: Console) -> None:
    """Print the largest difference of each weight that differs between two models."""
    table = Table("variable", "largest difference", title="weights that differ")
    left, right = ({w.path: w for w in model.weights} for model in (first, second))
    for path in sorted(left.keys() | right.keys()):
        arrays = [
            keras.ops.convert_to_numpy(side[path].value) if path in side else None
            for side in (left, right)
        ]
        difference = _difference(*arrays)
        if difference:
            table.add_row(path, f"{difference:.3g}")
    console.print(table if table.row_count else "No weight differs: config or options do.")


def _difference(left: Any, right: Any) -> float:
    """Return the largest absolute difference of two arrays; infinite for other shapes or None."""
    if left is None or right is None or left.shape != right.shape:
        return math.inf
    return float(np.abs(np.asarray(left, np.float64) - np.asarray(right, np.float64)).max())


def _outputs(model: Any, x: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a model for a batch, by name."""
    try:
        outputs = model.predict_on_batch({tensor.name: x[tensor.name] for tensor in model.inputs})
    except KeyError as error:
        raise UsageError(
            f"The models have different inputs: {error} is missing. Name two checkpoints of one "
            "class and family."
        ) from None
    return {name: np.asarray(values) for name, values in outputs.items()}


def _random(model: Any) -> dict[str, np.ndarray]:
    """Return a batch of random ids with padding and two segments."""
    config = model.encoder.config if isinstance(model, Task) else model.config
    generator = np.random.default_rng(0)
    length = min(_LENGTH, config.max_positions)
    lengths = np.linspace(length, max(2, length // 2), _ROWS).astype(int)[:, None]
    columns = np.arange(length)[None]
    x = {
        features.TOKEN_IDS: generator.integers(0, config.vocab_size, (_ROWS, length)),
        features.SEGMENT_IDS: np.broadcast_to(columns > length // 3, (_ROWS, length)),
        features.PADDING_MASK: columns < lengths,
    }
    return _shaped(model, x)


def _texts(model: Any, folder: Path) -> dict[str, np.ndarray] | None:
    """Return a batch of real texts; None if the folder has no tokenizer for this model."""
    try:
        tokenizer = Tokenizer.from_preset(folder)
    except (DataError, ValueError, OSError):
        return None
    config = model.encoder.config if isinstance(model, Task) else model.config
    try:
        config.check_rows(tokenizer.vocab_size)
    except ValueError:
        return None
    return _shaped(model, tokenizer(_TEXTS, max_length=min(_LENGTH, config.max_positions)))


def _shaped(model: Any, x: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add the other inputs of a model to a batch: mask positions, prompt length, a choice axis."""
    x = {name: np.asarray(values, np.int32) for name, values in x.items()}
    x[features.MASK_POSITIONS] = np.tile(np.arange(2, dtype=np.int32), (len(x["token_ids"]), 1))
    x[features.PROMPT_LENGTH] = np.ones((len(x["token_ids"]), 1), np.int32)
    ranks = {tensor.name: len(tensor.shape) for tensor in model.inputs}
    if ranks[features.TOKEN_IDS] == 3:
        return {name: values[:, None] for name, values in x.items()}
    return x


def _console() -> Console:
    """Return a console on standard output. In a file it is wide, so that no name is cut."""
    return escaping.console(width=None if sys.stdout.isatty() else _WIDE)
