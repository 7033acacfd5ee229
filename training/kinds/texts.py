"""Tables of texts: how they are read, parted and answered."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from bert_keras import atomic
from bert_keras.data import Texts, read_table
from training.kinds.kind import Kind


class TextKind(Kind):
    """What reads tables of texts."""

    problem = "single_label"
    packages: ClassVar[tuple[str, ...]] = ("scipy", "sklearn")

    def read(self, path: str, *, labelled: bool = True) -> Texts:
        """A table."""
        recipe = self.recipe

        def column(name: str) -> Any:
            return int(name) if name.isdecimal() else name

        return read_table(
            path,
            text=column(recipe.text),
            pair=column(recipe.pair) if recipe.pair else None,
            label=column(recipe.label) if recipe.label and labelled else None,
            problem=self.problem,
            format=recipe.format or None,
            header=recipe.header,
            quoting={"auto": None, "true": True, "false": False}[recipe.quoting],
            encoding=recipe.encoding,
        )


def write_glue(path: Path, predictions: Sequence[str]) -> None:
    """A table of two columns, as the GLUE benchmark takes it."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow(("index", "prediction"))
    writer.writerows(enumerate(predictions))
    atomic.write_text(path, file.getvalue())


def shown(data: Texts, index: int) -> str:
    """A row, for people."""
    return data.texts[index] if data.pairs is None else f"{data.texts[index]} / {data.pairs[index]}"
