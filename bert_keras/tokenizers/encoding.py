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
    """

    pad: str = "[PAD]"
    unk: str = "[UNK]"
    cls: str = "[CLS]"
    sep: str = "[SEP]"
    mask: str = "[MASK]"
    separators: int = 1
    two_segments: bool = True

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """All special tokens, in the order of `ROLES`."""
        return tuple(getattr(self, role) for role in ROLES)

    def num_added(self, texts: int) -> int:
        """Return the number of special tokens around `texts` texts, which is 1 or 2."""
        return 2 if texts == 1 else 2 + self.separators


BERT = Scheme()
ALBERT = Scheme(pad="<pad>", unk="<unk>")
ROBERTA = Scheme(
    pad="<pad>", unk="<unk>", cls="<s>", sep="</s>", mask="<mask>", separators=2, two_segments=False
)


def find_scheme(
    path: Path, vocabulary: Collection[str], tokens: Mapping[str, str], post_processor: Any = None
) -> Scheme:
    """Find the special tokens of a tokenizer that was opened from files.

    The base is the scheme of BERT, ALBERT or RoBERTa with the most tokens in the vocabulary. What
    the files state replaces its values.

    Args:
        path: path of the tokenizer's main file, for messages.
        vocabulary: all pieces.
        tokens: role -> token, for the roles that the files state.
        post_processor: this part of a tokenizer.json, which states the places; None for none.

    Raises:
        ArtifactError: if a role has no token in the vocabulary, or two roles have the same token.
    """

    def fitting(scheme: Scheme) -> int:
        """Return the number of special tokens that the vocabulary has."""
        defaults = zip(ROLES, scheme.special_tokens, strict=True)
        return sum(tokens.get(role, token) == token in vocabulary for role, token in defaults)

    scheme = max((BERT, ALBERT, ROBERTA), key=fitting)
    scheme = dataclasses.replace(scheme, **tokens, **special_token_places(post_processor))
    received = f"Received: {dict(zip(ROLES, scheme.special_tokens, strict=True))}"
    if missing := [role for role in ROLES if getattr(scheme, role) not in vocabulary]:
        raise ArtifactError(
            f"{path}: no {' and no '.join(missing)} token in the vocabulary. {received}. State the "
            'tokens in tokenizer_config.json, such as "mask_token".'
        )
    if len({scheme.pad, scheme.unk, scheme.cls, scheme.mask}) < len(ROLES) - 1:
        raise ArtifactError(
            f"{path}: one special token has several roles. {received}. Give each role its own "
            "token in tokenizer_config.json."
        )
    return scheme


def special_token_places(post_processor: Any) -> dict[str, Any]:
    """Return `separators` and `two_segments` of a post-processor; {} if it does not state them."""
    processor = post_processor if is_object(post_processor) else {}
    if processor.get("type") == "Sequence":
        parts = processor.get("processors")
        places = [special_token_places(part) for part in parts] if is_array(parts) else []
        return next((place for place in places if place), None) or {}
    if processor.get("type") == "RobertaProcessing":
        return {"separators": ROBERTA.separators, "two_segments": ROBERTA.two_segments}
    if processor.get("type") == "BertProcessing":
        return {"separators": BERT.separators, "two_segments": BERT.two_segments}
    pair = processor.get("pair")
    if processor.get("type") != "TemplateProcessing" or not is_array(pair):
        return {}
    texts = [
        index
        for index, item in enumerate(pair)
        if is_object(item) and is_object(item.get("Sequence"))
    ]
    if len(texts) != 2:
        return {}
    second = pair[texts[1]]["Sequence"]
    return {"separators": texts[1] - texts[0] - 1, "two_segments": second.get("type_id") == 1}


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
