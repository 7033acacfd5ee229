"""`export.json`: what the folder of an exported model says to those who run it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
        quantization: of the weights, as `runtime_model` has it; or None.
        task: the class of the model.
        max_length: most tokens of a text that the model is to be given.
        options: how its answers are found, as `Predictor` has them.
        pairs: of a model that takes one text or two: whether it learned from two.
        pad_id: what fills up the shorter rows of a batch.
        inputs: names, and sizes or names of their axes: int32.
        outputs: likewise, float32.
        prompt: what is to be put before each text, or each first one, before it is cut into
            tokens; "" for nothing.
        prompt_length: how many tokens that is, with the first special token: the input of this
            name, where the model has it.
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
    prompt: str = ""
    prompt_length: int = 0

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
        # What earlier versions did not write has no effect.
        values = {"prompt": "", "prompt_length": 0, **strict_json.read_object(path)}
        if missing := sorted(_TYPES.keys() - values.keys()):
            raise ArtifactError(f"{path}: lacks {', '.join(missing)}. Export the model again.")
        for name, kind in _TYPES.items():
            if not isinstance(values[name], kind):
                raise ArtifactError(
                    f"{path}: {name} is not what this package writes: {values[name]!r:.100}"
                )
        return cls(**{name: values[name] for name in _TYPES})


_TYPES = {
    "format": str,
    "quantization": str | None,
    "task": str,
    "max_length": int,
    "options": dict,
    "pairs": bool,
    "pad_id": int,
    "inputs": dict,
    "outputs": dict,
    "prompt": str,
    "prompt_length": int,
}
