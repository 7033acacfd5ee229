"""Files of TensorBoard's projector, which shows vectors in two or three dimensions.

`tensorboard --logdir FOLDER` finds `projector_config.pbtxt`, which names the other two files. The
projector expects a header in the table of texts only if the table has several columns.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bert_keras import file_io
from bert_keras.escaping import printable

CONFIG, VECTORS, TEXTS = "projector_config.pbtxt", "tensors.tsv", "metadata.tsv"
_CONFIG = f"""embeddings {{
  tensor_name: "texts"
  tensor_path: "{VECTORS}"
  metadata_path: "{TEXTS}"
}}
"""
_EMPTY = "(empty)"  # the projector skips an empty line, and shifts all later texts by one


def write(
    folder: str | os.PathLike[str],
    vectors: np.ndarray,
    texts: Sequence[str],
    labels: Sequence[str] | None = None,
) -> Path:
    """Write vectors, and their texts and labels, for TensorBoard's projector.

    Args:
        folder: folder of the files. Missing folders are made, and the three files are replaced.
        vectors: floats [texts, size].
        texts: a text for each vector.
        labels: a label for each vector; None for none.

    Returns:
        The folder.
    """
    target = file_io.expanded(folder)
    target.mkdir(parents=True, exist_ok=True)
    rows = ["\t".join(f"{value:.6g}" for value in vector) for vector in vectors.tolist()]
    file_io.write_text(target / VECTORS, "".join(f"{row}\n" for row in rows))
    lines = [_cell(text) for text in texts]
    if labels is not None:
        pairs = zip(lines, labels, strict=True)
        lines = ["text\tlabel", *(f"{line}\t{_cell(label)}" for line, label in pairs)]
    file_io.write_text(target / TEXTS, "".join(f"{line}\n" for line in lines))
    file_io.write_text(target / CONFIG, _CONFIG)
    return target


def _cell(text: str) -> str:
    """Return a text as a cell of a table: tabs and line ends become spaces."""
    return " ".join(printable(text).split()) or _EMPTY
