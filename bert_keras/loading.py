"""Opening and saving of checkpoints of any class, and conversion from KerasHub.

`load_checkpoint` opens a checkpoint as the class that wrote it. `from_preset` of a class opens it
as that class.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras import models, presets
from bert_keras.checkpoints import Checkpoint, folders, keras_hub, open_checkpoint
from bert_keras.errors import UsageError
from bert_keras.models import BertEncoder, Task


def load_checkpoint(
    handle: str | Path,
    *,
    allow_pickle: bool = False,
    trust: bool = False,
    variant: str | None = None,
    averages: bool = False,
    **options: Any,
) -> BertEncoder | Task:
    """Open a checkpoint as the class that it holds.

    In a folder of another library this is our class for its model.

    Args:
        handle: preset, folder or `hf://` handle; see `BertEncoder.from_preset`.
        allow_pickle: see `BertEncoder.from_preset`.
        trust: see `BertEncoder.from_preset`.
        variant: "fp16" opens `model.fp16.safetensors` of a folder in Hugging Face's layout, also in
            several files, and likewise any other name. None opens `model.safetensors` or, in a
            folder without it, the only variant there is; one line on standard error says so.
        averages: True opens the moving averages of the variables in a checkpoint of a TensorFlow
            training (`…/ExponentialMovingAverage`). One line says so if they are left out.
        options: further arguments of the class's `from_preset`, such as `plain`. With
            `load_weights=False` a name in `PRESETS` gives a new encoder of the preset's sizes.

    Returns:
        The encoder or the task. A task has the tokenizer and the predictor settings of the folder.

    Raises:
        ArtifactError: if it cannot be read, is damaged, or of an unknown class.
    """
    if options.get("load_weights") is False and presets.is_preset(handle):
        return BertEncoder.from_preset(handle, **options)
    opened = open_checkpoint(
        handle, allow_pickle=allow_pickle, trust=trust, variant=variant, averages=averages
    )
    model = load_opened(opened, **options)
    return folders.attach(model, handle) if isinstance(model, Task) else model


def load_opened(opened: Checkpoint, **options: Any) -> BertEncoder | Task:
    """Build and fill the model of an opened checkpoint, without the tokenizer of its folder.

    `options` are those of `load_checkpoint`.
    """
    model_class = getattr(models, opened.class_name)
    if model_class is BertEncoder:
        return folders.make_encoder(BertEncoder, opened, **options)
    return folders.make_task(model_class, BertEncoder, opened, **options)


def save_checkpoint(
    model: BertEncoder | Task,
    directory: str | Path,
    format: str = folders.OUR_FORMAT,  # noqa: A002
    *,
    card: Mapping[str, Any] | None = None,
    private: bool = True,
) -> Path:
    """Write an encoder or a task as a checkpoint folder.

    Adapters are merged into their kernels, and int8 weights are written as floats, so that every
    library opens the folder with the same outputs. "hugging_face" also stores adapters, quantised
    weights and frozen layers for our own `from_preset`, in `bert_keras.safetensors` and under
    "state" in `bert_keras.json`. The other formats cannot store them. `model.save` and
    `TrainingCheckpoints` store the optimizer too.

    Args:
        model: encoder or task to write.
        directory: folder, which is created if needed. Existing files of the same names are replaced
            atomically, one by one. "hf://organisation/name[@branch]" uploads the folder to the Hub.
        format: "hugging_face", which is also our own; "google_tf1", the original format of BERT,
            ALBERT and ELECTRA; "keras_hub", a preset of KerasHub.
        card: facts for the model card of the format "hugging_face"; see
            `BertEncoder.save_to_preset`.
        private: whether a repository that is created is private.

    Returns:
        The folder. For a handle, which is no folder, the path has no use.

    Raises:
        UsageError: if it is another kind of model, the format has no such model, or weights are
            quantised to another type than int8.
        NumericError: if a weight is not finite. Nothing is written.
    """
    if not isinstance(model, BertEncoder | Task):
        raise UsageError(
            "A checkpoint folder holds a BertEncoder or a task. Of a view, write its task "
            "(`view.task`) or the encoder that it was made from. Save a model of your own with "
            f"`model.save`. Received: {type(model).__name__}"
        )
    folders.write_checkpoint(model, directory, format, card=card, private=private)
    return Path(directory)


def from_keras_hub(model: Any, *, dtype: Any = None, **options: Any) -> BertEncoder | Task:
    """Convert a KerasHub model in memory to one of our models with the same weights.

    Args:
        model: a `BertBackbone`, `RobertaBackbone`, `XLMRobertaBackbone`, `DistilBertBackbone`,
            `AlbertBackbone` or `ElectraBackbone`; or a task with such a backbone: a text classifier
            (becomes `SequenceClassifier`), a masked LM (`MaskedLM`) or a text embedder
            (`SentenceEncoder`). Its preprocessor is ignored.
        dtype: Keras dtype policy; None for the global one.
        options: arguments of our class, such as `labels`. They replace those of KerasHub's model.

    Returns:
        A `BertEncoder` for a backbone, a task for a task.

    Raises:
        UsageError: if the class is not supported, or the model has a setting that our class does
            not support.
    """
    source = keras_hub.Source.of(model)
    if source.class_name is None:
        converted = BertEncoder(source.config, dtype=dtype, **options)
    else:
        encoder = BertEncoder(source.config, dtype=dtype)
        converted = getattr(models, source.class_name)(encoder, **{**source.options, **options})
    source.fill(converted)
    return converted
