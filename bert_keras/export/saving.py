"""SavedModels brought to the disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_keras.errors import ResourceError

_REFUSALS = (tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError)


def save(root: Any, folder: Path, signatures: Mapping[str, Any]) -> None:
    """Writes a SavedModel into an existing folder.

    Raises:
        ResourceError: the disk is full, or may not be written.
    """
    try:
        tf.saved_model.save(root, str(folder), signatures=dict(signatures))
    except _REFUSALS as error:
        raise ResourceError(f"{folder}: could not be written: {error.message}") from error
