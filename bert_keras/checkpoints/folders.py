"""Opening and writing checkpoint folders.

`bert_keras` writes folders in Hugging Face's layout (`config.json`, `model.safetensors`), so that
other libraries can open them. A third file, `bert_keras.json`, holds what only `bert_keras` reads
(see `manifest`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_keras import features, file_io, presets
from bert_keras.checkpoints import (
    exact_weights,
    google_tf1,
    hub_upload,
    hugging_face,
    keras_hub_preset,
    model_card,
    new_heads,
    sentence_transformers_writer,
    streaming,
)
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints.checkpoint import Checkpoint, encoder_of, is_task
from bert_keras.checkpoints.hugging_face_tensors import HEADS, tensor_specs
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, STATE_WEIGHTS, WEIGHTS
from bert_keras.checkpoints.name_mapping import begins
from bert_keras.checkpoints.recognition import open_checkpoint
from bert_keras.checkpoints.sentence_transformers import (
    read_predictor_config,
    write_predictor_config,
)
from bert_keras.config import BertConfig
from bert_keras.errors import ResourceError, UsageError, exit_code_of
from bert_keras.inference.base import PredictorConfig
from bert_keras.layers import to_be_filled
from bert_keras.layers.state import get_state, plain_weights
from bert_keras.presets import PRESETS
from bert_keras.tokenizers import Tokenizer

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task

OUR_FORMAT = "hugging_face"


def write_checkpoint(
    model: BertEncoder | Task,
    directory: str | Path,
    format: str = OUR_FORMAT,  # noqa: A002
    *,
    card: Mapping[str, Any] | None = None,
    private: bool = True,
    tokenizer: Tokenizer | None = None,
    config: PredictorConfig | None = None,
) -> None:
    """Write an encoder or a task as a checkpoint folder; see `bert_keras.save_checkpoint`.

    Args:
        model: encoder or task to write.
        directory: folder to write into, or "hf://organisation/name[@branch]" to upload it.
        format: name of the format.
        card: facts for the model card, which only our own format has.
        private: whether a repository that is created is private.
        tokenizer: tokenizer to write instead of the task's. Only our own format has one.
        config: settings of the predictions to write instead of the task's; likewise.
    """
    model_card.ModelCard.of(card)  # wrong facts are refused before anything is written
    write, is_ours = writer_of(format), format == OUR_FORMAT
    if hub_upload.is_remote(directory) and not is_ours:
        raise UsageError(
            f"Only the format {OUR_FORMAT} is uploaded. Received: format={format!r} for "
            f"{directory}. Write it into a folder."
        )
    if is_task(model):
        tokenizer = tokenizer or model.tokenizer
        if config is None and model.predictor_config != PredictorConfig():
            config = model.predictor_config
    with hub_upload.target_folder(directory, private=private) as folder:
        write(model, folder)
        if not is_ours:
            return
        if tokenizer is not None:
            tokenizer.save_to_preset(folder)
        if config is not None:
            write_predictor_config(folder, config)
        model_card.write_model_card(folder, model, tokenizer=tokenizer, config=config, card=card)


def _save_folder(model: BertEncoder | Task, directory: Path) -> None:
    """Write a model in Hugging Face's layout, with the manifest of `bert_keras` beside it.

    Files of sentence-transformers are added for tasks that it can open.

    Args:
        model: encoder or task to write.
        directory: folder to write into. It is created if needed.

    Raises:
        NumericError: if a weight is not finite. Nothing is written.
    """
    encoder = encoder_of(model)
    class_name, options = type(model).__name__, model.options
    family = hugging_face.family_for(encoder.config, class_name, options)
    weights, prefixed = plain_weights(model), bool(model.head_layers)
    specs = tensor_specs(family, encoder.config, weights, prefixed=prefixed)
    state = get_state(model)
    streaming.check([*specs, *exact_weights.state_specs(model, state)])
    config = hugging_face.write_config(encoder.config, class_name, options)
    directory.mkdir(parents=True, exist_ok=True)
    is_theirs = is_task(model) and sentence_transformers_writer.is_theirs(class_name, options)
    # sentence-transformers reads the dense layers of a sentence encoder from their own files.
    own = [spec for spec in specs if is_theirs and begins(spec.path, (features.SENTENCE_VECTOR,))]
    apart = {spec.tensor for spec in own}
    digest = streaming.write_safetensors(
        directory / WEIGHTS, [spec for spec in specs if spec.tensor not in apart]
    )
    if is_theirs:
        config |= sentence_transformers_writer.write_config(options)
    file_io.write_bytes(directory / CONFIG, manifests.json_bytes(config))
    others: dict[str, str] = {}
    if is_theirs:
        lengths = encoder.config.hidden_size, encoder.config.max_positions
        others = sentence_transformers_writer.write(directory, class_name, options, own, *lengths)
    else:
        sentence_transformers_writer.remove(directory)
    state_digest = exact_weights.write_state(model, state, directory)
    if state_digest is not None:
        others |= {STATE_WEIGHTS: state_digest}
    sizes = encoder.config.to_dict()
    manifest = manifests.describe(class_name, options, sizes, digest, others=others, state=state)
    file_io.write_bytes(directory / MANIFEST, manifests.json_bytes(manifest))


_FORMATS = {
    OUR_FORMAT: _save_folder,
    "google_tf1": google_tf1.save,
    "keras_hub": keras_hub_preset.save,
}


def writer_of(format: str) -> Callable[[Any, Path], None]:  # noqa: A002
    """Return the function that writes a model into a folder in this format.

    Raises:
        UsageError: if there is no such format.
    """
    if format not in _FORMATS:
        raise UsageError(f"format must be one of {', '.join(_FORMATS)}. Received: {format!r}")
    return _FORMATS[format]


_TRIED = 1 << 20  # bytes of a trial file
_CURE = "Make room, or choose another folder."


@contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder in `path` for a model that is read and written in the block.

    At the end of the block its entries move to `path`. A place that cannot be written is refused
    before the block. If the block fails, only what it has made is removed.

    Raises:
        UsageError: if `path` is a file, or has entries before or after the block.
        ResourceError: if `path` cannot be written, or the disk is full.
    """
    _require_only([], path)
    path = path.resolve()  # a link may lead to a folder that is not there yet
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    staging = None
    try:
        try:
            path.mkdir(parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(prefix=".tmp-", dir=path))
        except OSError as error:
            raise ResourceError(f"{path}: could not be written: {error.strerror}.") from error
        yield staging
        _require_only([staging], path)
        for entry in staging.iterdir():
            entry.rename(path / entry.name)
        staging.rmdir()
    except BaseException as error:
        refusal = _refusal(error, staging, path) if staging else ""
        if staging:
            shutil.rmtree(staging, ignore_errors=True)
        for folder in made:
            with suppress(OSError):  # another process has written there
                folder.rmdir()
        if refusal:
            raise ResourceError(refusal) from error
        raise


