"""Wiring: a config becomes a functional Keras model."""

from bert_keras.models.encoder import BertEncoder
from bert_keras.models.masked_lm import MaskedLM
from bert_keras.models.pretrainer import Pretrainer
from bert_keras.models.task import Task

__all__ = ["BertEncoder", "MaskedLM", "Pretrainer", "Task"]
