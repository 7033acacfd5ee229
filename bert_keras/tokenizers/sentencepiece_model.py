"""SentencePiece's .model files, read with its own description of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from bert_keras.errors import ArtifactError, UsageError
from bert_keras.strict_json import read_bytes

_UNIGRAM = 1  # trainer_spec.model_type


class Model(NamedTuple):
    """What a file holds.

    Attributes:
        pieces: (piece, log probability) by id.
        unknown: id of the unknown piece.
        character_map: the compiled normalisation.
    """

    pieces: list[tuple[str, float]]
    unknown: int
    character_map: bytes


def read(path: Path) -> Model:
    """Reads a unigram model.

    Raises:
        ArtifactError: damaged, or of another kind.
        UsageError: the sentencepiece package is not installed.
    """
    try:
        from sentencepiece import sentencepiece_model_pb2 as description
    except ImportError as error:
        raise UsageError(
            f"{path}: reading it needs sentencepiece and protobuf: pip install "
            f"bert-keras[sentencepiece]. A tokenizer.json beside it needs neither. ({error})"
        ) from error
    content = read_bytes(path)
    proto = description.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception as error:  # protobuf's own class, which differs by version
        raise ArtifactError(f"{path}: not a SentencePiece model: {error}") from error
    if not proto.pieces:
        raise ArtifactError(f"{path}: not a SentencePiece model: no pieces.")
    if proto.trainer_spec.model_type != _UNIGRAM:
        kind = proto.trainer_spec.DESCRIPTOR.fields_by_name["model_type"].enum_type
        name = kind.values_by_number[proto.trainer_spec.model_type].name
        raise ArtifactError(
            f"{path}: only unigram models are of this family. Received: model_type={name}"
        )
    unknown = proto.trainer_spec.unk_id
    if not 0 <= unknown < len(proto.pieces):
        raise ArtifactError(f"{path}: no such piece: unk_id={unknown} of {len(proto.pieces)}")
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    if len({piece for piece, _ in pieces}) < len(pieces):
        raise ArtifactError(f"{path}: not a SentencePiece model: a piece is there twice.")
    if not all(math.isfinite(score) for _, score in pieces):
        raise ArtifactError(f"{path}: not a SentencePiece model: a score is not finite.")
    return Model(pieces, unknown, proto.normalizer_spec.precompiled_charsmap)
