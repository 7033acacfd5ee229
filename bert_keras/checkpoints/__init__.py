"""Checkpoints of this and other libraries: tables of tensor names, readers and writers."""

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.hugging_face import family_head, new_head_options
from bert_keras.checkpoints.keras_hub import to_keras_hub
from bert_keras.checkpoints.model_card import write_model_card
from bert_keras.checkpoints.recognition import open_checkpoint

__all__ = [
    "Checkpoint",
    "family_head",
    "new_head_options",
    "open_checkpoint",
    "to_keras_hub",
    "write_model_card",
]
