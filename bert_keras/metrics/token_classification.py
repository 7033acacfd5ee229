"""Precision, recall and F1 of entities, equal to those of seqeval and of CoNLL's conlleval.

Tjong Kim Sang and De Meulder, 2003; https://github.com/chakki-works/seqeval.
"""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

# rule(prefix of the previous word, prefix of this word, whether both tags have the same type).
_Rule = Callable[[str, str, bool], bool]


class EntitySpan(NamedTuple):
    """An entity: its type, the index of its first word, and the index after its last word."""

    label: str
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class _Scheme:
    """A tagging scheme for entities, such as BIO or BILOU.

    Args:
        prefixes: all allowed prefixes, in the letters O, B, I, E, S.
        starts: rule that is True if an entity begins with this word.
        continues: rule that is True if the entity of the previous word continues with this word.
        ends: rule that is True if an entity that does not continue is complete. An incomplete
            entity does not count.
        written: the letters that the scheme writes for `prefixes`, if they are others.
    """

    prefixes: str
    starts: _Rule
    continues: _Rule
    ends: _Rule
    written: str = ""


def _always(*_: object) -> bool:
    """Return True: the rule of a scheme in which every entity is complete."""
    return True


# seqeval's rules, also for the rarer schemes. In IOB1, a B marks only an entity directly after
# another one of its type; in IOE1 the same holds for an E.
_BOUNDED = _Scheme(
    "OBIES",
    starts=lambda _, this, __: this in "BS",
    continues=lambda last, this, same: last in "BI" and this in "IE" and same,
    ends=lambda last, _, __: last in "ES",
)
_SCHEMES = {
    "IOB1": _Scheme(
        "OBI",
        starts=lambda last, this, same: (
            (last in "BI" and same) if this == "B" else this == "I" and (last in "OB" or not same)
        ),
        continues=lambda last, this, same: last in "BI" and this == "I" and same,
        ends=lambda last, this, same: same or last == "I" or this != "B",
    ),
    "IOB2": _Scheme(
        "OBI",
        starts=lambda _, this, __: this == "B",
        continues=lambda last, this, same: last in "BI" and this == "I" and same,
        ends=_always,
    ),
    "IOE1": _Scheme(
        "OIE",
        starts=lambda last, this, same: (
            (last == "E" and same) if this == "E" else this == "I" and (last in "OE" or not same)
        ),
        continues=lambda last, this, same: last == "I" and this in "IE" and same,
        ends=lambda last, this, same: last == "I" or (this in "IE" and same),
    ),
    "IOE2": _Scheme(
        "OIE",
        starts=lambda last, this, same: this in "IE" and (last in "OE" or not same),
        continues=lambda last, this, same: last == "I" and this in "IE" and same,
        ends=lambda last, _, __: last == "E",
    ),
    "IOBES": _BOUNDED,
    "BMES": dataclasses.replace(_BOUNDED, written="OBMES"),
    "BILOU": dataclasses.replace(_BOUNDED, written="OBILU"),
}
_SCHEMES.update(BIO=_SCHEMES["IOB2"], BIOES=_BOUNDED)
# conlleval's rules: every word that is not O belongs to an entity, and begins one unless it
# continues that of the previous word.
_LENIENT = _Scheme(
    "OBIES",
    starts=lambda _, this, __: this != "O",
    continues=lambda last, this, same: last in "BI" and this in "IE" and same,
    ends=_always,
)


def entity_spans(tags: Sequence[str], scheme: str | None = None) -> list[EntitySpan]:
    """Return the entities of a sentence in their order.

    Args:
        tags: tag of each word: "O", or a prefix and a type such as "B-PER". A prefix alone, such as
            "B", has the type "_".
        scheme: None accepts any mixture of B, I, E and S, as conlleval does: an I after O begins an
            entity. With a name, malformed entities do not count: "IOB1", "IOB2" (or "BIO"), "IOE1",
            "IOE2", "IOBES" (or "BIOES"), "BMES" or "BILOU".

    Raises:
        ValueError: if the scheme is unknown, or does not have a tag.
    """
    rules = _rules(scheme)
    return list(_spans([_parse(tag, rules, scheme) for tag in tags], rules))


