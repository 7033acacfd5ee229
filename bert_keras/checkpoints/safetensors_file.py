"""Writing a safetensors file tensor by tensor, so that a model is never in memory twice.

The library's own writer wants all arrays at once. The format: eight bytes with the length of a JSON
header, the header, the numbers (https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bert_keras import atomic
from bert_keras.checkpoints import transfer
from bert_keras.checkpoints.format import Entry

_KINDS = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int8": "I8",
}
_METADATA = {"format": "pt"}  # what Hugging Face's library looks for


def write(path: Path, entries: Iterable[Entry]) -> str:
    """Writes variables as the tensors they are stored in; answers the sha256 of the file.

    Args:
        path: replaced whole, or left as it was.
        entries: the variables.

    Raises:
        NumericError: a value is not finite.
    """
    entries = list(entries)
    header: dict[str, object] = {"__metadata__": _METADATA}
    end = 0
    for entry in entries:
        dtype = str(entry.variable.dtype)
        width = 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
        start, end = end, end + width * math.prod(entry.shape)
        header[entry.tensor] = {
            "dtype": _KINDS[dtype],
            "shape": list(entry.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with atomic.new_file(path) as file:
        for part in (len(text).to_bytes(8, "little"), text):
            digest.update(part)
            file.write(part)
        for entry in transfer.each(entries, f"writing {path}"):
            for _, array in transfer.parts(entry):
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                digest.update(data)
                file.write(data)
    return digest.hexdigest()
