"""Bricks: Keras layers that take numbers and compute one thing."""

from bert_keras.layers.attention import AttentionProbabilities, SelfAttention
from bert_keras.layers.block import FirstToken, TokensOf, TransformerBlock
from bert_keras.layers.choices import MergeChoices, SplitChoices
from bert_keras.layers.crf import ConditionalRandomField, log_likelihood
from bert_keras.layers.distance import HiddenDistance
from bert_keras.layers.dropout import to_be_filled
from bert_keras.layers.embeddings import BertEmbeddings
from bert_keras.layers.feedforward import FeedForward
from bert_keras.layers.generator import Generator
from bert_keras.layers.heads import ClassificationHead, MaskedLMHead, PairHead, Pooler
from bert_keras.layers.packed import ExampleMask, TokensAt
from bert_keras.layers.pooling import SentencePooling
from bert_keras.layers.replacement import TokenReplacement
from bert_keras.layers.saved_model_layer import SavedModelLayer
from bert_keras.layers.scalar_mix import ScalarMix

__all__ = [
    "AttentionProbabilities",
    "BertEmbeddings",
    "ClassificationHead",
    "ConditionalRandomField",
    "ExampleMask",
    "FeedForward",
    "FirstToken",
    "Generator",
    "HiddenDistance",
    "MaskedLMHead",
    "MergeChoices",
    "PairHead",
    "Pooler",
    "SavedModelLayer",
    "ScalarMix",
    "SelfAttention",
    "SentencePooling",
    "SplitChoices",
    "TokenReplacement",
    "TokensAt",
    "TokensOf",
    "TransformerBlock",
    "log_likelihood",
    "to_be_filled",
]
