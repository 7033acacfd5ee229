"""Special tokens of each model family, and rows of ids: truncation, [CLS] and [SEP], padding."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from bert_keras.errors import ArtifactError
from bert_keras.features import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_keras.file_io import is_array, is_object

ROLES = ("pad", "unk", "cls", "sep", "mask")


@dataclasses.dataclass(frozen=True)
class Scheme:
    """Special tokens around texts. The defaults are BERT's: [CLS] text [SEP] text [SEP].

    Attributes:
        pad: padding token at the end of a row.
        unk: token for words or characters that the vocabulary cannot spell.
        cls: token before the first text.
        sep: token after every text.
        mask: token in place of one that is to be predicted.
        separators: number of `sep` tokens between two texts (RoBERTa: 2).
        two_segments: True if the second text has segment id 1; else all tokens have 0.
        cls_before_second: True if `cls` also precedes the second text (Llama 3).
    """

    pad: str = "[PAD]"
    unk: str = "[UNK]"
    cls: str = "[CLS]"
    sep: str = "[SEP]"
    mask: str = "[MASK]"
    separators: int = 1
    two_segments: bool = True
    # Not in the text of a scheme, which is part of the fingerprints that runs have stored.
    cls_before_second: bool = dataclasses.field(default=False, repr=False)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """All special tokens, in the order of `ROLES`."""
        return tuple(getattr(self, role) for role in ROLES)

    def num_added(self, texts: int) -> int:
        """Return the number of special tokens around `texts` texts, which is 1 or 2."""
        return 2 if texts == 1 else 2 + self.separators + self.cls_before_second


BERT = Scheme()
ALBERT = Scheme(pad="<pad>", unk="<unk>")
ROBERTA = Scheme(
    pad="<pad>", unk="<unk>", cls="<s>", sep="</s>", mask="<mask>", separators=2, two_segments=False
)
MPNET = dataclasses.replace(ROBERTA, unk="[UNK]")


def find_scheme(
    path: Path,
    vocabulary: Collection[str],
    tokens: Mapping[str, str],
    post_processor: Any = None,
    family: Scheme | None = None,
) -> Scheme:
    """Find the special tokens of a tokenizer that was opened from files.

    The base is the scheme of the family, of BERT, ALBERT or RoBERTa with the most tokens in the
    vocabulary. What the files state replaces its values. The places of the tokens are those that
    the files state, or those of the family.

    Args:
        path: path of the tokenizer's main file, for messages.
        vocabulary: all pieces.
        tokens: role -> token, for the roles that the files state.
        post_processor: this part of a tokenizer.json, which states the places; None for none.
        family: scheme of the model family; None if it is not known.

    Raises:
        ArtifactError: if a role has no token in the vocabulary, the mask token has another role, or
            the places cannot be those of a scheme.
    """

    def fitting(scheme: Scheme) -> int:
        """Return the number of special tokens that the vocabulary has."""
        defaults = zip(ROLES, scheme.special_tokens, strict=True)
        return sum(tokens.get(role, token) == token in vocabulary for role, token in defaults)

    scheme = max((family or BERT, BERT, ALBERT, ROBERTA), key=fitting)
    stated = special_token_places(post_processor, path) or (places(family) if family else {})
    scheme = dataclasses.replace(scheme, **tokens, **stated)
    received = f"Received: {dict(zip(ROLES, scheme.special_tokens, strict=True))}"
    if missing := [role for role in ROLES if getattr(scheme, role) not in vocabulary]:
        raise ArtifactError(
            f"{path}: no {' and no '.join(missing)} token in the vocabulary. {received}. State the "
            'tokens in tokenizer_config.json, such as "mask_token".'
        )
    # Llama 3 has one token for the end and for padding. But a masked token must be recognisable.
    if scheme.mask in (scheme.pad, scheme.cls, scheme.sep):
        raise ArtifactError(
            f"{path}: one special token has several roles. {received}. Give the mask its own "
            "token in tokenizer_config.json."
        )
    return scheme


def places(scheme: Scheme) -> dict[str, Any]:
    """Return the attributes of a scheme that state the places of special tokens."""
    names = "separators", "two_segments", "cls_before_second"
    return {name: getattr(scheme, name) for name in names}


def special_token_places(post_processor: Any, path: Path | str = "") -> dict[str, Any]:
    """Return the `places` that a post-processor states; {} if it states none.

    Args:
        post_processor: this part of a tokenizer.json.
        path: path of the file, for messages.

    Raises:
        ArtifactError: if it puts other special tokens around texts than a `Scheme` can.
    """
    processor = _stating(post_processor)
    if processor.get("type") in _FIXED:
        return places(_FIXED[processor["type"]])
    pair = _items(processor, "pair")
    texts = [index for index, (kind, _, _) in enumerate(pair) if kind == "Sequence"]
    if len(texts) != 2:
        return {}
    first, second = texts
    between = [token for _, token, _ in pair[first + 1 : second]]
    if first == 0 and not between and second == len(pair) - 1:
        return {}  # no special token at all: written by a program that adds them itself
    cls, sep = pair[0][1], pair[-1][1]
    restarts = len(between) > 1 and between[-1] == cls != sep
    separators = between[:-1] if restarts else between
    single = _items(processor, "single") or [*pair[:2], pair[-1]]
    around = (first, second, [token for _, token, _ in single])
    expected = (1, len(pair) - 2, [cls, single[1][1] if len(single) == 3 else "", sep])
    if around != expected or not separators or set(separators) != {sep}:
        names = [" ".join(token for _, token, _ in items) for items in (single, pair)]
        raise ArtifactError(
            f"{path}: special tokens around texts must be one before each text or before the first "
            f"one, and one kind after each text. Received: {' and '.join(map(repr, names))}. Give "
            "the model token ids of this tokenizer's own program."
        )
    return {
        "separators": len(separators),
        "two_segments": pair[second][2] == 1,
        "cls_before_second": restarts,
    }


def stated_tokens(post_processor: Any) -> dict[str, str]:
    """Return the roles "cls" and "sep" that a post-processor states; {} if it states none."""
    processor = _stating(post_processor)
    if processor.get("type") in _FIXED:
        tokens = {role: processor.get(role) for role in ("cls", "sep")}
        return {r: t[0] for r, t in tokens.items() if is_array(t) and t and isinstance(t[0], str)}
    items = _items(processor, "pair")
    if [kind for kind, _, _ in items[:2]] != ["SpecialToken", "Sequence"]:
        return {}
    return {"cls": items[0][1], "sep": items[-1][1]} if items[-1][0] == "SpecialToken" else {}


def is_template(post_processor: Any) -> bool:
    """Return whether a post-processor, or a part of it, can put special tokens around texts."""
    return bool(_stating(post_processor))


_FIXED = {"RobertaProcessing": ROBERTA, "BertProcessing": BERT}


def _stating(post_processor: Any) -> dict[str, Any]:
    """Return the part of a post-processor that states special tokens; {} if there is none."""
    processor = post_processor if is_object(post_processor) else {}
    if processor.get("type") == "Sequence":
        parts = processor.get("processors")
        stating = [_stating(part) for part in parts] if is_array(parts) else []
        return next((part for part in stating if part), dict[str, Any]())
    return processor if processor.get("type") in (*_FIXED, "TemplateProcessing") else {}


def _items(processor: Mapping[str, Any], name: str) -> list[tuple[str, str, Any]]:
    """Return (kind, token or name of the text, segment id) of each item of a template."""
    items = processor.get(name)
    found: list[tuple[str, str, Any]] = []
    for item in items if is_array(items) else []:
        for kind in ("SpecialToken", "Sequence"):
            value = item.get(kind) if is_object(item) else None
            if is_object(value):
                found.append((kind, str(value.get("id")), value.get("type_id")))
    return found


# === Rows of ids ===


@dataclass(frozen=True, slots=True)
class Encoding:
    """The tokens of one text or of a pair of texts. All lists have the same length.

    Attributes:
        ids: vocabulary id of each token.
        segment_ids: 0 in the first text; 1 in the second text, if the family has two segments.
        tokens: the pieces.
        offsets: (start, end) of each piece in its own text, in characters; (0, 0) for an added
            special token.
        special_tokens_mask: 1 for an added special token, 0 for a piece of a text, even if the
            text itself has "[SEP]".
        word_ids: number of the piece's word in its own text; None for an added special token.
    """

    ids: list[int]
    segment_ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    special_tokens_mask: list[int]
    word_ids: list[int | None]

    def __len__(self) -> int:
        return len(self.ids)


def kept_lengths(lengths: list[int], max_length: int | None, num_added: int) -> list[int]:
    """Return the number of pieces of each text that fit. The longer text is cut first.

    Args:
        lengths: number of pieces of one text or of two texts.
        max_length: maximum length of the row with its special tokens; None for no limit.
        num_added: number of special tokens.

    Raises:
        ValueError: if `max_length` is too small for the special tokens.
    """
    if max_length is None:
        return lengths
    room = max_length - num_added
    if room < 0:
        raise ValueError(
            f"`max_length` must leave room for {num_added} special tokens. Received: {max_length}"
        )
    if sum(lengths) <= room:
        return lengths
    if len(lengths) == 1:
        return [room]
    shorter = min(*lengths, room // 2)
    return [shorter, room - shorter] if lengths[0] <= lengths[1] else [room - shorter, shorter]


def assemble(
    parts: Sequence[tokenizers.Encoding],
    kept: list[int],
    scheme: Scheme,
    added: tuple[int, int] | None,
) -> Encoding:
    """Truncate one or two encoded texts, join them and add special tokens.

    Args:
        parts: encoded texts.
        kept: number of pieces to keep of each text.
        scheme: special tokens and their places.
        added: ids of `scheme.cls` and `scheme.sep`; None to add no special tokens.
    """
    result = Encoding([], [], [], [], [], [])

    def add(token: str, index: int, segment: int) -> None:
        """Append one special token."""
        result.ids.append(index)
        result.segment_ids.append(segment)
        result.tokens.append(token)
        result.offsets.append((0, 0))
        result.special_tokens_mask.append(1)
        result.word_ids.append(None)

    if added:
        add(scheme.cls, added[0], 0)
    for number, (part, length) in enumerate(zip(parts, kept, strict=True)):
        segment = number * scheme.two_segments
        if added and number:
            for _ in range(scheme.separators - 1):
                add(scheme.sep, added[1], 0)
            if scheme.cls_before_second:
                add(scheme.cls, added[0], segment)
        result.ids.extend(part.ids[:length])
        result.segment_ids.extend([segment] * length)
        result.tokens.extend(part.tokens[:length])
        result.offsets.extend(part.offsets[:length])
        result.special_tokens_mask.extend([0] * length)
        result.word_ids.extend(part.word_ids[:length])
        if added:
            add(scheme.sep, added[1], segment)
    return result


def pad(
    rows: list[list[list[int]]], pad_id: int, length: int | None, *, two_segments: bool
) -> dict[str, np.ndarray]:
    """Return rows of ids as padded arrays, the input features of a model.

    Args:
        rows: for each row one or two lists of ids, one for each segment.
        pad_id: id that fills the end of a row.
        length: length of all rows; None for the length of the longest one.
        two_segments: whether to return `segment_ids`.

    Returns:
        `token_ids`, perhaps `segment_ids`, and `padding_mask` (1 for a token, 0 for padding), each
        int32 [batch, length].
    """
    lengths = [sum(map(len, row)) for row in rows]
    width = max(lengths, default=0) if length is None else length
    token_ids = np.full((len(rows), width), pad_id, np.int32)
    segment_ids = np.zeros_like(token_ids)
    padding_mask = np.zeros_like(token_ids)
    for index, (row, used) in enumerate(zip(rows, lengths, strict=True)):
        token_ids[index, :used] = list(chain.from_iterable(row))
        segment_ids[index, len(row[0]) : used] = 1
        padding_mask[index, :used] = 1
    segments = {SEGMENT_IDS: segment_ids} if two_segments else {}
    return {TOKEN_IDS: token_ids, **segments, PADDING_MASK: padding_mask}
