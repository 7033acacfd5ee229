"""Last steps of a pretraining run: model, SavedModel, measurement, picture and report.

The writers of TensorFlow, tensorboard and PyTorch put the host name into the name of every event
file. A run that is killed would leave it there, so this module names the files itself. It needs
tensorboard alone, without TensorFlow, on every backend.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from bert_keras import export, file_io
from bert_keras.checkpoints import write_model_card
from bert_keras.errors import ResourceError, Step
from bert_keras.models import BertEncoder, Task
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.pretrain_report import FilledMask

if TYPE_CHECKING:
    from bert_keras.training.pretrain_report import Report
    from bert_keras.training.pretrain_setup import TrainingCorpora
    from bert_keras.training.run_folder import PretrainFolder

# A name that Keras's own callback wrote: time, host, pid, number.
_NAMES_HOST = re.compile(r"(events\.out\.tfevents\.\d+)\..+(\.\d+\.\d+\.v2)")
_numbers = itertools.count()  # two files of one process and second differ by it


class EventFiles(keras.callbacks.Callback):
    """Callback that writes the scalars of `keras.callbacks.TensorBoard`, with the same tags.

    Event files of earlier runs in the folder lose the host in their names.

    Args:
        log_dir: folder to open with TensorBoard; it is made if needed.
    """

    def __init__(self, log_dir: str | os.PathLike[str]):
        super().__init__()
        self._folder = Path(log_dir)
        self._writers: dict[str, _Writer] = {}

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Remove the host from the names of earlier event files in the folder."""
        for path in self._folder.rglob("events.out.tfevents.*"):
            parts = _NAMES_HOST.fullmatch(path.name)
            renamed = path.with_name("".join(parts.groups())) if parts else path
            if not renamed.exists():
                path.rename(renamed)

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Write the metrics of an evaluation, by step."""
        values = {f"evaluation_{name}_vs_iterations": v for name, v in (logs or {}).items()}
        self._write("validation", values, int(_number(self.model.optimizer.iterations)))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write the metrics and the learning rate of an epoch."""
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        values = {**(logs or {}), "learning_rate": optimizer.learning_rate}
        measured = {name: values.pop(name) for name in list(values) if name.startswith("val_")}
        self._write("train", {f"epoch_{name}": value for name, value in values.items()}, epoch)
        measured = {f"epoch_{name.removeprefix('val_')}": v for name, v in measured.items()}
        self._write("validation", measured, epoch)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Close the files at the end of the training."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    def _write(self, part: str, values: Mapping[str, Any], step: int) -> None:
        """Write the values of a step as scalars of one TensorBoard run, named `part`."""
        if not values:
            return
        if part not in self._writers:
            self._writers[part] = _Writer(self._folder / part)
        self._writers[part].write({tag: _number(value) for tag, value in values.items()}, step)


