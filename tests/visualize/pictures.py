"""Tiny models, tokenizers and texts for tests of pictures, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import pytest

from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained

# For tests of code that is the same on every backend, and slow where a backend compiles.
one_backend = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="one backend for what does not depend on it"
)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "##b", "##c", "<", ">", "/"]
CONFIG = TINY.replace(vocab_size=len(WORDS), max_positions=24)
TOKENIZER = Tokenizer(WORDS)
# A text that would end the element around it, or start a script, if it were not escaped.
HOSTILE = "a </script><img src=x onerror=alert(1)> <b>"


def classifier(**options: Any) -> SequenceClassifier:
    """Return a classifier of three labels with random weights and a tokenizer."""
    values = {"labels": ["good", "bad", "odd"], **options}
    return as_trained(SequenceClassifier(BertEncoder(CONFIG), tokenizer=TOKENIZER, **values))


@contextmanager
def page(path: Path, **options: Any) -> Iterator[Any]:
    """Open a file in a headless Chromium without a network.

    The test fails where the page logs an error or requests anything besides the file.

    Args:
        path: an HTML file.
        options: of `Browser.new_page`, such as `color_scheme`.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs the program chromium")
    faults: list[str] = []
    requests: list[str] = []
    with playwright.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened = browser.new_page(**options)
        opened.on("console", lambda message: faults.append(message.text))
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.on("request", lambda request: requests.append(request.url))
        opened.goto(path.resolve().as_uri())
        yield opened
        browser.close()
    assert faults == []
    assert requests == [path.resolve().as_uri()]
