"""Fixtures: a saved checkpoint folder, and folders that sentence-transformers wrote."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import BertEncoder, Pretrainer, save_checkpoint
from tests import contracts, sentence_folders


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a saved tiny Pretrainer. Copy it before changing it."""
    task = contracts.as_trained(Pretrainer(BertEncoder(contracts.TINY)))
    return save_checkpoint(task, tmp_path_factory.mktemp("saved"))


@pytest.fixture(scope="session")
def library() -> Any:
    """Return the module `sentence_transformers`. Warnings of its imports are ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="session")
def base(library: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny BERT of transformers with its tokenizer.

    The folders of `sentence_folder` are made from it, beside it.
    """
    del library
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sentence_folders.write_transformer(tmp_path_factory.mktemp("folders") / "base")


@pytest.fixture(scope="session")
def sentence_folder(library: Any, base: Path) -> Callable[[str], tuple[Path, np.ndarray]]:
    """Return a function from a kind to the folder of that kind and the library's answers for it.

    sentence-transformers writes each folder once.
    """

    @functools.cache
    def written(kind: str) -> tuple[Path, np.ndarray]:
        folder = base.with_name(kind.replace(" ", "_"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return folder, sentence_folders.KINDS[kind](library, base, folder)

    return written
