"""Search of vectors: number formats, nearest vectors."""

from bert_keras.retrieval.nearest import Nearest, nearest
from bert_keras.retrieval.quantization import PRECISIONS, quantize

__all__ = ["PRECISIONS", "Nearest", "nearest", "quantize"]
