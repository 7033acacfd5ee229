"""Bricks: Keras layers that take numbers and compute one thing."""

from bert_keras.layers.attention import AttentionProbabilities, SelfAttention
from bert_keras.layers.block import TransformerBlock
from bert_keras.layers.choices import MergeChoices, SplitChoices
from bert_keras.layers.dropout import to_be_filled
from bert_keras.layers.embeddings import BertEmbeddings
from bert_keras.layers.feedforward import FeedForward
from bert_keras.layers.heads import ClassificationHead, MaskedLMHead, PairHead, Pooler
from bert_keras.layers.pooling import SentencePooling

__all__ = [
    "AttentionProbabilities",
    "BertEmbeddings",
    "ClassificationHead",
    "FeedForward",
    "MaskedLMHead",
    "MergeChoices",
    "PairHead",
    "Pooler",
    "SelfAttention",
    "SentencePooling",
    "SplitChoices",
    "TransformerBlock",
    "to_be_filled",
]
