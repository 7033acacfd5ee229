"""SentencePiece's files: read whole, refused by name."""

from __future__ import annotations

import sys

import pytest

from bert_keras.errors import ArtifactError, UsageError
from bert_keras.tokenizers import sentencepiece_model
from tests.tokenizers import learners


def test_reads_what_the_library_reads(foreign_folders):
    library = pytest.importorskip("sentencepiece")
    path = foreign_folders["albert"] / "spiece.model"
    theirs = library.SentencePieceProcessor(model_file=str(path))
    ours = sentencepiece_model.read(path)
    ids = range(theirs.get_piece_size())
    assert [piece for piece, _ in ours.pieces] == [theirs.id_to_piece(i) for i in ids]
    assert [score for _, score in ours.pieces] == [theirs.get_score(i) for i in ids]
    assert ours.unknown == theirs.unk_id() == 1
    assert ours.character_map


def test_damaged(foreign_folders, tmp_path):
    path = tmp_path / "spiece.model"
    for content in (b"", b"\xff\xff\xff", b"not a model"):
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match=r"spiece.model: not a SentencePiece model"):
            sentencepiece_model.read(path)


def test_another_kind(foreign_folders, tmp_path):
    learners.sentencepiece(tmp_path, "spiece.model", model_type="char")
    with pytest.raises(ArtifactError, match=r"only unigram models .* model_type=CHAR"):
        sentencepiece_model.read(tmp_path / "spiece.model")


def test_without_the_library(foreign_folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UsageError, match=r"pip install bert-keras\[sentencepiece\]"):
        sentencepiece_model.read(foreign_folders["albert"] / "spiece.model")
