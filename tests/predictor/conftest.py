"""Fixtures of `tests/inference`: tiny tasks."""

from tests.inference.conftest import task, tokenizer

__all__ = ["task", "tokenizer"]
