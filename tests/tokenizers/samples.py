"""A small vocabulary, difficult strings, and options of tokenizers to test with them."""

from __future__ import annotations

from typing import Any

# Each letter is a first piece and a continuation, so that few words become [UNK].
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZéñßαβγσςабвёйअनामि0123456789"
PIECES = "the ##ing un ##aff ##able want ##want ##ed hello world mask sep 中国 한 ##국"
VOCABULARY = (
    *("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
    *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~。、「」…—€中国人民的大学",
    *PIECES.split(),
)

TRICKY = (
    "",
    " ",
    "\t\n\r",
    "Hello world!",
    "UNwantéd,running",
    "unaffable wanting",
    "a" * 100,
    "a" * 101,
    "a" * 5000 + " the",
    "e\u0301 \u00e9 n\u0303 \u0130 ß ẞ ﬁ ½ ² № ™",
    "ΣΑΣ ςσΣ",
    "Ёлка Й и\u0306",
    "नमस्ते",
    "한국어 \u1112\u1161\u11ab",
    "中国人民大学abc中 国",
    "日本語のテキスト、「かな」。",
    "\u4e00\u9fff\u3400\U00020000\uf900\U0002f800",
    "no\u00a0break\u2003em\u3000wide\u2028line\u2029par\u1680ogham\u0085next",
    "zero\u200bwidth\u200djoin\ufeffbom soft\u00adhyphen",
    "nul\x00 bell\x07 esc\x1b us\x1f del\x7f rep\ufffd private\ue000 unassigned\u0378",
    "combining \u0301alone \u20dd \U0001d165\ua953 \u302e\U0001d16d a\U0001d16d\ua953b",
    "[CLS] the [MASK] [SEP] [PAD][UNK] [unused0]",
    "[mask] [MASK [MASK]] x[MASK]y [ MASK ] [MA\u0301SK]",
    "(a)[b]{c}<d> $1.00 ~`^|+= _x_ ¿qué? «é»",
    "👩‍👩‍👧 emoji 😀😀 🇺🇳",
    "\u202eright\u202c to left \u0627\u0644\u0639\u0631\u0628",
    "http://x.y/?z=1&a='b'#c",
)

SWITCHES: tuple[dict[str, Any], ...] = (
    {"lowercase": True},
    {"lowercase": False},
    {"lowercase": False, "strip_accents": True},
    {"lowercase": True, "strip_accents": False},
    {"lowercase": True, "split_cjk": False},
)
