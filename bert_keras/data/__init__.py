"""Text to batches: documents, token stores, pretraining examples."""

from bert_keras.data.corpus import MANIFEST, Corpus
from bert_keras.data.corpus_writer import require_vacant, split_of, write
from bert_keras.data.documents import LAYOUTS, Documents, read
from bert_keras.data.pretraining import PretrainingExamples, py_dataset, tf_dataset

__all__ = [
    "LAYOUTS",
    "MANIFEST",
    "Corpus",
    "Documents",
    "PretrainingExamples",
    "py_dataset",
    "read",
    "require_vacant",
    "split_of",
    "tf_dataset",
    "write",
]
