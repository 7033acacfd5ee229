"""Words of texts, and entities as character spans that become tags of words."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras import metrics
from bert_keras.data.entity_spans import MISALIGNED, tag_words, words_of
from bert_keras.errors import DataError
from bert_keras.inference.base import Entity, Label
from bert_keras.inference.token_classification import entities_of, entity_tags

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


# === Entities ===


TEXT = "Anna's boss, Jean-Luc, lives in New York."


def test_spans_become_tags_of_the_words_that_predictions_have() -> None:
    """The tags are those of spaCy's `offsets_to_biluo_tags`, as BIO, for the same words."""
    found = tag_words([TEXT], [[(32, 40, "LOC"), (0, 4, "PER"), (13, 21, "PER")]], places=["f:1"])
    assert found.words == (
        ("Anna", "'s", "boss", ",", "Jean-Luc", ",", "lives", "in", "New", "York", "."),
    )
    assert found.tags == (("B-PER", "O", "O", "O", "B-PER", "O", "O", "O", "B-LOC", "I-LOC", "O"),)
    assert (found.texts, found.places) == ((TEXT,), ["f:1"])
    assert found.place(0, 1) == 'f:1, word "\'s"'
    assert tag_words([TEXT], None).tags is None


def test_entities_beside_each_other_stay_apart() -> None:
    found = tag_words(["Rome Paris"], [[(0, 4, "LOC"), (5, 10, "LOC")]])
    assert found.tags == (("B-LOC", "B-LOC"),)


