"""A folder of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras import BertEncoder, Pretrainer, save_checkpoint
from tests import contracts


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny Pretrainer. Copy it before changing anything."""
    task = contracts.as_trained(Pretrainer(BertEncoder(contracts.TINY)))
    return save_checkpoint(task, tmp_path_factory.mktemp("saved"))
