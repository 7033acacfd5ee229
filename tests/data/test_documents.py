"""Documents and sentences, from good files and from bad ones."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data import documents
from bert_keras.data.documents import MAX_SENTENCE, Documents, read, sentences_of
from bert_keras.errors import DataError


def _read(tmp_path: Path, text: str | bytes, name: str = "corpus.txt", **options: Any) -> list:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read(path, **options))


TEXT = """\
Dr. Smith went home. It rained!

  A title

\t
First. Second?
Third.
"""


def test_running_text(tmp_path: Path) -> None:
    expected = [
        ["Dr. Smith went home.", "It rained!"],
        ["A title"],
        ["First.", "Second?", "Third."],
    ]
    assert _read(tmp_path, TEXT) == expected
    assert _read(tmp_path, "\n\n" + TEXT.replace("\n", "\r\n") + "\n\n") == expected
    assert _read(tmp_path, "\ufeff" + TEXT.replace("\n", "\r")) == expected
    assert _read(tmp_path, gzip.compress(TEXT.encode()), "corpus.gz") == expected


def test_one_sentence_per_line(tmp_path: Path) -> None:
    assert _read(tmp_path, TEXT, layout="sentences") == [
        ["Dr. Smith went home. It rained!"],
        ["A title"],
        ["First. Second?", "Third."],
    ]


def test_languages(tmp_path: Path) -> None:
    text = "你好。再见！\n这如何？"
    assert _read(tmp_path, text, language="zh") == [["你好。", "再见！", "这如何？"]]
    assert _read(tmp_path, "Er kam am 3. Mai. Er blieb.", language="de") == [
        ["Er kam am 3. Mai.", "Er blieb."]
    ]


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "c.JSONL"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    records = [
        {"id": 1, "text": "One. Two.\r\nThree\u2028still.\n\nFour.\rFive"},
        {"text": " \n "},
        {"text": "Half \ud83d\ude00 past.", "title": None},
    ]
    data = "\n\n".join(map(json.dumps, records)).encode()
    found = _read(tmp_path, gzip.compress(data) if name.endswith("gz") else data, name)
    assert found == [["One.", "Two.", "Three\u2028still.", "Four.", "Five"], ["Half 😀 past."]]
    lines = _read(tmp_path, b'{"body": "A. B.\\nC."}', "d.jsonl", field="body", layout="sentences")
    assert lines == [["A. B.", "C."]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "cut off', "not JSON: Unterminated string"),
        ("{'text': 1}", "not JSON: Expecting property name"),
        ('{"text": "a"} x', "not JSON: Extra data"),
        ("[" * 100_000, r"not JSON: .*Received: '\[\[\["),
        ('["text"]', r"not an object with the key 'text'. Received: \['text'\]"),
        ('{"body": "a", "id": 1}', r"not an object .* 'text'. Received: the keys \['body', 'id'\]"),
        ('{"text": null}', "'text' must be text in Unicode. Received: None"),
        ('{"text": ["a"]}', r"'text' must be text in Unicode. Received: \['a'\]"),
        (r'{"text": "half \ud83d of a pair"}', "'text' must be text in Unicode. Received: 'half"),
        ('{"text": "caf\udce9"}', "not UTF-8"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, message: str) -> None:
    data = b'{"text": "good"}\n\n' + line.encode(errors="surrogateescape") + b"\n"
    with pytest.raises(DataError, match=rf"corpus\.jsonl:3: {message}") as caught:
        _read(tmp_path, data, "corpus.jsonl")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("layout", documents.LAYOUTS)
@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b" \t\r\n\xc2\xa0\n\xe3\x80\x80", gzip.compress(b"")]
)
def test_no_text(tmp_path: Path, layout: str, data: bytes) -> None:
    with pytest.raises(DataError, match=r"corpus\.txt: no text. Received: \d+ bytes"):
        _read(tmp_path, data, layout=layout)
    (tmp_path / "other.jsonl").write_text('{"text": ""}\n')
    with pytest.raises(DataError, match=r"corpus\.txt and 1 more files: no text"):
        list(read(tmp_path))


def test_empty_files_beside_others_are_no_error(tmp_path: Path) -> None:
    for name, text in {"a.txt": "", "b.txt": "One.", "c.txt": "\n"}.items():
        (tmp_path / name).write_text(text)
    assert list(read(tmp_path)) == [["One."]]


def test_a_file_ends_its_last_document(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"In {name}")
    assert list(read(tmp_path)) == [["In a.txt"], ["In b.txt"]]


def test_bad_arguments_and_missing_files_are_told_before_reading(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"layout must be one of .*Received: 'lines'"):
        read(tmp_path, layout="lines")
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "gone.txt")


def test_documents_can_be_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    found = read(tmp_path)
    assert isinstance(found, Documents)
    assert list(found) == list(found)


def test_origin_and_progress(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One line.\n" * 3000)
    (tmp_path / "b.txt").write_text("Two.")
    calls: list[tuple[int, int | None, str]] = []
    found = read(tmp_path, progress=lambda *call: calls.append(call))
    assert len(list(found)) == 2
    total = 30_000 + 4
    assert {call[1:] for call in calls} == {(total, "bytes")}
    assert [call[0] for call in calls] == sorted(call[0] for call in calls)
    assert calls[-1][0] == total
    assert [file["size"] for file in found.origin["files"]] == [30_000, 4]
    assert found.origin["splitter"].startswith("sentencex 1.")
    assert read(tmp_path, layout="sentences").origin["splitter"] is None


def test_a_document_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENT", 100)
    good = "ten chars.\n" * 10 + "\n" + "ten chars.\n" * 10
    assert [len(document) for document in _read(tmp_path, good)] == [10, 10]
    assert [len(document) for document in _read(tmp_path, good + "x")] == [10, 10, 1]


def test_memory_is_that_of_a_document_not_of_the_file(tmp_path: Path) -> None:
    def peak(copies: int) -> int:
        path = tmp_path / f"{copies}.txt"
        path.write_text((TEXT + "\n") * copies)
        tracemalloc.start()
        assert sum(1 for _ in read(path)) == 3 * copies
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(10)
    assert peak(20_000) < 1.2 * peak(1_000)


@pytest.mark.parametrize("language", ["en", "zh", None])
@pytest.mark.parametrize(
    "unit", ["Yes. ", "你好。", "no end at all ", "one“word(", "\u3000", "a" * 5000 + " "]
)
def test_long_lines_take_linear_time_and_lose_nothing(language: str | None, unit: str) -> None:
    text = unit * (300_000 // len(unit))
    found = sentences_of(text, language)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(0 < len(sentence) <= MAX_SENTENCE for sentence in found)
    assert all(sentence == sentence.strip() for sentence in found)


def test_long_paragraphs_have_the_sentences_of_short_ones() -> None:
    one = "The committee met again in the spring of that year, without Mr. Brown. "
    assert sentences_of(one * 1000) == [one.strip()] * 1000


def test_a_long_sentence_is_cut_between_words() -> None:
    words = " ".join(f"word{i}" for i in range(3000))
    pieces = sentences_of(words)
    assert len(pieces) > 1
    assert " ".join(pieces) == words


def test_a_million_sentences_in_one_document(tmp_path: Path) -> None:
    [document] = _read(tmp_path, "A b.\n" * 1_000_000, layout="sentences")
    assert len(document) == 1_000_000


def test_text_the_splitter_panics_at() -> None:
    assert sentences_of("A\u2028. B\u3000.") == ["A\u2028. B\u3000."]


@given(st.text(), st.sampled_from(["en", "zh", "ar", "hi", "xx"]))
def test_sentences_lose_nothing_but_white_space(text: str, language: str) -> None:
    text = "".join(c for c in text if not "\ud800" <= c <= "\udfff")
    found = sentences_of(text, language)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in found)


@pytest.mark.data
def test_real_text(shared_data: Path) -> None:
    source = shared_data / "enwiki" / "enwiki_20MB.txt"
    found = []
    for document in read(source):
        found.append(document)
        if len(found) == 100:
            break
    assert found[0][:2][0] == "Anarchism"
    lengths = [len(sentence) for document in found for sentence in document]
    assert 80 < sum(lengths) / len(lengths) < 200
    assert 20 < sum(map(len, found)) / len(found) < 400
