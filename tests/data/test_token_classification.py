"""Tagged words in columns: reading, refusing and writing them. Real files are read too."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data.examples import TaggedWords
from bert_keras.data.tag_schemes import SCHEMES
from bert_keras.data.token_classification import (
    DOCUMENT_START,
    MOST_WORDS,
    read_conll,
    write_conll,
)
from bert_keras.errors import DataError


def _read(tmp_path: Path, data: str | bytes, **options: Any) -> TaggedWords:
    """Write a CoNLL file and read its tagged words."""
    path = tmp_path / "a.conll"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_conll(path, **options)


def test_the_form_of_2003(tmp_path: Path) -> None:
    """CoNLL 2003 files are read: document lines, IOB1 tags, several columns."""
    data = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nUN NNP I-NP B-ORG\nyes  UH O O\n\n\n"
    data += "-DOCSTART- -X- O O\nAnn NNP I-NP I-PER\n-DOCSTART- -X- O O\n. . O O"
    found = _read(tmp_path, data)
    path = tmp_path / "a.conll"
    assert found.words == (("EU", "UN", "yes"), ("Ann",), (".",))
    assert found.tags == (("B-ORG", "B-ORG", "O"), ("B-PER",), ("O",))
    assert found.places == (f"{path}:3", f"{path}:9", f"{path}:11")
    chunks = _read(tmp_path, data, tag_column=2).tags
    assert chunks == (("B-NP", "I-NP", "O"), ("B-NP",), ("O",))
    assert _read(tmp_path, data, tag_column=None) == TaggedWords(found.words, None, found.places)


def test_characters_in_lines(tmp_path: Path) -> None:
    """With tabs between columns a space may be a word, and a line of one tab is blank."""
    data = "\ufeff王\tB-PER.NAM\r\n\u3000\tO\r\n \tO\r\n\t\r\n美\tS-GPE\r\n"
    found = _read(tmp_path, data.replace("B-PER.NAM", "S-PER.NAM"))
    assert found.words == (("王", "\u3000", " "), ("美",))
    assert found.tags == (("B-PER.NAM", "O", "O"), ("B-GPE",))
    weibo = _read(
        tmp_path, "科0\tB-PER.NOM\n10\tI-PER.NOM\n\ufffd\ufffd12\tO\n", numbered_characters=True
    )
    assert weibo.words == (("科", "1", "\ufffd\ufffd"),)
    assert weibo.tags == (("B-PER.NOM", "I-PER.NOM", "O"),)


def test_a_sentence_without_an_end_is_told(tmp_path: Path) -> None:
    rows = "a O\n" * MOST_WORDS
    _read(tmp_path, f"{rows}\n{rows}")
    with pytest.warns(UserWarning, match=r"a\.conll:3: a sentence of 1,001 words\. A blank line"):
        _read(tmp_path, f"a O\n\n{rows}a O\n")


def test_the_scheme_is_that_of_the_file(tmp_path: Path) -> None:
    """The tag scheme is detected from the whole file.

    Here the first sentence alone could be malformed BIO or valid BMES.
    """
    data = "a B-X\nb E-X\n\nc B-X\nd M-X\ne E-X\n"
    assert _read(tmp_path, data).tags == (("B-X", "I-X"), ("B-X", "I-X", "I-X"))
    broken = "a M-X\nb O\n"
    assert _read(tmp_path, broken, repair=True).tags == (("B-X", "O"),)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("\n\n-DOCSTART- O\n", {}, r"a\.conll: no sentences"),
        ("", {}, r"a\.conll: no sentences"),
        ("\nword\n", {}, r"a\.conll:2: words and tags must be in two .*another tag_column"),
        ("a O\nb\n", {}, r"a\.conll:2: 1 columns, where line 1 has 2.*Received: 'b'"),
        ("a O\n\nb X O\n", {}, r"a\.conll:3: 3 columns, where line 1 has 2"),
        ("a\tO\n\tO\n", {}, r"a\.conll:2: a tag without a word"),
        ("a\tO\nb\t\n", {}, r"a\.conll:2: a word without a tag"),
        ("a O\n", {"tag_column": 2}, r"a\.conll:1: no column 2 for the tag\. Received: 2 columns"),
        ("a O\n", {"word_column": -3}, r"a\.conll:1: no column -3 for the word"),
        ("a O\n", {"tag_column": 0}, r"a\.conll:1: words and tags must be in two .*column 0"),
        ("a O\n\nb O\nc PER\n", {}, r"a\.conll:4: unknown tag 'PER'"),
        ("a O\n\nb PER\nc O\nd LOC\n", {}, r"(?s)2 errors:.*conll:3: .*'PER'.*conll:5: .*'LOC'"),
        ("a O\nb S-X\n", {"scheme": "bio"}, r"a\.conll:2: unknown tag 'S-X'\. .* scheme 'bio'"),
        ("a O\n\nb S-X\nc E-X\n", {}, r"a\.conll:4: 'E-X' cannot stand after 'S-X'.*'bioes'"),
        ("a O\nb B-X\n", {"scheme": "bmes"}, r"a\.conll:2: the sentence ends within"),
        ("a0\tO\nb\tO\n", {"numbered_characters": True}, r"a\.conll:2: numbered_characters needs"),
        ("a O\nb\0 O\n", {}, r"a\.conll:2: character 2 of the line is NUL"),
        (b"a O\n\xe9 O\n", {}, r'a\.conll:2: not UTF-8.*encoding="latin-1"'),
    ],
)
def test_bad_files(tmp_path: Path, data: str | bytes, options: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        _read(tmp_path, data, **options)
    assert len(str(caught.value)) < 1000


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="scheme must be 'auto' or one of"):
        _read(tmp_path, "a O\n", scheme="iob3")
    with pytest.raises(DataError, match=r"gone: cannot be read: No such file"):
        read_conll(tmp_path / "gone")


_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t\0\ufeff")
_WORDS = st.text(_CHARACTERS, min_size=1).filter(
    lambda text: (text.strip(" ") or text) == text != DOCUMENT_START
)
_TAGGED = st.tuples(_WORDS, st.sampled_from(["O", "B-A", "B-B.C"]))
_SENTENCES = st.lists(st.lists(_TAGGED, min_size=1), min_size=1)


@given(_SENTENCES, st.sampled_from(SCHEMES), st.sampled_from("\t "))
def test_what_is_written_is_read(
    sentences: list[list[tuple[str, str]]], scheme: str, separator: str
) -> None:
    words = tuple(
        tuple(word if separator == "\t" else word.replace(" ", "_") for word, _ in sentence)
        for sentence in sentences
    )
    tags = tuple(tuple(tag for _, tag in sentence) for sentence in sentences)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.conll"
        write_conll(path, words, tags, scheme=scheme, separator=separator)
        found = read_conll(path, scheme=scheme)
    assert (found.words, found.tags) == (words, tags)


@pytest.mark.parametrize(
    ("word", "separator"),
    [
        *[("a b", " "), (" ", " "), (" a", "\t"), ("a\tb", "\t"), ("a\nb", "\t"), ("\r", "\t")],
        *[("-DOCSTART-", " "), ("\ufeff", "\t"), ("a\0", "\t"), ("\ud800", "\t")],
    ],
)
def test_what_cannot_be_written(tmp_path: Path, word: str, separator: str) -> None:
    path = tmp_path / "a.conll"
    with pytest.raises(DataError, match=r"sentence 1: .* cannot be written"):
        write_conll(path, [["a"], [word]], [["O"], ["O"]], separator=separator)
    assert not list(tmp_path.iterdir())


def test_what_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    with pytest.raises(DataError, match="2 words and 1 tags"):
        write_conll(path, [["a", "b"]], [["O"]])
    with pytest.raises(DataError, match="1 words, 2 tags"):
        write_conll(path, [["a"]], [["O"], ["O"]])
    with pytest.raises(DataError, match="unknown tag 'PER'"):
        write_conll(path, [["a"]], [["PER"]])
    with pytest.raises(ValueError, match="separator must be"):
        write_conll(path, [["a"]], [["O"]], separator=",")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "options", "sentences", "words", "spans", "kinds"),
    [
        ("conll2003/eng.train", {}, 14_041, 203_621, 23_499, 4),
        ("conll2003/eng.testa", {}, 3_250, 51_362, 5_942, 4),
        ("wnut17/wnut17train.conll", {}, 3_394, 62_730, 1_975, 6),
        ("wnut17/emerging.dev.conll", {}, 1_009, 15_733, 836, 6),
        ("wikigold/wikigold.conll.txt", {}, 1_696, 39_007, 3_558, 4),
        (
            "zh_ner/Weibo_weiboNER_2nd_conll.train",
            {"numbered_characters": True},
            1_350,
            73_778,
            1_895,
            8,
        ),
        ("zh_ner/Weibo_weiboNER_2nd_conll.dev", {"numbered_characters": True}, 270, 14_509, 389, 8),
    ],
)
def test_real_files(
    shared_data: Path,
    name: str,
    options: Any,
    sentences: int,
    words: int,
    spans: int,
    kinds: int,
) -> None:
    found = read_conll(shared_data / name, **options)
    assert found.tags is not None
    tags = Counter(tag for sentence in found.tags for tag in sentence)
    starts = {tag: count for tag, count in tags.items() if tag.startswith("B-")}
    counted = (len(found), sum(map(len, found.words)), sum(starts.values()), len(starts))
    assert counted == (sentences, words, spans, kinds)
    if options:
        assert "".join(found.words[0]).startswith(("科技全方", "口腔溃疡"))
