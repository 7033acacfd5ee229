"""`export.json`: what the folder of an exported model says to those who run it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from bert_keras import atomic, strict_json
from bert_keras.errors import ArtifactError

FILE = "export.json"


@dataclass(frozen=True)
class Manifest:
    """What the file holds.

    Attributes:
        format: a name of `FORMATS`.
        quantization: "float16", "int8" or None.
        task: the class of the model.
        max_length: most tokens of a text that the model is to be given.
        options: how its answers are found, as `Predictor` has them.
        pairs: of a model that takes one text or two: whether it learned from two.
        pad_id: what fills up the shorter rows of a batch.
        inputs: names, and sizes or names of their axes: int32.
        outputs: likewise, float32.
    """

    format: str
    quantization: str | None
    task: str
    max_length: int
    options: dict[str, Any]
    pairs: bool
    pad_id: int
    inputs: dict[str, list[int | str]]
    outputs: dict[str, list[int | str]]

    def write(self, folder: Path) -> None:
        """Writes it into the folder."""
        atomic.write_json(folder / FILE, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Reads it from the folder.

        Raises:
            ArtifactError: it is missing or damaged.
        """
        path = folder / FILE
        values = strict_json.read_object(path)
        names = {field.name for field in fields(cls)}
        if missing := sorted(names - values.keys()):
            raise ArtifactError(f"{path}: lacks {', '.join(missing)}. Export the model again.")
        return cls(**{name: values[name] for name in names})
