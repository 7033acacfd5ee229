"""Precision, recall and F1 of entities, as seqeval and the conlleval program of CoNLL count them.

Tjong Kim Sang and De Meulder, 2003; https://github.com/chakki-works/seqeval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

# Of the previous prefix, this prefix, and whether both tags are of one type.
_Rule = Callable[[str, str, bool], bool]


class EntitySpan(NamedTuple):
    """An entity: its type, its first word, and the word after its last."""

    label: str
    start: int
    end: int


class _Scheme(NamedTuple):
    """A scheme of tags for entities, such as BIO or BILOU.

    Args:
        prefixes: all that may be used, in the letters of the rules.
        starts: whether an entity begins with this word.
        continues: whether the entity of the previous word goes on with this word.
        ends: whether an entity that does not go on was complete. If not, it counts for nothing.
        written: what the scheme writes for each of the prefixes, where it has its own letters.
    """

    prefixes: str
    starts: _Rule
    continues: _Rule
    ends: _Rule
    written: str = ""


# seqeval's rules, its readings of the rarer schemes included: by IOB1 a B is for an entity right
# after another of its type only; by IOE1 likewise an E.
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
        ends=lambda *_: True,
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
    "BMES": _BOUNDED._replace(written="OBMES"),
    "BILOU": _BOUNDED._replace(written="OBILU"),
}
_SCHEMES |= {"BIO": _SCHEMES["IOB2"], "BIOES": _BOUNDED}
# Every word that is not O is of an entity, and starts one unless it goes on with the last.
_LENIENT = _Scheme(
    "OBIES",
    starts=lambda _, this, __: this != "O",
    continues=lambda last, this, same: last in "BI" and this in "IE" and same,
    ends=lambda *_: True,
)


def entity_spans(tags: Sequence[str], scheme: str | None = None) -> list[EntitySpan]:
    """The entities of a sentence, in order.

    Args:
        tags: one per word: "O", or a prefix and a type such as "B-PER"; a prefix alone, such as
            "B", is of the type "_".
        scheme: None reads any mixture of B, I, E and S as conlleval does, which takes an I that
            follows nothing for the start of an entity. A name reads strictly, so that malformed
            entities do not count: "IOB1", "IOB2" (or "BIO"), "IOE1", "IOE2", "IOBES" (or "BIOES"),
            "BMES" or "BILOU".

    Raises:
        ValueError: an unknown scheme, or a tag that it does not have.
    """
    rules = _rules(scheme)
    return list(_spans([_parse(tag, rules, scheme) for tag in tags], rules))


def entity_scores(
    true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str | None = None
) -> dict[str, float]:
    """Precision, recall and F1, 0..1, of entities whose type and both ends must be right.

    What is divided by 0 is 0, as where nothing is predicted.

    Args:
        true: the tags of each sentence, one per word.
        predicted: the same, of the same lengths.
        scheme: how to read the tags; see `entity_spans`. None is seqeval's default mode, a name its
            strict mode.

    Returns:
        f1, precision, recall: over the entities of all types together (micro).
        support: how many true entities there are.
        PER_f1, PER_precision, PER_recall, PER_support: the same of each type that is true or
            predicted somewhere, here of the type PER.

    Raises:
        ValueError: different lengths, an unknown scheme, or a tag that it does not have.
    """
    if len(true) != len(predicted):
        raise ValueError(f"{len(true)} sentences with true tags, {len(predicted)} with predicted")
    right, found, wanted = Counter[str](), Counter[str](), Counter[str]()
    for row, (here, there) in enumerate(zip(true, predicted, strict=True)):
        if len(here) != len(there):
            raise ValueError(f"sentence {row}: {len(here)} true tags, {len(there)} predicted ones")
        real, guessed = set(entity_spans(here, scheme)), set(entity_spans(there, scheme))
        wanted.update(span.label for span in real)
        found.update(span.label for span in guessed)
        right.update(span.label for span in real & guessed)
    scores = _figures("", right.total(), found.total(), wanted.total())
    for label in sorted(wanted | found):
        scores |= _figures(f"{label}_", right[label], found[label], wanted[label])
    return scores


def _rules(scheme: str | None) -> _Scheme:
    if scheme is None:
        return _LENIENT
    if scheme not in _SCHEMES:
        raise ValueError(f"scheme must be None or one of {', '.join(_SCHEMES)}, not {scheme!r}")
    return _SCHEMES[scheme]


def _parse(tag: str, rules: _Scheme, scheme: str | None) -> tuple[str, str]:
    """The prefix, in the letters of the rules, and the type."""
    prefix, dash, label = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    letters = rules.written or rules.prefixes
    is_complete = bool(label) == bool(dash) and not (dash and prefix == "O")
    if prefix not in set(letters) or not is_complete:
        of = f"the scheme {scheme}" if scheme else "an unnamed scheme"
        others = ", ".join(f"{letter}-TYPE" for letter in letters if letter != "O")
        raise ValueError(f"{tag!r} is no tag of {of}: it has O, {others}")
    return rules.prefixes[letters.index(prefix)], label or "_"


def _spans(tags: Sequence[tuple[str, str]], rules: _Scheme) -> Iterator[EntitySpan]:
    last, kind, start = "O", "_", None
    for position, (this, label) in enumerate([*tags, ("O", "_")]):
        same = label == kind
        if start is None or not rules.continues(last, this, same):
            if start is not None and rules.ends(last, this, same):
                yield EntitySpan(kind, start, position)
            start = position if rules.starts(last, this, same) else None
        last, kind = this, label


def _figures(name: str, right: int, found: int, wanted: int) -> dict[str, float]:
    precision, recall = right / found if found else 0.0, right / wanted if wanted else 0.0
    both = precision + recall
    return {
        f"{name}f1": 2 * precision * recall / both if both else 0.0,
        f"{name}precision": precision,
        f"{name}recall": recall,
        f"{name}support": wanted,
    }
