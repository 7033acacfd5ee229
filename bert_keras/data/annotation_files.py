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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from bert_keras import file_io
from bert_keras.data.columns import ErrorCollector
from bert_keras.data.documents import Source, strict_lines, text_value
from bert_keras.data.entity_spans import tag_words
from bert_keras.data.examples import TaggedWords
from bert_keras.data.table_columns import (
    dataset_rows,
    is_dataset_folder,
    matching_names,
    names_of_columns,
    parquet_rows,
)
from bert_keras.data.tag_schemes import detect_scheme, to_bio
from bert_keras.errors import DataError
from bert_keras.file_io import is_array, is_object, unique_keys

# Usual names of texts or words, and of spans or tags. The first that a row has is read.
TEXT_KEYS = ("text", "words", "tokens", "sentence")
ENTITY_KEYS = ("entities", "spans", "ner_tags", "tags", "labels", "label")

_LINES = (".jsonl", ".ndjson", ".json")
_MIN_KEYS = ("annotation_id", "annotator", "lead_time")  # of Label Studio's JSON-MIN alone
_SPAN_KEYS = ("start", "end", "labels", "text")  # of Label Studio
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
        Tasks of Label Studio that nobody has annotated are left out.

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
        wanted = [_name("column", text, TEXT_KEYS, names, f"{file}")]
        if labelled:
            wanted.append(_name("column", entities, ENTITY_KEYS, names, f"{file}"))
        is_folder = file.is_dir()
        kind = "a folder of `datasets`" if is_folder else "Parquet"
        read = dataset_rows if is_folder else partial(parquet_rows, named_classes=True)
        for number, values in read(file, wanted):
            yield _Row(f"{file}:{number}", kind, values[0], values[1] if labelled else None)
    else:
        errors = errors or ErrorCollector()
        for place, record in _records(file, encoding, errors):
            with errors.row():
                row = _of_record(record, place, text, entities, labelled)
                if row is not None:
                    yield row
        errors.check()


def _records(file: Path, encoding: str, errors: ErrorCollector) -> Iterator[tuple[str, Any]]:
    """Yield place and value of every row of a file of JSON or of lines of JSON."""
    lines = strict_lines(file, encoding)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    number, line = first
    value: Any = None
    try:
        value = json.loads(line, object_pairs_hook=unique_keys(f"{file}:{number}", DataError))
    except DataError as error:
        errors.add(error)
    except (ValueError, RecursionError):
        yield from _whole(file, "".join([line, *(text for _, text in lines)]))
        return
    is_pair = is_array(value) and len(value) == 2 and isinstance(value[0], str)
    if is_array(value) and not is_pair:
        yield from _items(file, value)
        return
    if value is not None:
        yield f"{file}:{number}", value
    for number, line in lines:
        if line.strip():
            with errors.row():
                yield f"{file}:{number}", file_io.decode_json(line, f"{file}:{number}", DataError)


def _whole(file: Path, content: str) -> Iterator[tuple[str, Any]]:
    """Yield place and value of every item of a file that is one value of JSON."""
    try:
        value: Any = json.loads(content, object_pairs_hook=unique_keys(file, DataError))
    except DataError:
        raise
    except json.JSONDecodeError as error:
        raise DataError(
            f"{file}:{error.lineno}: neither JSON nor lines of JSON: {error.msg}, at character "
            f"{error.colno} of the line. Correct the file."
        ) from None
    except RecursionError:
        raise DataError(f"{file}: JSON that is nested too deeply. Correct the file.") from None
    yield from _items(file, value if is_array(value) else [value])


