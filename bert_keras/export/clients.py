"""Exported models, opened and asked as those who run them do it."""

from __future__ import annotations

import abc
import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.export import requests
from bert_keras.export.requests import Columns
from bert_keras.export.runtimes.formats import FORMATS
from bert_keras.export.runtimes.manifest import FILE, Manifest
from bert_keras.tokenizers import Tokenizer

Outputs = dict[str, np.ndarray]


class Client(abc.ABC):
    """An exported model.

    Attributes:
        names: of the columns of texts that it is asked with.
        mask: what a text is to have for a place to fill, such as "[MASK]"; "" where none is filled.
    """

    names: tuple[str, ...]
    mask: str

    @abc.abstractmethod
    def answer(self, columns: Columns) -> Outputs:
        """What it gives for a batch of texts."""


class TextClient(Client):
    """A SavedModel, asked by its signature `serving_default`."""

    def __init__(self, folder: Path):
        self._model, tf = load(folder), _runtime("tensorflow", "tensorflow")
        self._run = self._model.signatures["serving_default"]
        inputs = self._run.structured_input_signature[1]
        self.names = requests.in_order(inputs)
        # WordPiece vocabularies have no other.
        self.mask = "[MASK]" if "mask_count" in self._run.structured_outputs else ""
        if any(spec.dtype != tf.string for spec in inputs.values()):
            raise ArtifactError(f"{folder}: serving_default takes no texts, as ours do.")

    def answer(self, columns: Columns) -> Outputs:
        """As the base class says."""
        found = self._run(**{name: self._strings(name, columns[name]) for name in self.names})
        return {name: value.numpy() for name, value in found.items()}

    def _strings(self, name: str, values: Any) -> Any:
        tf = importlib.import_module("tensorflow")
        shape = [len(values), 2] if name == "options" and not len(values) else None
        return tf.constant(values, tf.string, shape=shape)


class IdsClient(Client):
    """A model that takes ids, and what makes them of texts."""

    @abc.abstractmethod
    def encode(self, columns: Columns) -> Outputs:
        """The inputs for a batch of texts, by our names."""

    @abc.abstractmethod
    def run(self, inputs: Mapping[str, np.ndarray]) -> Outputs:
        """The model itself."""

    def answer(self, columns: Columns) -> Outputs:
        """As the base class says."""
        return self.run(self.encode(columns))


class HubClient(IdsClient):
    """TensorFlow Hub's pair: texts to the preprocessor, its ids to the encoder."""

    names, mask = ("text",), ""

    def __init__(self, folder: Path):
        self._preprocessor = TextClient(folder / "preprocessor")
        self._encoder = load(folder / "encoder")

    def encode(self, columns: Columns) -> Outputs:
        """As the base class says."""
        names = self._preprocessor.names
        found = self._preprocessor.answer(dict(zip(names, columns.values(), strict=True)))
        return features.rename(found, features.TF_HUB, back=True)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Outputs:
        """As the base class says."""
        found = self._encoder(features.rename(inputs, features.TF_HUB), training=False)
        wanted = (features.POOLED_OUTPUT, features.SEQUENCE_OUTPUT)
        return {name: found[name].numpy() for name in wanted if name in found}


class RuntimeClient(IdsClient):
    """A model of another runtime, with its tokenizer in Python.

    Attributes:
        manifest: what its folder says of it.
    """

    def __init__(self, folder: Path):
        self.manifest = Manifest.read(folder)
        format_ = FORMATS.get(self.manifest.format)
        if format_ is None:
            raise ArtifactError(f"{folder / FILE}: no format {self.manifest.format!r:.50}.")
        if not (folder / "tokenizer.json").is_file():
            raise ArtifactError(f"{folder}: lacks tokenizer.json.")
        self._tokenizer = tokenizer = Tokenizer.from_preset(folder)
        self._run = _OPEN[self.manifest.format](folder / format_.file)
        self.names = requests.names_of(self.manifest.task, self.manifest.pairs)
        self.mask = requests.mask_of(self.manifest.task, tokenizer)

    def encode(self, columns: Columns) -> Outputs:
        """As the base class says."""
        manifest = self.manifest
        return requests.as_ids(
            columns,
            self._tokenizer,
            manifest.inputs,
            max_length=manifest.max_length,
            prompt=manifest.prompt,
            prompt_length=manifest.prompt_length,
        )

    def run(self, inputs: Mapping[str, np.ndarray]) -> Outputs:
        """As the base class says."""
        return self._run(inputs)


def open_client(folder: str | Path) -> Client:
    """Opens what `saved_model`, `tf_hub` or `runtime_model` wrote.

    Raises:
        UsageError: nothing of the kind is there.
        ArtifactError: it is damaged, or of another origin.
        ImportError: its runtime is not installed.
    """
    folder = Path(folder)
    if (folder / "saved_model.pb").is_file():
        return TextClient(folder)
    if (folder / "preprocessor" / "saved_model.pb").is_file():
        return HubClient(folder)
    if (folder / FILE).is_file():
        return RuntimeClient(folder)
    raise UsageError(f"{folder}: holds no exported model: neither saved_model.pb nor {FILE}.")


def load(folder: Path) -> Any:
    """A SavedModel, and the library whose operation its tokenizer may use."""
    tf = _runtime("tensorflow", "tensorflow")
    with suppress(ImportError):  # where it is needed, TensorFlow says so
        importlib.import_module("tensorflow_text")
    return tf.saved_model.load(str(folder))


_Run = Callable[[Mapping[str, np.ndarray]], Outputs]


def _onnx(path: Path) -> _Run:
    session = _runtime("onnxruntime", "onnx").InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))


def _openvino(path: Path) -> _Run:
    # Where a processor has bfloat16, OpenVINO takes that if nothing is said.
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    model = _runtime("openvino", "openvino").Core().compile_model(path, "CPU", options)

    def run(inputs: Mapping[str, np.ndarray]) -> Outputs:
        return {key.get_any_name(): value for key, value in model(dict(inputs)).items()}

    return run


def _litert(path: Path) -> _Run:
    module = _runtime("ai_edge_litert", "litert", ".interpreter")
    interpreter = module.Interpreter(str(path), num_threads=os.cpu_count())
    signature = interpreter.get_signature_runner()
    return lambda inputs: signature(**inputs)


def _torch(path: Path) -> _Run:
    torch = _runtime("torch", "torch")
    module = torch.export.load(path).module()

    def run(inputs: Mapping[str, np.ndarray]) -> Outputs:
        with torch.no_grad():
            found = module({name: torch.from_numpy(value) for name, value in inputs.items()})
        return {name: tensor.numpy() for name, tensor in found.items()}

    return run


_OPEN = {"onnx": _onnx, "openvino": _openvino, "litert": _litert, "torch": _torch}


def _runtime(library: str, extra: str, module: str = "") -> Any:
    if importlib.util.find_spec(library) is None:
        raise ImportError(
            f'{library} is not installed. Install with: pip install "bert-keras[{extra}]"'
        )
    return importlib.import_module(f"{library}{module}")
