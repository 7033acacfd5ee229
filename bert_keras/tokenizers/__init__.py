"""Strings to ids: BERT's WordPiece tokenizer, and learning its vocabulary."""

from bert_keras.tokenizers.encoding import Encoding
from bert_keras.tokenizers.tokenizer import Tokenizer

__all__ = ["Encoding", "Tokenizer"]
