"""Metrics of labels, numbers, entities, answers and rankings. They need no Keras."""

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
from bert_keras.metrics.text_ranking import (
    mean_average_precision,
    mean_reciprocal_rank,
    ndcg,
    precision_at_k,
    recall_at_k,
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
    "mean_average_precision",
    "mean_reciprocal_rank",
    "multi_label_f1",
    "ndcg",
    "pearson",
    "precision_at_k",
    "recall_at_k",
    "spearman",
    "squad_scores",
]
