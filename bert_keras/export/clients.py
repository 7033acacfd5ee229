"""Exported models opened as their users open them, and example requests."""

from __future__ import annotations

import abc
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import features, models
from bert_keras.data import Choices
from bert_keras.data import model_inputs as data
from bert_keras.data.multiple_choice import choice_rows
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.export.runtimes.formats import FILE, FORMATS, Manifest
from bert_keras.models.with_tokenizer import AnswersTexts
from bert_keras.tokenizers import Tokenizer

# Inputs of a model, of one example each: texts, but lists of them for "options".
Columns = Mapping[str, Sequence[Any]]

_WORDS = (1, 60)  # pieces of a text that is made up
_ODD = (
    *("", " \t\n", "é ß ½ ﬁ İ", "中文分词", "😀 \u200d \ue000", "x" * 150, "[SEP] [CLS]"),
    *("a\u0301\u0327", "שלום नमस्ते ไทย", "don't, e.g. $1,000.00!", "\x00\x7f\ufffd"),
)


def in_input_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names of columns as `Predictor` takes them; a SavedModel tells them in any order."""
    classes = [value for value in vars(models).values() if hasattr(value, "answer_inputs")]
    known = dict.fromkeys(name for each in classes for name in each.answer_inputs(True))
    order = {name: place for place, name in enumerate(known)}
    return tuple(sorted(names, key=lambda name: order.get(name, len(order))))


def model_class_of(name: str) -> type[AnswersTexts]:
    """Return a class of models by its name.

    Raises:
        ArtifactError: there is no such class.
    """
    found: Any = getattr(models, name, None)
    if not hasattr(found, "answer_inputs"):
        raise ArtifactError(
            f"The export is of a {name!r:.100}, a class that this version of bert_keras does not "
            "have. Update bert_keras, or export the model again."
        )
    return found


def input_names(model_class: type[AnswersTexts], pairs: bool = False) -> tuple[str, ...]:
    """Return the names of the texts that a model takes.

    Args:
        model_class: of the model.
        pairs: whether a model of one text or two takes two.
    """
    return model_class.answer_inputs(pairs or model_class.reads_apart)


def example_texts(
    names: Sequence[str], tokenizer: Tokenizer, count: int, mask: str = ""
) -> Columns:
    """Texts of pieces of the vocabulary, of many lengths, and some odd ones; the same every time.

    Args:
        names: of `names_of`.
        tokenizer: whose vocabulary.
        count: how many.
        mask: what each begins with, of models that fill masks.
    """
    draw = np.random.default_rng(0)
    ordinary = np.setdiff1d(np.arange(tokenizer.vocab_size), list(tokenizer.special_ids))
    found: dict[str, list[Any]] = {}
    for name in names:
        sizes = draw.integers(*_WORDS, count)
        texts = [tokenizer.decode(draw.choice(ordinary, size)) for size in sizes]
        texts[: len(_ODD)] = _ODD[:count]
        draw.shuffle(texts)
        found[name] = [f"{mask} {text}" for text in texts] if mask else texts
    if "options" in found:
        options = found["options"]
        found["options"] = [list(pair) for pair in zip(options, options[::-1], strict=True)]
    return found


def mask_token_of(model_class: type[AnswersTexts], tokenizer: Tokenizer) -> str:
    """Return the token that models of a class fill; "" of a class that fills none."""
    return tokenizer.id_to_token(tokenizer.mask_id) if model_class.fills_masks else ""


def part_of_columns(columns: Columns, start: int, stop: int) -> Columns:
    """Some of the examples."""
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
    """A batch of the model's own inputs, padded to its longest text.

    Args:
        columns: the texts.
        tokenizer: the model's.
        inputs: of the model, with their axes.
        max_length: where texts are cut.
        prompt: before each first text.
        prompt_length: its tokens, with [CLS].

    Returns:
        int32 [batch, length], or [batch, texts, length] of what is read apart.
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
    found = rows.inputs(numbers, int(rows.lengths.max(initial=1)))
    if features.PROMPT_LENGTH in inputs:
        found[features.PROMPT_LENGTH] = np.full((len(numbers), 1), prompt_length, np.int32)
    if features.MASK_POSITIONS in inputs:
        found[features.MASK_POSITIONS] = _masks(found[features.TOKEN_IDS], tokenizer.mask_id)
    return {name: found[name] for name in inputs}


def _masks(token_ids: np.ndarray, mask_id: int) -> np.ndarray:
    """The columns of the masks, filled up with 0: int32 [batch, predictions]."""
    is_mask = token_ids == mask_id
    found = np.zeros((len(token_ids), int(is_mask.sum(axis=1).max(initial=1))), np.int32)
    for row, marks in zip(found, is_mask, strict=True):
        places = np.flatnonzero(marks)
        row[: len(places)] = places
    return found


# === Clients ===


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
        """Return the model's outputs for a batch of texts."""


class TextClient(Client):
    """A SavedModel, asked by its signature `serving_default`."""

    def __init__(self, folder: Path):
        self._model, tf = load(folder), _runtime("tensorflow", "tensorflow")
        self._run = self._model.signatures["serving_default"]
        inputs = self._run.structured_input_signature[1]
        self.names = in_input_order(inputs)
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
        model_class = model_class_of(self.manifest.task)
        self.names = input_names(model_class, self.manifest.pairs)
        self.mask = mask_token_of(model_class, tokenizer)

    def encode(self, columns: Columns) -> Outputs:
        """As the base class says."""
        manifest = self.manifest
        return as_ids(
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
