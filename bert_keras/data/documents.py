"""Files of text -> documents -> sentences.

Nothing is guessed or skipped: what cannot be read is a `DataError` that names file and line. A
document is handed over whole, so memory is bounded by the longest one and never by the files.
"""

from __future__ import annotations

import dataclasses
import glob
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sentencex import segment

from bert_keras.errors import DataError

LAYOUTS = ("text", "sentences")
ENDINGS = (".txt", ".jsonl", ".gz")  # of the files that are read from a folder
MAX_SENTENCE = 4_096  # characters, more than a model reads at once
MAX_DOCUMENT = 2**27  # characters

Source = str | os.PathLike[str]
Progress = Callable[[int, int | None, str], object]

_REPORT_EVERY = 256  # lines
_LINE_END = re.compile(r"\r\n|\r|\n")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
_SURROGATES = re.compile("[\ud800-\udfff]+")
_GZIP = b"\x1f\x8b"
# How files begin that are no text in UTF-8, for the message.
_FOREIGN = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"PK\x03\x04": "a zip archive"}
_FOREIGN |= {b"BZh": "a bzip2 file", b"\xfd7zXZ": "an xz file", b"\x28\xb5\x2f\xfd": "a zstd file"}


def read(
    source: Source | Iterable[Source],
    *,
    layout: str = "text",
    language: str = "en",
    field: str = "text",
    progress: Progress | None = None,
) -> Documents:
    """Finds the files of a corpus; iterating over the result reads them.

    Args:
        source: a file, a glob, a folder (the files below it with one of `ENDINGS`, hidden ones
            left out), or a list of these. Files of a glob or a folder come sorted by path.
        layout: "text": running text, a paragraph per line; "sentences": a sentence per line. A
            blank line ends a document. In .jsonl files every line is a document, and the lines
            are those of its text.
        language: ISO code, for the splitting of running text.
        field: key of the text in .jsonl files.
        progress: called with (bytes read, bytes in all, "bytes"), as they lie on the disk.

    Raises:
        DataError: a file is missing or named twice, a glob or a folder gives none.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {LAYOUTS}. Received: {layout!r}")
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    files = [file for item in sources for file in _find(item)]
    if not files:
        raise DataError(f"No files were named. Received: {source!r}")
    seen: dict[Path, Path] = {}
    for file in files:
        if (other := seen.setdefault(file.resolve(), file)) is not file:
            raise DataError(f"{file}: named twice, before as {other}. Name every file once.")
    sizes = tuple(file.stat().st_size for file in files)
    return Documents(tuple(files), sizes, layout, language, field, progress)


@dataclasses.dataclass(frozen=True)
class Documents:
    """The documents of some files, each a list of sentences, never empty. Made by `read`.

    Every iteration reads the files anew. It raises `DataError` where they are not UTF-8 (or not
    JSON), gzipped or not, where a document has more than `MAX_DOCUMENT` characters, and at the end
    if there was no text at all.
    """

    files: tuple[Path, ...]
    sizes: tuple[int, ...]  # bytes
    layout: str
    language: str
    field: str
    progress: Progress | None = dataclasses.field(default=None, compare=False)

    def __iter__(self) -> Iterator[list[str]]:
        report = self.progress or (lambda *_: None)
        found, done, total = False, 0, sum(self.sizes)
        for file, size in zip(self.files, self.sizes, strict=True):
            is_json = file.name.lower().removesuffix(".gz").endswith(".jsonl")
            lines = _lines(file, lambda at, done=done: report(done + at, total, "bytes"))
            for document in (self._from_json if is_json else self._from_lines)(file, lines):
                found = True
                yield document
            done += size
        report(done, total, "bytes")
        if not found:
            more = f" and {len(self.files) - 1} more files" if self.files[1:] else ""
            raise DataError(f"{self.files[0]}{more}: no text. Received: {total:,} bytes.")

    @property
    def origin(self) -> dict[str, Any]:
        """What the sentences come from and depend on, for a manifest."""
        files = zip(self.files, self.sizes, strict=True)
        return {
            "layout": self.layout,
            "language": self.language,
            "splitter": f"sentencex {version('sentencex')}" if self.layout == "text" else None,
            "field": self.field,
            "files": [{"name": file.as_posix(), "size": size} for file, size in files],
        }

    def _from_lines(self, file: Path, lines: Iterable[tuple[int, str]]) -> Iterator[list[str]]:
        document: list[str] = []
        size = 0
        for number, line in lines:
            text = line.strip()
            if not text and document:
                yield document
                document, size = [], 0
            size += len(text)
            if size > MAX_DOCUMENT:
                raise DataError(
                    f"{file}:{number}: a document of more than {MAX_DOCUMENT:,} characters. "
                    "Put blank lines between documents."
                )
            document += self._sentences(text)
        if document:
            yield document

    def _from_json(self, file: Path, lines: Iterable[tuple[int, str]]) -> Iterator[list[str]]:
        for number, line in lines:
            if line.strip():
                text = _text_of(line, self.field, f"{file}:{number}")
                parts = _LINE_END.split(text)
                if document := [s for part in parts for s in self._sentences(part)]:
                    yield document

    def _sentences(self, text: str) -> list[str]:
        return sentences_of(text, self.language if self.layout == "text" else None)


def sentences_of(text: str, language: str | None = "en") -> list[str]:
    """The sentences of a paragraph, stripped, none empty; language None: it is one sentence.

    One of more than `MAX_SENTENCE` characters is cut, at white space where there is any. The time
    grows with the length of the text, which the splitter alone does not promise.
    """
    sentences, start = [], 0
    while start < len(text):
        window = text[start : start + MAX_SENTENCE]
        # Wide spaces can make the splitter panic ("A", U+2028, "."), so it sees plain ones.
        pieces = [window] if language is None else segment(language, _WIDE_SPACE.sub(" ", window))
        if start + len(window) < len(text):  # the last piece may go on behind the window
            pieces = pieces[:-1] or window.rsplit(maxsplit=1)[:1] or [window]
        for piece in pieces:
            end = start + len(piece)
            if sentence := text[start:end].strip():
                sentences.append(sentence)
            start = end
    return sentences


def _find(source: Source) -> list[Path]:
    path = Path(source).expanduser()
    if path.is_dir():
        below = sorted(file for file in path.rglob("*") if file.is_file())
        named = [(file, file.relative_to(path).as_posix().lower()) for file in below]
        files = [file for file, name in named if name.endswith(ENDINGS) and "/." not in f"/{name}"]
        if not files:
            raise DataError(
                f"{path}: a folder without text. Received: {len(below)} files, none that ends in "
                f"{', '.join(ENDINGS)}. A glob such as {path / '**' / '*'} takes any ending."
            )
        return files
    if path.is_file():
        return [path]
    if path.exists() or not glob.has_magic(str(path)):
        raise DataError(
            f"{path}: {'not a regular' if path.exists() else 'no such'} file or folder."
        )
    matches = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207
    if not matches:
        raise DataError(f"{path}: no file matches.")
    files = [match for match in matches if match.is_file()]
    return files or [file for match in matches for file in _find(match)]


def _text_of(line: str, key: str, place: str) -> str:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {error}. Received: {line[:80]!r}") from None
    if not isinstance(record, dict) or key not in record:
        found = f"the keys {list(record)}" if isinstance(record, dict) else repr(record)
        raise DataError(f"{place}: not an object with the key {key!r}. Received: {found:.200}")
    text = record[key]
    if not isinstance(text, str) or _SURROGATES.search(text):
        raise DataError(f"{place}: {key!r} must be text in Unicode. Received: {text!r:.200}")
    return text


def _lines(file: Path, report: Callable[[int], object]) -> Iterator[tuple[int, str]]:
    """Yields numbers and lines. A line ends in LF, CRLF or CR, and nowhere else."""
    number = 0
    try:
        with file.open("rb") as raw, _decoded(raw) as text:
            while line := text.readline(MAX_DOCUMENT + 1):
                number += 1
                yield number, line
                if number % _REPORT_EVERY == 0:
                    report(raw.tell())
    except UnicodeDecodeError:
        raise _encoding_error(file) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{file}:{number + 1}: the gzip data end or are damaged here: {error}. Get it anew."
        ) from error
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}.") from error


def _decoded(raw: io.BufferedReader, errors: str = "strict") -> io.TextIOWrapper:
    data: Any = gzip.GzipFile(fileobj=raw) if raw.peek(2).startswith(_GZIP) else raw
    return io.TextIOWrapper(data, "utf-8-sig", errors, newline=None)


def _encoding_error(file: Path) -> DataError:
    """Reads the file once more to find the line and the bytes that are not UTF-8."""
    with file.open("rb") as raw:
        kind = next((kind for magic, kind in _FOREIGN.items() if raw.peek().startswith(magic)), "")
        lines = enumerate(_decoded(raw, "surrogateescape"), start=1)
        number, line, bad = next((n, s, m) for n, s in lines if (m := _SURROGATES.search(s)))
    position = len(line[: bad.start()].encode())
    found = bad[0].encode("utf-8", "surrogateescape")
    near = line[max(0, bad.start() - 20) : bad.end() + 20].encode("utf-8", "surrogateescape")
    readings = [f"{near.decode(name, 'replace')!r} in {name}" for name in ("cp1252", "gb18030")]
    guess = f"The file looks like {kind}." if kind else f"It would read {' or '.join(readings)}."
    return DataError(
        f"{file}:{number}: not UTF-8. Received: from byte {position + 1} of the line on, "
        f"{found[:8].hex(' ')}. {guess} Convert the file to UTF-8 text."
    )
