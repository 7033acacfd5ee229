"""From texts to answers with a trained model."""

from bert_keras.checkpoints.predictor_config import read_predictor_config, write_predictor_config
from bert_keras.inference import Answer, Choice, Entity, Fill, Label, entity_tags
from bert_keras.inference.predictor_config import PredictorConfig
from bert_keras.predictor.inputs import (
    STANDARD_INPUT,
    TABLES,
    Row,
    column_of,
    file_lines,
    keys_of,
    line_rows,
    standard_input,
    table_rows,
)
from bert_keras.predictor.lines import plain, predict_lines, predict_rows
from bert_keras.predictor.outputs import records, require_new, write
from bert_keras.predictor.predictor import Predictor

__all__ = [
    "STANDARD_INPUT",
    "TABLES",
    "Answer",
    "Choice",
    "Entity",
    "Fill",
    "Label",
    "Predictor",
    "PredictorConfig",
    "Row",
    "column_of",
    "entity_tags",
    "file_lines",
    "keys_of",
    "line_rows",
    "plain",
    "predict_lines",
    "predict_rows",
    "read_predictor_config",
    "records",
    "require_new",
    "standard_input",
    "table_rows",
    "write",
    "write_predictor_config",
]
