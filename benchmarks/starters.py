"""Contenders that start a library: import, first answer and first training step.

Each function follows the documentation of its library for beginners. All programs use the same
sentence encoder. The first answer is the vector of one text. The first step trains on eight texts,
and all libraries train the encoder. The task is the usual one of each library: labels, or scores
of pairs with sentence-transformers. For sentence-transformers the step is a PyTorch loop, because
its trainer would import two more libraries.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

TEXT = "The cat sat on the mat."
TEXTS, LABELS = (TEXT, "A dog ran home.") * 4, (0, 1) * 4
_LEARNING_RATE = 5e-5

Round = Callable[[], dict[str, float]]
Stages = Iterator[str]  # yields the name of each stage when the stage is done


def started(starter: str, **options: Any) -> Round:
    """Prepare a contender whose only round runs a starter.

    Args:
        starter: a key of `STARTERS`.
        options: keyword arguments of the starter.

    Returns:
        A function that runs the starter and returns the seconds of each stage. Their sum is
        "seconds".
    """

    def run() -> dict[str, float]:
        stages: dict[str, float] = {}
        begin = last = time.perf_counter()
        for stage in STARTERS[starter](**options):
            now = time.perf_counter()
            stages[stage], last = now - last, now
        return {**stages, "seconds": last - begin}

    return run


def importing(base: str, package: str, names: Sequence[str]) -> Stages:
    """Import a base module, then a package, then names of the package.

    The names are a stage of their own, because a package may load them at first use.

    Args:
        base: the module that the package builds on, "keras" or "torch".
        package: the package to measure.
        names: names of the package; empty for all public names.
    """
    importlib.import_module(base)
    yield "base"
    module = importlib.import_module(package)
    yield "import"
    for name in names or module.__all__:
        getattr(module, name)
    yield "names"


def our_answer(preset: str) -> Stages:
    """Encode a text with `Predictor` of bert_keras."""
    from bert_keras import Predictor

    yield "import"
    predictor = Predictor.from_preset(preset)
    yield "open"
    predictor([TEXT])
    yield "first"


def our_step(preset: str) -> Stages:
    """Train one step of `SequenceClassifier` of bert_keras with `fit`."""
    from bert_keras import SequenceClassifier, Tokenizer, optimizer
    from bert_keras.data import Texts, dataset, text_examples

    yield "import"
    tokenizer = Tokenizer.from_preset(preset)
    task = SequenceClassifier.from_preset(
        preset, num_classes=2, allow_missing=("label",), labels=["0", "1"]
    )
    task.compile(optimizer(_LEARNING_RATE, total_steps=10), **task.loss_and_metrics())
    yield "open"
    texts = Texts(TEXTS, targets=[str(label) for label in LABELS])
    examples = text_examples(tokenizer, texts, labels=["0", "1"], batch_size=len(TEXTS))
    task.fit(dataset(examples), verbose=0)
    yield "first"


def sentence_transformers_answer(preset: str) -> Stages:
    """Encode a text with `SentenceTransformer.encode`."""
    from sentence_transformers import SentenceTransformer

    yield "import"
    model = SentenceTransformer(preset, device="cpu")
    yield "open"
    model.encode([TEXT], show_progress_bar=False)
    yield "first"


def sentence_transformers_step(preset: str) -> Stages:
    """Train one step of sentence-transformers with `CosineSimilarityLoss` in a PyTorch loop."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.losses import CosineSimilarityLoss

    yield "import"
    model = SentenceTransformer(preset, device="cpu")
    loss = CosineSimilarityLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE)
    yield "open"
    model.train()
    sides = [model.preprocess(list(texts)) for texts in (TEXTS, TEXTS[::-1])]
    loss(sides, torch.tensor(LABELS, dtype=torch.float32)).backward()
    optimizer.step()
    yield "first"


def transformers_answer(preset: str) -> Stages:
    """Encode a text with `AutoModel` of transformers and the mean of its token vectors."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    yield "import"
    tokenizer = AutoTokenizer.from_pretrained(preset)
    model = AutoModel.from_pretrained(preset)
    yield "open"
    inputs = tokenizer([TEXT], padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        # A single text has no padding, so the mean needs no mask.
        mean = model(**inputs).last_hidden_state.mean(1)
        torch.nn.functional.normalize(mean, p=2, dim=1).numpy()
    yield "first"


def transformers_step(preset: str) -> Stages:
    """Train one step of `AutoModelForSequenceClassification` in a PyTorch loop."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    yield "import"
    tokenizer = AutoTokenizer.from_pretrained(preset)
    model = AutoModelForSequenceClassification.from_pretrained(preset, num_labels=2).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE)
    yield "open"
    inputs = tokenizer(list(TEXTS), padding=True, truncation=True, return_tensors="pt")
    model(**inputs, labels=torch.tensor(LABELS)).loss.backward()
    optimizer.step()
    yield "first"


def keras_hub_answer(preset: str) -> Stages:
    """Encode a text with KerasHub's `BertTextEmbedder.encode_text`."""
    from keras_hub.models import BertTextEmbedder

    yield "import"
    embedder = BertTextEmbedder.from_preset(preset)
    yield "open"
    embedder.encode_text([TEXT], verbose=0)
    yield "first"


def keras_hub_step(preset: str) -> Stages:
    """Train one step of KerasHub's `BertTextClassifier` with `fit` and its default optimizer."""
    from keras_hub.models import BertTextClassifier

    yield "import"
    classifier = BertTextClassifier.from_preset(preset, num_classes=2)
    yield "open"
    classifier.fit(x=list(TEXTS), y=list(LABELS), batch_size=len(TEXTS), verbose=0)
    yield "first"


STARTERS: dict[str, Callable[..., Stages]] = {
    "importing": importing,
    "our_answer": our_answer,
    "our_step": our_step,
    "sentence_transformers_answer": sentence_transformers_answer,
    "sentence_transformers_step": sentence_transformers_step,
    "transformers_answer": transformers_answer,
    "transformers_step": transformers_step,
    "keras_hub_answer": keras_hub_answer,
    "keras_hub_step": keras_hub_step,
}
