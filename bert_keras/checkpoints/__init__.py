"""Checkpoints: tables of names, and the one engine that reads and writes by them."""

from bert_keras.checkpoints.api import (
    load_checkpoint,
    load_opened,
    open_checkpoint,
    save_checkpoint,
)
from bert_keras.checkpoints.hugging_face import family_head
from bert_keras.checkpoints.keras_hub import from_keras_hub, to_keras_hub

__all__ = [
    "family_head",
    "from_keras_hub",
    "load_checkpoint",
    "load_opened",
    "open_checkpoint",
    "save_checkpoint",
    "to_keras_hub",
]
