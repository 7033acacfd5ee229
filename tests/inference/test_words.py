"""Beginnings and ends of the words of a text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.inference.words import words_of

LETTERS = "aB1 .,(-'s$\t\n\u3000中国、，あé\u0301😀\u200d\ufe0f\x00"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann lives in Rome.", ["Ann", "lives", "in", "Rome", "."]),
        ("(U.S.-based), don't!", ["(", "U.S.-based", ")", ",", "don't", "!"]),
        ("Ann's (Rome\u2019s) 's", ["Ann", "'s", "(", "Rome", "\u2019s", ")", "'", "s"]),
        ("Rome,Paris\u2014Oslo 1,000", ["Rome", ",", "Paris", "\u2014", "Oslo", "1,000"]),
        ("1,a;b", ["1", ",", "a", ";", "b"]),
        ("WHO(World) f(x)!", ["WHO", "(", "World", ")", "f", "(", "x", ")", "!"]),
        ("爱Apple、Google，Oslo。", ["爱", "Apple", "、", "Google", "，", "Oslo", "。"]),
        ("ソニー（東）、コカ・コーラ", ["ソニー", "（", "東", "）", "、", "コカ・コーラ"]),
        ("１，０００ １２：３０ Rome：１", ["１，０００", "１２：３０", "Rome", "：", "１"]),
        ("a ❤\ufe0fRome❤\ufe0f", ["a", "❤\ufe0f", "Rome", "❤\ufe0f"]),
        ("Oslo👨\u200d👩", ["Oslo", "👨\u200d", "👩"]),
        ("Jose\u0301's हिन्दी, है।", ["Jose\u0301", "'s", "हिन्दी", ",", "है", "।"]),
        ("\ufeffRome a\u0301.", ["\ufeff", "Rome", "a\u0301", "."]),
        ("C++ $5 -- ok", ["C", "+", "+", "$", "5", "-", "-", "ok"]),
        ("我爱Rome和中国", ["我", "爱", "Rome", "和", "中", "国"]),
        ("  spaces\u3000everywhere\n", ["spaces", "everywhere"]),
        ("...", [".", ".", "."]),
        ("", []),
        (" \t", []),
    ],
)
def test_words_of(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in words_of(text)] == words


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet=st.sampled_from(LETTERS) | st.characters(), max_size=30))
def test_words_leave_out_nothing_but_white_space(text: str) -> None:
    found = words_of(text)
    shown = [place for start, end in found for place in range(start, end)]
    assert shown == [place for place, letter in enumerate(text) if not letter.isspace()]
    assert all(start < end for start, end in found)