def entity_scores(
    true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str | None = None
) -> dict[str, float]:
    """Compute precision, recall and F1 of entities, from 0 to 1.

    An entity is correct if its type, start and end are. Without predicted entities precision is 0.

    Args:
        true: tags of each sentence, one for each word.
        predicted: predicted tags of the same lengths.
        scheme: tagging scheme; see `entity_spans`. None is seqeval's default mode, a name its
            strict mode.

    Returns:
        f1, precision, recall: scores over the entities of all types together (micro average).
        support: number of true entities.
        PER_f1, PER_precision, PER_recall, PER_support: the same for the type PER, and so on for
            each type that occurs in `true` or `predicted`.

    Raises:
        ValueError: if the lengths differ, the scheme is unknown, or it does not have a tag.
    """
    if len(true) != len(predicted):
        raise ValueError(
            "`true` and `predicted` must have equally many sentences. Received: "
            f"{len(true)} sentences with true tags, {len(predicted)} with predicted"
        )
    right, guessed, wanted = Counter[str](), Counter[str](), Counter[str]()
    for row, (true_tags, tags) in enumerate(zip(true, predicted, strict=True)):
        if len(true_tags) != len(tags):
            raise ValueError(
                f"sentence {row}: {len(true_tags)} true tags, {len(tags)} predicted ones. Each "
                "word needs one of both."
            )
        true_spans, spans = set(entity_spans(true_tags, scheme)), set(entity_spans(tags, scheme))
        wanted.update(span.label for span in true_spans)
        guessed.update(span.label for span in spans)
        right.update(span.label for span in true_spans & spans)
    scores = _figures("", right.total(), guessed.total(), wanted.total())
    for label in sorted(wanted | guessed):
        scores |= _figures(f"{label}_", right[label], guessed[label], wanted[label])
    return scores


def _rules(scheme: str | None) -> _Scheme:
    """Return the rules of a scheme; conlleval's for None."""
    if scheme is None:
        return _LENIENT
    if scheme not in _SCHEMES:
        raise ValueError(
            f"`scheme` must be None or one of {', '.join(_SCHEMES)}. Received: scheme={scheme!r}"
        )
    return _SCHEMES[scheme]


def _parse(tag: str, rules: _Scheme, scheme: str | None) -> tuple[str, str]:
    """Split a tag into its prefix, in the letters O, B, I, E, S, and its type.

    Raises:
        ValueError: if the scheme has no such tag.
    """
    prefix, dash, label = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    letters = rules.written or rules.prefixes
    is_complete = bool(label) == bool(dash) and not (dash and prefix == "O")
    if prefix not in set(letters) or not is_complete:
        of = f"the scheme {scheme}" if scheme else "an unnamed scheme"
        others = ", ".join(f"{letter}-TYPE" for letter in letters if letter != "O")
        raise ValueError(
            f"{tag!r} is no tag of {of}: it has O, {others}. Pass the `scheme` of the tags."
        )
    return rules.prefixes[letters.index(prefix)], label or "_"


def _spans(tags: Sequence[tuple[str, str]], rules: _Scheme) -> Iterator[EntitySpan]:
    """Yield the entities of a sentence; `tags` has the prefix and the type of each word."""
    last, kind, start = "O", "_", None
    for position, (this, label) in enumerate([*tags, ("O", "_")]):
        same = label == kind
        if start is None or not rules.continues(last, this, same):
            if start is not None and rules.ends(last, this, same):
                yield EntitySpan(kind, start, position)
            start = position if rules.starts(last, this, same) else None
        last, kind = this, label


def _figures(name: str, right: int, guessed: int, wanted: int) -> dict[str, float]:
    """Return F1, precision, recall and support.

    Args:
        name: prefix of the keys.
        right: number of correctly predicted entities.
        guessed: number of predicted entities.
        wanted: number of true entities.
    """
    precision, recall = right / guessed if guessed else 0.0, right / wanted if wanted else 0.0
    both = precision + recall
    return {
        f"{name}f1": 2 * precision * recall / both if both else 0.0,
        f"{name}precision": precision,
        f"{name}recall": recall,
        f"{name}support": wanted,
    }
