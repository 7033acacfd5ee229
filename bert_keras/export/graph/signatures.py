"""The TensorFlow program inside a SavedModel: tokenizer, model, signatures and assets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_keras import features
from bert_keras.errors import ResourceError
from bert_keras.export import export_folder
from bert_keras.export.graph.question_answering import Questions
from bert_keras.export.graph.text_classification import Texts, flat
from bert_keras.export.graph.token_classification import Entities
from bert_keras.models import (
    BertEncoder,
    MultipleChoice,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    Task,
    TokenClassifier,
)
from bert_keras.predictor import Predictor
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer

_REFUSALS = (tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError)


def save_program(root: Any, folder: Path, signatures: Mapping[str, Any]) -> None:
    """Writes a SavedModel into an existing folder.

    Raises:
        ResourceError: the disk is full, or may not be written.
    """
    try:
        tf.saved_model.save(root, str(folder), signatures=dict(signatures))
    except _REFUSALS as error:
        raise ResourceError(f"{folder}: could not be written: {error.message}") from error


# === Assets ===
# `assets.extra` is where TensorFlow Serving looks for such files; what loads the model does not
# read them.


EXTRA = "assets.extra"
REQUESTS = "tf_serving_warmup_requests"
_SIZES = (1, 8, 32)  # texts of a request
_WORDS = (4, 40)  # of a text
# Numbers of fields: tensorflow_serving/apis/model.proto, predict.proto and prediction_log.proto.
_MODEL_NAME, _SIGNATURE_NAME = 1, 3
_MODEL_SPEC, _INPUTS = 1, 2
_KEY, _VALUE = 1, 2
_REQUEST, _PREDICT_LOG = 1, 6


def write_assets(
    predictor: Predictor, folder: Path, path: Path, signatures: Mapping[str, Any]
) -> None:
    """Writes them into the folder of a SavedModel.

    Args:
        predictor: the model, and how it is asked.
        folder: of the SavedModel.
        path: the same, when it is complete: its name is that by which a server knows the model.
        signatures: the concrete functions by name.
    """
    extra = folder / EXTRA
    extra.mkdir()
    default = signatures["serving_default"].structured_input_signature[1]
    shapes = {key: spec.shape for key, spec in default.items()}
    with tf.io.TFRecordWriter(str(extra / REQUESTS)) as file:
        for request in warm_up_requests(export_folder.model_name(path), shapes):
            file.write(request)
    functions = {
        key: (signature.structured_input_signature[1], signature.structured_outputs)
        for key, signature in signatures.items()
    }
    export_folder.write_card(predictor, extra, path, functions, by=f"TensorFlow {tf.__version__}.")


def warm_up_requests(name: str, shapes: Mapping[str, Any]) -> Iterator[bytes]:
    """Requests of a few sizes, so that the first true one does not wait: PredictionLog messages.

    Args:
        name: of the model.
        shapes: of the inputs of `serving_default`.
    """
    for size in _SIZES:
        for words in _WORDS:
            text = " ".join(["[MASK]", *["text"] * (words - 1)])
            inputs = {
                key: tf.fill([size] if len(shape) == 1 else [size, 2], text)
                for key, shape in shapes.items()
            }
            yield _prediction_log(name, inputs)


def _prediction_log(name: str, inputs: Mapping[str, tf.Tensor]) -> bytes:
    """The message, field by field: its classes are those of a package of TensorFlow Serving's."""
    spec = _field(_MODEL_NAME, name.encode()) + _field(_SIGNATURE_NAME, b"serving_default")
    request = _field(_MODEL_SPEC, spec)
    for key, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(_INPUTS, _field(_KEY, key.encode()) + _field(_VALUE, tensor))
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes, as protocol buffers write it."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


# === Signatures ===


# What signatures take: strings, one for each example, but for the options of choices.
_SHAPES = {"options": [None, None]}
DEFAULT, IDS, TRAINING = "serving_default", "ids", "training"

_Function = Callable[..., dict[str, tf.Tensor]]


