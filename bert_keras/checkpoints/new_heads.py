"""Rules that decide whether an opened task keeps the head of its checkpoint or gets a new one.

`Task.from_preset` describes them for users. `Checkpoint.load` applies them.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import keras

from bert_keras.checkpoints import tensors
from bert_keras.checkpoints.hugging_face import MOST_CLASSES
from bert_keras.checkpoints.hugging_face_family import task_format
from bert_keras.checkpoints.hugging_face_tensors import HEADS
from bert_keras.checkpoints.name_mapping import NameMap, TensorSpec, begins
from bert_keras.config import BertConfig
from bert_keras.config_checks import is_whole
from bert_keras.data.class_names import class_names
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.layers import pooling

Shapes = Mapping[str, tuple[int, ...]]
# Pretraining heads, which are the same layers in every task class that has them.
_SHARED = ("mlm", "nsp", "sop", "rtd", "generator")
# Options of an old head that a new head does not take over.
_OF_LABELS = ("labels", "num_classes", "problem", "activation")
_LEAVES = ("kernel", "bias")  # variables of a dense layer
_ENTRY = "\n  "  # separates the lines of a list in a message


def is_described(options: Mapping[str, Any]) -> bool:
    """Return whether the caller's options describe a head, by `labels` or `num_classes`."""
    return any(options.get(name) is not None for name in ("labels", "num_classes"))


