"""Checkpoints of this and other libraries: tables of tensor names, readers and writers."""

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.folders import open_checkpoint
from bert_keras.checkpoints.hugging_face import family_head
from bert_keras.checkpoints.keras_hub import to_keras_hub
from bert_keras.checkpoints.model_card import write_model_card

__all__ = [
    "Checkpoint",
    "family_head",
    "open_checkpoint",
    "to_keras_hub",
    "write_model_card",
]
