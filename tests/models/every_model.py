"""One model of each class and view that takes batches, and a batch for each."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

import bert_keras.models
from bert_keras import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    Pretrainer,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    TextRanker,
    TokenClassifier,
    features,
)
from bert_keras.models import Distiller, ElectraPretrainer, FewShot, ReplacedTokenDetector
from bert_keras.models.base import DirectModel
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS
from tests import contracts

ROWS, TEXTS, LENGTH, SLOTS = 3, 2, 7, 2
TINY = contracts.TINY.replace(num_layers=1)  # one layer, to save time


def _encoder() -> BertEncoder:
    return BertEncoder(TINY)


MODELS: dict[str, Callable[[], Any]] = {
    "encoder": _encoder,
    "with_outputs": lambda: _encoder().with_outputs(hidden_states=True),
    "first_token": lambda: _encoder().first_token(),
    "at_positions": lambda: _encoder().at_positions(),
    "packed": lambda: _encoder().packed(),
    "packed at_positions": lambda: _encoder().at_positions(packed=True),
    "classifier": lambda: SequenceClassifier(_encoder(), 3),
    "several labels": lambda: SequenceClassifier(_encoder(), 3, problem="multi_label"),
    "number": lambda: SequenceClassifier(_encoder(), 1),
    "tagger": lambda: TokenClassifier(_encoder(), 3),
    "tagger with crf": lambda: TokenClassifier(_encoder(), 3, crf=True),
    "masked_lm": lambda: MaskedLM(_encoder()),
    "pretrainer": lambda: Pretrainer(_encoder()),
    "electra": lambda: ElectraPretrainer(
        BertEncoder(TINY.replace(pooler=False)), generator_size=0.5
    ),
    "detector": lambda: ReplacedTokenDetector(_encoder()),
    "questions": lambda: QuestionAnswerer(_encoder()),
    "choices": lambda: MultipleChoice(_encoder()),
    "ranker": lambda: TextRanker(_encoder()),
    "sentences": lambda: SentenceEncoder(_encoder()),
    "in_batch": lambda: SentencePairs(_encoder()),
    "pair labels": lambda: SentencePairs(_encoder(), loss="classification", num_classes=3),
    "packed classifier": lambda: SequenceClassifier(_encoder(), 3).packed(),
    "packed pretrainer": lambda: Pretrainer(_encoder()).packed(),
    "chunked masked_lm": lambda: MaskedLM(_encoder()).loss_chunks(2),
    "distiller": lambda: Distiller(
        SequenceClassifier(_encoder(), 3), SequenceClassifier(_encoder(), 3)
    ),
    "few shot": lambda: FewShot(
        SequenceClassifier(
            _encoder(), 2, pooling="mean", normalize=True, tokenizer=Tokenizer(SPECIAL_TOKENS)
        ),
        ["[MASK]", "a"],
        [0, 1],
    ),
}


# Class -> the name of one model of this class in `MODELS`.
BY_CLASS = {
    "BertEncoder": "encoder",
    "ChunkedTask": "chunked masked_lm",
    "Distiller": "distiller",
    "ElectraPretrainer": "electra",
    "EncoderView": "packed at_positions",
    "FewShot": "few shot",
    "MaskedLM": "masked_lm",
    "MultipleChoice": "choices",
    "PackedTask": "packed pretrainer",
    "Pretrainer": "pretrainer",
    "QuestionAnswerer": "questions",
    "ReplacedTokenDetector": "detector",
    "SentenceEncoder": "sentences",
    "SentencePairs": "pair labels",
    "SequenceClassifier": "classifier",
    "TextRanker": "ranker",
    "TokenClassifier": "tagger with crf",
}


@functools.cache
def model(name: str) -> Any:
    """Return the model of a name, compiled with its own loss if it has one."""
    made = MODELS[name]()
    if hasattr(made, "loss_and_metrics"):
        made.compile(keras.optimizers.SGD(0.01), **made.loss_and_metrics())
    return made


# Base classes, which have no models of their own.
BASES = {"FitsText", "Task", "TaskView", "WithoutUnused"}


def classes_below(base: type) -> dict[str, type]:
    """Return every model class of the library below another class, by name, without `BASES`.

    Subclasses that a test defines are left out.
    """
    for module in pkgutil.iter_modules(bert_keras.models.__path__):
        importlib.import_module(f"bert_keras.models.{module.name}")
    found: dict[str, type] = {}
    waiting = [base]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        found |= {
            each.__name__: each for each in below if each.__module__.startswith("bert_keras.")
        }
    return {name: found[name] for name in sorted(found.keys() - BASES)}


def discovered() -> Iterator[type]:
    """Yield every class of the library that takes batches and is not a base class."""
    yield from classes_below(DirectModel).values()


def inputs(made: Any, length: int = LENGTH) -> dict[str, np.ndarray]:
    """Return a batch that fits the inputs of a model."""
    generator = np.random.default_rng(0)
    batch = {}
    for name, tensor in made.input.items():
        texts = (TEXTS,) if len(tensor.shape) == 3 else ()
        values = generator.integers(5, 50, (ROWS, *texts, length))
        if name == features.SEGMENT_IDS:
            values = values % 2
        elif name in (features.PADDING_MASK, features.EXAMPLE_IDS):
            values = np.ones_like(values)
        elif name == features.POSITION_IDS:
            values = np.tile(np.arange(length), (ROWS, 1))
        elif name in (features.MASK_POSITIONS, features.FIRST_POSITIONS):
            values = np.tile(np.arange(SLOTS), (ROWS, 1))
        batch[name] = values.astype("int32")
    return batch
