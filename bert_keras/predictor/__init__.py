"""`Predictor`, and the reading and writing of files for the program `predict`."""

from bert_keras.checkpoints.sentence_transformers import (
    read_predictor_config,
    write_predictor_config,
)
from bert_keras.inference import (
    Answer,
    Choice,
    Entity,
    Fill,
    Label,
    Ranked,
    RankedAnswer,
    entity_tags,
)
from bert_keras.inference.base import PredictorConfig
from bert_keras.predictor.device import checked_device, device_scope
from bert_keras.predictor.files import (
    STANDARD_INPUT,
    TABLES,
    Row,
    column_of,
    file_lines,
    keys_of,
    line_rows,
    plain,
    predict_lines,
    predict_rows,
    records,
    require_new,
    standard_input,
    table_rows,
    write,
)
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
    "Ranked",
    "RankedAnswer",
    "Row",
    "checked_device",
    "column_of",
    "device_scope",
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
