"""Tokenizers: WordPiece, byte-level BPE and SentencePiece, and training of a vocabulary."""

from bert_keras.tokenizers.encoding import Encoding
from bert_keras.tokenizers.subword_training import MODELS, check_model
from bert_keras.tokenizers.tokenizer import Tokenizer
from bert_keras.tokenizers.vocabulary_coverage import Coverage

__all__ = ["MODELS", "Coverage", "Encoding", "Tokenizer", "check_model"]