class _Writer:
    """Writer of a new event file in a folder, which is made if needed."""

    def __init__(self, folder: Path):
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        numbers = f"{int(time.time()):010d}.{os.getpid()}.{next(_numbers)}"
        # Not a `with`: the file is open as long as the training goes on.
        file = (folder / f"events.out.tfevents.{numbers}.v2").open("xb")
        self._records = RecordWriter(file)
        self._add(file_version="brain.Event:2")

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Add an event for each value, and flush: a run that is killed keeps them."""
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.types_pb2 import DT_FLOAT

        # As `tf.summary.scalar` writes it, so that programs read both alike.
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
        for tag, value in values.items():
            tensor = TensorProto(dtype=DT_FLOAT, tensor_shape={}, float_val=[value])
            scalar = Summary.Value(tag=tag, tensor=tensor, metadata=metadata)
            self._add(step=step, summary=Summary(value=[scalar]))
        self._records.flush()

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def _add(self, **fields: Any) -> None:
        """Write one TensorBoard event with the present time."""
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())


def _number(value: Any) -> float:
    """Return a scalar of the backend as a float."""
    return float(keras.ops.convert_to_numpy(value))


# === SavedModel ===


_SHOWN = 5


def export_model(
    task: Task,
    tokenizer: Tokenizer,
    recipe: PretrainRecipe,
    weights: Path,
    record: Path,
    folder: Path = Path("saved_models"),
) -> Path | None:
    """Write <folder>/<name>/<next version>/, unless this model was exported before.

    Args:
        task: the trained model; see `exported_part`.
        tokenizer: its tokenizer.
        recipe: gives the name, and the length the model was trained for: no longer text is served.
        weights: the model's file, whose digest identifies the model; it may be missing.
        record: the file that says where the model was exported to.
        folder: folder of all exported models.

    Returns:
        The new folder; None without TensorFlow, after a message.
    """
    if importlib.util.find_spec("tensorflow_text") is None:
        print(
            "No SavedModel: it needs TensorFlow. Install bert-keras[tensorflow] and repeat the "
            "command; the training is not repeated."
        )
        return None
    digest = _digest(weights) if weights.is_file() else None
    path = _recorded(record, digest)
    if path is None:
        path = export.next_version(file_io.expanded(folder) / recipe.name)
        part = exported_part(task)
        ids_only = not tokenizer.has_graph
        length = recipe.sequence_length
        export.saved_model(part, tokenizer, path, max_length=length, ids_only=ids_only)
        if path.is_relative_to(record.parent):  # the folder of a run, which may be temporary
            named = path.relative_to(record.parent)
        else:
            named = folder / recipe.name / path.name
        file_io.write_json(record, {"saved_model": str(named), "sha256": digest})
    part = "" if task.answers_texts else " of the encoder"
    takes = "" if tokenizer.has_graph else ", which takes ids"
    print(f"SavedModel{part}{takes}: {path}/")
    return path


def exported_part(task: Task) -> Task | BertEncoder:
    """Return the part of a trained task that a SavedModel is made of.

    ELECTRA keeps the discriminator's encoder alone (Clark et al., 2020, §2). Its head tells which
    tokens were replaced, and no program asks that of a text.
    """
    return task if task.answers_texts else task.encoder


def ask(path: Path, examples: Sequence[FilledMask]) -> None:
    """Let a fresh process fill masks with a SavedModel.

    Args:
        path: its folder.
        examples: texts to ask; their first few are shown.

    Raises:
        ResourceError: the process failed.
    """
    texts = [example.text for example in examples[:_SHOWN]]
    if texts:
        print("A fresh process loads it and fills masks:", flush=True)
        _ask(path, texts)


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, by which an exported model is known to be of these weights."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _recorded(record: Path, digest: str | None) -> Path | None:
    """Return the folder of the exported model with this digest, if it is still there."""
    if digest is None or not record.is_file():
        return None
    card = file_io.read_object(record)
    if card.get("sha256") != digest:
        return None
    paths = record.parent / card["saved_model"], file_io.expanded(card["saved_model"])
    return next((path for path in paths if path.is_dir()), None)


def _ask(path: Path, texts: Sequence[str]) -> None:
    """Fill masks with the exported model in a second process, as a user of the SavedModel would."""
    command = [sys.executable, "-m", "bert_keras", "fill-mask", str(path), "--trust", *texts]
    # A SavedModel needs TensorFlow alone, on whatever backend the model was trained. This process
    # may hold the accelerator's memory.
    environment = {key: value for key, value in os.environ.items() if key != "KERAS_BACKEND"}
    environment["CUDA_VISIBLE_DEVICES"] = "-1"
    root = Path(__file__).parents[2]
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(root), environment.get("PYTHONPATH", "")])
    )
    if code := subprocess.run(command, env=environment, check=False).returncode:
        raise ResourceError(
            f"{path}: bert-keras fill-mask failed on the exported model (exit code {code}). Its "
            "message is printed above. Mend the cause and repeat the command."
        )


# === Steps ===


@dataclasses.dataclass
class Trained:
    """A finished training, and the results of its last steps."""

    recipe: PretrainRecipe
    folder: PretrainFolder
    task: Task
    corpora: TrainingCorpora
    event_files: Any
    command: str
    seconds: float
    peak_memory: int
    saved_models: Path
    exported: Path | None = None
    report: Report | None = None


def _save_model(trained: Trained) -> None:
    """Save the trained model into the folder of the run."""
    trained.task.save_to_preset(trained.folder.path)
    _write_card(trained)


def _write_card(trained: Trained) -> None:
    """Write the model card, with the results if they are measured already."""
    from bert_keras.training.pretrain_report import card_of

    tokenizer, card = trained.corpora.tokenizer, card_of(trained.recipe, trained.report)
    write_model_card(trained.folder.path, trained.task, tokenizer=tokenizer, card=card)


def _save_tokenizer(trained: Trained) -> None:
    """Save the tokenizer beside the model."""
    trained.corpora.tokenizer.save_to_preset(trained.folder.path)


def _check_event_files(trained: Trained) -> None:
    """Raise the error that stopped the writing of TensorBoard's files during training."""
    if trained.event_files is not None and trained.event_files.error is not None:
        raise trained.event_files.error