def _require_only(entries: list[Path], path: Path) -> None:
    """Raise `UsageError` if a folder has other entries than these, or is a file."""
    if path.exists() and (not path.is_dir() or [*path.iterdir()] != entries):
        raise UsageError(f"{path}: exists already and is not overwritten. Name another folder.")


def _refusal(error: BaseException, staging: Path, path: Path) -> str:
    """Return the message about a disk that refuses to be written; "" for other errors.

    Some libraries report a full disk in errors of their own. So a small file is written as a trial.
    """
    if isinstance(error, OSError) and error.filename and exit_code_of(error):
        name = os.fsdecode(error.filename)
        if not Path(name).is_relative_to(staging):
            return ""  # such as a file of the source that cannot be read
        name = name.replace(str(staging), str(path))
        return f"{name}: could not be written: {error.strerror}. {_CURE}"
    if not isinstance(error, Exception) or hasattr(error, "exit_code"):
        return ""
    try:
        with tempfile.TemporaryFile(dir=staging) as trial:
            trial.write(bytes(_TRIED))
            trial.flush()
    except OSError as refused:
        return f"{path}: could not be written: {refused.strerror}. {_CURE}"
    return ""


def load_encoder(
    encoder_class: type[BertEncoder],
    handle: str | Path,
    *,
    allow_pickle: bool = False,
    trust: bool = False,
    variant: str | None = None,
    averages: bool = False,
    load_weights: bool = True,
    allow_missing: str | Sequence[str] = (),
    plain: bool = False,
    vocab_size: int | None = None,
    **options: Any,
) -> BertEncoder:
    """Open an encoder by its handle. `BertEncoder.from_preset` describes the arguments."""
    if not load_weights and presets.is_preset(handle):
        encoder = encoder_class(PRESETS[os.fspath(handle)], **options)
        return encoder if vocab_size is None else encoder.resize_vocabulary(vocab_size)
    encoder = make_encoder(
        encoder_class,
        open_checkpoint(
            handle, allow_pickle=allow_pickle, trust=trust, variant=variant, averages=averages
        ),
        load_weights=load_weights,
        allow_missing=allow_missing,
        plain=plain,
        **options,
    )
    return encoder if vocab_size is None else encoder.resize_vocabulary(vocab_size)


