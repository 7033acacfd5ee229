"""A folder of ours, and folders of sentence-transformers."""

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
    """The folder of a tiny Pretrainer. Copy it before changing anything."""
    task = contracts.as_trained(Pretrainer(BertEncoder(contracts.TINY)))
    return save_checkpoint(task, tmp_path_factory.mktemp("saved"))


@pytest.fixture(scope="session")
def library() -> Any:
    """sentence-transformers; its import may warn of its own dependencies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="session")
def base(library: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT of transformers with its tokenizer, below the folders that are made of it."""
    del library
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sentence_folders.write_transformer(tmp_path_factory.mktemp("folders") / "base")


@pytest.fixture(scope="session")
def sentence_folder(library: Any, base: Path) -> Callable[[str], tuple[Path, np.ndarray]]:
    """A folder that sentence-transformers wrote, by its kind, and what it answers; made once."""

    @functools.cache
    def written(kind: str) -> tuple[Path, np.ndarray]:
        folder = base.with_name(kind.replace(" ", "_"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return folder, sentence_folders.KINDS[kind](library, base, folder)

    return written
