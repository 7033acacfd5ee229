"""Clients that open exported models as users do, and example texts for them."""

from __future__ import annotations

import abc
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import features, file_io, models
from bert_keras.data import Choices
from bert_keras.data import model_inputs as data
from bert_keras.data.multiple_choice import choice_rows
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.export.runtimes.formats import FILE, FORMATS, Manifest
from bert_keras.models.with_tokenizer import AnswersTexts
from bert_keras.saved_model_loading import PROGRAM, load
from bert_keras.tokenizers import Tokenizer

# Input name of a model -> one text for each example; for "options" a list of texts.
Columns = Mapping[str, Sequence[Any]]

_WORDS = (1, 60)  # smallest and largest number of pieces of a random text
# Texts with unusual characters.
_ODD = (
    *("", " \t\n", "é ß ½ ﬁ İ", "中文分词", "😀 \u200d \ue000", "x" * 150, "[SEP] [CLS]"),
    *("a\u0301\u0327", "שלום नमस्ते ไทย", "don't, e.g. $1,000.00!", "\x00\x7f\ufffd"),
)


def in_input_order(names: Iterable[str]) -> tuple[str, ...]:
    """Sort the input names of a SavedModel, which has no order, as `Predictor` takes them."""
    classes = [value for value in vars(models).values() if hasattr(value, "answer_inputs")]
    known = dict.fromkeys(name for class_ in classes for name in class_.answer_inputs(True))
    order = {name: place for place, name in enumerate(known)}
    return tuple(sorted(names, key=lambda name: order.get(name, len(order))))


def model_class_of(name: str) -> type[AnswersTexts]:
    """Return the model class of a name in an export.

    Raises:
        ArtifactError: if there is no such class.
    """
    model_class: Any = getattr(models, name, None)
    if not hasattr(model_class, "answer_inputs"):
        raise ArtifactError(
            f"The export is of a {name!r:.100}, a class that this version of bert_keras does not "
            "have. Update bert_keras, or export the model again."
        )
    return model_class


def input_names(model_class: type[AnswersTexts], pairs: bool = False) -> tuple[str, ...]:
    """Return the names of the text inputs of a model, such as ("text",).

    Args:
        model_class: class of the model.
        pairs: True if a model that can read one text or two reads two.
    """
    return model_class.answer_inputs(pairs or model_class.reads_apart)


def example_texts(
    names: Sequence[str], tokenizer: Tokenizer, count: int, mask: str = ""
) -> Columns:
    """Make example texts of random pieces, of many lengths, and some with unusual characters.

    The texts are the same in every call.

    Args:
        names: names of the inputs; see `input_names`.
        tokenizer: tokenizer of the model.
        count: number of examples.
        mask: mask token that each text begins with; "" for models that fill no masks.
    """
    draw = np.random.default_rng(0)
    ordinary = np.setdiff1d(np.arange(tokenizer.vocab_size), list(tokenizer.special_ids))
    columns: dict[str, list[Any]] = {}
    for name in names:
        sizes = draw.integers(*_WORDS, count)
        texts = [tokenizer.decode(draw.choice(ordinary, size)) for size in sizes]
        texts[: len(_ODD)] = _ODD[:count]
        draw.shuffle(texts)
        columns[name] = [f"{mask} {text}" for text in texts] if mask else texts
    if "options" in columns:
        options = columns["options"]
        columns["options"] = [list(pair) for pair in zip(options, options[::-1], strict=True)]
    return columns


def mask_token_of(model_class: type[AnswersTexts], tokenizer: Tokenizer) -> str:
    """Return the mask token of a tokenizer; "" for a model class that fills no masks."""
    return tokenizer.id_to_token(tokenizer.mask_id) if model_class.fills_masks else ""


def part_of_columns(columns: Columns, start: int, stop: int) -> Columns:
    """Return the examples from `start` to `stop`, without the last."""
    return {name: values[start:stop] for name, values in columns.items()}


def as_ids(
    columns: Columns,
    tokenizer: Tokenizer,
    inputs: Mapping[str, Sequence[Any]],
    *,
    max_length: int,
    prompt: str = "",
    prompt_length: int = 0,
) -> dict[str, np.ndarray]:
    """Encode texts as the inputs of a model, padded to the longest text.

    Args:
        columns: the texts.
        tokenizer: tokenizer of the model.
        inputs: name of each input of the model -> names of its axes.
        max_length: maximum number of tokens; longer texts are truncated.
        prompt: text that is put before each first text.
        prompt_length: number of tokens of the prompt with [CLS].

    Returns:
        Input name -> int32 [batch, length]; [batch, texts, length] for models that read the texts
        of an example in separate rows.
    """
    first, *second = columns.values()
    first = [prompt + text for text in first] if prompt else first
    group, is_grouped = 2, len(inputs[features.TOKEN_IDS]) == 3
    if "options" in columns and len(first):
        choices = Choices(first, second[0])
        rows, group = choice_rows(tokenizer, choices, max_length=max_length)
    elif is_grouped:
        rows = data.encode_apart(tokenizer, first, second[0], max_length=max_length)
    else:
        rows = data.encode(tokenizer, first, *second, max_length=max_length)
    numbers = np.arange(len(rows))
    if is_grouped:
        numbers = numbers.reshape(-1, group)
    batch = rows.inputs(numbers, int(rows.lengths.max(initial=1)))
    if features.PROMPT_LENGTH in inputs:
        batch[features.PROMPT_LENGTH] = np.full((len(numbers), 1), prompt_length, np.int32)
    if features.MASK_POSITIONS in inputs:
        batch[features.MASK_POSITIONS] = _masks(batch[features.TOKEN_IDS], tokenizer.mask_id)
    return {name: batch[name] for name in inputs}


