"""Keras layers of the encoder, its heads and their losses."""

from bert_keras.layers.attention import AttentionProbabilities, SelfAttention
from bert_keras.layers.core import to_be_filled
from bert_keras.layers.crf import ConditionalRandomField, log_likelihood
from bert_keras.layers.distillation import HiddenDistance
from bert_keras.layers.electra import Generator, TokenReplacement
from bert_keras.layers.embeddings import BertEmbeddings
from bert_keras.layers.heads import ClassificationHead, MaskedLMHead, PairHead, Pooler
from bert_keras.layers.local_attention import compared_keys
from bert_keras.layers.packing import (
    ExampleMask,
    ExamplePooling,
    MergeChoices,
    SplitChoices,
    SplitTexts,
    TokensAt,
)
from bert_keras.layers.pooling import ScalarMix, SentencePooling
from bert_keras.layers.positions import (
    BucketBias,
    DistanceVectors,
    LinearBias,
    RotaryAngles,
)
from bert_keras.layers.saved_model_layer import SavedModelLayer
from bert_keras.layers.some_tokens import FirstToken, TokensOf
from bert_keras.layers.transformer_block import FeedForward, PreNormBlock, TransformerBlock

__all__ = [
    "AttentionProbabilities",
    "BertEmbeddings",
    "BucketBias",
    "ClassificationHead",
    "ConditionalRandomField",
    "DistanceVectors",
    "ExampleMask",
    "ExamplePooling",
    "FeedForward",
    "FirstToken",
    "Generator",
    "HiddenDistance",
    "LinearBias",
    "MaskedLMHead",
    "MergeChoices",
    "PairHead",
    "Pooler",
    "PreNormBlock",
    "RotaryAngles",
    "SavedModelLayer",
    "ScalarMix",
    "SelfAttention",
    "SentencePooling",
    "SplitChoices",
    "SplitTexts",
    "TokenReplacement",
    "TokensAt",
    "TokensOf",
    "TransformerBlock",
    "compared_keys",
    "log_likelihood",
    "to_be_filled",
]
