"""Tables of texts: how they are read, parted and answered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_keras import atomic
from bert_keras.data import Draws, Stream, Texts, read_table
from bert_keras.errors import DataError
from training.finetune_recipe import FinetuneRecipe
from training.kinds.kind import Kind, last_share

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
        keys = Draws(self.recipe.data_seed, epoch=1).keys(Stream.PLAN, len(data))
        if data.pairs is not None:
            first = {text: row for row, text in reversed(list(enumerate(data.texts)))}
            keys = keys[[first[text] for text in data.texts]]
        order = np.argsort(keys, kind="stable")
        bounds = 1 + np.flatnonzero(np.diff(keys[order]))  # where another text begins
        wanted = last_share(len(data), share)
        count = min(bounds.tolist(), key=lambda bound: abs(bound - wanted), default=wanted)
        learned, measured = (np.sort(part).tolist() for part in (order[:count], order[count:]))
        return self.take(data, learned), self.take(data, measured)


def column_of(name: str) -> str | int:
    """A column as a recipe names it: by name, or by number."""
    return int(name) if name.isdecimal() else name


def table_options(recipe: FinetuneRecipe) -> dict[str, Any]:
    """Return the options of a table's format that a recipe has."""
    return {
        "format": recipe.format or None,
        "header": recipe.header,
        "quoting": {"auto": None, "true": True, "false": False}[recipe.quoting],
        "separator": recipe.separator or None,
        "encoding": recipe.encoding,
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
    atomic.write_text(path, "\n".join([*lines, ""]))


def shown(data: Texts, index: int) -> str:
    """A row, for people."""
    return data.texts[index] if data.pairs is None else f"{data.texts[index]} / {data.pairs[index]}"
