"""Losses of sentence vectors and of rankings, for any Keras model with such an output."""

from bert_keras.losses.distillation import KLDivergenceLoss, MarginMSELoss
from bert_keras.losses.given_texts import BatchTripletLoss, ContrastiveLoss, CosentLoss, TripletLoss
from bert_keras.losses.in_batch import GuidedInBatchLoss, InBatchLoss, in_batch_accuracy
from bert_keras.losses.ranking import (
    BinaryRankingLoss,
    LambdaLoss,
    ListNetLoss,
    RankingLoss,
    RankingMarginMSELoss,
    RankingMetric,
)
from bert_keras.losses.vector_loss import MatryoshkaLoss, VectorLoss

__all__ = [
    "BatchTripletLoss",
    "BinaryRankingLoss",
    "ContrastiveLoss",
    "CosentLoss",
    "GuidedInBatchLoss",
    "InBatchLoss",
    "KLDivergenceLoss",
    "LambdaLoss",
    "ListNetLoss",
    "MarginMSELoss",
    "MatryoshkaLoss",
    "RankingLoss",
    "RankingMarginMSELoss",
    "RankingMetric",
    "TripletLoss",
    "VectorLoss",
    "in_batch_accuracy",
]
