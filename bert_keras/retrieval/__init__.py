"""Search of vectors: nearest ones, saved indexes, similar pairs, groups, hard negatives."""

from bert_keras.retrieval.index import VectorIndex
from bert_keras.retrieval.mining import MinedNegatives, mine_hard_negatives
from bert_keras.retrieval.nearest import Nearest, nearest
from bert_keras.retrieval.negatives import HardNegatives, NegativeLimits, choose_negatives
from bert_keras.retrieval.quantization import PRECISIONS, quantize
from bert_keras.retrieval.similar_pairs import (
    SimilarPairs,
    community_detection,
    paraphrase_mining,
)

__all__ = [
    "PRECISIONS",
    "HardNegatives",
    "MinedNegatives",
    "Nearest",
    "NegativeLimits",
    "SimilarPairs",
    "VectorIndex",
    "choose_negatives",
    "community_detection",
    "mine_hard_negatives",
    "nearest",
    "paraphrase_mining",
    "quantize",
]
