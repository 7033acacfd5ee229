"""Losses of sentence vectors, for `SentencePairs` and any Keras model with such an output."""

from bert_keras.losses.distillation import KLDivergenceLoss, MarginMSELoss
from bert_keras.losses.given_texts import BatchTripletLoss, ContrastiveLoss, CosentLoss, TripletLoss
from bert_keras.losses.in_batch import GuidedInBatchLoss, InBatchLoss, in_batch_accuracy
from bert_keras.losses.vector_loss import MatryoshkaLoss, VectorLoss

__all__ = [
    "BatchTripletLoss",
    "ContrastiveLoss",
    "CosentLoss",
    "GuidedInBatchLoss",
    "InBatchLoss",
    "KLDivergenceLoss",
    "MarginMSELoss",
    "MatryoshkaLoss",
    "TripletLoss",
    "VectorLoss",
    "in_batch_accuracy",
]
