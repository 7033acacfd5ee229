"""Settings of prediction in a checkpoint folder: length, options, pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bert_keras import atomic, handles, strict_json
from bert_keras.checkpoints import sentence_transformers
from bert_keras.checkpoints.sentence_transformers_modules import max_length
from bert_keras.errors import ArtifactError
from bert_keras.tokenizers.sentence_files import MODULES, SENTENCE_CONFIGS

_OURS = "predictor.json"
_SENTENCES = SENTENCE_CONFIGS[0]  # of sentence-transformers, as this package writes it
_FILES = (
    *(_OURS, MODULES, *SENTENCE_CONFIGS, sentence_transformers.CONFIG),
    *("config.json", "tokenizer_config.json"),
)
_LENGTH, _THEIR_LENGTH = "max_length", "max_seq_length"


@dataclass(frozen=True)
class Asked:
    """Settings with which a model predicts.

    Attributes:
        max_length: most tokens of a text; None where nothing is said.
        options: of its answers.
        pairs: of a model that takes one text or two: whether it learned from two.
    """

    max_length: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    pairs: bool = False


def read_preset(handle: str | Path) -> Asked:
    """Read the settings of a folder; a folder without them has the defaults.

    Args:
        handle: see `BertEncoder.from_preset`.

    Raises:
        ArtifactError: a damaged file.
    """
    folder = handles.resolve(handle, _FILES)
    path = folder / _OURS
    if not path.is_file():
        if not sentence_transformers.is_told(folder):
            return Asked()
        place, name, length = max_length(folder)
        pairs = sentence_transformers.is_pair_scorer(folder)
        return Asked(_length(place, {name: length}, name), pairs=pairs)
    values = strict_json.read_object(path)
    strict_json.refuse_unknown(path, values, [each.name for each in fields(Asked)])
    options, pairs = values.get("options", {}), values.get("pairs", False)
    if not isinstance(options, dict):
        raise ArtifactError(f"{path}: options must be an object. Received: {options!r:.100}")
    if not isinstance(pairs, bool):
        raise ArtifactError(f"{path}: pairs must be true or false. Received: {pairs!r:.100}")
    length = _length(path, values, _LENGTH)
    if sentence_transformers.is_told(folder):
        place, name, theirs = max_length(folder)
        is_said = place.name in SENTENCE_CONFIGS and None not in (length, theirs)
        if is_said and length != theirs:
            raise ArtifactError(
                f"{path}: contradicts {place.name}: {_LENGTH} is {length} here, {name} is "
                f"{theirs!r:.100} there. Write the same number into both."
            )
    return Asked(length, options, pairs)


def write_preset(folder: Path, asked: Asked) -> None:
    """Writes what `read_preset` answers; its length also where sentence-transformers has it."""
    theirs = folder / _SENTENCES
    if asked.max_length is not None and theirs.is_file():
        length = {_THEIR_LENGTH: asked.max_length}
        atomic.write_json(theirs, strict_json.read_object(theirs) | length)
    atomic.write_json(folder / _OURS, asdict(asked))


def _length(path: Path, values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is not None and (type(value) is not int or value < 1):
        raise ArtifactError(f"{path}: {name} must be a whole number. Received: {value!r:.100}")
    return value
