"""Optimizers, learning-rate schedules and rates by layer, as BERT is trained with."""

from bert_keras.optimization.optimizers import OPTIMIZERS, AdamW, Lamb, Muon, optimizer
from bert_keras.optimization.schedules import SCHEDULES, WarmupDecay

__all__ = ["OPTIMIZERS", "SCHEDULES", "AdamW", "Lamb", "Muon", "WarmupDecay", "optimizer"]