def write_saved_model(predictor: Predictor, folder: Path, path: Path, *, portable: bool) -> None:
    """Writes the SavedModel into an existing empty folder. TensorFlow backend only.

    Args:
        predictor: the model, its tokenizer, and how it is asked.
        folder: the folder.
        path: what it will be called.
        portable: see `saved_model`.
    """
    task = predictor.task
    root = tf.__internal__.tracking.AutoTrackable()
    root.tokenizer = InGraphTokenizer(predictor.tokenizer, portable=portable)
    # As attributes, not properties: only attributes are in a SavedModel, and a client trains them.
    root.variables = [variable.value for variable in task.variables]
    root.trainable_variables = [variable.value for variable in task.trainable_variables]
    functions = text_functions(predictor, root.tokenizer)
    signatures = {name: _concrete(function) for name, function in functions.items()}
    signatures[IDS] = _raw(task, training=False)
    signatures[TRAINING] = _raw(task, training=True)
    save_program(root, folder, signatures)
    write_assets(predictor, folder, path, signatures)


def text_functions(predictor: Predictor, tokenizer: InGraphTokenizer) -> dict[str, _Function]:
    """Return the functions that answer texts, by signature name; their arguments are its inputs.

    Args:
        predictor: how the model is asked.
        tokenizer: in the graph.
    """
    task, options, max_length = predictor.task, predictor.options, predictor.max_length
    pairs = predictor.pairs
    reading: dict[str, Any] = {"max_length": max_length, "prompt": predictor.prompt}
    reading["prompt_length"] = predictor.prompt_length(predictor.prompt)
    texts = Texts(task, tokenizer, **reading)
    if isinstance(task, SequenceClassifier):
        is_number = task.options["problem"] == "regression"
        answer = texts.numbers if is_number else partial(texts.labels, **options)
        return _either(
            pairs, texts=lambda text: answer(text), pairs=lambda text, pair: answer(text, pair)
        )
    if isinstance(task, TokenClassifier):
        found = Entities(task, tokenizer, max_length=max_length)
        return {DEFAULT: lambda text: found(text)}
    if isinstance(task, QuestionAnswerer):
        asked = Questions(task, tokenizer, max_length=max_length, **options)
        return {DEFAULT: lambda question, context: asked(question, context)}
    if isinstance(task, MultipleChoice):
        return {DEFAULT: texts.choices}
    if isinstance(task, SentencePairs) and task.head is not None:
        texts = Texts(task, tokenizer, max_length=max_length)  # labels are given without prompts
        return {DEFAULT: lambda text, pair: texts.labels(text, pair, **options)}
    if isinstance(task, SentencePairs):
        texts = Texts(task.sentence_encoder, tokenizer, **reading)
    if isinstance(task, SentenceEncoder | SentencePairs):
        return _either(pairs, vectors=texts.vectors, similarity=texts.similarity)
    if isinstance(task, BertEncoder):
        return {DEFAULT: texts.outputs}
    fills: dict[str, _Function] = {DEFAULT: lambda text: texts.fills(text, **options)}
    return fills | ({"next_sentence": texts.follows} if features.NSP in task.output else {})


def _either(is_second: bool, **functions: _Function) -> dict[str, _Function]:
    """Two functions, one of which is the default and the other has its name."""
    names = list(functions)
    return {
        DEFAULT: functions[names[is_second]],
        names[not is_second]: functions[names[not is_second]],
    }


def _concrete(function: _Function) -> Any:
    """A signature whose inputs are the function's arguments."""
    specs = {
        name: tf.TensorSpec(_SHAPES.get(name, [None]), tf.string, name=name)
        for name in inspect.signature(function).parameters
    }
    return tf.function(lambda **inputs: function(**inputs), autograph=False).get_concrete_function(
        **specs
    )


def _raw(task: Task | BertEncoder, *, training: bool) -> Any:
    """The model as it is: its inputs by name, int32 -> its outputs."""

    def run(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return flat(task(inputs, training=training))

    specs = {
        tensor.name: tf.TensorSpec(tensor.shape, tf.int32, name=tensor.name)
        for tensor in task.inputs
    }
    return tf.function(run, autograph=False).get_concrete_function(**specs)
