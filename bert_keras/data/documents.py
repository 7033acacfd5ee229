"""Files of text, their lines, documents and sentences.

Files are read as UTF-8 or another named encoding, and bytes that are not valid in it are an error.
The first bytes tell if a file is gzipped, whatever its ending.
"""

from __future__ import annotations

import codecs
import dataclasses
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from bert_keras import file_io
from bert_keras.data.source_files import Source, find_files, recorded_names
from bert_keras.errors import DataError
from bert_keras.tokenizers.word_counts import Progress, no_progress

MAX_LINE = 2**27  # characters
_GZIP = b"\x1f\x8b"
# First bytes of files that are not text in UTF-8, so that the message can name their format.
_FOREIGN = {
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "UTF-16"),
    b"PK\x03\x04": "a zip archive",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"PAR1": "a Parquet file",
}
_NOT_UTF8 = re.compile("[\udc80-\udcff]+")  # bytes, as the handler "surrogateescape" passes them
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPORT_EVERY = 256  # lines


def strict_lines(file: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield (number, line) of a table or a tagged text, as `numbered_lines`, but refuse NUL.

    Args:
        file: the file.
        encoding: encoding of the file; a byte order mark at the start of UTF-8 is left out.

    Raises:
        ValueError: Python has no such encoding.
        DataError: an error of `numbered_lines`, or a line with a NUL character.
    """
    try:
        "".encode(encoding)
    except LookupError as error:
        raise ValueError(
            f'encoding must name a text encoding, such as "utf-8". Received: {encoding!r} ({error})'
        ) from None
    for number, line in numbered_lines(file, encoding=encoding):
        if "\0" in line:
            raise DataError(
                f"{file}:{number}: character {line.index(chr(0)) + 1} of the line is NUL, which is "
                'not text. If the file is not damaged, pass its encoding: perhaps "utf-16".'
            )
        yield number, line


def text_value(value: Any, name: str) -> str:
    """Return a value of JSON, Parquet or a table, checked to be valid text.

    Args:
        value: value in the file.
        name: place and name of the value, for messages, such as "data.jsonl:3: 'text'".

    Raises:
        DataError: the value is not a str, or has NUL or half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise DataError(f"{name} must be text. Received: {value!r:.200}")
    if bad := "\0" in value or _SURROGATE.search(value):
        kind = "NUL" if bad is True else "half of a surrogate pair"
        raise DataError(
            f"{name} must be text without {kind}. Received: {value!r:.200}. Remove that character."
        )
    return value


def numbered_lines(
    file: Path, report: Callable[[int], object] | None = None, *, encoding: str | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line. Only LF, CRLF and CR end a line.

    Args:
        file: the file.
        report: called every 256 lines with the position in the file, in bytes on the disk.
        encoding: encoding of the file; None for UTF-8 if the user cannot pass another one.

    Raises:
        DataError: bytes not in the encoding, a line longer than `MAX_LINE`, or an unreadable file.
    """
    number = 0
    try:
        with file.open("rb") as raw, _decoded(raw, encoding) as text:
            while line := text.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise DataError(
                        f"{file}:{number}: the line has more than {MAX_LINE:,} characters. "
                        "Put a line end at least between paragraphs."
                    )
                yield number, line
                if report and number % _REPORT_EVERY == 0:
                    report(raw.tell())
    except UnicodeError as error:  # UTF-16 without a byte order mark is no UnicodeDecodeError
        raise _encoding_error(file, encoding, error) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{file}:{number + 1}: the gzip data end early or are damaged here: {error}. "
            "Download or compress the file again."
        ) from error
    except OSError as error:
        reason = error.strerror or error
        raise DataError(
            f"{file}: cannot be read: {reason}. Correct the path or the file."
        ) from error


def _decoded(
    raw: io.BufferedReader, encoding: str | None, errors: str = "strict"
) -> io.TextIOWrapper:
    """Return a reader of text from an open file, unpacked if its first bytes are those of gzip."""
    data: Any = gzip.GzipFile(fileobj=raw) if raw.peek(2).startswith(_GZIP) else raw
    codec = "utf-8-sig" if _is_utf8(encoding) else encoding
    return io.TextIOWrapper(data, codec, errors, newline=None)


def _is_utf8(encoding: str | None) -> bool:
    """Return whether an encoding is UTF-8 under any of its names; None stands for it."""
    return encoding is None or codecs.lookup(encoding).name == "utf-8"


def _encoding_error(file: Path, encoding: str | None, error: UnicodeError) -> DataError:
    """Read the file once more, and return an error with the line and bytes not in the encoding."""
    if not _is_utf8(encoding):
        return DataError(
            f"{file}:{_first_replaced(file, encoding)}: not {encoding}: {error}. "
            "Pass the encoding of the file."
        )
    with file.open("rb") as raw:
        kind = next((kind for magic, kind in _FOREIGN.items() if raw.peek().startswith(magic)), "")
        text = _decoded(raw, encoding, "surrogateescape")
        lines = enumerate(iter(partial(text.readline, MAX_LINE + 1), ""), start=1)
        number, line, bad = next((n, s, m) for n, s in lines if (m := _NOT_UTF8.search(s)))
    position = len(line[: bad.start()].encode())
    bad_bytes = bad[0][:8].encode("utf-8", "surrogateescape")
    near = line[max(0, bad.start() - 20) : bad.start() + 20].encode("utf-8", "surrogateescape")
    readings = [f"{near.decode(name, 'replace')!r} in {name}" for name in ("cp1252", "gb18030")]
    guess = f"The file looks like {kind}." if kind else f"It would read {' or '.join(readings)}."
    remedy = ', or name its encoding, such as encoding="latin-1"' if encoding else ""
    return DataError(
        f"{file}:{number}: not UTF-8. Received: from byte {position + 1} of the line on, "
        f"{bad_bytes.hex(' ')}. {guess} Convert the file to UTF-8 text{remedy}."
    )


def _first_replaced(file: Path, encoding: str | None) -> int:
    """Return the first line that cannot be decoded, from 1; 1 if the decoder reads no line."""
    try:
        with file.open("rb") as raw:
            text = _decoded(raw, encoding, "replace")
            lines = enumerate(iter(partial(text.readline, MAX_LINE + 1), ""), start=1)
            return next((number for number, line in lines if "\ufffd" in line), 1)
    except UnicodeError:
        return 1


# === Documents and sentences ===
# No line is skipped: one that cannot be read is a `DataError` that names the file and the line.
# Memory grows with the longest document, at most `MAX_DOCUMENT`, and not with the files.

LAYOUTS = ("text", "sentences")
MAX_SENTENCE = 4_096  # characters, more than a model reads at once
MAX_DOCUMENT = 2**27  # characters
_LINE_END = re.compile(r"\r\n|\r|\n")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")


def read(
    source: Source | Iterable[Source],
    *,
    layout: str = "text",
    language: str = "en",
    field: str = "text",
    progress: Progress | None = None,
) -> Documents:
    """Find the files of a corpus. A loop over the result reads their documents.

    Args:
        source: a file, a glob, a folder (the .txt, .jsonl and .gz files below it, hidden ones left
            out), or a list of these. Files of a glob or a folder come sorted by path.
        layout: "text": running text, a paragraph per line; "sentences": a sentence per line. A
            blank line ends a document. In .jsonl files every line is a document, and the lines
            are those of its text.
        language: ISO code, for the splitting of running text.
        field: key of the text in .jsonl files.
        progress: called with (bytes read, bytes in all, "bytes"); gzipped files count packed.

    Raises:
        DataError: a file is missing or named twice, or a glob or a folder has no text files.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {LAYOUTS}. Received: {layout!r}")
    files = find_files(source)
    sizes = tuple(file.stat().st_size for file in files)
    names = recorded_names(files, source)
    return Documents(tuple(files), sizes, layout, language, field, progress, names)


@dataclasses.dataclass(frozen=True)
class Documents:
    """Documents of text files, as an iterable of lists of sentences. Made by `read`.

    No document and no sentence is empty. Every loop reads the files anew, and raises `DataError` at
    invalid bytes or JSON, or if there is no text. Documents over `MAX_DOCUMENT` characters are cut.
    """

    files: tuple[Path, ...]
    sizes: tuple[int, ...]  # bytes
    layout: str
    language: str
    field: str
    progress: Progress | None = dataclasses.field(default=None, compare=False)
    names: tuple[str, ...] = ()  # of the files in a manifest: "~" stays as it was given

    def __iter__(self) -> Iterator[list[str]]:
        report: Progress = self.progress or no_progress
        has_text, done, total = False, 0, sum(self.sizes)
        for file, size in zip(self.files, self.sizes, strict=True):
            is_json = file.name.lower().removesuffix(".gz").endswith(".jsonl")
            lines = numbered_lines(file, lambda at, done=done: report(done + at, total, "bytes"))
            for document in self._from_json(file, lines) if is_json else self._from_lines(lines):
                has_text = True
                yield document
            if (now := file.stat().st_size) != size:
                raise DataError(
                    f"{file}: changed while it was read, from {size:,} to {now:,} bytes. Read it "
                    "again when nothing writes to it."
                )
            done += size
        report(done, total, "bytes")
        if not has_text:
            more = f" and {len(self.files) - 1} more files" if self.files[1:] else ""
            raise DataError(
                f"{self.files[0]}{more}: no text. Received: {total:,} bytes. "
                "Pass files with at least one sentence."
            )

    @property
    def origin(self) -> dict[str, Any]:
        """Facts for the manifest of a corpus: the files, and the options that cut sentences."""
        names = self.names or [file.as_posix() for file in self.files]
        return {
            "layout": self.layout,
            "language": self.language,
            "splitter": f"sentencex {version('sentencex')}" if self.layout == "text" else None,
            "field": self.field,
            "files": [
                {"name": name, "size": size} for name, size in zip(names, self.sizes, strict=True)
            ],
        }

    def _from_lines(self, lines: Iterable[tuple[int, str]]) -> Iterator[list[str]]:
        """Yield the documents of a plain text file, which are separated by blank lines."""
        document: list[str] = []
        size = 0
        for _, line in lines:
            text = line.strip()
            if document and (not text or size + len(text) > MAX_DOCUMENT):
                yield document
                document, size = [], 0
            size += len(text)
            document += self._sentences(text)
        if document:
            yield document

    def _from_json(self, file: Path, lines: Iterable[tuple[int, str]]) -> Iterator[list[str]]:
        """Yield the documents of a file of JSON lines, one in each line; skip empty texts."""
        for number, line in lines:
            if record := line.strip():
                text = _text_of(record, self.field, f"{file}:{number}")
                if document := [s for part in _LINE_END.split(text) for s in self._sentences(part)]:
                    yield document

    def _sentences(self, text: str) -> list[str]:
        """Return the sentences of a line, which is one sentence if the layout is not "text"."""
        return sentences_of(text, self.language if self.layout == "text" else None)


def sentences_of(text: str, language: str | None = "en") -> list[str]:
    """Return the sentences of a paragraph, stripped and not empty; see `sentence_spans`."""
    return [text[start:end] for start, end in sentence_spans(text, language)]


def sentence_spans(text: str, language: str | None = "en") -> Iterator[tuple[int, int]]:
    """Yield start and end of the sentences of a text, without white space around them.

    A sentence of more than `MAX_SENTENCE` characters is cut, if possible at white space. The text
    is split window by window, so that the time grows only in proportion to its length.

    Args:
        text: the text.
        language: ISO code of the language; None for one sentence.
    """
    start = 0
    while start < len(text):
        window = text[start : start + MAX_SENTENCE]
        # Wide spaces can make the splitter panic ("A", U+2028, "."), so it sees plain ones.
        plain = window if window.isascii() else _WIDE_SPACE.sub(" ", window)
        pieces: list[str] = [window]
        if language is not None:
            import sentencex  # pyright: ignore[reportMissingTypeStubs]

            pieces = cast("list[str]", sentencex.segment(language, plain))  # pyright: ignore[reportUnknownMemberType]
        if start + len(window) < len(text):  # the last piece may go on behind the window
            pieces = pieces[:-1] or window.rsplit(maxsplit=1)[:1] or [window]
        for piece in pieces:
            end = start + len(piece)
            sentence = text[start:end]
            if sentence.strip():
                yield start + len(sentence) - len(sentence.lstrip()), start + len(sentence.rstrip())
            start = end


def _text_of(line: str, key: str, place: str) -> str:
    """Return the value of a key in a line of JSON. `place` is "file:line", for messages."""
    record = file_io.decode_json(line, place, DataError)
    if not file_io.is_object(record) or key not in record:
        received = f"the keys {list(record)}" if file_io.is_object(record) else repr(record)
        reason = f"the line must be an object with the key {key!r}. Received: {received:.200}"
        raise DataError(f"{place}: {reason}. Pass the key of the text as `field`.")
    text = record[key]
    if not isinstance(text, str) or _SURROGATE.search(text):
        raise DataError(f"{place}: {key!r} must be valid Unicode text. Received: {text!r:.200}")
    return text
