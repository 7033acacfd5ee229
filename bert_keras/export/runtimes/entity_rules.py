"""`entities.json`: how the outputs of an exported `TokenClassifier` become entities of a text.

The file is for programs without bert_keras: with it, `tokenizer.json` and the outputs of the model
they find the entities that `Predictor` finds. See examples/onnx_entities.py.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bert_keras import features, file_io
from bert_keras.data.model_inputs import framed
from bert_keras.inference import token_classification
from bert_keras.inference.token_classification import entity_tags
from bert_keras.predictor import Predictor

FILE = "entities.json"


def write(predictor: Predictor, folder: Path) -> None:
    """Write the file into the folder of an exported `TokenClassifier`."""
    file_io.write_json(folder / FILE, rules_of(predictor))


def rules_of(predictor: Predictor) -> dict[str, Any]:
    """Return the contents of the file.

    Returns:
        output: name of the model's output: logits [batch, length, labels], or, where `crf` is
            true, potentials [batch, length, labels + 1, labels + 1] of a linear chain, whose last
            state is before the first word and behind the last.
        labels: their names, in the order of the outputs.
        tags: of each label, in the same order: the letter of the scheme ("O", or "B", "I", "E" and
            "S" as conlleval reads them), and the type of the entity.
        pieces: "first": a word has the label of its first piece.
        score: "mean": an entity has the mean of its words' scores.
        max_length: most tokens of a row; longer texts are rows of whole words.
        begin, end: ids of the special tokens around the pieces of a row.
        character, word: patterns of Python's `re`. The first finds the characters of a text, each
            with the accents that belong to it. The second finds the words in a text of the first
            code points of these characters; a word is a group that matched.
    """
    labels = predictor.label_names
    tags = entity_tags(labels)
    ids, _, offset = framed(predictor.tokenizer, [])
    attached = _class(token_classification.is_attached)
    return {
        "output": features.TAGS,
        "crf": len(predictor.task.output[features.TAGS].shape) == 4,
        "labels": labels,
        "tags": [_split(tags[label]) for label in labels],
        "pieces": "first",
        "score": "mean",
        "max_length": predictor.max_length,
        "begin": ids[:offset],
        "end": ids[offset:],
        "character": rf"\s|\S[{attached}]*",
        "word": _word_pattern(),
    }


def _split(tag: str) -> list[str]:
    letter, _, kind = tag.partition("-")
    return [letter, kind or ("" if letter == "O" else "_")]


@functools.cache
def _word_pattern() -> str:
    """Return a pattern that finds the words of `words_of`."""
    chinese = "".join(_escaped(first, last) for first, last in token_classification.CHINESE)
    letter = (
        rf"[^\s{chinese}{_class(token_classification.is_mark)}]"  # of words, wherever it stands
    )
    # A word, between its letters.
    inside = rf"(?:(?!{token_classification.PARTED.pattern})[^\s{chinese}])*"
    owned = rf"({letter}{inside}(?<=\w))([{token_classification.QUOTES}][sS])(?!{inside}{letter})"
    return rf"{owned}|({letter}(?:{inside}{letter})?|\S)"


def _class(belongs: Callable[[str], bool]) -> str:
    """Return the code points that belong to a class, as ranges in brackets of a pattern."""
    return _ranges([code for code in range(sys.maxunicode + 1) if belongs(chr(code))])


def _ranges(codes: Sequence[int]) -> str:
    starts = [code for code, last in zip(codes, [-2, *codes], strict=False) if code != last + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -2], strict=True) if code + 1 != after]
    return "".join(_escaped(start, end) for start, end in zip(starts, ends, strict=True))


def _escaped(first: int, last: int) -> str:
    codes = dict.fromkeys((first, last))
    return "-".join(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}" for code in codes)
