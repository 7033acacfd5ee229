"""Documents and sentences from good and bad files."""

from __future__ import annotations

import gzip
import json
import os
import random
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data import documents
from bert_keras.data.documents import (
    MAX_SENTENCE,
    Documents,
    find_files,
    numbered_lines,
    read,
    recorded_names,
    sentences_of,
    strict_lines,
    text_value,
)
from bert_keras.errors import DataError


def _read(tmp_path: Path, text: str | bytes, name: str = "corpus.txt", **options: Any) -> list:
    """Write a text file and read its documents."""
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
        ('["text"]', r"the line must be an object with the key 'text'. Received: \['text'\]"),
        ('{"body": "a", "id": 1}', r"the line must .* 'text'. Received: the keys \['body', 'id'\]"),
        ('{"text": null}', "'text' must be valid Unicode text. Received: None"),
        ('{"text": ["a"]}', r"'text' must be valid Unicode text. Received: \['a'\]"),
        (
            r'{"text": "half \ud83d of a pair"}',
            "'text' must be valid Unicode text. Received: 'half",
        ),
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
    "data", [b"", b"\n\n", b" \t\r\n\xc2\xa0\n\xe3\x80\x80", gzip.compress(b"", mtime=0)]
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
    """Text on which the sentence splitter fails is kept as one sentence."""
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


# === Finding text files, and each error that reading their lines can raise ===


def _write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text\n")


def _names(folder: Path, *sources: str | Path) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in find_files(list(sources))]


def test_a_folder_gives_its_text_files_sorted(tmp_path: Path) -> None:
    _write(tmp_path, "b.txt", "a/z.jsonl", "a/B.TXT.GZ", "a/c.gz", "d.jsonl.gz", "readme.md", "x")
    _write(tmp_path, ".hidden.txt", ".git/a.txt", "a/.checkpoints/a.txt")
    expected = ["a/B.TXT.GZ", "a/c.gz", "a/z.jsonl", "b.txt", "d.jsonl.gz"]
    assert _names(tmp_path, tmp_path) == expected
    assert find_files(str(tmp_path)) == find_files([tmp_path])


def test_hidden_is_judged_below_the_folder_only(tmp_path: Path) -> None:
    """A hidden folder that the user names is read."""
    _write(tmp_path, ".cache/a.txt")
    assert _names(tmp_path, tmp_path / ".cache") == [".cache/a.txt"]


def test_globs_take_any_ending_and_folders_if_they_match_nothing_else(tmp_path: Path) -> None:
    _write(tmp_path, "wiki/AB/w_2", "wiki/AA/w_1", "wiki/AA/w_0", "books/AA/b.txt", "a[1].txt")
    assert _names(tmp_path, tmp_path / "wiki" / "**" / "w_*") == [
        "wiki/AA/w_0",
        "wiki/AA/w_1",
        "wiki/AB/w_2",
    ]
    assert _names(tmp_path, tmp_path / "books" / "*") == ["books/AA/b.txt"]
    assert _names(tmp_path, tmp_path / "a[1].txt") == ["a[1].txt"]


def test_a_list_keeps_its_order(tmp_path: Path) -> None:
    _write(tmp_path, "b.txt", "a.txt", "c/d.txt")
    sources = [tmp_path / "c", tmp_path / "b.txt", tmp_path / "a.t?t"]
    assert _names(tmp_path, *sources) == ["c/d.txt", "b.txt", "a.txt"]


def test_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "b.txt")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_files("~/b.txt") == [tmp_path / "b.txt"]


@pytest.mark.parametrize(
    ("make", "source", "message"),
    [
        (None, "nothing.txt", r"nothing\.txt: no such file or folder"),
        (None, "*.txt", r"\*\.txt: no file matches"),
        (
            lambda p: _write(p, "d/x.md", "d/y"),
            "d",
            r"d: the folder has no text files. Received: 2 files",
        ),
        (lambda p: (p / "d").mkdir(), "d", "d: the folder has no text files. Received: 0 files"),
        (lambda p: (p / "d").mkdir(), "?", "d: the folder has no text files"),
        (lambda p: os.mkfifo(p / "pipe"), "pipe", "pipe: not a regular file or folder"),
    ],
)
def test_sources_without_files(
    tmp_path: Path, make: Callable[[Path], object] | None, source: str, message: str
) -> None:
    if make:
        make(tmp_path)
    with pytest.raises(DataError, match=message):
        find_files(tmp_path / source)


