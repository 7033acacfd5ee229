"""Files of text -> documents -> sentences.

Nothing is guessed or skipped: what cannot be read is a `DataError` that names file and line. Memory
is bounded by the longest document, at most `MAX_DOCUMENT`, and never by the files.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sentencex import segment

from bert_keras.data.text_files import Source, find_files, names_as_given, numbered_lines
from bert_keras.errors import DataError
from bert_keras.tokenizers.vocabulary import Progress

LAYOUTS = ("text", "sentences")
MAX_SENTENCE = 4_096  # characters, more than a model reads at once
MAX_DOCUMENT = 2**27  # characters

_LINE_END = re.compile(r"\r\n|\r|\n")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


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
        source: a file, a glob, a folder (the .txt, .jsonl and .gz files below it, hidden ones left
            out), or a list of these. Files of a glob or a folder come sorted by path.
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
    files = find_files(source)
    sizes = tuple(file.stat().st_size for file in files)
    names = names_as_given(files, source)
    return Documents(tuple(files), sizes, layout, language, field, progress, names)


@dataclasses.dataclass(frozen=True)
class Documents:
    """The documents of some files, each a list of sentences, never empty. Made by `read`.

    Every iteration reads the files anew. It raises `DataError` where they are not UTF-8 (or not
    JSON), gzipped or not, and at the end if there was no text at all. A document of more than
    `MAX_DOCUMENT` characters goes on as another one.
    """

    files: tuple[Path, ...]
    sizes: tuple[int, ...]  # bytes
    layout: str
    language: str
    field: str
    progress: Progress | None = dataclasses.field(default=None, compare=False)
    names: tuple[str, ...] = ()  # of the files in a manifest: "~" stays as it was given

    def __iter__(self) -> Iterator[list[str]]:
        report = self.progress or (lambda *_: None)
        found, done, total = False, 0, sum(self.sizes)
        for file, size in zip(self.files, self.sizes, strict=True):
            is_json = file.name.lower().removesuffix(".gz").endswith(".jsonl")
            lines = numbered_lines(file, lambda at, done=done: report(done + at, total, "bytes"))
            for document in self._from_json(file, lines) if is_json else self._from_lines(lines):
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
        for number, line in lines:
            if record := line.strip():
                text = _text_of(record, self.field, f"{file}:{number}")
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
        plain = window if window.isascii() else _WIDE_SPACE.sub(" ", window)
        pieces = [window] if language is None else segment(language, plain)
        if start + len(window) < len(text):  # the last piece may go on behind the window
            pieces = pieces[:-1] or window.rsplit(maxsplit=1)[:1] or [window]
        for piece in pieces:
            end = start + len(piece)
            if sentence := text[start:end].strip():
                sentences.append(sentence)
            start = end
    return sentences


def _text_of(line: str, key: str, place: str) -> str:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {error}. Received: {line[:80]!r}") from None
    if not isinstance(record, dict) or key not in record:
        found = f"the keys {list(record)}" if isinstance(record, dict) else repr(record)
        raise DataError(f"{place}: not an object with the key {key!r}. Received: {found:.200}")
    text = record[key]
    if not isinstance(text, str) or _SURROGATE.search(text):
        raise DataError(f"{place}: {key!r} must be text in Unicode. Received: {text!r:.200}")
    return text
