"""Formats of other runtimes: files, backends, libraries, axes and the folder's `export.json`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras

from bert_keras import features, file_io
from bert_keras.errors import ArtifactError

# Read by ONNX Runtime at its import. Without it, recent versions write a number of the device and a
# database of events below the home folder, and send them.
_ONNX_RUNTIME = "ORT_DISABLE_TELEMETRY"
_OPENVINO = "openvino_telemetry"


def switch_off_telemetry() -> None:
    """Keep ONNX Runtime, OpenVINO and NNCF from reporting what this process does.

    `import openvino` and every conversion would contact an analytics host, and write an identifier
    below the home folder. OpenVINO and NNCF do without where the package openvino_telemetry is not
    installed; from here on its import fails. A library that was imported before is switched off as
    it is. No file is written for any of that.
    """
    os.environ.setdefault(_ONNX_RUNTIME, "1")
    if (onnx_runtime := sys.modules.get("onnxruntime")) is not None:
        onnx_runtime.disable_telemetry_events()
    if (package := sys.modules.get(_OPENVINO)) is None:
        sys.modules[_OPENVINO] = None  # pyright: ignore[reportArgumentType]
    elif package.Telemetry is not _NoTelemetry:
        with contextlib.suppress(RuntimeError):  # there is no instance yet
            package.Telemetry().consent = False  # of the only instance, which NNCF holds too
        # OpenVINO calls this class at every conversion, which would look for consent anew.
        package.Telemetry = _NoTelemetry


class _NoTelemetry:
    """The class `Telemetry` of openvino_telemetry, with methods that do nothing."""

    def __init__(self, *arguments: Any, **options: Any):
        del arguments, options

    def __getattr__(self, name: str) -> Any:
        if name == "backend":  # OpenVINO asks whether there is one
            raise AttributeError(name)
        return lambda *arguments, **options: None  # noqa: ARG005


# === Axes ===


BATCH, TEXTS, LENGTH, PREDICTIONS = "batch", "texts", "length", "predictions"

Axes = tuple[int | str, ...]


def input_axes(model: keras.Model) -> dict[str, Axes]:
    """Sizes and names by the input's name: {"token_ids": ("batch", "length"), ...}."""
    return {tensor.name: _axes(tensor.name, tensor.shape) for tensor in model.inputs}


def output_axes(model: keras.Model) -> dict[str, Axes]:
    """Likewise of the outputs, a tuple's as `flat` names them, in their order."""
    masked = features.MASK_POSITIONS in input_axes(model)
    return {
        name: _axes(features.MASK_POSITIONS if masked and name == features.MLM else name, x.shape)
        for name, x in flat(model.output).items()
    }


def flat(outputs: dict) -> dict:
    """Outputs by name alone: of a tuple "hidden_states" they are "hidden_states_0" and so on."""
    found = {}
    for name, value in outputs.items():
        if isinstance(value, tuple | list):
            found |= {f"{name}_{index}": tensor for index, tensor in enumerate(value)}
        else:
            found[name] = value
    return found


def _axes(name: str, shape: Sequence[int | None]) -> Axes:
    open_axes = [BATCH, *[LENGTH] * (len(shape) - 1)]
    if name == features.MASK_POSITIONS:
        open_axes[1] = PREDICTIONS
    elif name == features.CHOICE or (len(shape) == 3 and shape[1:] == (None, None)):
        open_axes[1] = TEXTS
    return tuple(size or axis for size, axis in zip(shape, open_axes, strict=True))


# === `export.json` ===


FILE = "export.json"


@dataclass(frozen=True)
class Manifest:
    """Contents of `export.json`.

    Attributes:
        format: a name of `FORMATS`.
        quantization: of the weights, as `runtime_model` has it; or None.
        task: the class of the model.
        max_length: most tokens of a text that the model is to be given.
        options: how its answers are found, as `Predictor` has them.
        pairs: of a model that takes one text or two: whether it learned from two.
        pad_id: what fills up the shorter rows of a batch.
        inputs: names, and sizes or names of their axes: int32.
        outputs: likewise, float32.
        prompt: what is to be put before each text, or each first one, before it is cut into
            tokens; "" for nothing.
        prompt_length: how many tokens that is, with the first special token: the input of this
            name, where the model has it.
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

    def write(self, folder: Path) -> None:
        """Writes it into the folder."""
        file_io.write_json(folder / FILE, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Reads it from the folder.

        Raises:
            ArtifactError: it is missing or damaged.
        """
        path = folder / FILE
        # What earlier versions did not write has no effect.
        values = {"prompt": "", "prompt_length": 0, **file_io.read_object(path)}
        if missing := sorted(_TYPES.keys() - values.keys()):
            raise ArtifactError(f"{path}: lacks {', '.join(missing)}. Export the model again.")
        for name, kind in _TYPES.items():
            if not isinstance(values[name], kind):
                raise ArtifactError(
                    f"{path}: {name} is not what this package writes: {values[name]!r:.100}"
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
}


# === Formats ===


FLOAT16, INT8, INT8_DYNAMIC = "float16", "int8", "int8_dynamic"


@dataclass(frozen=True)
class Format:
    """A file format of models that take ids.

    Attributes:
        file: its name in the folder.
        module: of this package; its `write` makes the file.
        writers: the libraries that write it, by the Keras backend that they need, the best first.
        extra: of this package, which brings them.
        quantizers: by each quantization that it has, more libraries, which that needs.
    """

    file: str
    module: str
    writers: Mapping[str, tuple[str, ...]]
    extra: str
    quantizers: Mapping[str, tuple[str, ...]]

    def backend(self, preferred: str, quantization: str | None) -> str:
        """The backend to write it with: that one if it can, else another that is installed.

        Raises:
            ImportError: no backend with its libraries is installed.
        """
        order = sorted(self.writers, key=lambda name: name != preferred)
        lacking = {
            name: [
                library
                for library in (*self.writers[name], *self.quantizers.get(quantization or "", ()))
                if importlib.util.find_spec(library) is None
            ]
            for name in order
        }
        for name in order:
            if not lacking[name]:
                return name
        best = order[0]
        raise ImportError(
            f"{self.file} needs {', '.join(lacking[best])}. "
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
    """A format that has a quantization.

    Raises:
        ValueError: there is none of that name, or it has not that quantization.
    """
    if name not in FORMATS:
        raise ValueError(f"A format is one of {', '.join(FORMATS)}. Received: {name!r}")
    known = FORMATS[name].quantizers
    if quantization is not None and quantization not in known:
        raise ValueError(
            f"The quantization of {name} is none, or one of {', '.join(known)}. "
            f"Received: {quantization!r}"
        )
    return FORMATS[name]
