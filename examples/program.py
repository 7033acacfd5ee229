"""Arguments of the examples, and the tiny models and files of their `--quick` form."""

from __future__ import annotations

import argparse
import atexit
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import bert_keras as bk


def arguments(doc: str | None, given: Sequence[str] | None, *, data: str, model: str):
    """Parse the command line of an example, and return `data`, `model`, `quick` and `rate`.

    Args:
        doc: docstring of the example, shown by --help.
        given: arguments of the command line; None for `sys.argv`.
        data: default of the data file or folder.
        model: default of --model.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", default=data, help=f"default: {data}")
    parser.add_argument("--model", default=model, help=f"folder or handle; default: {model}")
    parser.add_argument("--quick", action="store_true", help="a tiny model and made-up text")
    asked = parser.parse_args(given)
    asked.rate = 1e-2 if asked.quick else None  # None: the default rate of pretrained weights
    return asked


def folder() -> Path:
    """Create a temporary folder that is removed when Python exits, and return its path."""
    path = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def file(name: str, lines: Iterable[str]) -> str:
    """Write lines to a file in a new temporary folder, and return its path."""
    path = folder() / name
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return str(path)


def model(texts: Iterable[str]) -> str:
    """Save a tiny encoder with random weights and a tokenizer of some texts; return the folder."""
    path, marks = folder(), ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = {word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())}
    tokenizer = bk.Tokenizer([*marks, *sorted(words)])
    sizes = {"vocab_size": tokenizer.vocab_size, "hidden_size": 32, "intermediate_size": 64}
    config = bk.PRESETS["bert_tiny_uncased"].replace(**sizes, initializer_range=0.1)
    bk.BertEncoder(config).save_to_preset(path)
    tokenizer.save_to_preset(path)
    return str(path)
