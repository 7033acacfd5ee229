"""Metrics of classification, regression, entities and question answering. They need no Keras."""

from bert_keras.metrics.question_answering import cmrc_scores, squad_scores
from bert_keras.metrics.sentence_similarity import pearson, spearman
from bert_keras.metrics.text_classification import (
    Calibration,
    accuracy,
    calibration,
    confusion_matrix,
    f1,
    matthews,
    multi_label_f1,
)
from bert_keras.metrics.token_classification import EntitySpan, entity_scores, entity_spans

__all__ = [
    "Calibration",
    "EntitySpan",
    "accuracy",
    "calibration",
    "cmrc_scores",
    "confusion_matrix",
    "entity_scores",
    "entity_spans",
    "f1",
    "matthews",
    "multi_label_f1",
    "pearson",
    "spearman",
    "squad_scores",
]
