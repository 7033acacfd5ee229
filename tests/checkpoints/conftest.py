"""The library that our checkpoints are compared with, and a folder of ours."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from bert_keras import BertEncoder, Pretrainer, save_checkpoint
from tests import contracts


@pytest.fixture(scope="session")
def transformers() -> Any:
    """Hugging Face's library; its import may warn of its own dependencies."""
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = pytest.importorskip("transformers")
        # Loads the classes, which are imported lazily.
        _ = library.BertForPreTraining, library.BertForMaskedLM, library.BertModel
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    return library


@pytest.fixture(scope="session")
def keras_hub() -> Any:
    """KerasHub; its import may warn of its own dependencies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("keras_hub")


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny Pretrainer. Copy it before changing anything."""
    task = contracts.as_trained(Pretrainer(BertEncoder(contracts.TINY)))
    return save_checkpoint(task, tmp_path_factory.mktemp("saved"))
