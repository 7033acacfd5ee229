"""What a SavedModel's folder holds for those who serve it: warm-up requests, labels, a card.

`assets.extra` is where TensorFlow Serving looks for such files; what loads the model does not read
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_keras.predictor import Predictor

EXTRA = "assets.extra"
REQUESTS, LABELS, CARD = "tf_serving_warmup_requests", "labels.txt", "model_card.md"
_SIZES = (1, 8, 32)  # texts of a request
_WORDS = (4, 40)  # of a text
# Numbers of fields: tensorflow_serving/apis/model.proto, predict.proto and prediction_log.proto.
_MODEL_NAME, _SIGNATURE_NAME = 1, 3
_MODEL_SPEC, _INPUTS = 1, 2
_KEY, _VALUE = 1, 2
_REQUEST, _PREDICT_LOG = 1, 6


def write(predictor: Predictor, folder: Path, *, name: str, signatures: Mapping[str, Any]) -> None:
    """Writes them into the folder of a SavedModel.

    Args:
        predictor: the model, and how it is asked.
        folder: of the SavedModel.
        name: by which a server knows the model.
        signatures: the concrete functions by name.
    """
    extra = folder / EXTRA
    extra.mkdir()
    default = signatures["serving_default"].structured_input_signature[1]
    shapes = {key: spec.shape for key, spec in default.items()}
    with tf.io.TFRecordWriter(str(extra / REQUESTS)) as file:
        for request in warm_up_requests(name, shapes):
            file.write(request)
    options: Mapping[str, Any] = predictor.task.options
    if labels := options.get("labels"):
        lines = "".join(f"{label}\n" for label in labels)
        (extra / LABELS).write_text(lines, encoding="utf-8")
    lines = _card(predictor, name, signatures)
    (extra / CARD).write_text("\n".join([*lines, ""]), encoding="utf-8")


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


def _card(predictor: Predictor, name: str, signatures: Mapping[str, Any]) -> Iterator[str]:
    """What one has to know who finds the folder."""
    task, encoder = predictor.task, predictor.encoder
    yield from (f"# {name}", "")
    yield f"A {type(task).__name__} of {task.count_params():,} parameters: {encoder.config.family},"
    yield (
        f"{encoder.config.num_layers} layers, {encoder.config.hidden_size} wide. Texts are read to "
        f"{predictor.max_length} tokens of a vocabulary of {predictor.tokenizer.vocab_size:,}."
    )
    if predictor.options:
        yield f"It answers with {', '.join(f'{k}={v}' for k, v in predictor.options.items())}."
    yield from ("", "| signature | takes | gives |", "| --- | --- | --- |")
    for key, signature in signatures.items():
        taken = ", ".join(f"`{given}`" for given in signature.structured_input_signature[1])
        given = ", ".join(f"`{output}`" for output in signature.structured_outputs)
        yield f"| `{key}` | {taken} | {given} |"
    yield from ("", f"TensorFlow {tf.__version__}. Written by bert_keras.")
