"""Models for other programs."""

from bert_keras.export.saved_model import saved_model
from bert_keras.export.saved_model_layer import SavedModelLayer
from bert_keras.export.tf_hub import tf_hub

__all__ = ["SavedModelLayer", "saved_model", "tf_hub"]
