"""Files of TensorBoard's projector, read as the projector reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bert_keras.visualize import projector

VECTORS = np.array([[0.5, -1.25e-7], [3.0, 4.0], [0.0, 1.0]], np.float32)
TEXTS = ["a\tb\r\nc", "", "\ud800 é"]


def test_vectors_and_texts(tmp_path: Path) -> None:
    folder = projector.write(tmp_path / "new", VECTORS, TEXTS)
    np.testing.assert_allclose(np.loadtxt(folder / "tensors.tsv", delimiter="\t"), VECTORS)
    lines = (folder / "metadata.tsv").read_text(encoding="utf-8").splitlines()
    assert lines == ["a b c", "(empty)", "\\ud800 é"]


def test_labels_make_a_header(tmp_path: Path) -> None:
    projector.write(tmp_path, VECTORS, TEXTS, ["x", "y\tz", ""])
    lines = (tmp_path / "metadata.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "text\tlabel"
    assert lines[1:] == ["a b c\tx", "(empty)\ty z", "\\ud800 é\t(empty)"]


def test_tensorboard_finds_them(tmp_path: Path) -> None:
    """TensorBoard's own reader of the configuration names the files."""
    text_format = pytest.importorskip("google.protobuf.text_format")
    proto = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2")
    projector.write(tmp_path, VECTORS, TEXTS)
    config = text_format.Parse(
        (tmp_path / projector.CONFIG).read_text(encoding="utf-8"), proto.ProjectorConfig()
    )
    (embedding,) = config.embeddings
    assert (tmp_path / embedding.tensor_path).is_file()
    assert (tmp_path / embedding.metadata_path).is_file()