@pytest.mark.parametrize(
    "entity",
    [
        [0, 4, "PER"],
        (np.int64(0), np.int64(4), "PER"),
        (0, 5, " PER "),  # white space at the end of a selection
        {"start": 0, "end": 4, "label": "PER"},
        {"start": 0, "end": 4, "labels": ["PER"], "text": "Anna"},
        {"id": 7, "start_offset": 0, "end_offset": 4, "label": "PER"},
        Entity("PER", "Anna", 0, 4, 0.9),
    ],
    ids=repr,
)
def test_forms_of_an_entity(entity: Any) -> None:
    assert tag_words(["Anna sleeps"], [[entity]]).tags == (("B-PER", "O"),)


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ((0, 3, "X"), r"\[0, 3, 'X'\] 'Ann' ends within the word 'Anna', characters 0 to 4"),
        ((1, 4, "X"), r"\[1, 4, 'X'\] 'nna' begins within the word 'Anna'"),
        (
            (15, 21, "X"),
            r"begins within the word 'Jean-Luc', characters 13 to 21.*misaligned=widen",
        ),
        ((4, 4, "X"), r"\[4, 4, 'X'\] is empty"),
        ((4, 0, "X"), r"\[4, 0, 'X'\] is empty: its end must be greater"),
        ((0, 99, "X"), r"outside of the text, which has 41 characters"),
        ((-4, 4, "X"), r"outside of the text"),
        ((6, 7, "X"), r"white space alone"),
        (("0", 4, "X"), r"must be whole numbers\. Received: \['0', 4, 'X'\]"),
        ((0, True, "X"), r"must be whole numbers"),
        ((0, 4, ""), r"label of an entity must be text"),
        ((0, 4, 7), r"label of an entity must be text"),
        ((0, 4), r"must be \[start, end, label\]"),
        ({"start": 0, "end": 4, "labels": ["A", "B"]}, r"with start, end and one label"),
        ({"start": 0, "end": 4, "label": "X", "text": "Jean"}, r"must be 'Jean'.*Received: 'Anna'"),
        ("word", r"must be \[start, end, label\]"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("places", [["f.jsonl:7"], ()])
def test_bad_entities_are_named_with_their_text(entity: Any, message: str, places: Any) -> None:
    with pytest.raises(DataError, match=rf"(?s)^{'f.jsonl:7' if places else 'row 0'}: .*{message}"):
        tag_words([TEXT], [[entity]], places=places)


def test_all_bad_entities_are_counted() -> None:
    rows: Any = [[(0, 3, "X"), (0, 4, "X")], [(0, 4, "X"), (0, 9, "Y")], [], 7, None]
    with pytest.raises(DataError) as caught:
        tag_words([TEXT, TEXT, " ", TEXT, TEXT], rows)
    lines = str(caught.value).splitlines()
    assert lines[0] == "5 errors:"
    assert "row 0: the entity [0, 3, 'X'] 'Ann' ends within" in lines[1]
    assert "row 1: two entities overlap: [0, 4, 'X'] 'Anna' and [0, 9, 'Y']" in lines[2]
    assert lines[3].startswith("row 2: no text.")
    with pytest.raises(DataError, match="Received: 1 texts and 2 lists"):
        tag_words(["a"], [[], []])
    with pytest.raises(ValueError, match=r"misaligned must be one of .*Received: 'cut'"):
        tag_words(["a"], [[]], misaligned="cut")


def test_misaligned_entities_may_be_widened_to_words() -> None:
    found = tag_words([TEXT], [[(1, 3, "PER"), (34, 38, "LOC")]], misaligned="widen")
    assert found.tags is not None
    assert [tag for tag in found.tags[0] if tag != "O"] == ["B-PER", "B-LOC", "I-LOC"]
    with pytest.raises(
        DataError, match=r"two entities overlap: \[13, 17, 'A'\] 'Jean' and .*'Luc'"
    ):
        tag_words([TEXT], [[(13, 17, "A"), (18, 21, "B")]], misaligned="widen")


THAI = "\u0e09\u0e31\u0e19\u0e2d\u0e22\u0e39\u0e48\u0e01\u0e23\u0e38\u0e07\u0e40\u0e17\u0e1e"


@pytest.mark.parametrize(
    ("text", "span"),
    [
        (THAI, (7, 14, "LOC")),
        ("\u304b\u306a\u306e\u307e\u3061", (0, 2, "LOC")),
        ("see https://example.org/a/long/path/to/a/page", (12, 19, "ORG")),
    ],
)
@pytest.mark.parametrize("misaligned", MISALIGNED)
def test_words_that_are_much_longer_than_the_entity(text: str, span: Any, misaligned: str) -> None:
    """`misaligned="widen"` would tag a whole sentence; it is neither done nor recommended."""
    with pytest.raises(DataError, match=r"(?s)within the word.*word segmenter") as caught:
        tag_words([text], [[span]], misaligned=misaligned)
    assert "widen" not in str(caught.value)


def test_words_with_short_endings_are_widened() -> None:
    for text, span in (
        ("\u30bd\u30cb\u30fc\u306e", (0, 3, "ORG")),
        ("Helsingiss\xe4kin", (0, 8, "LOC")),
    ):
        assert tag_words([text], [[span]], misaligned="widen").tags == ((f"B-{span[2]}",),)
    with pytest.raises(DataError, match=r'tag_words\(.*misaligned="widen"\).*`fit` takes'):
        tag_words(["Anna's"], [[(0, 3, "PER")]])


@pytest.mark.parametrize("label", ["B-PER", "I-PER", "O"])
def test_labels_that_are_tags_are_warned_of(label: str) -> None:
    with pytest.warns(UserWarning, match=rf"^row 1: .* tag '{label}', .* 'B-{label}'"):
        tag_words(["a", "Anna"], [[], [(0, 4, label)]])
    assert tag_words(["Anna"], [[(0, 4, "E-mail")]]).tags == (("B-E-mail",),)


@pytest.mark.parametrize(
    ("entities", "message"),
    [
        ({"entities": [(0, 4, "PER")]}, "Pass the list under 'entities'"),
        ({"start": 0, "end": 4, "label": "PER"}, r"in a list: \[entity\]"),
    ],
)
def test_dictionaries_in_place_of_lists(entities: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"row 0: .*not a dictionary.*{message}"):
        tag_words(["Anna"], [entities])


def test_positions_of_javascript_are_converted_where_the_entity_has_its_text() -> None:
    """Label Studio counts UTF-16 units (its issue 1347), and copies white space as browsers do."""
    text = "💩 is not  an annotation."
    own: dict[str, Any] = {"start": 14, "end": 24, "label": "X", "text": "annotation"}
    assert text.index("annotation") == 13
    assert tag_words([text], [[own]]).tags == tag_words([text], [[(13, 23, "X")]]).tags
    wide = {"start": 3, "end": 13, "label": "X", "text": "is not an"}
    assert tag_words([text], [[wide]]).tags == (("O", "B-X", "I-X", "I-X", "O", "O"),)
    for start, end in ((12, 25), (1, 11), (14, 99)):
        with pytest.raises(DataError, match=r"must be 'annotation'\. Received: "):
            tag_words([text], [[{**own, "start": start, "end": end}]])


@settings(max_examples=100, deadline=None)
@given(data=st.data(), text=st.text(st.sampled_from(LETTERS), max_size=40))
def test_spans_on_borders_of_words_come_back_as_predictions(data: st.DataObject, text: str) -> None:
    """Spans -> tags -> the spans that `predict_entities` makes of these tags."""
    words = words_of(text)
    if not words:
        return
    cuts = data.draw(st.sets(st.integers(0, len(words)), max_size=6))
    pieces = [pair for pair in pairwise(sorted(cuts)) if data.draw(st.booleans())]
    spans = [
        (words[first][0], words[stop - 1][1], data.draw(st.sampled_from(["A", "b-c", "数"])))
        for first, stop in pieces
    ]
    found = tag_words([text], [data.draw(st.permutations(spans))])
    assert found.tags is not None
    tags = found.tags[0]
    labels = [Label(tag, 1.0) for tag in tags]
    back = entities_of(text, words, labels, entity_tags(sorted({*tags})))
    assert [(entity.start, entity.end, entity.label) for entity in back] == spans


def test_scores_of_tags_from_spans_are_those_of_seqeval() -> None:
    """A prediction with one right span, one too long and one of another label."""
    seqeval = pytest.importorskip("seqeval.metrics")
    right = tag_words([TEXT], [[(0, 4, "PER"), (13, 21, "PER"), (32, 40, "LOC")]]).tags or ()
    answered = tag_words([TEXT], [[(0, 4, "PER"), (13, 28, "PER"), (32, 40, "ORG")]]).tags or ()
    gold, predicted = (list(map(list, tags)) for tags in (right, answered))
    scores = metrics.entity_scores(gold, predicted)
    assert scores["f1"] == pytest.approx(1 / 3)
    assert scores["f1"] == pytest.approx(seqeval.f1_score(gold, predicted))
