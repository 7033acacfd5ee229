"""Optimizers, learning-rate schedules and layer-wise learning rates for BERT."""

from bert_keras.optimization.learning_rates import SCHEDULES, WarmupDecay
from bert_keras.optimization.optimizers import OPTIMIZERS, AdamW, Lamb, Muon, optimizer

__all__ = ["OPTIMIZERS", "SCHEDULES", "AdamW", "Lamb", "Muon", "WarmupDecay", "optimizer"]
