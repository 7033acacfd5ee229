"""Ours and the others from nothing: imported, to a first answer, to a first step of training.

Each is what the documentation of its library has a beginner write. All have the same sentence
encoder, answer with the vector of one text, and learn from eight texts; what they learn is each
library's own (labels, and of sentence-transformers scores of pairs), the encoder within is trained
by all. Of sentence-transformers it is the loss and the model in PyTorch's loop, for the trainer
brings two more libraries.
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
Stages = Iterator[str]  # named when they are done


def started(starter: str, **options: Any) -> Round:
    """A contender whose one round is to start.

    Args:
        starter: a name of `STARTERS`.
        options: of the starter.

    Returns:
        Gives the seconds of each stage, and of all as "seconds".
    """

    def run() -> dict[str, float]:
        found: dict[str, float] = {}
        begin = last = time.perf_counter()
        for stage in STARTERS[starter](**options):
            now = time.perf_counter()
            found[stage], last = now - last, now
        return {**found, "seconds": last - begin}

    return run


def importing(base: str, package: str, names: Sequence[str]) -> Stages:
    """Time the imports of a base, of a package on it, and of names, which may load at first use.

    Args:
        base: a module.
        package: a module.
        names: of the package; none for all that are public.
    """
    importlib.import_module(base)
    yield "base"
    module = importlib.import_module(package)
    yield "import"
    for name in names or module.__all__:
        getattr(module, name)
    yield "names"


def our_answer(preset: str) -> Stages:
    """`Predictor`."""
    from bert_keras import Predictor

    yield "import"
    predictor = Predictor.from_preset(preset)
    yield "open"
    predictor([TEXT])
    yield "first"


def our_step(preset: str) -> Stages:
    """`SequenceClassifier` by `fit`."""
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
    """`SentenceTransformer.encode`."""
    from sentence_transformers import SentenceTransformer

    yield "import"
    model = SentenceTransformer(preset, device="cpu")
    yield "open"
    model.encode([TEXT], show_progress_bar=False)
    yield "first"


def sentence_transformers_step(preset: str) -> Stages:
    """`CosineSimilarityLoss` of pairs."""
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
    """`AutoModel`, and the mean of the tokens."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    yield "import"
    tokenizer = AutoTokenizer.from_pretrained(preset)
    model = AutoModel.from_pretrained(preset)
    yield "open"
    inputs = tokenizer([TEXT], padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        # No padding: the plain mean is that of the tokens.
        mean = model(**inputs).last_hidden_state.mean(1)
        torch.nn.functional.normalize(mean, p=2, dim=1).numpy()
    yield "first"


def transformers_step(preset: str) -> Stages:
    """`AutoModelForSequenceClassification` in PyTorch's loop."""
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
    """`BertTextEmbedder.encode_text`."""
    from keras_hub.models import BertTextEmbedder

    yield "import"
    embedder = BertTextEmbedder.from_preset(preset)
    yield "open"
    embedder.encode_text([TEXT], verbose=0)
    yield "first"


def keras_hub_step(preset: str) -> Stages:
    """`BertTextClassifier.fit`, as it comes."""
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
