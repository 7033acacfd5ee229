"""Models for other programs."""

from bert_keras.export.saved_model import saved_model

__all__ = ["saved_model"]
