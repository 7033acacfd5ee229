"""Bricks: Keras layers that take numbers and compute one thing."""

from bert_keras.layers.attention import AttentionProbabilities, SelfAttention
from bert_keras.layers.block import TransformerBlock
from bert_keras.layers.embeddings import BertEmbeddings
from bert_keras.layers.feedforward import FeedForward
from bert_keras.layers.heads import MaskedLMHead, PairHead, Pooler

__all__ = [
    "AttentionProbabilities",
    "BertEmbeddings",
    "FeedForward",
    "MaskedLMHead",
    "PairHead",
    "Pooler",
    "SelfAttention",
    "TransformerBlock",
]
