"""Search of vectors: number formats, nearest vectors, saved indexes, similar pairs, groups."""

from bert_keras.retrieval.index import VectorIndex
from bert_keras.retrieval.nearest import Nearest, nearest
from bert_keras.retrieval.quantization import PRECISIONS, quantize
from bert_keras.retrieval.similar_pairs import (
    SimilarPairs,
    community_detection,
    paraphrase_mining,
)

__all__ = [
    "PRECISIONS",
    "Nearest",
    "SimilarPairs",
    "VectorIndex",
    "community_detection",
    "nearest",
    "paraphrase_mining",
    "quantize",
]
