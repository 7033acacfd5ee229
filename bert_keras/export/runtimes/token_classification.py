"""`entities.json`: rules that turn the outputs of an exported `TokenClassifier` into entities.

The file is for programs without bert_keras. With `tokenizer.json`, this file and the outputs of the
model they get the same entities as `Predictor`. See examples/onnx_entities.py.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bert_keras import features, file_io
from bert_keras.data import entity_spans
from bert_keras.data.model_inputs import add_special_tokens
from bert_keras.inference.token_classification import entity_tags
from bert_keras.predictor import Predictor

FILE = "entities.json"


def write(predictor: Predictor, folder: Path) -> None:
    """Write the file into the folder of an exported `TokenClassifier`."""
    file_io.write_json(folder / FILE, rules_of(predictor))


def rules_of(predictor: Predictor) -> dict[str, Any]:
    """Return the content of the file.

    Returns:
        output: name of the model's output: logits [batch, length, labels]. If `crf` is true, they
            are the potentials [batch, length, labels + 1, labels + 1] of a linear-chain CRF, whose
            last state is before the first word and after the last one.
        labels: names of the labels, in the order of the outputs.
        tags: prefix ("O", "B", "I", "E" or "S") and entity type of each label, in the same order.
            conlleval's rules apply.
        pieces: "first": a word has the label of its first piece.
        score: "mean": an entity has the mean of its words' scores.
        max_length: maximum number of tokens of a row. Longer texts are split between words.
        begin, end: ids of the special tokens around the pieces of a row.
        character, word: patterns of Python's `re`. `character` matches each character of a text
            with its accents. `word` is applied to the first code points of these characters; each
            group that matches is a word.
    """
    labels = predictor.label_names
    tags = entity_tags(labels)
    ids, _, offset = add_special_tokens(predictor.tokenizer, [])
    attached = _class(entity_spans.is_attached)
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
    """Split a tag into its prefix and its entity type."""
    letter, _, kind = tag.partition("-")
    return [letter, kind or ("" if letter == "O" else "_")]


@functools.cache
def _word_pattern() -> str:
    """Return a regular expression that finds the same words as `words_of`."""
    chinese = "".join(_escaped(first, last) for first, last in entity_spans.CHINESE)
    # A letter is always part of a word. `inside` is the middle of a word between two letters.
    letter = rf"[^\s{chinese}{_class(entity_spans.is_mark)}]"
    inside = rf"(?:(?!{entity_spans.PARTED.pattern})[^\s{chinese}])*"
    owned = rf"({letter}{inside}(?<=\w))([{entity_spans.QUOTES}][sS])(?!{inside}{letter})"
    return rf"{owned}|({letter}(?:{inside}{letter})?|\S)"


def _class(belongs: Callable[[str], bool]) -> str:
    """Return the characters for which `belongs` is True, as ranges for a class in a pattern."""
    return _ranges([code for code in range(sys.maxunicode + 1) if belongs(chr(code))])


def _ranges(codes: Sequence[int]) -> str:
    """Return ascending code points as ranges of a pattern."""
    starts = [code for code, last in zip(codes, [-2, *codes], strict=False) if code != last + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -2], strict=True) if code + 1 != after]
    return "".join(_escaped(start, end) for start, end in zip(starts, ends, strict=True))


def _escaped(first: int, last: int) -> str:
    r"""Return a range of code points for a pattern, such as "\u4e00-\u9fff"."""
    codes = dict.fromkeys((first, last))
    return "-".join(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}" for code in codes)
