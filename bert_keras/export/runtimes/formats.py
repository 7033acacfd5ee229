"""File formats of exports: their libraries, axes of inputs and outputs, `export.json`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keras

from bert_keras import features, file_io
from bert_keras.errors import ArtifactError
from bert_keras.predictor import Predictor

# Environment variable that ONNX Runtime reads at its import. Without it, recent versions write a
# device number and a database of events into the home folder, and send them.
_ONNX_RUNTIME = "ORT_DISABLE_TELEMETRY"
_OPENVINO = "openvino_telemetry"


def switch_off_telemetry() -> None:
    """Prevent ONNX Runtime, OpenVINO and NNCF from sending telemetry.

    `import openvino` and every conversion would contact an analytics host and write an identifier
    into the home folder. OpenVINO and NNCF send nothing if the package openvino_telemetry is not
    installed. So its import is made to fail from here on. In libraries that are imported already,
    telemetry is switched off. No file is written.
    """
    os.environ.setdefault(_ONNX_RUNTIME, "1")
    if (onnx_runtime := sys.modules.get("onnxruntime")) is not None:
        onnx_runtime.disable_telemetry_events()
    if (package := sys.modules.get(_OPENVINO)) is None:
        sys.modules[_OPENVINO] = None  # pyright: ignore[reportArgumentType]
    elif package.Telemetry is not _NoTelemetry:
        with contextlib.suppress(RuntimeError):  # raised if there is no instance yet
            package.Telemetry().consent = False  # this is the only instance, which NNCF uses too
        # OpenVINO calls this class at every conversion, and would check the consent again.
        package.Telemetry = _NoTelemetry  # pyright: ignore[reportAttributeAccessIssue]


class _NoTelemetry:
    """The class `Telemetry` of openvino_telemetry, with methods that do nothing."""

    def __init__(self, *arguments: Any, **options: Any):
        del arguments, options

    def __getattr__(self, name: str) -> Any:
        if name == "backend":  # OpenVINO tests whether this attribute exists
            raise AttributeError(name)
        return lambda *arguments, **options: None  # noqa: ARG005


# === Axes ===


BATCH, TEXTS, LENGTH, PREDICTIONS = "batch", "texts", "length", "predictions"

Axes = tuple[int | str, ...]


def input_axes(model: keras.Model) -> dict[str, Axes]:
    """Return the axes of each input: {"token_ids": ("batch", "length"), ...}.

    A fixed axis is a number, a variable axis a name.
    """
    return {tensor.name: _axes(tensor.name, tensor.shape) for tensor in model.inputs}


def output_axes(model: keras.Model) -> dict[str, Axes]:
    """Return the axes of each output, in the order and with the names of `flat`."""
    masked = features.MASK_POSITIONS in input_axes(model)
    return {
        name: _axes(features.MASK_POSITIONS if masked and name == features.MLM else name, x.shape)
        for name, x in flat(model.output).items()
    }


def flat(outputs: dict) -> dict:
    """Return outputs without tuples: "hidden_states" becomes "hidden_states_0" and so on."""
    tensors = {}
    for name, value in outputs.items():
        if isinstance(value, tuple | list):
            tensors |= {f"{name}_{index}": tensor for index, tensor in enumerate(value)}
        else:
            tensors[name] = value
    return tensors


def _axes(name: str, shape: Sequence[int | None]) -> Axes:
    """Return the axes of an input or output: None in the shape becomes a name."""
    open_axes = [BATCH, *[LENGTH] * (len(shape) - 1)]
    if name == features.MASK_POSITIONS:
        open_axes[1] = PREDICTIONS
    elif name in (features.CHOICE, features.MATCH) or shape[1:] == (None, None):
        open_axes[1] = TEXTS
    return tuple(size or axis for size, axis in zip(shape, open_axes, strict=True))


# === `export.json` ===


FILE = "export.json"


@dataclass(frozen=True)
class Manifest:
    """Content of `export.json`.

    Attributes:
        format: name in `FORMATS`.
        quantization: quantization of `runtime_model`; None for none.
        task: name of the model's class.
        max_length: maximum number of tokens of a text.
        options: options of the predictions, as in `Predictor`.
        pairs: True if a model that can read one text or two was trained with pairs.
        pad_id: id that fills the end of shorter rows.
        inputs: name of each input (int32) -> sizes or names of its axes.
        outputs: name of each output (float32) -> sizes or names of its axes.
        prompt: text that is put before each (first) text before tokenization; "" for none.
        prompt_length: number of its tokens with the first special token; the value of the input
            `prompt_length`, if the model has it.
        task_name: name of the task, such as "text_classification"; "" in files of earlier versions.
        task_options: options of the task, such as `labels`, `problem` and `prompts`.
    """

    format: str
    quantization: str | None
    task: str
    max_length: int
    options: dict[str, Any]
    pairs: bool
    pad_id: int
    inputs: dict[str, list[int | str]]
    outputs: dict[str, list[int | str]]
    prompt: str = ""
    prompt_length: int = 0
    task_name: str = ""
    task_options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, predictor: Predictor, format: str, quantization: str | None = None) -> Manifest:  # noqa: A002
        """Describe the export of a predictor's model, with the model's own inputs and outputs."""
        task = predictor.task
        # Models that read the texts of a pair in separate rows are trained without prompts.
        prompt = "" if task.reads_apart else predictor.prompt
        return cls(
            format=format,
            quantization=quantization,
            task=type(task).__name__,
            max_length=predictor.max_length,
            options=dict(predictor.options),
            pairs=predictor.pairs,
            pad_id=predictor.tokenizer.pad_id,
            inputs={name: list(axes) for name, axes in input_axes(task).items()},
            outputs={name: list(axes) for name, axes in output_axes(task).items()},
            prompt=prompt,
            prompt_length=predictor.prompt_length(prompt),
            task_name=task.task_name,
            task_options=dict(task.options),
        )

    def write(self, folder: Path) -> None:
        """Write the file into a folder."""
        file_io.write_json(folder / FILE, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the file of a folder.

        Raises:
            ArtifactError: if it is missing or damaged.
        """
        path = folder / FILE
        values = {**_EARLIER, **file_io.read_object(path)}
        if missing := sorted(_TYPES.keys() - values.keys()):
            raise ArtifactError(f"{path}: lacks {', '.join(missing)}. Export the model again.")
        for name, kind in _TYPES.items():
            if not isinstance(values[name], kind):
                raise ArtifactError(
                    f"{path}: {name} has a value of another type. "
                    f"Received: {values[name]!r:.100}. Export the model again."
                )
        return cls(**{name: values[name] for name in _TYPES})


