"""From texts to answers with a trained model."""

from bert_keras.predictor.answers import Answer, Choice, Entity, Fill, Label
from bert_keras.predictor.lines import predict_lines
from bert_keras.predictor.predictor import Predictor

__all__ = ["Answer", "Choice", "Entity", "Fill", "Label", "Predictor", "predict_lines"]