def _items(file: Path, values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield place and value of the items of a list: the id of a task, or the number of an item."""
    for number, value in enumerate(values):
        name = value.get("id") if is_object(value) else None
        yield f"{file}: {f'item {number}' if name is None else f'task {name}'}", value


# === Forms of a row ===


def _of_record(
    record: Any, place: str, text: str | None, entities: str | None, labelled: bool
) -> _Row | None:
    """Return a row from a value of JSON in any of the forms; None for a task nobody annotated."""
    if is_array(record) and len(record) == 2 and is_object(record[1]):
        marks = record[1].get(entities or "entities")
        return _Row(place, "spaCy's pairs of text and entities", record[0], marks)
    if not is_object(record):
        raise DataError(
            f"{place}: a row must be an object, or a pair of a text and its entities. Received: "
            f"{record!r:.100}"
        )
    if is_object(record.get("data")) and {"annotations", "completions", "predictions"} & {*record}:
        return _of_task(record, place, text, labelled)
    if "paragraphs" in record:
        raise DataError(
            f"{place}: the JSON of spaCy 2, which has words instead of spans. Convert it: "
            "python -m spacy convert FILE.json FOLDER, and pass the .spacy file."
        )
    value = record[_name("key", text, TEXT_KEYS, record, place)]
    is_minimal = any(key in record for key in _MIN_KEYS)
    kind = "Label Studio, JSON-MIN" if is_minimal else "JSON of texts with spans"
    kind = "JSON of words with tags" if is_array(value) else kind
    if not labelled:
        return _Row(place, kind, value, None)
    if is_minimal and entities is None and not {*ENTITY_KEYS} & {*record}:
        return _Row(place, kind, value, [])  # the key is missing if nothing was marked
    return _Row(place, kind, value, record[_name("key", entities, ENTITY_KEYS, record, place)])


def _name(
    kind: str, name: str | None, usual: Sequence[str], names: Iterable[str], place: str
) -> str:
    """Return the key or column that is named, or the first of the usual ones that is there.

    Raises:
        DataError: there is none, or several match.
    """
    names = list(names)
    if name in names:
        return f"{name}"
    for wanted in usual if name is None else (name,):
        if len(similar := matching_names(wanted, names)) == 1:
            return similar[0]
    asked = " or ".join(map(repr, usual)) if name is None else repr(name)
    key = "text" if usual is TEXT_KEYS else "label"
    raise DataError(
        f"{place}: no {kind} {asked}. Received: the {kind}s {names!r:.500}. Name one of these (in "
        f"recipes {key}={kind.upper()})."
    )


def _of_task(task: Mapping[str, Any], place: str, text: str | None, labelled: bool) -> _Row | None:
    """Return the row of a task of Label Studio; None if it has no annotation that counts."""
    kind = "Label Studio, JSON"
    data: dict[str, Any] = task["data"]
    names = [name for name in data if isinstance(data[name], str)]
    usual = TEXT_KEYS if {*TEXT_KEYS} & {*names} or len(names) != 1 else (names[0],)
    value = data[_name("key", text, usual, names, f"{place}: data")]
    if not labelled:
        return _Row(place, kind, value, None)
    found: Any = task.get("annotations", task.get("completions"))
    whole: list[Any] = found if is_array(found) else []
    counted = [one for one in whole if is_object(one) and not one.get("was_cancelled")]
    counted = [one for one in counted if one.get("ground_truth")] or counted
    if not counted:
        return None
    spans = [_spans_of_result(one.get("result"), place) for one in counted]
    if any(other != spans[0] for other in spans[1:]):
        raise DataError(
            f"{place}: {len(spans)} annotations that differ. Mark one of them as ground truth in "
            "Label Studio, or remove the others."
        )
    return _Row(place, kind, value, spans[0])


def _spans_of_result(result: Any, place: str) -> list[dict[str, Any]]:
    """Return the spans in the result of an annotation, sorted; other kinds of results are left."""
    spans: list[dict[str, Any]] = []
    for region in result if is_array(result) else []:
        value: Any = region.get("value") if is_object(region) else None
        if not is_object(value) or not {"start", "end", "labels"} <= value.keys():
            continue
        if isinstance(value["start"], str):
            raise DataError(
                f"{place}: positions in HTML. Received: {value!r:.200}. Only tasks with the tag "
                "`Text` have positions in a text."
            )
        spans.append({key: value[key] for key in _SPAN_KEYS if key in value})
    return sorted(spans, key=lambda span: (f"{span['start']:>12}", f"{span['end']:>12}"))


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
