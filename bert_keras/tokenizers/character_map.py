"""SentencePiece's compiled normalisation rules, and the clusters that they are applied to.

The rules are a double-array trie (Aoe, 1989) from the bytes of a text to a replacement. The
`tokenizers` library applies them to grapheme clusters (Unicode, UAX #29): a cluster of less than
six bytes becomes the replacement of its shortest beginning that has one. Otherwise each character
is replaced by itself. The properties for clusters are asked of the library for every code point.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np
from tokenizers import normalizers

from bert_keras.tokenizers.basic_tokenizer import NUM_CODE_POINTS
from bert_keras.tokenizers.character_tables import flags_of, probed

MOST_BYTES = 5  # of a cluster that is replaced as a whole
_LEAF, _LABEL, _WIDE = 1 << 8, 1 << 31 | 0xFF, 1 << 9


def read_rules(content: bytes) -> dict[str, str]:
    """Return text -> replacement of compiled normalisation rules.

    Raises:
        ValueError: if they are damaged, or a text is no UTF-8.
    """
    try:
        (size,) = struct.unpack_from("<I", content)
        units = np.frombuffer(content, "<u4", size // 4, 4).astype(np.int64)
        texts = content[4 + size :]
        found: dict[str, str] = {}
        left = [(0, b"")]
        labels = np.arange(256)
        while left:
            place, prefix = left.pop()
            unit = int(units[place])
            base = place ^ (unit >> 10) << (8 if unit & _WIDE else 0)
            if prefix and unit & _LEAF:
                start = int(units[base]) & (1 << 31) - 1
                end = texts.index(b"\0", start)
                found[prefix.decode()] = texts[start:end].decode()
            places = base ^ labels
            is_child = places < len(units)
            is_child[0] = False
            is_child[is_child] = units[places[is_child]] & _LABEL == labels[is_child]
            left += [
                (int(places[label]), prefix + bytes([label])) for label in np.flatnonzero(is_child)
            ]
    except (ValueError, IndexError, struct.error) as error:
        raise ValueError(f"damaged normalisation rules: {error}") from error
    return found


def write_rules(rules: Mapping[str, str]) -> bytes:
    """Return compiled normalisation rules for a few short texts, none of them a part of another."""
    nodes: dict[bytes, set[int]] = {}
    for text in rules:
        code = text.encode()
        for end in range(len(code)):
            nodes.setdefault(code[:end], set()).add(code[end])
        nodes[code] = {0}
    starts: dict[bytes, int] = {}
    texts = b""
    for text, output in rules.items():
        starts[text.encode()] = len(texts)
        texts += output.encode() + b"\0"
    units: dict[int, int] = {0: 0}
    places = {b"": 0}
    bases: set[int] = set()  # of two nodes with one base, a reader could not tell the children
    for prefix, labels in sorted(nodes.items(), key=lambda item: len(item[0])):
        place = places[prefix]
        offset = 1
        while place ^ offset in bases or any(place ^ offset ^ x in units for x in labels):
            offset += 1
        bases.add(place ^ offset)
        units[place] |= offset << 10 | (_LEAF if 0 in labels else 0)
        for label in labels:
            child = place ^ offset ^ label
            if label:
                places[prefix + bytes([label])] = child
                units[child] = label
            else:
                units[child] = 1 << 31 | starts[prefix]
    size = max(units) // 256 * 256 + 256
    array = struct.pack(f"<{size}I", *(units.get(place, 0) for place in range(size)))
    return struct.pack("<I", len(array)) + array + texts


# === Properties for clusters ===


# Bits of the properties of a character, of which it may have several.
(CONTROL, JOINS, PREPEND, PICTOGRAPH, EXTEND, CONSONANT, LINKER, INDIC_EXTEND) = (
    1 << bit for bit in range(8)
)
# Kinds of Hangul, from bit 8 on.
HANGUL_SHIFT = 8
OTHER, LEADING, VOWEL, TRAILING, LV, LVT = range(6)
JOINER = 0x200D  # ZERO WIDTH JOINER

_X, _MARK, _AFTER = "x", "\u0301", "\u0302"
_VOWEL, _TRAILING, _COPYRIGHT = "\u1161", "\u11a8", "\u00a9"
_KA, _VIRAMA = "\u0915", "\u094d"
_KEYS = (_X, _MARK, _VOWEL, _TRAILING, _COPYRIGHT, _KA)
_SYLLABLES = range(0xAC00, 0xD7A4)
# All characters with properties are here. The others are ideographs, syllables, for private use or
# unassigned.
_RANGES = (
    *(range(0xA), range(0xB, 0x3400), range(0x4DC0, 0x4E00), range(0xA000, 0xAC00)),
    *(range(0xD7A4, 0xD800), range(0xF900, 0x20000), range(0xE0000, 0xE1000)),
)


@functools.cache
def cluster_properties() -> np.ndarray:
    """Return int32 [0x110000], the properties of each code point in grapheme clusters.

    Rules that replace single characters make clusters visible. A character with a mark behind it
    is replaced as a whole, if it begins a cluster; the mark stays, if an earlier one begins it.
    """
    normalizer = normalizers.Precompiled(write_rules(dict.fromkeys(_KEYS, "y")))

    def keeps(before: str, behind: str) -> np.ndarray:
        """Return bool [0x110000]: whether the mark behind each probe stays."""
        return probed(normalizer, characters, before, behind + _AFTER, _AFTER)[0]

    characters = "".join(map(chr, chain(*_RANGES)))
    joins = probed(normalizer, characters, _X, "", _AFTER)[1] == 1
    controls = flags_of(map(ord, characters)) & ~keeps("", _MARK)
    controls[ord("\n")] = True
    leads, trails = keeps("", _VOWEL), keeps("", _TRAILING)
    flags = {
        CONTROL: controls,
        JOINS: joins,
        PREPEND: keeps("", _X),
        PICTOGRAPH: keeps("", chr(JOINER) + _COPYRIGHT),
        EXTEND: joins & keeps(_COPYRIGHT, chr(JOINER) + _COPYRIGHT),
        CONSONANT: keeps("", _VIRAMA + _KA),
        LINKER: joins & keeps(_KA, _KA),
        INDIC_EXTEND: joins & keeps(_KA + _VIRAMA, _KA),
    }
    # Answers for the characters of the probes would be of rules, not of clusters.
    for bit, values in flags.items():
        values[[ord(_X), ord(_VOWEL), ord(_TRAILING)]] = False
        values[ord(_COPYRIGHT)] = bit == PICTOGRAPH
        values[ord(_KA)] = values[ord(_KA) + 1]
        values[[ord(_MARK), ord(_AFTER)]] = values[ord("\u0300")]
    prepends = flags[PREPEND]
    hangul = np.zeros(NUM_CODE_POINTS, np.int32)
    hangul[leads & ~trails & ~prepends] = LEADING
    hangul[leads & trails & ~prepends] = VOWEL
    hangul[~leads & trails] = TRAILING
    hangul[[*map(ord, (*_KEYS, _AFTER))]] = OTHER
    hangul[[ord(_VOWEL), ord(_TRAILING)]] = VOWEL, TRAILING
    hangul[_SYLLABLES] = LVT
    hangul[_SYLLABLES[::28]] = LV
    bits = sum(values.astype(np.int32) * bit for bit, values in flags.items())
    return bits + (hangul << HANGUL_SHIFT)


class ClusterRules(NamedTuple):
    """Normalisation rules, ready for a graph.

    Attributes:
        single: character -> replacement.
        several: text of two or three characters -> replacement. No beginning of it has one.
    """

    single: dict[str, str]
    several: dict[str, str]

    @classmethod
    def of(cls, rules: Mapping[str, str]) -> ClusterRules:
        """Return the rules that can apply to a cluster of less than six bytes."""
        single = {text: output for text, output in rules.items() if len(text) == 1 and text != "\0"}
        several = {
            text: output
            for text, output in rules.items()
            if len(text) > 1
            and len(text.encode()) <= MOST_BYTES
            and "\0" not in text
            and not any(text[:end] in rules for end in range(1, len(text)))
        }
        return cls(single, several)