def _masks(token_ids: np.ndarray, mask_id: int) -> np.ndarray:
    """Return the positions of the masks in token ids [batch, length], padded with 0.

    The result is int32 [batch, masks].
    """
    is_mask = token_ids == mask_id
    positions = np.zeros((len(token_ids), int(is_mask.sum(axis=1).max(initial=1))), np.int32)
    for row, marks in zip(positions, is_mask, strict=True):
        places = np.flatnonzero(marks)
        row[: len(places)] = places
    return positions


# === Clients ===


Outputs = dict[str, np.ndarray]


class Client(abc.ABC):
    """An exported model, opened for prediction.

    Attributes:
        names: names of its text inputs, in the order of `Predictor`.
        mask: mask token that every text needs, such as "[MASK]"; "" for models that fill no masks.
    """

    names: tuple[str, ...]
    mask: str

    @abc.abstractmethod
    def answer(self, columns: Columns) -> Outputs:
        """Return the model's outputs for a batch of texts: name -> array [batch, ...]."""


class TextClient(Client):
    """A SavedModel, called by its signature `serving_default`.

    Raises:
        UsageError: if another process wrote the SavedModel, and `trust` is False.
        ArtifactError: if the signature does not take strings.
    """

    def __init__(self, folder: Path, *, trust: bool = False):
        self._model, tf = load(folder, trust=trust), _runtime("tensorflow", "tensorflow")
        self._run = self._model.signatures["serving_default"]
        inputs = self._run.structured_input_signature[1]
        self.names = in_input_order(inputs)
        self.mask = _mask_of(folder) if "mask_count" in self._run.structured_outputs else ""
        if any(spec.dtype != tf.string for spec in inputs.values()):
            raise ArtifactError(
                f"{folder}: the signature serving_default takes no texts, so it is the encoder of "
                "a tf_hub export, an export with --ids-only or of another program. Name an export "
                "that takes texts, or write one with `bert-keras export`."
            )

    def answer(self, columns: Columns) -> Outputs:
        """Return the model's outputs for a batch of texts; see `Client.answer`."""
        outputs = self._run(**{name: self._strings(name, columns[name]) for name in self.names})
        return {name: value.numpy() for name, value in outputs.items()}

    def _strings(self, name: str, values: Any) -> Any:
        """Return a column as a string tensor [batch], or [batch, options] for "options"."""
        tf = importlib.import_module("tensorflow")
        shape = [len(values), 2] if name == "options" and not len(values) else None
        return tf.constant(values, tf.string, shape=shape)


def _mask_of(folder: Path) -> str:
    """Return the mask token of a SavedModel's tokenizer; "[MASK]" if it states none."""
    path = folder / "assets.extra" / "special_tokens_map.json"
    mask = file_io.read_object(path).get("mask_token") if path.is_file() else None
    return mask if isinstance(mask, str) else "[MASK]"


class IdsClient(Client):
    """An exported model that takes ids, together with its tokenizer."""

    @abc.abstractmethod
    def encode(self, columns: Columns) -> Outputs:
        """Return the model's inputs for a batch of texts: name -> array [batch, ...]."""

    @abc.abstractmethod
    def run(self, inputs: Mapping[str, np.ndarray]) -> Outputs:
        """Return the model's outputs for its inputs: name -> array [batch, ...]."""

    def answer(self, columns: Columns) -> Outputs:
        """Return the model's outputs for a batch of texts; see `Client.answer`."""
        return self.run(self.encode(columns))


class HubClient(IdsClient):
    """A pair of SavedModels for TensorFlow Hub: a preprocessor of texts and an encoder of ids."""

    names, mask = ("text",), ""

    def __init__(self, folder: Path, *, trust: bool = False):
        self._preprocessor = TextClient(folder / "preprocessor", trust=trust)
        self._encoder = load(folder / "encoder", trust=trust)

    def encode(self, columns: Columns) -> Outputs:
        """Run the preprocessor; see `IdsClient.encode`."""
        names = self._preprocessor.names
        inputs = self._preprocessor.answer(dict(zip(names, columns.values(), strict=True)))
        return features.rename(inputs, features.TF_HUB, back=True)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Outputs:
        """Run the encoder; see `IdsClient.run`."""
        outputs = self._encoder(features.rename(inputs, features.TF_HUB), training=False)
        wanted = (features.POOLED_OUTPUT, features.SEQUENCE_OUTPUT)
        return {name: outputs[name].numpy() for name in wanted if name in outputs}


