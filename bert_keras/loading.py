"""Models of any class: open a checkpoint as the class that wrote it, write one, convert KerasHub's.

`from_preset` of a class opens a checkpoint as that class.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bert_keras import models, presets
from bert_keras.checkpoints import Checkpoint, folders, keras_hub, open_checkpoint
from bert_keras.errors import UsageError
from bert_keras.models import BertEncoder, Task


def load_checkpoint(
    handle: str | Path, *, allow_pickle: bool = False, trust: bool = False, **options: Any
) -> BertEncoder | Task:
    """Open a checkpoint as the class it was written from.

    Args:
        handle: see `BertEncoder.from_preset`.
        allow_pickle: see `BertEncoder.from_preset`.
        trust: see `BertEncoder.from_preset`.
        options: those of the class's own `from_preset`, `plain` among them; with
            load_weights=False a name of `PRESETS` is an encoder of these sizes.

    Raises:
        ArtifactError: it cannot be read, is damaged, or is of an unknown class.
    """
    if options.get("load_weights") is False and presets.is_preset(handle):
        return BertEncoder.from_preset(handle, **options)
    opened = open_checkpoint(handle, allow_pickle=allow_pickle, trust=trust)
    model = load_opened(opened, **options)
    return folders.attach(model, handle) if isinstance(model, Task) else model


def load_opened(opened: Checkpoint, **options: Any) -> BertEncoder | Task:
    """Make the model of an opened checkpoint and fill it; options as for `load_checkpoint`.

    The tokenizer of the folder is left out.
    """
    model_class = getattr(models, opened.class_name)
    if model_class is BertEncoder:
        return folders.make_encoder(BertEncoder, opened, **options)
    return folders.make_task(model_class, BertEncoder, opened, **options)


def save_checkpoint(
    model: BertEncoder | Task,
    directory: str | Path,
    format: str = folders.OUR_FORMAT,  # noqa: A002
) -> Path:
    """Write an encoder or a task as a checkpoint folder.

    Adapters are folded into their kernels, and weights quantised to int8 are written as floats, so
    that every library opens the folder and answers alike. "hugging_face" also keeps what our own
    `from_preset` needs to open the same model: its adapters, quantised weights and frozen parts
    (`bert_keras.safetensors` and "state" in `bert_keras.json`). The other formats have no place for
    these. The optimizer is kept by `model.save` and by `TrainingCheckpoints`.

    Args:
        model: what to write.
        directory: made when absent; files of the same names are replaced, one by one and whole.
        format: "hugging_face", also our own; "google_tf1", the original one of BERT, ALBERT and
            ELECTRA; "keras_hub", a preset of KerasHub.

    Returns:
        The folder.

    Raises:
        UsageError: another model, the format has no such model, or weights are quantised to another
            type.
        NumericError: a weight is not finite. Nothing is written.
    """
    if not isinstance(model, BertEncoder | Task):
        raise UsageError(
            "A checkpoint folder holds a BertEncoder or a task. Of a view, write its task "
            "(`view.task`) or the encoder that it was made from. Save a model of your own with "
            f"`model.save`. Received: {type(model).__name__}"
        )
    folders.write_checkpoint(model, directory, format)
    return Path(directory)


def from_keras_hub(model: Any, *, dtype: Any = None, **options: Any) -> BertEncoder | Task:
    """Convert a model of KerasHub in memory into one of ours with the same weights.

    Args:
        model: a `BertBackbone`, `RobertaBackbone`, `XLMRobertaBackbone`, `DistilBertBackbone`,
            `AlbertBackbone` or `ElectraBackbone`; or a task over one: a text classifier
            (`SequenceClassifier`), a masked LM (`MaskedLM`) or a text embedder
            (`SentenceEncoder`). Its preprocessor is ignored.
        dtype: a Keras dtype policy; None for the global one.
        options: of our class, such as `labels` of a `SequenceClassifier`, which theirs lacks.

    Raises:
        UsageError: another class, or one with values that our classes lack.
    """
    source = keras_hub.Source.of(model)
    if source.class_name is None:
        made = BertEncoder(source.config, dtype=dtype, **options)
    else:
        encoder = BertEncoder(source.config, dtype=dtype)
        made = getattr(models, source.class_name)(encoder, **{**source.options, **options})
    source.fill(made)
    return made
