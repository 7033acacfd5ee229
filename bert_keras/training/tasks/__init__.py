"""Tasks of fine-tuning: each reads a file of examples, builds its model and measures it."""

from bert_keras.training.tasks.registry import TASKS, task_of
from bert_keras.training.tasks.task import BAD, GOOD, Evaluation, FinetuningTask, HardExample
from bert_keras.training.tasks.text_classification import PROBLEMS

__all__ = [
    "BAD",
    "GOOD",
    "PROBLEMS",
    "TASKS",
    "Evaluation",
    "FinetuningTask",
    "HardExample",
    "task_of",
]
