"""Special tokens of each family, and rows of ids: cutting, [CLS] and [SEP], padding."""

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

ROLES = ("pad", "unk", "cls", "sep", "mask")


@dataclasses.dataclass(frozen=True)
class Scheme:
    """Special tokens around texts. The defaults are BERT's: [CLS] text [SEP] text [SEP].

    Attributes:
        pad: fills rows up.
        unk: stands for what the vocabulary cannot spell.
        cls: before the first text.
        sep: behind every text.
        mask: for a token to be predicted.
        separators: how many `sep` stand between two texts (RoBERTa: 2).
        two_segments: whether the second text is segment 1; else every token is segment 0.
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
        """In the order of `ROLES`."""
        return tuple(getattr(self, role) for role in ROLES)

    def num_added(self, texts: int) -> int:
        """Return the number of special tokens that one text, or two, get."""
        return 2 if texts == 1 else 2 + self.separators


BERT = Scheme()
ALBERT = Scheme(pad="<pad>", unk="<unk>")
ROBERTA = Scheme(
    pad="<pad>", unk="<unk>", cls="<s>", sep="</s>", mask="<mask>", separators=2, two_segments=False
)


def find_scheme(
    path: Path, vocabulary: Collection[str], told: Mapping[str, str], post_processor: Any = None
) -> Scheme:
    """The scheme of a tokenizer that was opened from files.

    Args:
        path: of its main file, for messages.
        vocabulary: its pieces.
        told: tokens by role, as far as the files say.
        post_processor: that part of a tokenizer.json, which says where they stand; None for none.

    Raises:
        ArtifactError: a role has no token in the vocabulary.
    """

    def fitting(scheme: Scheme) -> int:
        own = zip(ROLES, scheme.special_tokens, strict=True)
        return sum(told.get(role, token) == token in vocabulary for role, token in own)

    scheme = max((BERT, ALBERT, ROBERTA), key=fitting)
    scheme = dataclasses.replace(scheme, **told, **special_token_places(post_processor))
    received = f"Received: {dict(zip(ROLES, scheme.special_tokens, strict=True))}"
    if missing := [role for role in ROLES if getattr(scheme, role) not in vocabulary]:
        raise ArtifactError(
            f"{path}: no {' and no '.join(missing)} token in the vocabulary. {received}"
        )
    if len({scheme.pad, scheme.unk, scheme.cls, scheme.mask}) < len(ROLES) - 1:
        raise ArtifactError(f"{path}: one special token has several roles. {received}")
    return scheme


def special_token_places(post_processor: Any) -> dict[str, Any]:
    """Return the separators between two texts and their segments; {} if the file does not say."""
    processor = post_processor if isinstance(post_processor, dict) else {}
    if processor.get("type") == "Sequence":
        parts = processor.get("processors")
        found = [special_token_places(part) for part in parts] if isinstance(parts, list) else []
        return next((place for place in found if place), {})
    if processor.get("type") == "RobertaProcessing":
        return {"separators": ROBERTA.separators, "two_segments": ROBERTA.two_segments}
    if processor.get("type") == "BertProcessing":
        return {"separators": BERT.separators, "two_segments": BERT.two_segments}
    pair = processor.get("pair")
    if processor.get("type") != "TemplateProcessing" or not isinstance(pair, list):
        return {}
    texts = [
        index
        for index, item in enumerate(pair)
        if isinstance(item, dict) and isinstance(item.get("Sequence"), dict)
    ]
    if len(texts) != 2:
        return {}
    second = pair[texts[1]]["Sequence"]
    return {"separators": texts[1] - texts[0] - 1, "two_segments": second.get("type_id") == 1}


# === Rows of ids ===


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text, or a pair, as the model reads it. All lists have the same length.

    Attributes:
        ids: vocabulary ids.
        segment_ids: 0 in the first text, 1 in the second where the family tells them apart.
        tokens: the pieces.
        offsets: (start, end) of each piece in its own text, in characters; (0, 0) where added.
        special_tokens_mask: 1 for the special tokens added here, whatever the text spells.
        word_ids: number of the word in its own text; None where added.
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
    """Return the numbers of pieces kept of each text; the longer text is cut first.

    Args:
        lengths: of one text, or of two.
        max_length: of the whole, with the `num_added` special tokens; None for any.
        num_added: how many special tokens are added.
    """
    if max_length is None:
        return lengths
    room = max_length - num_added
    if room < 0:
        raise ValueError(
            f"max_length must leave room for {num_added} special tokens. Received: {max_length}"
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
    """Joins the first pieces of one or two texts.

    Args:
        parts: the texts' pieces.
        kept: how many of them stay.
        scheme: what stands around the texts.
        added: the ids of its cls and sep; None to add neither.
    """
    result = Encoding([], [], [], [], [], [])

    def add(token: str, index: int, segment: int) -> None:
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
    """Rows of one or two segments as int32 [batch, length]; None: as long as the longest row."""
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
