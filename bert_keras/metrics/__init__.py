"""How good predictions are: labels, numbers, entities, answers. Needs no Keras."""

from bert_keras.metrics.cmrc import cmrc_scores
from bert_keras.metrics.entities import EntitySpan, entity_scores, entity_spans
from bert_keras.metrics.scores import (
    accuracy,
    confusion_matrix,
    f1,
    matthews,
    multi_label_f1,
    pearson,
    spearman,
)
from bert_keras.metrics.squad import squad_scores

__all__ = [
    "EntitySpan",
    "accuracy",
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