def with_num_classes(task_class: type, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a task, with `num_classes` completed from its labels.

    Raises:
        ValueError: if `labels` and `num_classes` contradict each other, or a label occurs twice.
    """
    if not is_described(options) or not takes_labels(task_class):
        return options
    labels = class_names(options.get("num_classes"), options.get("labels"))
    names = {"labels": labels} if options.get("labels") is not None else {}
    return {**options, **names, "num_classes": len(labels)}


def options_of(saved: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the saved options that a new head keeps.

    If the caller describes labels, the saved options about labels are left out.

    Args:
        saved: options that the checkpoint states.
        options: options of the caller.
    """
    if not is_described(options):
        return dict(saved)
    return {name: value for name, value in saved.items() if name not in _OF_LABELS}


def check_is_any(class_name: str, head: tuple[str, ...]) -> None:
    """Refuse `new_head=True` for a task without a head.

    Raises:
        UsageError: if the task has no layers of its own.
    """
    if not head:
        raise UsageError(
            f"new_head=True: this {class_name} has no head with weights. Leave new_head out. To "
            'leave out the heads of the checkpoint, name them, such as allow_unused=("mlm",).'
        )


def check_is_described(model_class: Any, options: Mapping[str, Any], directory: Path) -> None:
    """Refuse a new classification head without labels.

    This is called if the checkpoint states no options of this class.

    Args:
        model_class: class of the task.
        options: options of the caller.
        directory: folder of the checkpoint, for the message.

    Raises:
        ValueError: if the task has labels, and neither they nor their number are known.
    """
    has_labels = takes_labels(model_class) and model_class.head_layers_for(options)
    if has_labels and not is_described(options):
        raise ValueError(
            f"{directory} has no head of a {model_class.__name__}. For a new one pass labels=[…] "
            "or num_classes=…."
        )


def count_labels(head: tuple[str, ...], names: NameMap, shapes: Shapes) -> int | None:
    """Return the number of labels of the checkpoint's head, by the shape of its output bias.

    Args:
        head: path prefixes of the task's head layers.
        names: tensor names of the checkpoint.
        shapes: shape of each tensor, by name.

    Returns:
        Number of labels; None if the checkpoint has no such bias.
    """
    for layer in head:
        bias = types.SimpleNamespace(path=f"{layer}/output/bias")
        if names.knows(bias.path):
            (spec,) = names.tensor_specs([bias])
            shape = shapes.get(spec.tensor, ())
            return shape[0] if len(shape) == 1 else None
    return None


def check_labels(
    class_name: str,
    saved: Mapping[str, Any],
    count: int | None,
    options: Mapping[str, Any],
    path: Path,
) -> None:
    """Compare the labels of the caller with those of the checkpoint's head.

    Args:
        class_name: name of the task class.
        saved: options that the checkpoint states.
        count: number of labels in the tensors, for a checkpoint that does not state it.
        options: options of the caller.
        path: file that states `saved`.

    Raises:
        ArtifactError: if the names, their order or their number differ, or a class with one score
            gets several labels.
    """
    if count not in (None, 1) and task_format(class_name).stored_as:
        raise ArtifactError(
            f"{path}: the head in it has {count} labels, and a {class_name} has one score. To open "
            f"it use {task_format(class_name).stored_as}.from_preset; for a new head pass "
            "new_head=True."
        )
    number, labels = options.get("num_classes"), options.get("labels")
    names, saved_number = saved.get("labels"), saved.get("num_classes", count)
    if not isinstance(saved_number, int) or number is None:
        return
    if not isinstance(names, list) or names == [f"LABEL_{i}" for i in range(len(names))]:
        names = []
    if number == saved_number and (labels is None or not names or list(labels) == names):
        return
    known = f"{saved_number} label{'s' * (saved_number != 1)}" + (
        f", {names!r:.300}" if names else " without names"
    )
    received = f"num_classes={number}" if labels is None else f"labels={list(labels)!r:.300}"
    is_order = (
        sorted(map(repr, labels or ())) == sorted(map(repr, names)) and number == saved_number
    )
    raise ArtifactError(
        f"{path}: the head of this {class_name} has {known}. Received: {received}"
        + (", which is another order" if is_order and names else "")
        + ". For a new head with these labels pass new_head=True. To open the head that is there, "
        "leave out `labels` and `num_classes`."
    )


def check_task(
    class_name: str,
    head: tuple[str, ...],
    written: str | None,
    names: NameMap,
    shapes: Shapes,
    path: Path,
    allow_missing: tuple[str, ...],
) -> None:
    """Refuse to fill the head of one task with the head of another task.

    Hugging Face gives the same name, such as `classifier.weight`, to the heads of several classes.

    Args:
        class_name: name of the task class that is opened.
        head: path prefixes of its head layers; () if it has no head.
        written: name of the task class that the checkpoint states; None if it states none.
        names: tensor names of the checkpoint.
        shapes: shape of each tensor, by name.
        path: path of the weights file.
        allow_missing: variable paths (or path prefixes) that keep new weights if missing. If the
            head is among them, layers that only the other task's head has (such as RoBERTa's
            `classifier.dense`) are accepted, but not tensors that this head would read.

    Raises:
        ArtifactError: if the tensors belong to another task's head.
    """
    if written in (None, class_name):
        return
    theirs = getattr(_task_class(str(written)), "head_layers", ())
    own = {
        layer: name
        for layer, name in names.modules.items()
        if begins(layer, head) and not begins(layer, _SHARED)
    }
    leaves = [types.SimpleNamespace(path=f"{layer}/{leaf}") for layer in own for leaf in _LEAVES]
    needed = {spec.tensor for spec in names.tensor_specs(leaves)}
    beginnings = {name.partition(names.separator)[0] for name in own.values()}
    wrong = {
        tensor
        for tensor in shapes
        if tensor.partition(names.separator)[0] in beginnings
        and any(begins(layer, theirs) for layer in names.owners(tensor))
    }
    if any(layer in allow_missing for layer in head):
        wrong &= needed
    if wrong:
        raise ArtifactError(
            f"{path}: the head in it is that of a {written}, not of a {class_name}:{_ENTRY}"
            f"{_ENTRY.join(sorted(wrong))}\nTo make a new head over its encoder pass "
            f"new_head=True{_with_labels(class_name)}. To open the head that is there, use "
            f"{written}.from_preset."
        )


def takes_labels(task_class: type) -> bool:
    """Return whether the head of a task class has labels."""
    return "num_classes" in inspect.signature(task_class).parameters


def _task_class(class_name: str) -> Any:
    """Return our class of this name. Its import registered it with Keras."""
    return keras.saving.get_registered_object(f"bert_keras>{class_name}")


def _with_labels(class_name: str) -> str:
    """Return the words of a message that ask for labels; "" for a class without labels."""
    is_labelled = takes_labels(_task_class(class_name))
    return " with labels=[…] or num_classes=…" if is_labelled else ""


def new_head_message(class_name: str, directory: Path, *, is_asked_for: bool) -> str:
    """Return the line that is printed when a new head is made.

    Args:
        class_name: name of the task class.
        directory: folder of the checkpoint.
        is_asked_for: True if the caller passed `new_head=True`; False if the checkpoint has no
            such head.
    """
    if is_asked_for:
        reason = f"new_head=True: the head of this {class_name} over {directory} is new"
    else:
        reason = f"{directory} has no head of a {class_name}: a new one is made"
    return f"{reason}, with random weights. Train it before you use it."


# === Sizes of a saved head ===


def hint_of_heads(
    names: NameMap,
    specs: list[TensorSpec],
    shapes: Shapes,
    expected: Shapes,
    allowed: Collection[str],
) -> str:
    """Return advice on head tensors that are missing or unused; "" if there are none.

    `allowed` are the names of tensors that may be missing or unused.
    """
    lacking = {
        spec.path.partition("/")[0]
        for spec in specs
        if spec.tensor not in {*shapes, *allowed} and begins(spec.path, HEADS)
    }
    others = set(shapes).difference(expected, allowed)
    owners = (path.partition("/")[0] for tensor in others for path in names.owners(tensor))
    spare = {name for name in owners if name in HEADS}
    has_some = any(spec.tensor in shapes for spec in specs if begins(spec.path, HEADS))
    all_new = "" if has_some else ", or new_head=True, which also leaves the other heads out"
    cures = [
        f"{title}: {argument}=({', '.join(map(repr, sorted(heads)))},){more}."
        for title, argument, heads, more in (
            ("To start with a new head", "allow_missing", lacking, all_new),
            ("To leave a head out", "allow_unused", spare, ""),
        )
        if heads
    ]
    return " ".join(cures)


def check_classes(saved: dict[str, Any], path: Path, source: tensors.Tensors | None) -> None:
    """Check the saved number of classes before the head is allocated.

    Args:
        saved: options that the checkpoint states.
        path: file that states them.
        source: opened tensors; None if no weights are read.

    Raises:
        ArtifactError: if there are more classes than the limit, or than any tensor has rows.
    """
    num_classes, labels = saved.get("num_classes"), saved.get("labels")
    if num_classes is None and isinstance(labels, list):
        num_classes = len(labels)
    if not isinstance(num_classes, int) or isinstance(num_classes, bool):
        return  # the constructor of the task refuses it
    if num_classes > MOST_CLASSES:
        raise ArtifactError(
            f"{path}: at most {MOST_CLASSES:,} classes can be opened. Received: {num_classes}. For "
            "a new head pass labels=[…] or num_classes=…."
        )
    if source is None:
        return
    largest = max((size for shape in source.shapes.values() for size in shape), default=0)
    if num_classes > largest:
        raise ArtifactError(
            f"{path}: {num_classes} classes, but no tensor of {source.path} has so many. Take both "
            "files from one save, or pass new_head=True for a new head."
        )


def check_dense(
    saved: dict[str, Any], path: Path, config: BertConfig, source: tensors.Tensors | None
) -> None:
    """Check the saved sizes of dense layers in a head before they are allocated.

    They are those of a sentence encoder, and the `hidden_sizes` of a masked LM.

    Args:
        saved: options that the checkpoint states.
        path: file that states them.
        config: config of the encoder.
        source: opened tensors; None if no weights are read.

    Raises:
        ArtifactError: if the options are damaged, or need more weights than the tensors have.
    """
    sizes = saved.get("hidden_sizes")
    if source is not None and isinstance(sizes, list):
        there = {size for shape in source.shapes.values() for size in shape}
        if absent := [size for size in sizes if not (is_whole(size) and size in there)]:
            raise ArtifactError(
                f"{path}: hidden_sizes={sizes!r:.100}, but no tensor of {source.path} has the "
                f"width {absent[0]!r:.100}. Take both files from one save."
            )
    if not saved.get("dense"):
        return
    try:
        layers = pooling.dense_options(saved["dense"])
        names = pooling.pooling_names(saved.get("pooling", "mean"))
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"{path}: {error}") from error
    if source is None:
        return
    width, weights = config.hidden_size * len(names), 0
    for layer in layers:
        is_projected = layer["residual"] and layer["units"] != width
        weights += width * layer["units"] * (1 + is_projected)
        width = layer["units"]
    stored = sum(math.prod(shape) for shape in source.shapes.values())
    if weights > stored:
        raise ArtifactError(
            f"{path}: dense layers of {weights:,} weights, but the tensors of {source.path} have "
            f"{stored:,} in all. Take both files from one save."
        )
