"""What is said before anything is written, and that no export is written over another."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import NumericError, ResourceError, UsageError
from bert_keras.export import checked
from bert_keras.models import BertEncoder
from bert_keras.one_writer import one_writer
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"ab"])


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "tensorflow" or None)
    checked.require_tensorflow(text=False)
    with pytest.raises(ImportError, match=r"A SavedModel needs tensorflow_text\. Install with"):
        checked.require_tensorflow(text=True)


def test_a_model_that_may_be_exported(tmp_path: Path) -> None:
    encoder = BertEncoder(TINY)
    predictor = checked.checked_predictor(encoder, TOKENIZER, tmp_path / "1", max_length=9)
    assert (predictor.task, predictor.max_length, predictor.options) == (encoder, 9, {})
    predictor.pairs = True
    with pytest.raises(ValueError, match="`pairs` is for models that take one text or two"):
        checked.require_pairs(predictor, ())
    with pytest.raises(UsageError, match="exists already and is not written over"):
        checked.checked_predictor(encoder, TOKENIZER, tmp_path)
    weight = encoder.weights[0]
    weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(NumericError):
        checked.checked_predictor(encoder, TOKENIZER, tmp_path / "1")


def test_of_two_exports_to_one_folder_the_first_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "demo" / "1"
    with checked.new_export(path) as folder:
        (folder / "model").write_text("first")
        with (
            pytest.raises(ResourceError, match="another process is writing it"),
            checked.new_export(path),
        ):
            pytest.fail("two write")
    with pytest.raises(UsageError, match="exists already"), checked.new_export(path):
        pytest.fail("written over")
    assert (path / "model").read_text() == "first"
    assert [each.name for each in path.parent.iterdir()] == ["1"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("disk"), OSError),
        (UsageError("mend it"), UsageError),
        (ValueError("unknown operation"), RuntimeError),
    ],
)
def test_an_export_that_fails_leaves_nothing(
    error: Exception, told: type[Exception], tmp_path: Path
) -> None:
    path = tmp_path / "1"

    def write() -> None:
        with checked.new_export(path) as folder:
            (folder / "model").write_text("half")
            raise error

    with pytest.raises(told, match=str(error)):
        write()
    assert not list(tmp_path.iterdir())
    with one_writer(path):  # nobody holds it
        pass


class _Full:
    """A place where no byte has room."""

    def __init__(self, *, dir: Path):  # noqa: A002
        self.folder = dir

    def __enter__(self) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("error", "file"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "1"),  # as a converter's library has it
        (RuntimeError("Check 'bin_file' failed"), "1"),  # OpenVINO
        (ValueError("PytorchStreamWriter failed writing file"), "1"),
    ],
)
def test_a_full_disk_is_one_message_that_names_the_place(
    error: Exception, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked.tempfile, "TemporaryFile", _Full)
    message = f"{tmp_path / file}: could not be written: No space left on device."
    with pytest.raises(ResourceError) as raised, checked.new_export(tmp_path / "1"):
        raise error
    assert str(raised.value) == message
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_named_as_it_would_be_called(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as raised, checked.new_export(tmp_path / "1") as folder:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "model.onnx"))
    message = "could not be written: No space left on device."
    assert str(raised.value) == f"{tmp_path / '1' / 'model.onnx'}: {message}"


def test_a_name_that_converters_cannot_open(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must be a name in UTF-8"):
        checked.require_new(tmp_path / "a\udcff")
