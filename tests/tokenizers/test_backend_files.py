"""SentencePiece model files: complete reading, and refusals that name the file."""

from __future__ import annotations

import sys

import pytest

from bert_keras.errors import ArtifactError, UsageError
from bert_keras.tokenizers import backend_files
from tests.tokenizers import learners


def test_reads_what_the_library_reads(foreign_folders):
    library = pytest.importorskip("sentencepiece")
    path = foreign_folders["albert"] / "spiece.model"
    theirs = library.SentencePieceProcessor(model_file=str(path))
    ours = backend_files.read_sentencepiece(path)
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
            backend_files.read_sentencepiece(path)


def test_another_kind(foreign_folders, tmp_path):
    learners.sentencepiece(tmp_path, "spiece.model", model_type="char")
    with pytest.raises(ArtifactError, match=r"only unigram models .* model_type=CHAR"):
        backend_files.read_sentencepiece(tmp_path / "spiece.model")


def test_without_the_library(foreign_folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UsageError, match=r"pip install bert-keras\[sentencepiece\]"):
        backend_files.read_sentencepiece(foreign_folders["albert"] / "spiece.model")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda pieces: pieces.add(piece="a", score=-1.0), None),
        (lambda pieces: pieces.add(piece="<pad>", score=-1.0), "a piece is there twice"),
        (lambda pieces: setattr(pieces[20], "score", float("nan")), "a score is not finite"),
    ],
)
def test_pieces_that_cannot_be(change, message, foreign_folders, tmp_path):
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    proto.ParseFromString((foreign_folders["albert"] / "spiece.model").read_bytes())
    if message is None:
        del proto.pieces[next(i for i, each in enumerate(proto.pieces) if each.piece == "a") :]
    change(proto.pieces)
    path = tmp_path / "spiece.model"
    path.write_bytes(proto.SerializeToString())
    if message is None:
        assert backend_files.read_sentencepiece(path).pieces[-1] == ("a", -1.0)
        return
    with pytest.raises(ArtifactError, match=message):
        backend_files.read_sentencepiece(path)
