"""`predictor.json` in a checkpoint folder, beside what sentence-transformers says of the length."""

from __future__ import annotations

from pathlib import Path

from bert_keras import atomic, handles, strict_json
from bert_keras.checkpoints import sentence_transformers
from bert_keras.checkpoints.sentence_transformers_modules import max_length
from bert_keras.errors import ArtifactError
from bert_keras.inference.predictor_config import FILE, PredictorConfig, read_length
from bert_keras.tokenizers.sentence_files import MODULES, SENTENCE_CONFIGS

_SENTENCES = SENTENCE_CONFIGS[0]  # of sentence-transformers, as this package writes it
_FILES = (
    *(FILE, MODULES, *SENTENCE_CONFIGS, sentence_transformers.CONFIG),
    *("config.json", "tokenizer_config.json"),
)
_THEIR_LENGTH = "max_seq_length"


def read_predictor_config(handle: str | Path) -> PredictorConfig:
    """Read the settings of a folder; a folder without them has the defaults.

    Args:
        handle: see `BertEncoder.from_preset`.

    Raises:
        ArtifactError: a damaged file, or two files that say different lengths.
    """
    folder = handles.resolve(handle, _FILES)
    path = folder / FILE
    if not path.is_file():
        if not sentence_transformers.is_told(folder):
            return PredictorConfig()
        place, name, length = max_length(folder)
        pairs = sentence_transformers.is_pair_scorer(folder)
        return PredictorConfig(read_length(place, {name: length}, name), pairs=pairs)
    config = PredictorConfig.read(path)
    if sentence_transformers.is_told(folder):
        place, name, theirs = max_length(folder)
        is_said = place.name in SENTENCE_CONFIGS and None not in (config.max_length, theirs)
        if is_said and config.max_length != theirs:
            raise ArtifactError(
                f"{path}: contradicts {place.name}: max_length is {config.max_length} here, {name} "
                f"is {theirs!r:.100} there. Write the same number into both."
            )
    return config


def write_predictor_config(folder: Path, config: PredictorConfig) -> None:
    """Write the settings; the length also where sentence-transformers has it."""
    theirs = folder / _SENTENCES
    if config.max_length is not None and theirs.is_file():
        length = {_THEIR_LENGTH: config.max_length}
        atomic.write_json(theirs, strict_json.read_object(theirs) | length)
    config.write(folder / FILE)