def _export_saved_model(trained: Trained) -> None:
    """Export the model as a SavedModel, if `export` of the recipe is true."""
    recipe, folder = trained.recipe, trained.folder
    if recipe.export:
        trained.exported = export_model(
            *(trained.task, trained.corpora.tokenizer, recipe),
            *(folder.weights, folder.exported, trained.saved_models),
        )


def _measure(trained: Trained) -> None:
    """Measure the model on the validation documents; the picture and the report need the result."""
    from bert_keras.training.pretrain_report import examine

    trained.report = examine(
        *(trained.recipe, trained.folder, trained.task, trained.corpora),
        command=trained.command,
        seconds=trained.seconds,
        peak_memory=trained.peak_memory or None,
    )


def _draw(trained: Trained) -> None:
    """Draw the loss into loss.png; without Matplotlib the report has no picture."""
    from bert_keras.resume import MetricsLog
    from bert_keras.training.plots import loss_picture

    folder, report = trained.folder, trained.report
    entropy = None if report is None else report.entropy
    picture = loss_picture(MetricsLog(folder.training.metrics).records(), folder.picture, entropy)
    if report is not None and picture is not None:
        trained.report = dataclasses.replace(report, picture=picture.name)


def _write_report(trained: Trained) -> None:
    """Write report.md, and the results into the model card."""
    from bert_keras.training.pretrain_report import write_report

    assert trained.report is not None
    write_report(trained.folder.report, trained.report)
    if trained.folder.weights.is_file():  # else the model could not be saved
        _write_card(trained)


def _print_summary(trained: Trained) -> None:
    """Print the results and the folder that holds them."""
    from bert_keras.training.pretrain_report import print_summary

    assert trained.report is not None
    print_summary(trained.report)
    print(f"\nModel, report and picture: {trained.folder.path}/")


def _ask_saved_model(trained: Trained) -> None:
    """Fill masks with the SavedModel, to show that it works outside this process."""
    if trained.exported is None or trained.report is None or not trained.task.answers_texts:
        return
    if not trained.corpora.tokenizer.has_graph:  # it takes no texts
        return
    ask(trained.exported, trained.report.filled)


_MODEL_FILES = ("config.json", "model.safetensors", "bert_keras.json", "README.md")
STEPS = (
    Step("model", _save_model, writes=_MODEL_FILES),
    Step("tokenizer", _save_tokenizer, writes=("vocab.txt", "*token*.json")),
    Step("SavedModel", _export_saved_model, writes=("exported.json", "saved_models")),
    Step("measurement", _measure),
    Step("picture", _draw, writes=("loss.png",)),
    Step("report", _write_report, needs=("measurement",), writes=("report.md",)),
    Step("summary", _print_summary, needs=("measurement",)),
    Step("question to the SavedModel", _ask_saved_model, needs=("SavedModel", "measurement")),
    Step("TensorBoard", _check_event_files, writes=("tensorboard",)),
)
