"""Recognition of the format of a checkpoint by its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras import BertEncoder, save_checkpoint
from bert_keras.checkpoints import open_checkpoint
from bert_keras.errors import ArtifactError, UsageError
from tests import contracts


def test_formats_without_variants_refuse_them(tmp_path: Path) -> None:
    encoder = BertEncoder(contracts.TINY.replace(activation="gelu_tanh"))
    save_checkpoint(encoder, tmp_path, format="keras_hub")
    with pytest.raises(UsageError, match="variant='fp16' names a file such as"):
        open_checkpoint(tmp_path, variant="fp16")
    with pytest.raises(UsageError, match="averages=True opens the moving averages in a"):
        open_checkpoint(tmp_path, averages=True)


def test_unknown_preset_names_one_like_it():
    with pytest.raises(ArtifactError, match=r"'bert_tiny': no such folder.* 'bert_tiny_uncased'"):
        BertEncoder.from_preset("bert_tiny")
