"""From texts to answers with a trained model."""

from bert_keras.checkpoints.predictor_config import read_predictor_config, write_predictor_config
from bert_keras.inference import Answer, Choice, Entity, Fill, Label, entity_tags
from bert_keras.inference.predictor_config import PredictorConfig
from bert_keras.predictor.lines import predict_lines
from bert_keras.predictor.predictor import Predictor

__all__ = [
    "Answer",
    "Choice",
    "Entity",
    "Fill",
    "Label",
    "Predictor",
    "PredictorConfig",
    "entity_tags",
    "predict_lines",
    "read_predictor_config",
    "write_predictor_config",
]