def test_no_source_and_a_file_named_twice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No file is named. Received: \[\]"):
        find_files([])
    _write(tmp_path, "a.txt", "b.txt")
    with pytest.raises(DataError, match=r"a\.txt: this file is also named as"):
        find_files([tmp_path / "a.txt", tmp_path / "*.txt"])
    (tmp_path / "link.txt").symlink_to(tmp_path / "b.txt")
    with pytest.raises(DataError, match=r"link\.txt: this file is also named as .*b\.txt"):
        find_files(tmp_path)


def _lines(tmp_path: Path, data: bytes, name: str = "file.txt") -> list[tuple[int, str]]:
    """Write a file and read its numbered lines."""
    path = tmp_path / name
    path.write_bytes(data)
    return list(numbered_lines(path))


def test_line_ends(tmp_path: Path) -> None:
    data = "\ufeffa\r\nb\rc\n\n\x0bd\x0c\x1c\x85\u2028\u2029e\x00\ufeff".encode()
    assert _lines(tmp_path, data) == [
        *[(1, "a\n"), (2, "b\n"), (3, "c\n"), (4, "\n")],
        (5, "\x0bd\x0c\x1c\x85\u2028\u2029e\x00\ufeff"),
    ]
    assert _lines(tmp_path, b"") == []


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a"])
def test_gzip_is_known_by_its_bytes(tmp_path: Path, name: str) -> None:
    members = gzip.compress("Ärger\n".encode()) + gzip.compress(b"two")
    assert _lines(tmp_path, members, name) == [(1, "Ärger\n"), (2, "two")]
    assert _lines(tmp_path, b"plain\n", name) == [(1, "plain\n")]


def _zip(path: Path) -> bytes:
    """Return the bytes of a zip archive."""
    with zipfile.ZipFile(path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"\xff\xfe" * 100)
    return (path / "x.zip").read_bytes()