_TYPES = {
    "format": str,
    "quantization": str | None,
    "task": str,
    "max_length": int,
    "options": dict,
    "pairs": bool,
    "pad_id": int,
    "inputs": dict,
    "outputs": dict,
    "prompt": str,
    "prompt_length": int,
    "task_name": str,
    "task_options": dict,
}
# Values that earlier versions did not write.
_EARLIER: dict[str, Any] = {"prompt": "", "prompt_length": 0, "task_name": "", "task_options": {}}


# === Formats ===


FLOAT16, INT8, INT8_DYNAMIC = "float16", "int8", "int8_dynamic"


@dataclass(frozen=True)
class Format:
    """A file format of models that take ids.

    Attributes:
        file: file name in the folder.
        module: module of this folder whose `write` makes the file.
        writers: Keras backend -> libraries that it needs to write the file; the best one first.
        extra: extra of this package that installs them.
        quantizers: quantization -> further libraries that it needs.
    """

    file: str
    module: str
    writers: Mapping[str, tuple[str, ...]]
    extra: str
    quantizers: Mapping[str, tuple[str, ...]]

    def backend(self, preferred: str, quantization: str | None) -> str:
        """Return the preferred backend if it can write the file, else the first one that can.

        Args:
            preferred: name of a Keras backend.
            quantization: quantization of the weights, which may need more libraries; or None.

        Raises:
            ImportError: if no backend is installed with its libraries.
        """
        order = sorted(self.writers, key=lambda name: name != preferred)
        missing = {
            name: [
                library
                for library in (*self.writers[name], *self.quantizers.get(quantization or "", ()))
                if importlib.util.find_spec(library) is None
            ]
            for name in order
        }
        for name in order:
            if not missing[name]:
                return name
        best = order[0]
        raise ImportError(
            f"{self.file} needs {', '.join(missing[best])}. "
            f'Install with: pip install "bert-keras[{self.extra},{best}]"'
        )


_ONNX = {"torch": ("torch", "onnx", "onnxscript"), "tensorflow": ("tensorflow", "onnx", "tf2onnx")}
FORMATS = {
    "onnx": Format(
        file="model.onnx",
        module="onnx_model",
        writers=_ONNX,
        extra="onnx",
        quantizers={
            FLOAT16: ("onnxruntime",),
            INT8: ("onnxruntime", "onnx_ir"),
            INT8_DYNAMIC: ("onnxruntime",),
        },
    ),
    "openvino": Format(
        file="model.xml",
        module="openvino_model",
        writers={name: (*libraries, "openvino") for name, libraries in _ONNX.items()},
        extra="openvino",
        quantizers={FLOAT16: (), INT8: ("nncf",)},
    ),
    "litert": Format(
        file="model.tflite",
        module="litert",
        writers={"tensorflow": ("tensorflow",)},
        extra="litert",
        quantizers={FLOAT16: (), INT8: ()},
    ),
    "torch": Format(
        file="model.pt2",
        module="torch_export",
        writers={"torch": ("torch",)},
        extra="torch",
        quantizers={FLOAT16: (), INT8: ()},
    ),
}


def chosen(name: str, quantization: str | None) -> Format:
    """Return a format by its name, after a check of the quantization.

    Raises:
        ValueError: if the format is unknown, or does not have the quantization.
    """
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}. Received: format={name!r}")
    known = FORMATS[name].quantizers
    if quantization is not None and quantization not in known:
        raise ValueError(
            f"The quantization of {name} is none, or one of {', '.join(known)}. "
            f"Received: {quantization!r}"
        )
    return FORMATS[name]
