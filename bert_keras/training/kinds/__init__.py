"""Tasks of fine-tuning, a file for each kind: from a file of examples to a score."""

from bert_keras.training.kinds.kind import Evaluation, Kind, Worst
from bert_keras.training.kinds.labels import PROBLEMS
from bert_keras.training.kinds.registry import KINDS, kind_of

__all__ = ["KINDS", "PROBLEMS", "Evaluation", "Kind", "Worst", "kind_of"]
