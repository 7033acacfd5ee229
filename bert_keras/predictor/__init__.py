"""From texts to answers with a trained model."""

from bert_keras.predictor.answers import Answer, Choice, Entity, Fill, Label
from bert_keras.predictor.entities import entity_tags
from bert_keras.predictor.lines import predict_lines
from bert_keras.predictor.predictor import Predictor
from bert_keras.predictor.preset import Asked, read_preset, write_preset

__all__ = [
    "Answer",
    "Asked",
    "Choice",
    "Entity",
    "Fill",
    "Label",
    "Predictor",
    "entity_tags",
    "predict_lines",
    "read_preset",
    "write_preset",
]