def load_task(
    task_class: type[Task],
    encoder_class: type[BertEncoder],
    handle: str | Path,
    *,
    allow_pickle: bool = False,
    trust: bool = False,
    variant: str | None = None,
    averages: bool = False,
    load_weights: bool = True,
    allow_missing: str | Sequence[str] = (),
    allow_unused: str | Sequence[str] = (),
    new_head: bool = False,
    plain: bool = False,
    dtype: Any = None,
    vocab_size: int | None = None,
    **options: Any,
) -> Any:
    """Open a task by its handle. `Task.from_preset` describes the arguments."""
    if not load_weights and presets.is_preset(handle):
        config = PRESETS[os.fspath(handle)]
        head_options = hugging_face.new_head_options(task_class.__name__, config)
        head_options |= new_heads.with_num_classes(task_class, options)
        task = task_class(encoder_class(config, dtype=dtype), **head_options)
        return task if vocab_size is None else task.resize_vocabulary(vocab_size)
    tokenizer = options.pop("tokenizer", None)
    task = make_task(
        task_class,
        encoder_class,
        open_checkpoint(
            handle, allow_pickle=allow_pickle, trust=trust, variant=variant, averages=averages
        ),
        load_weights=load_weights,
        allow_missing=allow_missing,
        allow_unused=allow_unused,
        new_head=new_head,
        plain=plain,
        dtype=dtype,
        **options,
    )
    if vocab_size is not None:
        task = task.resize_vocabulary(vocab_size)
    task = attach(task, handle, tokenizer)
    if vocab_size is not None and task.tokenizer is None:
        _check_rows_of_folder(task, handle)
    return task


def _check_rows_of_folder(task: Task, handle: str | Path) -> None:
    """Raise `ValueError` where a task has too few rows for the tokenizer of its folder."""
    try:
        tokenizer = Tokenizer.from_preset(handle)
    except (ValueError, ImportError):
        return  # the folder has none that can be read
    task.encoder.config.check_rows(tokenizer.vocab_size)


def attach(task: Task, handle: str | Path, tokenizer: Tokenizer | None = None) -> Task:
    """Attach the tokenizer and the predictor settings of a folder to its task.

    Without a readable tokenizer the task takes features only. The reason is kept, and the task
    states it when it is first called with text.

    Args:
        task: task that was opened from the folder.
        handle: the folder; see `BertEncoder.from_preset`.
        tokenizer: tokenizer to use instead of the folder's.
    """
    task.predictor_config = read_predictor_config(handle)
    try:
        task.tokenizer = Tokenizer.from_preset(handle) if tokenizer is None else tokenizer
    except (ValueError, ImportError) as error:
        if tokenizer is not None:
            raise
        task.tell_missing_tokenizer(str(error))
    return task


def make_encoder(
    encoder_class: type[BertEncoder],
    opened: Checkpoint,
    *,
    load_weights: bool = True,
    allow_missing: str | Sequence[str] = (),
    plain: bool = False,
    **options: Any,
) -> BertEncoder:
    """Build and fill the encoder of an opened checkpoint; see `BertEncoder.from_preset`."""

    def make(config: BertConfig, is_filled: bool, **all_options: Any) -> BertEncoder:
        """Build the encoder; see `Checkpoint.load`."""
        del is_filled  # an encoder has no head of its own, so `load` skips the random weights
        return encoder_class(config, **all_options)

    return opened.load(
        encoder_class,
        make,
        options,
        load_weights=load_weights,
        allow_missing=allow_missing,
        allow_unused=HEADS,  # an encoder uses no head
        plain=plain,
    )


def make_task(
    task_class: type[Task],
    encoder_class: type[BertEncoder],
    opened: Checkpoint,
    *,
    load_weights: bool = True,
    allow_missing: str | Sequence[str] = (),
    allow_unused: str | Sequence[str] = (),
    new_head: bool = False,
    plain: bool = False,
    dtype: Any = None,
    **options: Any,
) -> Any:
    """Build and fill the task of an opened checkpoint; see `Task.from_preset`."""

    def make(config: BertConfig, is_filled: bool, **all_options: Any) -> Task:
        """Build the task; see `Checkpoint.load`.

        If the checkpoint fills the weights, no random ones are drawn for the encoder.
        """
        with to_be_filled() if is_filled else nullcontext():
            encoder = encoder_class(config, dtype=dtype)
        return task_class(encoder, **all_options)

    options = new_heads.with_num_classes(task_class, options)
    return opened.load(
        task_class,
        make,
        options,
        load_weights=load_weights,
        allow_missing=allow_missing,
        allow_unused=allow_unused,
        new_head=new_head,
        plain=plain,
    )
