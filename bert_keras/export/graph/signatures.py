"""Content of an exported SavedModel: tokenizer, model, signatures and assets."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_keras import features, saved_model_loading
from bert_keras.errors import ResourceError
from bert_keras.export import export_folder
from bert_keras.export.graph.input_checks import with_shapes, with_valid_ids
from bert_keras.export.graph.question_answering import Questions
from bert_keras.export.graph.text_classification import GraphTexts, flat
from bert_keras.export.graph.token_classification import Entities
from bert_keras.export.runtimes import formats
from bert_keras.models import BertEncoder, Task
from bert_keras.predictor import Predictor
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer

_REFUSALS = (tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError)


def save_program(root: Any, folder: Path, signatures: Mapping[str, Any]) -> None:
    """Write a SavedModel into an existing folder.

    Args:
        root: trackable object to save.
        folder: the folder.
        signatures: signature name -> concrete function.

    Raises:
        ResourceError: if the disk is full or cannot be written.
    """
    try:
        tf.saved_model.save(root, str(folder), signatures=dict(signatures))
    except _REFUSALS as error:
        # "{{function_node …}} FILE; No space left on device [Op:SaveV2]"
        words = re.sub(r"\{\{.*\}\}|\[Op:\w+\]", "", error.message).strip()
        file, _, reason = words.rpartition("; ")
        raise ResourceError(
            f"{file or folder}: could not be written: {reason}. Make room on the disk, or correct "
            "the permissions of the folder."
        ) from error
    saved_model_loading.remember(folder)


# === Assets ===
# TensorFlow Serving looks for its files in `assets.extra`. Programs that load the model ignore it.


EXTRA = "assets.extra"
REQUESTS = "tf_serving_warmup_requests"
_SIZES = (1, 8, 32)  # numbers of texts in a request
_WORDS = (4, 40)  # numbers of words in a text
# Field numbers in tensorflow_serving/apis/model.proto, predict.proto and prediction_log.proto.
_MODEL_NAME, _SIGNATURE_NAME = 1, 3
_MODEL_SPEC, _INPUTS = 1, 2
_KEY, _VALUE = 1, 2
_REQUEST, _PREDICT_LOG = 1, 6


def write_assets(
    predictor: Predictor, folder: Path, path: Path, signatures: Mapping[str, Any]
) -> None:
    """Write warm-up requests, model card, export.json and tokenizer into a SavedModel's folder.

    Args:
        predictor: predictor of the model.
        folder: folder of the SavedModel.
        path: final path of the folder, by whose name a server knows the model.
        signatures: signature name -> concrete function.
    """
    extra = folder / EXTRA
    extra.mkdir()
    default = signatures["serving_default"].structured_input_signature[1]
    if all(spec.dtype == tf.string for spec in default.values()):
        shapes = {key: spec.shape for key, spec in default.items()}
        with tf.io.TFRecordWriter(str(extra / REQUESTS)) as file:
            mask = predictor.tokenizer.scheme.mask
            for request in warm_up_requests(export_folder.model_name(path), shapes, mask):
                file.write(request)
    functions = {
        key: (signature.structured_input_signature[1], signature.structured_outputs)
        for key, signature in signatures.items()
    }
    export_folder.write_card(predictor, extra, path, functions, by=f"TensorFlow {tf.__version__}.")
    # Servers and other programs in Python read these two.
    formats.Manifest.of(predictor, SAVED_MODEL).write(extra)
    predictor.tokenizer.save_to_preset(extra)


def warm_up_requests(name: str, shapes: Mapping[str, Any], mask: str = "[MASK]") -> Iterator[bytes]:
    """Yield PredictionLog messages of a few sizes, with which a server warms up at its start.

    Args:
        name: name of the model.
        shapes: input name of `serving_default` -> shape.
        mask: mask token, with which each text begins.
    """
    for size in _SIZES:
        for words in _WORDS:
            text = " ".join([mask, *["text"] * (words - 1)])
            inputs = {
                key: tf.fill([size] if len(shape) == 1 else [size, 2], text)
                for key, shape in shapes.items()
            }
            yield _prediction_log(name, inputs)


def _prediction_log(name: str, inputs: Mapping[str, tf.Tensor]) -> bytes:
    """Return a PredictionLog message, written field by field.

    Its protobuf classes would need a package of TensorFlow Serving.
    """
    spec = _field(_MODEL_NAME, name.encode()) + _field(_SIGNATURE_NAME, b"serving_default")
    request = _field(_MODEL_SPEC, spec)
    for key, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(_INPUTS, _field(_KEY, key.encode()) + _field(_VALUE, tensor))
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """Return a protocol buffer field of bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Return a number in the variable-length format of protocol buffers."""
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])


# === Signatures ===


# Shapes of the signatures' string inputs, if they are not [batch].
_SHAPES = {"options": [None, None]}
SAVED_MODEL = "saved_model"  # name of the format in export.json
DEFAULT, IDS, TRAINING = "serving_default", "ids", "training"

_Function = Callable[..., dict[str, tf.Tensor]]
Functions = dict[str, _Function]


def write_saved_model(
    predictor: Predictor, folder: Path, path: Path, *, portable: bool, ids_only: bool = False
) -> None:
    """Write a SavedModel into an existing empty folder. TensorFlow backend only.

    Args:
        predictor: predictor of the model.
        folder: folder to write into.
        path: final path of the folder.
        portable: use only TensorFlow's own operations; see `saved_model`.
        ids_only: write no signature that takes strings; see `saved_model`.
    """
    task = predictor.task
    root = tf.__internal__.tracking.AutoTrackable()
    # A SavedModel stores attributes, but no properties. Clients need these lists to train it.
    root.variables = [variable.value for variable in task.variables]
    root.trainable_variables = [variable.value for variable in task.trainable_variables]
    signatures: dict[str, Any] = {}
    if not ids_only:
        root.tokenizer = InGraphTokenizer(predictor.tokenizer, portable=portable)
        functions = text_functions(predictor, root.tokenizer)
        signatures = {name: _concrete(function) for name, function in functions.items()}
    signatures[IDS] = _raw(task, training=False)
    signatures.setdefault(DEFAULT, signatures[IDS])
    signatures[TRAINING] = _raw(task, training=True)
    save_program(root, folder, signatures)
    write_assets(predictor, folder, path, signatures)


def text_functions(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return signature name -> function. The arguments of a function are the signature's inputs.

    Args:
        predictor: predictor of the model.
        tokenizer: tokenizer of the model, in the graph.
    """
    return SIGNATURES[predictor.task.task_name](predictor, tokenizer)


