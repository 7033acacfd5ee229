"""BERT and its family for Keras 3, on TensorFlow, JAX and PyTorch.

The names below are the public API. Each is imported at its first use, so that tokenizers and
corpora work without Keras and its backend. Our classes are registered with Keras as soon as it is
imported, so that `keras.models.load_model` finds them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_keras import export, losses, retrieval, sklearn, visualize
    from bert_keras.checkpoints import to_keras_hub
    from bert_keras.config import BertConfig
    from bert_keras.layers import SavedModelLayer
    from bert_keras.loading import from_keras_hub, load_checkpoint, save_checkpoint
    from bert_keras.models import (
        BertEncoder,
        Distiller,
        ElectraPretrainer,
        MaskedLM,
        MultipleChoice,
        Pretrainer,
        QuestionAnswerer,
        ReplacedTokenDetector,
        SentenceEncoder,
        SentencePairs,
        SequenceClassifier,
        TextRanker,
        TokenClassifier,
        fit_few_shot,
    )
    from bert_keras.optimization import optimizer
    from bert_keras.predictor import Predictor
    from bert_keras.presets import PRESETS
    from bert_keras.tokenizers import Encoding, Tokenizer

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "BertConfig",
    "BertEncoder",
    "Distiller",
    "ElectraPretrainer",
    "Encoding",
    "MaskedLM",
    "MultipleChoice",
    "Predictor",
    "Pretrainer",
    "QuestionAnswerer",
    "ReplacedTokenDetector",
    "SavedModelLayer",
    "SentenceEncoder",
    "SentencePairs",
    "SequenceClassifier",
    "TextRanker",
    "TokenClassifier",
    "Tokenizer",
    "export",
    "fit_few_shot",
    "from_keras_hub",
    "load_checkpoint",
    "losses",
    "optimizer",
    "retrieval",
    "save_checkpoint",
    "sklearn",
    "to_keras_hub",
    "visualize",
]

_MODULES = ("export", "losses", "retrieval", "sklearn", "visualize")
_HOMES = {
    "PRESETS": "presets",
    "BertConfig": "config",
    "BertEncoder": "models",
    "ElectraPretrainer": "models",
    "Encoding": "tokenizers",
    "MaskedLM": "models",
    "MultipleChoice": "models",
    "Predictor": "predictor",
    "Pretrainer": "models",
    "QuestionAnswerer": "models",
    "SavedModelLayer": "layers",
    "ReplacedTokenDetector": "models",
    "SentenceEncoder": "models",
    "SentencePairs": "models",
    "Distiller": "models",
    "SequenceClassifier": "models",
    "TextRanker": "models",
    "TokenClassifier": "models",
    "Tokenizer": "tokenizers",
    "fit_few_shot": "models",
    "from_keras_hub": "loading",
    "load_checkpoint": "loading",
    "optimizer": "optimization",
    "save_checkpoint": "loading",
    "to_keras_hub": "checkpoints",
}


def __getattr__(name: str) -> Any:
    """Import a public name or a subpackage at its first use, so that others cost no time."""
    if name not in _MODULES and name not in _HOMES:
        raise AttributeError(f"module 'bert_keras' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"bert_keras.{_HOMES.get(name, name)}")
    except (ModuleNotFoundError, ValueError) as error:
        from bert_keras.errors import missing_backend

        if message := missing_backend(error):
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            raise ModuleNotFoundError(message, name=missing) from None
        raise
    return module if name in _MODULES else getattr(module, name)


def __dir__() -> list[str]:
    """Return the public names, including those that are not imported yet."""
    return __all__


_registration = importlib.import_module("bert_keras.registration")
_registration.register_export_writer()
_registration.register_with_keras()