class RuntimeClient(IdsClient):
    """A model of another runtime (ONNX, OpenVINO, LiteRT, PyTorch) with its tokenizer in Python.

    Attributes:
        manifest: content of its export.json.
        tokenizer: its tokenizer.

    Raises:
        ArtifactError: if a file is missing or damaged, or the format is not known.
    """

    def __init__(self, folder: Path):
        self.manifest = Manifest.read(folder)
        format_ = FORMATS.get(self.manifest.format)
        if format_ is None:
            raise ArtifactError(
                f"{folder / FILE}: unknown format {self.manifest.format!r:.50}. Known formats: "
                f"{', '.join(FORMATS)}. If a newer version wrote it, update bert-keras."
            )
        if not (folder / "tokenizer.json").is_file():
            raise ArtifactError(f"{folder}: lacks tokenizer.json. Export the model again.")
        self.tokenizer = tokenizer = Tokenizer.from_preset(folder)
        self._run = _OPEN[self.manifest.format](folder / format_.file)
        model_class = model_class_of(self.manifest.task)
        self.names = input_names(model_class, self.manifest.pairs)
        self.mask = mask_token_of(model_class, tokenizer)

    def encode(self, columns: Columns) -> Outputs:
        """Run the tokenizer; see `IdsClient.encode`."""
        manifest = self.manifest
        return as_ids(
            columns,
            self.tokenizer,
            manifest.inputs,
            max_length=manifest.max_length,
            prompt=manifest.prompt,
            prompt_length=manifest.prompt_length,
        )

    def run(self, inputs: Mapping[str, np.ndarray]) -> Outputs:
        """Run the model; see `IdsClient.run`."""
        return self._run(inputs)


def open_client(folder: str | Path, *, trust: bool = False) -> Client:
    """Open a folder that `saved_model`, `tf_hub` or `runtime_model` wrote.

    Args:
        folder: folder of the export.
        trust: True to run a SavedModel that another process wrote. It is a program.

    Raises:
        UsageError: if the folder holds no exported model, or a SavedModel that needs `trust`.
        ArtifactError: if the export is damaged, or of another program.
        ImportError: if its runtime is not installed.
    """
    folder = Path(folder)
    if (folder / PROGRAM).is_file():
        return TextClient(folder, trust=trust)
    if (folder / "preprocessor" / PROGRAM).is_file():
        return HubClient(folder, trust=trust)
    if (folder / FILE).is_file():
        return RuntimeClient(folder)
    raise UsageError(
        f"{folder}: holds no exported model: neither saved_model.pb nor {FILE}. Name the folder "
        "of one version, such as saved_models/demo/1."
    )


_Run = Callable[[Mapping[str, np.ndarray]], Outputs]


def _onnx(path: Path) -> _Run:
    """Open a model.onnx with ONNX Runtime; return the function that runs it."""
    session = _runtime("onnxruntime", "onnx").InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))


def _openvino(path: Path) -> _Run:
    """Open a model.xml with OpenVINO; return the function that runs it."""
    # By default OpenVINO computes in bfloat16 on processors that have it.
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    model = _runtime("openvino", "openvino").Core().compile_model(path, "CPU", options)

    def run(inputs: Mapping[str, np.ndarray]) -> Outputs:
        return {key.get_any_name(): value for key, value in model(dict(inputs)).items()}

    return run


def _litert(path: Path) -> _Run:
    """Open a model.tflite with LiteRT; return the function that runs it."""
    module = _runtime("ai_edge_litert", "litert", ".interpreter")
    interpreter = module.Interpreter(str(path), num_threads=os.cpu_count())
    signature = interpreter.get_signature_runner()
    return lambda inputs: signature(**inputs)


def _torch(path: Path) -> _Run:
    """Open a model.pt2 with PyTorch; return the function that runs it."""
    torch = _runtime("torch", "torch")
    module = torch.export.load(path).module()

    def run(inputs: Mapping[str, np.ndarray]) -> Outputs:
        with torch.no_grad():
            # PyTorch 2.8 and 2.9 want the inputs in the order of the export.
            outputs = module({name: torch.from_numpy(inputs[name]) for name in sorted(inputs)})
        return {name: tensor.numpy() for name, tensor in outputs.items()}

    return run


_OPEN = {"onnx": _onnx, "openvino": _openvino, "litert": _litert, "torch": _torch}


def _runtime(library: str, extra: str, module: str = "") -> Any:
    """Import a library of a runtime, or a module in it such as ".interpreter".

    Raises:
        ImportError: if it is not installed. The message names the extra of this package.
    """
    if importlib.util.find_spec(library) is None:
        raise ImportError(
            f'{library} is not installed. Install with: pip install "bert-keras[{extra}]"'
        )
    return importlib.import_module(f"{library}{module}")