def _texts(predictor: Predictor, tokenizer: InGraphTokenizer) -> GraphTexts:
    """Return the model in the graph. For a task that trains vectors it is the vector model."""
    prompt = predictor.prompt
    return GraphTexts(
        predictor.task.vector_model() if predictor.task.reads_apart else predictor.task,
        tokenizer,
        max_length=predictor.max_length,
        prompt=prompt,
        prompt_length=predictor.prompt_length(prompt),
        long_texts=predictor.options.get("long_texts"),
        stride=predictor.options.get("stride"),
    )


def _labels(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signatures of a classifier: labels of texts and of pairs."""
    options = {k: v for k, v in predictor.options.items() if k not in ("long_texts", "stride")}
    answer = partial(_texts(predictor, tokenizer).labels, **options)
    return _either(predictor.pairs, texts=_of_text(answer), pairs=_of_pair(answer))


def _numbers(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signatures of a regression: numbers of texts and of pairs."""
    answer = _texts(predictor, tokenizer).numbers
    return _either(predictor.pairs, texts=_of_text(answer), pairs=_of_pair(answer))


def _pair_labels(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signature of a `SentencePairs` with labels, which are of pairs only."""
    # Without a prompt.
    texts = GraphTexts(predictor.task, tokenizer, max_length=predictor.max_length)
    options = {k: v for k, v in predictor.options.items() if k != "long_texts"}
    return {DEFAULT: _of_pair(partial(texts.labels, **options))}


def _entities(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signature of a token classifier: entities of texts."""
    entities = Entities(predictor.task, tokenizer, max_length=predictor.max_length)
    return {DEFAULT: lambda text: entities(text)}


def _answers(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signature of a question answering model."""
    length, options = predictor.max_length, predictor.options
    questions = Questions(predictor.task, tokenizer, max_length=length, **options)
    return {DEFAULT: lambda question, context: questions(question, context)}


def _choices(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signature of a multiple-choice model."""
    return {DEFAULT: _texts(predictor, tokenizer).choices}


def _relevance(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signature of a ranker: the score of a query and a document."""
    return {DEFAULT: _of_pair(_texts(predictor, tokenizer).numbers)}


def _vectors(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signatures of a sentence encoder: vectors of texts, similarity of pairs."""
    texts = _texts(predictor, tokenizer)
    return _either(predictor.pairs, vectors=texts.vectors, similarity=texts.similarity)


def _outputs(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signature of a bare encoder: all its outputs for texts."""
    return {DEFAULT: _texts(predictor, tokenizer).outputs}


def _fills(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signature of a masked language model: tokens for the masks of texts."""
    texts = _texts(predictor, tokenizer)
    return {DEFAULT: lambda text: texts.fills(text, **predictor.options)}


def _fills_and_next_sentence(predictor: Predictor, tokenizer: InGraphTokenizer) -> Functions:
    """Return the signatures of a pretrained model: masks, and next sentence prediction."""
    functions = _fills(predictor, tokenizer)
    if features.NSP in predictor.task.output:
        functions["next_sentence"] = _texts(predictor, tokenizer).follows
    return functions


# Task name -> function that makes the signatures of its models.
SIGNATURES: dict[str, Callable[[Predictor, InGraphTokenizer], Functions]] = {
    "text_classification": _labels,
    "multi_label_classification": _labels,
    "text_regression": _numbers,
    "pair_classification": _pair_labels,
    "token_classification": _entities,
    "question_answering": _answers,
    "multiple_choice": _choices,
    "text_ranking": _relevance,
    "sentence_similarity": _vectors,
    "feature_extraction": _outputs,
    "fill_mask": _fills,
    "pretraining": _fills_and_next_sentence,
}


def _of_text(answer: _Function) -> _Function:
    """Return a function whose only argument, and so only input, is `text`."""
    return lambda text: answer(text)


def _of_pair(answer: _Function) -> _Function:
    """Return a function whose arguments, and so inputs, are `text` and `pair`."""
    return lambda text, pair: answer(text, pair)


def _either(is_second: bool, **functions: _Function) -> Functions:
    """Return two functions as signatures: one as the default, the other under its own name."""
    names = list(functions)
    return {
        DEFAULT: functions[names[is_second]],
        names[not is_second]: functions[names[not is_second]],
    }


def _concrete(function: _Function) -> Any:
    """Return a concrete function with a string input for each argument of `function`."""
    specs = {
        name: tf.TensorSpec(_SHAPES.get(name, [None]), tf.string, name=name)
        for name in inspect.signature(function).parameters
    }
    axes = {name: ("batch", name)[: len(spec.shape)] for name, spec in specs.items()}

    def run(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return function(**with_shapes(inputs, axes))

    return tf.function(run, autograph=False).get_concrete_function(**specs)


def _raw(task: Task | BertEncoder, *, training: bool) -> Any:
    """Return a concrete function of the bare model: int32 inputs by name -> float32 outputs."""
    axes = formats.input_axes(task)

    def run(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return flat(task(with_valid_ids(task, with_shapes(inputs, axes)), training=training))

    specs = {
        tensor.name: tf.TensorSpec(tensor.shape, tf.int32, name=tensor.name)
        for tensor in task.inputs
    }
    return tf.function(run, autograph=False).get_concrete_function(**specs)
