"""Exact resume: a killed training run continues as if it had never been interrupted."""

from bert_keras.resume.callbacks import SaveCheckpoint, StopOnSignal
from bert_keras.resume.checkpoint import TrainingCheckpoints
from bert_keras.resume.run_files import MetricsLog, RunLock

__all__ = [
    "MetricsLog",
    "RunLock",
    "SaveCheckpoint",
    "StopOnSignal",
    "TrainingCheckpoints",
]
