"""Long texts: windows of tokens that overlap, and a message about texts that are cut."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.data.model_inputs import EncodedTexts, add_special_tokens, encode, ids_of_rows
from bert_keras.data.sliding_windows import window_starts
from bert_keras.tokenizers import Tokenizer

TRUNCATE, WINDOWS = "truncate", "windows"
LONG_TEXTS = (TRUNCATE, WINDOWS)
# Neighbouring windows share a quarter of their tokens, so that a sentence of that length is whole
# in one of them.
_SHARE_OF_STRIDE = 3 / 4


def check_long_texts(long_texts: Any, stride: Any = None) -> None:
    """Check how long texts are read.

    Args:
        long_texts: "truncate", "windows", or None for "truncate" with a warning.
        stride: doc stride of the windows; None for three quarters of a window.

    Raises:
        ValueError: another value, or a stride without windows.
    """
    if long_texts is not None and long_texts not in LONG_TEXTS:
        raise ValueError(
            f"`long_texts` must be None or one of {', '.join(map(repr, LONG_TEXTS))}. "
            f"Received: long_texts={long_texts!r:.100}"
        )
    if stride is None:
        return
    if long_texts != WINDOWS:
        raise ValueError(
            '`stride` is for long_texts="windows". Pass both, or leave `stride` out. '
            f"Received: stride={stride!r:.100}, long_texts={long_texts!r}"
        )
    if isinstance(stride, bool) or not isinstance(stride, int) or stride < 1:
        raise ValueError(
            "`stride` must be a whole number of tokens, at least 1. "
            f"Received: stride={stride!r:.100}"
        )


def reading_options(long_texts: str | None, stride: int | None) -> dict[str, Any]:
    """Return `long_texts` and `stride` as options of a predictor, without default values."""
    if long_texts != WINDOWS:
        return {}
    return {"long_texts": WINDOWS, **({} if stride is None else {"stride": stride})}


def encode_long(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    max_length: int,
    long_texts: str | None = None,
    stride: int | None = None,
    prefix: int = 0,
) -> EncodedTexts:
    """Encode texts or pairs of texts. A text of more than `max_length` tokens is cut or split.

    With "windows", a long text has several rows, which overlap. Of a pair, the longer text is
    split, and the other one is in each row. If this other text has more than half of the tokens
    that a row has room for, it is cut to that half.

    Args:
        tokenizer: the tokenizer of the model.
        texts: texts, or the first texts of pairs.
        pairs: second texts, as many; None for single texts.
        max_length: maximum number of tokens in a row, including special tokens.
        long_texts: "truncate" or None to cut, "windows" to split.
        stride: doc stride: number of tokens from the start of a window to the start of the next;
            None for three quarters of a window.
        prefix: number of tokens at the start of each (first) text that all its rows begin with,
            such as those of a prompt.

    Returns:
        The rows. With "windows" they have `sources`, the index of the text of each row.

    Raises:
        ValueError: an unknown value, texts and pairs that differ in number, or no room for a token
            beside special tokens and prefix.
    """
    check_long_texts(long_texts, stride)
    if long_texts != WINDOWS:
        return encode(tokenizer, texts, pairs, max_length=max_length)
    room = max_length - tokenizer.scheme.num_added(1 if pairs is None else 2)
    ids: list[np.ndarray] = []
    segments: list[np.ndarray] = []
    sources: list[int] = []
    num_cut = 0
    for number, parts in enumerate(ids_of_rows(tokenizer, texts, pairs)):
        rows, is_cut = _windows(parts, room, stride, prefix)
        num_cut += is_cut
        for row in rows:
            row_ids, row_segments, _ = add_special_tokens(tokenizer, *row)
            ids.append(np.array(row_ids, np.int32))
            segments.append(np.array(row_segments, np.int32))
            sources.append(number)
    return EncodedTexts.of(
        ids, segments, tokenizer.pad_id, num_cut=num_cut, sources=np.array(sources, np.int64)
    )


def _windows(
    parts: tuple[list[int], ...], room: int, stride: int | None, prefix: int
) -> tuple[list[tuple[list[int], ...]], bool]:
    """Split the longer of one or two texts into windows.

    Args:
        parts: token ids of each text.
        room: maximum number of ids in a row, without special tokens.
        stride: doc stride; None for three quarters of a window.
        prefix: number of ids at the start of the first text that each of its windows begins with.

    Returns:
        The ids of each text in each row, and whether ids of the shorter text were left out.
    """
    if sum(map(len, parts)) <= room:
        return [parts], False
    longer = int(len(parts) == 2 and len(parts[0]) <= len(parts[1]))
    shorter = parts[1 - longer] if len(parts) == 2 else []
    kept = shorter[: room // 2]
    head = parts[longer][:prefix] if longer == 0 else []
    space = room - len(kept) - len(head)
    if space < 1:
        raise ValueError(
            "max_length leaves no room for a token of a long text beside special tokens, prompt "
            f"and second text. Pass a larger max_length. Received: room for {room} tokens, "
            f"{len(kept) + len(head)} of which are taken"
        )
    body = parts[longer][len(head) :]
    step = max(1, int(space * _SHARE_OF_STRIDE)) if stride is None else stride
    rows: list[tuple[list[int], ...]] = []
    for start in window_starts(len(body), space, step):
        window = [*head, *body[start : start + space]]
        if len(parts) == 1:
            rows.append((window,))
        else:
            rows.append((window, kept) if longer == 0 else (kept, window))
    return rows, len(kept) < len(shorter)


def mean_of_windows(values: np.ndarray, sources: np.ndarray | None) -> np.ndarray:
    """Return the mean of the rows of each text: [rows, ...] -> [texts, ...].

    Args:
        values: a value for each row, such as its logits.
        sources: `EncodedTexts.sources`; None where each row is a text, and the values stay.
    """
    if sources is None or not len(sources):
        return values
    first = np.flatnonzero(np.diff(sources, prepend=-1))
    counts = np.diff(first, append=len(sources)).astype(values.dtype)
    sums = np.add.reduceat(values, first, axis=0)
    return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


# === Messages ===


_PACKAGE = str(Path(__file__).parents[1])


def warn(message: object, category: type[Warning] = UserWarning) -> None:
    """Warn, with the first line outside this package as the place of the warning."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(str(message), category, stacklevel=level)


READS_ALL = f'long_texts="{WINDOWS}" reads all.'
LARGER = "A larger max_length reads more, if the model has the positions."
BOTH_LONG = (
    "Of two long texts, the shorter one is cut to half of a row. A larger max_length reads more."
)


@dataclass(frozen=True)
class CutTexts:
    """Number of truncated texts. `str()` returns the message about them.

    Attributes:
        cut: number of these texts.
        count: number of all texts.
        limit: maximum number of tokens that are read of a text.
        noun: plural of what is counted.
        advice: sentence on how more is read.
    """

    cut: int
    count: int
    limit: int
    noun: str = "texts"
    advice: str = LARGER

    def __bool__(self) -> bool:
        return self.cut > 0

    def __add__(self, other: CutTexts | None) -> CutTexts:
        """Return the numbers of both together, with the words of the one that has cut texts."""
        if other is None:
            return self
        named = other if other and not self else self
        return replace(named, cut=self.cut + other.cut, count=self.count + other.count)

    def __str__(self) -> str:
        verb, rest = ("is", "it") if self.cut == 1 else ("are", "them")
        return (
            f"{self.cut:,} of {self.count:,} {self.noun} {verb} longer than {self.limit} tokens; "
            f"the rest of {rest} is not read. {self.advice}"
        )
