"""Files of annotation tools: entities as character spans, from doccano, Label Studio and spaCy.

A file is recognised by its content. Each row has a text with spans, or a list of words with tags:

    {"text": "…", "label": [[0, 4, "PER"]]}            doccano; also "entities", "labels", "spans"
    {"text": "…", "entities": [{"start_offset": 0, …}]}            doccano with relations
    ["…", {"entities": [[0, 4, "PER"]]}]               spaCy's training pairs
    {"data": {"text": "…"}, "annotations": [{"result": […]}]}      Label Studio, JSON
    {"text": "…", "label": [{"start": 0, "end": 4, "labels": ["PER"]}]}   Label Studio, JSON-MIN
    {"tokens": ["…"], "ner_tags": ["B-PER"]}           words with tags, as in `datasets`

in a list of JSON or in lines of JSON. spaCy's `.spacy` files, Parquet files and folders of
`datasets` are read too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from bert_keras import file_io
from bert_keras.data.documents import Source, strict_lines, text_value
from bert_keras.data.entity_spans import tag_words
from bert_keras.data.examples import TaggedWords
from bert_keras.data.json_records import TO_CLASSIFY, UNUSED_ANSWERS, TaskReader, is_task, records
from bert_keras.data.long_texts import warn
from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.table_columns import (
    ENTITY_KEYS,
    TEXT_KEYS,
    chosen_key,
    dataset_rows,
    is_dataset_folder,
    matching_names,
    names_of_columns,
    parquet_rows,
)
from bert_keras.data.tag_schemes import detect_scheme, to_bio
from bert_keras.errors import DataError
from bert_keras.file_io import is_array, is_object

_LINES = (".jsonl", ".ndjson", ".json")
_MIN_KEYS = ("annotation_id", "annotator", "lead_time")  # of Label Studio's JSON-MIN alone
_SPACY, _PARQUET = ".spacy", ".parquet"
_LINE = re.compile(r":(\d+)$")
_FIRST = 2**16  # characters of a line that are looked at to recognise JSON


class _Row(NamedTuple):
    """One row of a file: its place, the format, a text or words, and spans or tags (or None)."""

    place: str
    format: str
    text: Any
    marks: Any


def annotation_format(path: Source, *, text: str | None = None) -> str | None:
    """Return the format of a file of annotated texts, such as "Label Studio, JSON".

    Args:
        path: the file or folder.
        text: key or column of the text or the words, as in `read_entities`.

    Returns:
        The name of the format, from the content of the file; None for another file, such as one
        with columns of words and tags.

    Raises:
        DataError: the file is JSON, but its first row has no known form.
    """
    file = file_io.expanded(path)
    if not _is_annotation_file(file):
        return None
    rows = _rows(file, text, None, labelled=False, encoding="utf-8")
    return next((row.format for row in rows), None)


def read_entities(
    path: Source,
    *,
    text: str | None = None,
    entities: str | None = None,
    labelled: bool = True,
    misaligned: str = "refuse",
    scheme: str = "auto",
    repair: bool = False,
    encoding: str = "utf-8",
) -> TaggedWords:
    """Read texts with entities as character spans, or words with tags, as words with BIO tags.

    Texts are split into words as `tag_words` does it. The formats are those of this module: JSON or
    JSON lines of doccano, Label Studio and spaCy, `.spacy` files, Parquet, and folders of
    `datasets`.

    Args:
        path: the file or folder.
        text: key or column of the text, or of the list of words; None for the first of
            `TEXT_KEYS` that a row has. In Label Studio's JSON it is a key of `data`.
        entities: key or column of the spans or tags; None for the first of `ENTITY_KEYS`.
        labelled: False reads texts or words alone.
        misaligned: "refuse", or "widen" spans that begin or end within a word; see `tag_words`.
        scheme: scheme of tags, as in `read_conll`.
        repair: whether to read broken spans of tags, as in `read_conll`.
        encoding: encoding of JSON files.

    Returns:
        The rows in the order of the file, with "file:line" or the number of the task as `places`.
        Tasks of Label Studio that nobody has annotated are left out, and rows that Prodigy's users
        rejected or ignored.

    Warns:
        UserWarning: rejected rows, or results of Label Studio that are no entities, such as
            choices. The message counts them.

    Raises:
        DataError: rows that cannot be used; the message has place and text of each. Or a file of
            another form.
        ImportError: a `.spacy` file without spaCy, or Parquet without pyarrow.
    """
    file = file_io.expanded(path)
    errors = ErrorCollector()
    rows: list[_Row] = []
    with errors.whole():
        for row in _rows(file, text, entities, labelled=labelled, encoding=encoding, errors=errors):
            with errors.row():
                rows.append(_checked(row, labelled))
    if not rows:
        raise DataError(f"{file}: no rows with annotations. Pass a file with at least one.")
    are_texts = isinstance(rows[0].text, str)
    if others := [row for row in rows if isinstance(row.text, str) != are_texts]:
        raise DataError(
            f"{others[0].place}: all rows must have a text, or all of them words. Received: "
            f"{others[0].text!r:.100}, unlike {rows[0].text!r:.100} in the first row."
        )
    places = tuple(row.place for row in rows)
    texts, marks = [row.text for row in rows], [row.marks for row in rows]
    if are_texts:
        return tag_words(texts, marks if labelled else None, misaligned=misaligned, places=places)
    places = tuple(_LINE.sub(r": row \1", place) for place in places)  # of all words of the row
    if not labelled:
        return TaggedWords(texts, None, places)
    scheme = detect_scheme(tag for tags in marks for tag in tags) if scheme == "auto" else scheme
    bio: list[list[str]] = []
    with errors.whole():
        for place, tags in zip(places, marks, strict=True):
            name = partial("{}, tag {}".format, place)
            bio.append(to_bio(tags, scheme, repair=repair, place=name, faults=errors))
    return TaggedWords(texts, bio, places)


def _checked(row: _Row, labelled: bool) -> _Row:
    """Return a row whose text is valid, or whose words and tags are lists of as many texts."""
    if not is_array(row.text):
        text_value(row.text, f"{row.place}: the text")
        if labelled and not is_array(row.marks):
            raise DataError(
                f"{row.place}: the entities of a text must be a list, [] for none. Received: "
                f"{row.marks!r:.200}"
            )
        return row
    for name, values in (("word", row.text), ("tag", row.marks if labelled else [])):
        if not is_array(values) or not all(isinstance(value, str) and value for value in values):
            raise DataError(
                f"{row.place}: the {name}s must be a list of texts that are not empty. Received: "
                f"{values!r:.200}. For numbers of classes, save the dataset with `ClassLabel`, "
                "which has their names."
            )
    if not row.text or (labelled and len(row.text) != len(row.marks)):
        count = len(row.marks) if labelled else 0
        raise DataError(
            f"{row.place}: every word needs one tag. Received: {len(row.text)} words and {count} "
            f"tags: {row.text!r:.200}"
        )
    return row


def _is_annotation_file(file: Path) -> bool:
    """Return whether a file is one that `_rows` reads; the content decides on text files."""
    ending = Path(file.name.lower().removesuffix(".gz")).suffix
    if is_dataset_folder(file) or ending in (_SPACY, _PARQUET, *_LINES):
        return True
    if not file.is_file():
        return False
    try:
        first = next((line for _, line in strict_lines(file) if line.strip()), "")
        is_short = len(first) <= _FIRST
        value: Any = json.loads(first, object_pairs_hook=dict) if is_short else None
    except (ValueError, RecursionError):  # other text, or another encoding
        return False
    return is_object(value) or is_array(value)


def _rows(
    file: Path,
    text: str | None,
    entities: str | None,
    *,
    labelled: bool,
    encoding: str,
    errors: ErrorCollector | None = None,
) -> Iterator[_Row]:
    """Yield the rows of a file of any of the formats; see `read_entities`."""
    ending = Path(file.name.lower().removesuffix(".gz")).suffix
    if ending == _SPACY:
        yield from _spacy_rows(file)
    elif is_dataset_folder(file) or ending == _PARQUET:
        names = names_of_columns(file)
        wanted = [chosen_key("column", text, TEXT_KEYS, names, f"{file}")]
        if labelled:
            wanted.append(chosen_key("column", entities, ENTITY_KEYS, names, f"{file}"))
        is_folder = file.is_dir()
        kind = "a folder of `datasets`" if is_folder else "Parquet"
        read = dataset_rows if is_folder else partial(parquet_rows, named_classes=True)
        for number, values in read(file, wanted):
            yield _Row(f"{file}:{number}", kind, values[0], values[1] if labelled else None)
    else:
        errors = errors or ErrorCollector()
        reader = _RecordReader(text, entities, labelled)
        for place, record in records(file, encoding, errors):
            with errors.row():
                yield from reader.rows(record, place)
        errors.check()
        if labelled:
            reader.finish(file)


# === Forms of a row ===


class _RecordReader:
    """Reader of values of JSON in any of the forms.

    Args:
        text: key of the text or words, or None.
        entities: key of the spans or tags, or None.
        labelled: False reads texts or words alone.
    """

    def __init__(self, text: str | None, entities: str | None, labelled: bool):
        self._text, self._entities, self._labelled = text, entities, labelled
        self._tasks = TaskReader(text)
        self._left_out: Counter[str] = Counter()
        # Of JSON-MIN: whether a row has the key of the entities, and a row with other regions.
        self._is_marked = False
        self._unmarked: tuple[dict[str, Any], str] | None = None

    def rows(self, record: Any, place: str) -> Iterator[_Row]:
        """Yield the rows of a value: one, none for a row without annotation, or several.

        Raises:
            DataError: a value of another form; the message begins with `place`.
        """
        if is_array(record) and len(record) == 2 and is_object(record[1]):
            marks = record[1].get(self._entities or "entities")
            yield _Row(place, "spaCy's pairs of text and entities", record[0], marks)
            return
        if not is_object(record):
            raise DataError(
                f"{place}: a row must be an object, or a pair of a text and its entities. "
                f"Received: {record!r:.100}"
            )
        if is_task(record):
            if (row := self._tasks.row(record, place, self._labelled)) is not None:
                yield _Row(place, "Label Studio, JSON", *row)
            return
        if "paragraphs" in record:
            raise DataError(
                f"{place}: the JSON of spaCy 2, which has words instead of spans. Convert it: "
                "python -m spacy convert FILE.json FOLDER, and pass the .spacy file."
            )
        if "classes" in record and is_array(pairs := record.get("annotations")):
            for number, pair in enumerate(pairs):
                if pair is not None:  # None stands for a text without annotation
                    yield from self.rows(pair, f"{place}, annotation {number}")
            return
        answer: Any = record.get("answer")
        if self._labelled and isinstance(answer, str) and answer in UNUSED_ANSWERS:
            self._left_out[f"the answer {answer!r}"] += 1
            return
        yield self._row(record, place)

    def _row(self, record: dict[str, Any], place: str) -> _Row:
        """Return the row of an object with a text or words, and spans or tags."""
        value = record[chosen_key("key", self._text, TEXT_KEYS, record, place)]
        is_minimal = any(key in record for key in _MIN_KEYS)
        kind = "Label Studio, JSON-MIN" if is_minimal else "JSON of texts with spans"
        kind = "JSON of words with tags" if is_array(value) else kind
        if not self._labelled:
            return _Row(place, kind, value, None)
        usual = ENTITY_KEYS if self._entities is None else (self._entities,)
        if is_minimal and not any(matching_names(name, record) for name in usual):
            if self._unmarked is None and any(map(_are_regions, record.values())):
                self._unmarked = record, place
            return _Row(place, kind, value, [])  # the key is missing if nothing was marked
        key = chosen_key("key", self._entities, ENTITY_KEYS, record, place)
        marks, self._is_marked = record[key], True
        are_names = is_array(marks) and all(isinstance(mark, str) for mark in marks)
        if isinstance(value, str) and marks and (isinstance(marks, str) or are_names):
            if words := [name for name in TEXT_KEYS if is_array(record.get(name))]:
                raise DataError(
                    f"{place}: {key!r} has tags of words, and the text is no list of words. "
                    f"Received: {marks!r:.100}. Name the key of the words: text={words[0]}."
                )
            raise DataError(
                f"{place}: labels of the whole text, not entities. Received: {marks!r:.100}. "
                f"{TO_CLASSIFY}."
            )
        return _Row(place, kind, value, marks)

    def finish(self, file: Path) -> None:
        """Warn of rows and results that were left out.

        Raises:
            DataError: tasks of Label Studio with results, but without entities.
        """
        if self._unmarked and not self._is_marked:
            record, place = self._unmarked
            chosen_key("key", self._entities, ENTITY_KEYS, record, place)  # raises
        self._tasks.check(file)
        shown = [f"{count:,} rows with {why}" for why, count in sorted(self._left_out.items())]
        shown += [note] if (note := self._tasks.note()) else []
        if shown:
            warn(f"{file}: left out {' and '.join(shown)}.")


def _are_regions(value: Any) -> bool:
    """Return whether a value of JSON-MIN is that of a tag which marks parts of a text."""
    return is_array(value) and any(is_object(item) and "start" in item for item in value)


def _spacy_rows(file: Path) -> Iterator[_Row]:
    """Yield the documents of a `.spacy` file, a `DocBin` of spaCy."""
    try:
        import spacy  # pyright: ignore[reportMissingImports]
        from spacy.tokens import DocBin  # pyright: ignore
    except ImportError as error:
        raise ImportError(
            f"{file}: .spacy files need spaCy: pip install spacy. Or convert the file to JSON "
            "lines where spaCy is installed: for doc in DocBin().from_disk(FILE).get_docs(vocab): "
            'print(json.dumps({"text": doc.text, "entities": [[e.start_char, e.end_char, '
            "e.label_] for e in doc.ents]}))"
        ) from error
    library, reader = cast("Any", spacy), cast("Any", DocBin)
    try:
        documents: list[Any] = list(reader().from_disk(file).get_docs(library.blank("xx").vocab))
    except Exception as error:
        raise DataError(f"{file}: not a `DocBin` of spaCy 3: {error}.") from error
    for number, document in enumerate(documents):
        spans = [[span.start_char, span.end_char, span.label_] for span in document.ents]
        yield _Row(f"{file}: document {number}", "spaCy's DocBin", document.text, spans)
