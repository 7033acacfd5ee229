"""What a SavedModel's folder holds for those who serve it: warm-up requests, labels, a card.

`assets.extra` is where TensorFlow Serving looks for such files; what loads the model does not read
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_keras.export import card
from bert_keras.predictor import Predictor

EXTRA = "assets.extra"
REQUESTS = "tf_serving_warmup_requests"
_SIZES = (1, 8, 32)  # texts of a request
_WORDS = (4, 40)  # of a text
# Numbers of fields: tensorflow_serving/apis/model.proto, predict.proto and prediction_log.proto.
_MODEL_NAME, _SIGNATURE_NAME = 1, 3
_MODEL_SPEC, _INPUTS = 1, 2
_KEY, _VALUE = 1, 2
_REQUEST, _PREDICT_LOG = 1, 6


def write(predictor: Predictor, folder: Path, path: Path, signatures: Mapping[str, Any]) -> None:
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
        for request in warm_up_requests(card.name_of(path), shapes):
            file.write(request)
    functions = {
        key: (signature.structured_input_signature[1], signature.structured_outputs)
        for key, signature in signatures.items()
    }
    card.write(predictor, extra, path, functions, by=f"TensorFlow {tf.__version__}.")


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
