"""A tiny encoder, a tokenizer, and stub predictors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bert_keras.config import BertConfig
from bert_keras.models import BertEncoder
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.tasks import FinetuningTask, task_of


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer([*SPECIAL_TOKENS, *"abcdefghij", *(f"##{c}" for c in "abcdefghij"), "?"])


@pytest.fixture(params=[True, False], ids=["pooler", "no_pooler"])
def encoder(request: pytest.FixtureRequest, tokenizer: Tokenizer) -> BertEncoder:
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=8,
        num_layers=1,
        num_heads=2,
        intermediate_size=8,
        max_positions=32,
        pooler=request.param,
    )
    return BertEncoder(config)


@pytest.fixture
def kind() -> Callable[..., Any]:
    """Return a function that makes a fine-tuning task, with its validation metrics."""

    def make(task: str, measured: Any = None, **values: Any) -> FinetuningTask:
        values = {"max_length": 16, "train": "train"} | values
        if task == "question_answering":
            values = {"max_question": 4, "stride": 4} | values
        return task_of(FinetuneRecipe(task=task, **values), measured)

    return make


@pytest.fixture
def predictor() -> Callable[..., Any]:
    """Return a function that makes a stub predictor, whose methods return fixed values."""

    def make(label_names: list[str] | None = None, **answers: Any) -> Any:
        methods = {name: lambda *_, answer=answer, **__: answer for name, answer in answers.items()}
        return SimpleNamespace(label_names=label_names, **methods)

    return make
