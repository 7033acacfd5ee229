"""Checkpoints: tables of names, and the one engine that reads and writes by them."""

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.folders import open_checkpoint
from bert_keras.checkpoints.hugging_face import family_head
from bert_keras.checkpoints.keras_hub import to_keras_hub

__all__ = [
    "Checkpoint",
    "family_head",
    "open_checkpoint",
    "to_keras_hub",
]