# pytest puts this into the names of tests, which must be the same in each process.
_PACKED = gzip.compress(random.Random(0).randbytes(1000).hex().encode(), mtime=0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        # Latin-1 text with three kinds of line ends.
        (b"one\r\ntwo\rna caf\xe9 na\n", r"file\.txt:3: not UTF-8.*byte 7 of.* e9\..*café.*cp1252"),
        ("中文。\n".encode("gb18030"), r":1: .* byte 1 .* d6 d0 ce\..*'中文。.*' in gb18030"),
        ("text".encode("utf-16"), r":1: .* byte 1 .* ff fe\. The file looks like UTF-16"),
        ("text".encode("utf-16-be").join([b"\xfe\xff", b""]), r":1: .*looks like UTF-16"),
        (b"\xef\xbb\xbfgood\n" + "schön".encode()[:-2], r":2: .* byte 4 .* c3\. "),
        (b"good\n" * 50_000 + b"\xed\xa0\x80\n", r":50001: .* ed a0 80\."),
        (gzip.compress(b"good\n\xff", mtime=0), r":2: not UTF-8"),
        (_zip, r":\d+: .*looks like a zip archive"),
        (b"\x28\xb5\x2f\xfd\x00\xff", r":1: .*looks like a zstd file"),
        (_PACKED[:-20], r":1: the gzip data end early or are damaged here: .*ended before"),
        (_PACKED[:-8] + bytes(8), ":1: the gzip data end early or are damaged here: CRC"),
        (_PACKED[:30] + bytes(500) + _PACKED[530:], "the gzip data end early or are damaged"),
        (
            _PACKED + b"trailing",
            ":1: the gzip data end early or are damaged here: Not a gzipped file",
        ),
        (_PACKED[:5], "the gzip data end early or are damaged"),
    ],
)
def test_unreadable_lines(
    tmp_path: Path, data: bytes | Callable[[Path], bytes], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        _lines(tmp_path, data(tmp_path) if callable(data) else data)
    assert len(str(caught.value)) < 1000


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_LINE", 10)
    assert _lines(tmp_path, b"123456789\n1234567890") == [(1, "123456789\n"), (2, "1234567890")]
    with pytest.raises(DataError, match=r"file\.txt:2: the line has more than 10 characters"):
        _lines(tmp_path, b"short\n" + b"\0" * 100)


def test_a_file_that_vanishes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.txt: cannot be read: No such file"):
        list(numbered_lines(tmp_path / "gone.txt"))


@pytest.mark.skipif(os.geteuid() == 0, reason="as root every file can be read")
def test_a_file_that_is_forbidden(tmp_path: Path) -> None:
    _write(tmp_path, "secret.txt")
    (tmp_path / "secret.txt").chmod(0)
    with pytest.raises(DataError, match=r"secret\.txt: cannot be read: Permission denied"):
        list(numbered_lines(tmp_path / "secret.txt"))


def test_the_position_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("a line of text\n" * 10_000)
    positions: list[int] = []
    assert len(list(numbered_lines(path, positions.append))) == 10_000
    assert positions == sorted(positions)
    assert len(positions) > 10
    assert 0 < positions[0] < positions[-1] <= path.stat().st_size


def test_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    text = "aé\r\nb\u2028\n"
    for encoding in ("utf-8", "UTF8", "utf-16", "utf-16-le", "gb18030"):
        path.write_bytes(text.encode(encoding))
        assert list(strict_lines(path, encoding)) == [(1, "aé\n"), (2, "b\u2028\n")]
    path.write_bytes(b"\xef\xbb\xbfa\xe9")
    assert list(strict_lines(path, "latin-1")) == [(1, "\xef\xbb\xbfa\xe9")]


@pytest.mark.parametrize(
    ("data", "encoding", "message"),
    [
        (b"a\nb\xe9c\n", "utf8", r'a\.txt:2: not UTF-8.* name its encoding, such as .*"latin-1"'),
        (b"a\n" * 50_000 + b"\xff\xff\n", "gb18030", r"a\.txt:50001: not gb18030: .*0xff"),
        (b"a\nb\xe9\n", "ascii", r"a\.txt:2: not ascii: "),
        (b"ab\nc", "utf-16", r"a\.txt:1: not utf-16: .*"),
        (b"a\nb\0", "utf-8", r"a\.txt:2: character 2 of the line is NUL"),
    ],
)
def test_lines_that_are_no_text(tmp_path: Path, data: bytes, encoding: str, message: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message):
        list(strict_lines(path, encoding))


@pytest.mark.parametrize("encoding", ["latin-99", "rot13"])
def test_unknown_encodings(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(ValueError, match="encoding must name a text encoding"):
        list(strict_lines(tmp_path / "a.txt", encoding))


def test_values_that_are_text() -> None:
    """A JSON value is text only if it is a string without NUL and lone surrogates."""
    assert text_value(" \u2028😀", "f:1: 'a'") == " \u2028😀"
    for value, found in (
        (None, r"\. Received: None"),
        ("\0", " without NUL"),
        ("\ud800", " without"),
    ):
        with pytest.raises(DataError, match=f"f:1: 'a' must be text{found}"):
            text_value(value, "f:1: 'a'")


def test_a_home_folder_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "wiki").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "wiki" / name).write_text("x")
    # A shell replaces "~" before the program sees it.
    for source in ("~/wiki", "~/wiki/*.txt", ["~/wiki/a.txt", "~/wiki/b.txt"], tmp_path / "wiki"):
        files = find_files(source)
        assert files == [tmp_path / "wiki" / name for name in ("a.txt", "b.txt")]
        assert recorded_names(files, source) == ("~/wiki/a.txt", "~/wiki/b.txt")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert recorded_names(files, tmp_path / "wiki") == tuple(map(str, files))
    monkeypatch.setenv("HOME", "/")
    assert recorded_names(files, tmp_path / "wiki") == tuple(map(str, files))
