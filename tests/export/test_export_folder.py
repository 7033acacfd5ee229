"""Versions of exports are counted from 1, and no version is used twice."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import NumericError, ResourceError, UsageError
from bert_keras.export import export_folder
from bert_keras.export.export_folder import next_version
from bert_keras.file_io import one_writer
from bert_keras.models import BertEncoder, QuestionAnswerer, SentenceEncoder, SequenceClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY


def test_the_next_number(tmp_path: Path) -> None:
    """The next version is one higher than the highest number in the folder."""
    assert next_version(tmp_path / "demo") == tmp_path / "demo" / "1"
    for name in ("2", "9", "10", "x", ".tmp-11"):
        (tmp_path / "demo" / name).mkdir(parents=True)
    assert next_version(str(tmp_path / "demo")) == tmp_path / "demo" / "11"


# === Errors before anything is written. An export never overwrites another one ===


TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"ab"])


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "tensorflow" or None)
    export_folder.require_tensorflow(text=False)
    with pytest.raises(ImportError, match=r"A SavedModel needs tensorflow_text\. Install with"):
        export_folder.require_tensorflow(text=True)


def test_a_model_that_may_be_exported(tmp_path: Path) -> None:
    encoder = BertEncoder(TINY)
    predictor = export_folder.checked_predictor(encoder, TOKENIZER, tmp_path / "1", max_length=9)
    assert (predictor.task, predictor.max_length, predictor.options) == (encoder, 9, {})
    predictor.pairs = True
    with pytest.raises(ValueError, match="`pairs` is for models that take one text or two"):
        export_folder.require_pairs(predictor)
    with pytest.raises(UsageError, match="exists already and is not overwritten"):
        export_folder.checked_predictor(encoder, TOKENIZER, tmp_path)
    weight = encoder.weights[0]
    weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(NumericError):
        export_folder.checked_predictor(encoder, TOKENIZER, tmp_path / "1")


def test_of_two_exports_to_one_folder_the_first_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "demo" / "1"
    with export_folder.new_export(path) as folder:
        (folder / "model").write_text("first")
        with (
            pytest.raises(ResourceError, match="another process is writing it"),
            export_folder.new_export(path),
        ):
            pytest.fail("two write")
    with pytest.raises(UsageError, match="exists already"), export_folder.new_export(path):
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
        with export_folder.new_export(path) as folder:
            (folder / "model").write_text("half")
            raise error

    with pytest.raises(told, match=str(error)):
        write()
    assert not list(tmp_path.iterdir())
    with one_writer(path):  # the lock is free
        pass


class _Full:
    """Stand-in for a temporary folder on a full disk."""

    def __init__(self, *, dir: Path):  # noqa: A002
        self.folder = dir

    def __enter__(self) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("error", "file"),
    [
        # Error text of a converter library.
        (OSError(errno.ENOSPC, "No space left on device"), "1"),
        (RuntimeError("Check 'bin_file' failed"), "1"),  # error of OpenVINO
        (ValueError("PytorchStreamWriter failed writing file"), "1"),
    ],
)
def test_a_full_disk_is_one_message_that_names_the_place(
    error: Exception, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_folder.tempfile, "TemporaryFile", _Full)
    message = f"{tmp_path / file}: could not be written: No space left on device."
    with pytest.raises(ResourceError) as raised, export_folder.new_export(tmp_path / "1"):
        raise error
    assert str(raised.value) == message
    assert not list(tmp_path.iterdir())


def test_a_full_disk_names_the_file_that_was_written_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders that the export has made are removed; one that was there stays."""
    path = tmp_path / "models" / "demo" / "1"
    monkeypatch.setattr(export_folder.tempfile, "TemporaryFile", _Full)

    def write() -> None:
        """Write three files of an export; the second is the last that was written to."""
        with export_folder.new_export(path) as folder:
            for time, name in enumerate(("vocab.txt", "model.bin", "export.json")):
                (folder / name).write_text("half")
                os.utime(folder / name, (time % 2, time % 2))
            raise RuntimeError("Check 'bin_file' failed")

    with pytest.raises(ResourceError) as raised:
        write()
    message = "could not be written: No space left on device."
    assert str(raised.value) == f"{path / 'model.bin'}: {message}"
    assert not list(tmp_path.iterdir())


def test_a_message_of_a_writer_names_the_folder_by_its_last_name(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    path = tmp_path / "demo" / "1"
    with pytest.raises(ResourceError) as raised, export_folder.new_export(path) as folder:
        raise ResourceError(f"{folder}/variables: could not be written: full.")
    assert str(raised.value) == f"{path}/variables: could not be written: full."
    assert not list((tmp_path / "demo").iterdir())


def test_a_file_that_cannot_be_written_is_named_as_it_would_be_called(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as raised, export_folder.new_export(tmp_path / "1") as folder:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "model.onnx"))
    message = "could not be written: No space left on device."
    assert str(raised.value) == f"{tmp_path / '1' / 'model.onnx'}: {message}"


def test_a_name_that_converters_cannot_open(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must be a name in UTF-8"):
        export_folder.require_new(tmp_path / "a\udcff")


# === The README beside an exported model ===


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]


def test_names() -> None:
    assert export_folder.model_name(Path("models/demo/3")) == "demo"
    assert export_folder.model_name(Path("models/demo")) == "demo"


def test_what_it_says(tmp_path: Path) -> None:
    """The README of an export names the model, its limits and its signatures."""
    task = SequenceClassifier(BertEncoder(TINY), 2, labels=["gut", "schlecht"])
    predictor = Predictor(task, Tokenizer(VOCABULARY), options={"top_k": 1})
    export_folder.write_card(
        predictor, tmp_path, tmp_path / "demo" / "3", {"run": (["ids"], ["label"])}, by="X."
    )
    assert (tmp_path / export_folder.LABELS).read_text(encoding="utf-8") == "gut\nschlecht\n"
    page = (tmp_path / export_folder.CARD).read_text(encoding="utf-8")
    assert page.startswith("# demo\n\nA SequenceClassifier with ")
    for part in ("at most 12 tokens", "vocabulary has 6 tokens", "top_k=1", "X. Written by"):
        assert part in page
    assert "| `run` | `ids` | `label` |" in page


def test_no_labels_no_file(tmp_path: Path) -> None:
    predictor = Predictor(QuestionAnswerer(BertEncoder(TINY)), Tokenizer(VOCABULARY))
    export_folder.write_card(predictor, tmp_path, tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == [export_folder.CARD]


def test_what_it_says_of_prompts(tmp_path: Path) -> None:
    prompts = {"query": "find: ", "passage": ""}
    task = SentenceEncoder(
        BertEncoder(TINY), prompts=prompts, default_prompt_name="query", similarity="dot"
    )
    export_folder.write_card(
        Predictor(task, Tokenizer(VOCABULARY)), tmp_path, tmp_path / "demo", {}
    )
    page = (tmp_path / export_folder.CARD).read_text(encoding="utf-8")
    assert "The prompt 'find: ' is put before each text." in page
    assert f"prompts={prompts!r}, similarity='dot'" in page
