"""How a family spells its special tokens, and where it puts them around a text or two."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError

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
        """How many special tokens one text or two get."""
        return 2 if texts == 1 else 2 + self.separators


BERT = Scheme()
ALBERT = Scheme(pad="<pad>", unk="<unk>")
ROBERTA = Scheme(
    pad="<pad>", unk="<unk>", cls="<s>", sep="</s>", mask="<mask>", separators=2, two_segments=False
)


def find(
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
    scheme = dataclasses.replace(scheme, **told, **places(post_processor))
    received = f"Received: {dict(zip(ROLES, scheme.special_tokens, strict=True))}"
    if missing := [role for role in ROLES if getattr(scheme, role) not in vocabulary]:
        raise ArtifactError(
            f"{path}: no {' and no '.join(missing)} token in the vocabulary. {received}"
        )
    if len({scheme.pad, scheme.unk, scheme.cls, scheme.mask}) < len(ROLES) - 1:
        raise ArtifactError(f"{path}: one special token has several roles. {received}")
    return scheme


def places(post_processor: Any) -> dict[str, Any]:
    """How many separators stand between two texts, and their segments; {} if it does not say."""
    processor = post_processor if isinstance(post_processor, dict) else {}
    if processor.get("type") == "Sequence":
        parts = processor.get("processors")
        found = [places(part) for part in parts] if isinstance(parts, list) else []
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
