"""Tiny models of every task in folders, and servers of them in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bert_keras import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    Predictor,
    Pretrainer,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    TextRanker,
    TokenClassifier,
    Tokenizer,
)
from bert_keras.serving.server import Server, Settings, listen, load_models
from tests.contracts import TINY, as_trained

VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "dull", "film", "in", "rome"),
    *("##s", "?", "where"),
]
LENGTH = 24
CONFIG = TINY.replace(vocab_size=len(VOCABULARY), max_positions=LENGTH)
# Model name -> inputs of three rows, of different lengths.
TEXTS = ["a fine film", "dull", "a film in rome a film in rome a"]
OTHERS = ["a dull film in rome", "fine films", "where?"]
MASKED = ["a [MASK] film", "[MASK] in [MASK]", "no mask"]
CONTEXTS = ["a fine film in rome", "dull films", "rome in a film"]
OPTIONS = [["a", "fine film"], ["dull", "films"], ["in rome", "where?"]]


def _encoder(**changes: Any) -> BertEncoder:
    return BertEncoder(CONFIG.replace(**changes))


LABELS, TAGS = ["bad", "good", "ugly"], ["O", "B-PER", "I-PER"]
# Name -> function that makes a model of a task that can be served.
TASKS: dict[str, Callable[[], Any]] = {
    "labels": lambda: SequenceClassifier(_encoder(), 3, labels=LABELS),
    "multi": lambda: SequenceClassifier(_encoder(), 3, labels=LABELS, problem="multi_label"),
    "numbers": lambda: SequenceClassifier(_encoder(), 1, problem="regression"),
    "tags": lambda: TokenClassifier(_encoder(), labels=TAGS),
    "crf": lambda: TokenClassifier(_encoder(), labels=TAGS, crf=True),
    "answers": lambda: QuestionAnswerer(_encoder(max_positions=80)),
    "choices": lambda: MultipleChoice(_encoder()),
    "ranker": lambda: TextRanker(_encoder()),
    "vectors": lambda: SentenceEncoder(_encoder()),
    "pair_labels": lambda: SentencePairs(_encoder(), loss="classification", labels=LABELS),
    "encoder": _encoder,
    "masks": lambda: MaskedLM(_encoder()),
    "pretrained": lambda: Pretrainer(_encoder()),
}


def predictor(name: str) -> Predictor:
    """Return the predictor of a model in `TASKS`."""
    return Predictor(as_trained(TASKS[name]()), Tokenizer(VOCABULARY))


def columns_for(inputs: Iterable[str], rows: slice = slice(None)) -> dict[str, Any]:
    """Return values for inputs of these names."""
    values = {
        "text": TEXTS,
        "pair": OTHERS,
        "question": OTHERS,
        "context": CONTEXTS,
        "prompt": TEXTS,
        "options": OPTIONS,
    }
    return {name: values[name][rows] for name in inputs if name in values}


def wait_for(is_so: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until a condition holds; fail if it does not hold in time."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


class Running:
    """A server that runs in a thread of this process.

    Attributes:
        url: its address.
        server: the server.
        client: HTTP client of the address.
    """

    def __init__(self, server: Server, bound: socket.socket):
        self.server = server
        self.url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        self._thread = threading.Thread(target=server.run, args=(bound,), daemon=True)
        self._thread.start()
        self.client = httpx.Client(base_url=self.url, timeout=60)
        self._wait()

    def _wait(self) -> None:
        """Wait until the server answers."""
        for _ in range(400):
            try:
                if self.client.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError("the server does not answer")

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a JSON body."""
        return self.client.post(path, json=body, headers=headers)

    def get(self, path: str) -> Any:
        """Return the JSON answer to a GET request that succeeds."""
        response = self.client.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    def ask(self, path: str, body: Any) -> Any:
        """Return the JSON answer to a POST request that succeeds."""
        response = self.post(path, body)
        assert response.status_code == 200, response.text
        return response.json()

    def stop(self) -> None:
        """Stop the server, and wait for its end."""
        self.client.close()
        self.server.stop()
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()


@contextmanager
def running(
    sources: Mapping[str, Path | str], labels: Sequence[str] = (), **settings: Any
) -> Iterator[Running]:
    """Serve folders by name, in a thread.

    Args:
        sources: name -> folder.
        labels: NAME:LABEL=VERSION of each version label.
        settings: arguments of `Settings`.
    """
    chosen = Settings(port=0, **{"poll_seconds": 0.05, **settings})
    arguments = [f"{name}={folder}" for name, folder in sources.items()]
    models = load_models(arguments, labels, options=chosen.options)
    served = Running(Server(models, chosen), listen(chosen))
    try:
        yield served
    finally:
        served.stop()


def save(names: Iterable[str], folder: Path) -> dict[str, Path]:
    """Write models of `TASKS` into folders; return name -> folder."""
    folders = {name: folder / name for name in names}
    for name, path in folders.items():
        predictor(name).save_to_preset(path)
    return folders
