"""Settings with which a model answers: length, options, pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bert_keras import atomic, strict_json
from bert_keras.errors import ArtifactError

FILE = "predictor.json"


@dataclass(frozen=True)
class PredictorConfig:
    """Settings with which a model answers, as the file `predictor.json` keeps them.

    Attributes:
        max_length: most tokens of a text; None where nothing is said.
        options: of its answers, such as `null_threshold`.
        pairs: of a model that takes one text or two: whether it learned from two.
    """

    max_length: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    pairs: bool = False

    @classmethod
    def read(cls, path: Path) -> PredictorConfig:
        """Read a file.

        Raises:
            ArtifactError: the file is damaged.
        """
        values = strict_json.read_object(path)
        strict_json.refuse_unknown(path, values, [each.name for each in fields(cls)])
        options, pairs = values.get("options", {}), values.get("pairs", False)
        if not isinstance(options, dict):
            raise ArtifactError(f"{path}: options must be an object. Received: {options!r:.100}")
        if not isinstance(pairs, bool):
            raise ArtifactError(f"{path}: pairs must be true or false. Received: {pairs!r:.100}")
        return cls(read_length(path, values, "max_length"), options, pairs)

    def write(self, path: Path) -> None:
        """Write a file that `read` reads."""
        atomic.write_json(path, asdict(self))


def read_length(path: Path, values: Mapping[str, Any], name: str) -> int | None:
    """Return a length among the values of a file; None where it has none.

    Raises:
        ArtifactError: not a whole number of at least 1.
    """
    value = values.get(name)
    if value is not None and (type(value) is not int or value < 1):
        raise ArtifactError(f"{path}: {name} must be a whole number. Received: {value!r:.100}")
    return value
