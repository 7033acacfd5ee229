"""The tiny tasks of `inference`."""

from tests.inference.conftest import task, tokenizer

__all__ = ["task", "tokenizer"]
