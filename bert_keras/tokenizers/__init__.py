"""Tokenizers: WordPiece, byte-level BPE and SentencePiece, and training of a vocabulary."""

from bert_keras.tokenizers.encoding import Encoding
from bert_keras.tokenizers.tokenizer import Tokenizer

__all__ = ["Encoding", "Tokenizer"]
