"""Tables of texts: how they are read, parted and answered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from bert_keras import file_io
from bert_keras.data import Texts, read_table, validation_split
from bert_keras.errors import DataError
from bert_keras.predictor import column_of
from bert_keras.training.kinds.kind import Kind

_BREAK = re.compile(r"[\t\r\n]+")


class TextKind(Kind):
    """Base of the kinds that read tables of texts."""

    problem = "single_label"
    packages: ClassVar[tuple[str, ...]] = ("scipy", "sklearn")

    def read(self, path: str, *, labelled: bool = True) -> Texts:
        """A table."""
        recipe = self.recipe
        return read_table(
            path,
            text=column_of(recipe.text),
            pair=column_of(recipe.pair) if recipe.pair else None,
            label=column_of(recipe.label) if recipe.label and labelled else None,
            problem=self.problem,
            label_separator=recipe.label_separator,
            **table_options(recipe),
        )

    def split(self, data: Texts, share: float) -> tuple[Texts, Texts]:
        """Drawn by `data_seed`: tables may be sorted, by their labels too.

        Pairs of one first text stay together: who has seen it knows half of the others.
        """
        firsts = None if data.pairs is None else data.texts
        learned, measured = validation_split(
            len(data), share, seed=self.recipe.data_seed, firsts=firsts
        )
        return self.take(data, learned), self.take(data, measured)


def table_options(values: Any) -> dict[str, Any]:
    """Return the options of a table's format from the values of a recipe, or values so named."""
    return {
        "format": values.format or None,
        "header": values.header,
        "quoting": {"auto": None, "true": True, "false": False}[values.quoting],
        "separator": values.separator or None,
        "encoding": values.encoding,
    }


def require_two(data: Texts) -> None:
    """Looks whether there can be a correlation.

    Raises:
        DataError: of one row there is none.
    """
    if len(data) < 2:
        raise DataError(
            f"A correlation needs two rows or more to measure on. Received: {len(data)}. Name a "
            "larger file, or hold more of train out: validation_split="
        )


def write_glue(path: Path, predictions: Sequence[str]) -> None:
    """A table of two columns, as the GLUE benchmark takes it: without quotes.

    Tabs and line ends within a label become blanks.
    """
    plain = (_BREAK.sub(" ", prediction) for prediction in predictions)
    lines = ["index\tprediction", *(f"{index}\t{text}" for index, text in enumerate(plain))]
    file_io.write_text(path, "\n".join([*lines, ""]))


def shown(data: Texts, index: int) -> str:
    """A row, for people."""
    return data.texts[index] if data.pairs is None else f"{data.texts[index]} / {data.pairs[index]}"
