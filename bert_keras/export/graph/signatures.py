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
from bert_keras.models import BertEncoder, Task
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
Functions = dict[str, _Function]


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


def text_functions(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the functions that answer texts, by signature name; their arguments are its inputs.

    Args:
        predictor: the model, and its options.
        tokenizer: the model's, in the graph.
    """
    return SIGNATURES[predictor.task.task_name](predictor, tokenizer)


def _texts(predictor: Predictor, tokenizer: InGraphTokenizer) -> Texts:
    """Return the model with its prompt; of a task that trains vectors, the encoder in it."""
    prompt = predictor.prompt
    return Texts(
        predictor.task.vector_model() if predictor.task.reads_apart else predictor.task,
        tokenizer,
        max_length=predictor.max_length,
        prompt=prompt,
        prompt_length=predictor.prompt_length(prompt),
    )


def _labels(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    answer = partial(_texts(predictor, tokenizer).labels, **predictor.options)
    return _either(predictor.pairs, texts=_of_text(answer), pairs=_of_pair(answer))


def _numbers(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    answer = _texts(predictor, tokenizer).numbers
    return _either(predictor.pairs, texts=_of_text(answer), pairs=_of_pair(answer))


def _pair_labels(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    texts = Texts(predictor.task, tokenizer, max_length=predictor.max_length)  # without a prompt
    return {DEFAULT: _of_pair(partial(texts.labels, **predictor.options))}


def _entities(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    found = Entities(predictor.task, tokenizer, max_length=predictor.max_length)
    return {DEFAULT: lambda text: found(text)}


def _answers(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    length, options = predictor.max_length, predictor.options
    asked = Questions(predictor.task, tokenizer, max_length=length, **options)
    return {DEFAULT: lambda question, context: asked(question, context)}


def _choices(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    return {DEFAULT: _texts(predictor, tokenizer).choices}


def _vectors(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    texts = _texts(predictor, tokenizer)
    return _either(predictor.pairs, vectors=texts.vectors, similarity=texts.similarity)


def _outputs(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    return {DEFAULT: _texts(predictor, tokenizer).outputs}


def _fills(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    texts = _texts(predictor, tokenizer)
    return {DEFAULT: lambda text: texts.fills(text, **predictor.options)}


def _fills_and_next_sentence(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    functions = _fills(predictor, tokenizer)
    if features.NSP in predictor.task.output:
        functions["next_sentence"] = _texts(predictor, tokenizer).follows
    return functions


# Task name -> the function that makes the signatures of its model.
SIGNATURES: dict[str, Callable[[Predictor, InGraphTokenizer], Functions]] = {
    "text_classification": _labels,
    "multi_label_classification": _labels,
    "text_regression": _numbers,
    "pair_classification": _pair_labels,
    "token_classification": _entities,
    "question_answering": _answers,
    "multiple_choice": _choices,
    "sentence_similarity": _vectors,
    "feature_extraction": _outputs,
    "fill_mask": _fills,
    "pretraining": _fills_and_next_sentence,
}


def _of_text(answer: _Function) -> _Function:
    return lambda text: answer(text)


def _of_pair(answer: _Function) -> _Function:
    return lambda text, pair: answer(text, pair)


def _either(is_second: bool, **functions: _Function) -> Functions:
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
