"""Records of JSON files, and the tasks of Label Studio: their texts, entities and choices."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bert_keras.data.documents import strict_lines
from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.table_columns import TEXT_KEYS, chosen_key, matching_names
from bert_keras.errors import DataError
from bert_keras.file_io import decode_json, is_array, is_object, unique_keys

UNUSED_ANSWERS = ("reject", "ignore")  # of Prodigy

_SPAN_KEYS = ("start", "end", "labels", "text")  # of Label Studio
_ANNOTATIONS = ("annotations", "completions", "predictions")  # of Label Studio
_MARKUP = re.compile(r"<[a-zA-Z/!]|&#?\w+;")
_BRAT = re.compile(r"T\d+\t\S+ \d+ \d+")
TO_CLASSIFY = (
    "For labels of whole texts use `read_table`, or a recipe with task=text_classification"
)


def records(file: Path, encoding: str, errors: ErrorCollector) -> Iterator[tuple[str, Any]]:
    """Yield place and value of every row of a file of JSON or of lines of JSON.

    Args:
        file: the file.
        encoding: its encoding.
        errors: collects the errors of lines that are no JSON.
    """
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
        blank_lines = "\n" * (number - 1)  # messages count them
        content = "".join([blank_lines, line, *(text for _, text in lines)])
        yield from _items(file, whole(file, content))
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
                yield f"{file}:{number}", decode_json(line, f"{file}:{number}", DataError)


def whole(file: Path, content: str) -> list[Any]:
    """Return the items of a file that is one value of JSON; [value] if it is no list."""
    try:
        value: Any = json.loads(content, object_pairs_hook=unique_keys(file, DataError))
    except DataError:
        raise
    except json.JSONDecodeError as error:
        if (reason := _other_format(file, content)) and not content[: error.pos].strip():
            raise DataError(f"{file}: {reason}") from None
        raise DataError(
            f"{file}:{error.lineno}: neither JSON nor lines of JSON: {error.msg}, at character "
            f"{error.colno} of the line. Correct the file."
        ) from None
    except RecursionError:
        raise DataError(f"{file}: JSON that is nested too deeply. Correct the file.") from None
    except ValueError as error:  # a number of thousands of digits
        raise DataError(f"{file}: not JSON: {error}. Correct the file.") from None
    return value if is_array(value) else [value]


def _other_format(file: Path, content: str) -> str:
    """Return the name of a format that is no JSON, and what to do; "" for an unknown one."""
    ending = Path(file.name.lower().removesuffix(".gz")).suffix
    line = content.lstrip().partition("\n")[0]
    if ending == ".ann" or _BRAT.match(line):
        return (
            "standoff annotations of brat, which have their texts in other files. Write lines "
            'such as {"text": "…", "entities": [[0, 4, "PER"]]} from both.'
        )
    if ending in (".csv", ".tsv"):
        return (
            "a table. Export entities as JSON or JSON-MIN from Label Studio, or write lines such "
            'as {"text": "…", "entities": [[0, 4, "PER"]]}.'
        )
    if ending in (".conll", ".iob", ".bio") or 2 <= len(line.split()) <= 4:
        return "not JSON. For columns of words and tags, as in CoNLL, use `read_conll`."
    return ""


def _items(file: Path, values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield place and value of the items of a list: the id of a task, or the number of an item."""
    for number, value in enumerate(values):
        name = value.get("id") if is_object(value) else None
        yield f"{file}: {f'item {number}' if name is None else f'task with id {name}'}", value


# === Tasks of Label Studio ===


def is_task(record: Any) -> bool:
    """Return whether a record is a task in Label Studio's JSON."""
    return (
        is_object(record)
        and is_object(record.get("data"))
        and any(key in record for key in _ANNOTATIONS)
    )


def _results_of(task: Mapping[str, Any]) -> list[list[Any]]:
    """Return the results of the annotations that count: those of ground truth, if there are any."""
    annotations: Any = task.get("annotations", task.get("completions"))
    annotations = annotations if is_array(annotations) else []
    counted = [one for one in annotations if is_object(one) and not one.get("was_cancelled")]
    counted = [one for one in counted if one.get("ground_truth")] or counted
    results = [one.get("result") for one in counted]
    return [result if is_array(result) else [] for result in results]


def _same(values: Sequence[Any], place: str) -> Any:
    """Return the one value of several annotations of a task."""
    if any(other != values[0] for other in values[1:]):
        raise DataError(
            f"{place}: {len(values)} annotations that differ. Mark one of them as ground truth in "
            "Label Studio, or remove the others."
        )
    return values[0]


class TaskReader:
    """Reader of texts with entities in tasks of Label Studio.

    Args:
        text: key of the text in `data`; None for a usual one.

    Attributes:
        left_out: number of results by their kind, such as "choices", that are no entities of the
            text.
        num_entities: number of entities.
    """

    def __init__(self, text: str | None):
        self._text = text
        self.left_out: Counter[str] = Counter()
        self.num_entities = 0

    def row(
        self, task: Mapping[str, Any], place: str, labelled: bool
    ) -> tuple[str, list[dict[str, Any]] | None] | None:
        """Return the text and the entities of a task; None if it has no annotation that counts.

        Raises:
            DataError: the text or a region cannot be read; the message begins with `place`.
        """
        data: dict[str, Any] = task["data"]
        names = [name for name in data if isinstance(data[name], str)]
        lists = [name for name in data if is_array(data[name])]
        if lists and (not names or self._text in lists):
            raise DataError(
                f"{place}: data: {lists[0]!r} is a list, as for the tag `Paragraphs`. Only tasks "
                "with a text in one str are read. Make a task of each paragraph."
            )
        usual = TEXT_KEYS if {*TEXT_KEYS} & {*names} or len(names) != 1 else (names[0],)
        key = chosen_key("key", self._text, usual, names, f"{place}: data")
        if not labelled:
            return data[key], None
        results = _results_of(task)
        if not results:
            return None
        spans = _same([self._spans(result, data, key, place) for result in results], place)
        self.num_entities += len(spans)
        return data[key], spans

    def _spans(
        self, result: list[Any], data: Mapping[str, Any], key: str, place: str
    ) -> list[dict[str, Any]]:
        """Return the entities of `data[key]` in the result of an annotation, sorted."""
        regions: list[tuple[str, dict[str, Any]]] = []
        for region in result:
            kind, value = _kind_and_value(region, place)
            if value is None:
                self.left_out[kind] += 1
            else:
                regions.append((f"{region.get('to_name', key)}", _span(kind, value, data, place)))
        ours = self._object_of(key, {name for name, _ in regions}, data, place)
        self.left_out["entities of another text"] += sum(name != ours for name, _ in regions)
        spans = [span for name, span in regions if name == ours]
        return sorted(spans, key=lambda span: (f"{span['start']:>12}", f"{span['end']:>12}"))

    def _object_of(self, key: str, names: set[str], data: Mapping[str, Any], place: str) -> str:
        """Return the `to_name` of the regions of a text.

        It is the name of a tag, often that of the key which the tag shows.

        Args:
            key: key of the text.
            names: the `to_name` of all regions of an annotation.
            data: values by key.
            place: place of the task.
        """
        others = {name for name in names - {key} if name in data}
        unknown = names - others - {key}
        if (others and self._text is None) or len(unknown) > 1 or (unknown and key in names):
            raise DataError(
                f"{place}: entities of several texts, or of another text than {key!r}. Received: "
                f"to_name {', '.join(map(repr, sorted(names)))}. Pass the key of the text that has "
                "the entities (text=KEY), and give each tag in Label Studio the name of its key."
            )
        return next(iter(unknown), key)

    def note(self) -> str:
        """Return how many results were left out, for a message; "" for none."""
        shown = [f"{count:,} of {kind}" for kind, count in sorted(self.left_out.items()) if count]
        return f"results that are no entities of the text: {', '.join(shown)}" if shown else ""

    def check(self, file: Path) -> None:
        """Raise a `DataError` if the tasks have results, but none of them is an entity."""
        if (note := self.note()) and not self.num_entities:
            raise DataError(f"{file}: no entities, but {note}. {TO_CLASSIFY}.")


def _kind_and_value(region: Any, place: str) -> tuple[str, dict[str, Any] | None]:
    """Return the kind of a region and its value; None for a result that is no region of a text.

    Raises:
        DataError: the region has another form, or is of an image, of audio and so on.
    """
    if not is_object(region):
        raise DataError(f"{place}: a region must be an object. Received: {region!r:.200}")
    value: Any = region.get("value")
    kind = f"{region.get('type', 'labels')}"
    if is_object(value) and {"start", "end", "labels"} <= value.keys():
        return "labels", value
    if is_object(value) and kind == "hypertextlabels" and "hypertextlabels" in value:
        return kind, value
    if not kind.endswith("labels"):
        return kind, None
    if kind in ("labels", "hypertextlabels"):
        raise DataError(
            f"{place}: a region must have start, end and a label. Received: {region!r:.300}. "
            "Choose a label for it in Label Studio, or remove it."
        )
    raise DataError(
        f"{place}: a region of the kind {kind!r}. Only `labels` of the tag `Text`, and "
        "`hypertextlabels` of a text without HTML, can be read. Remove the region."
    )


def _span(kind: str, value: dict[str, Any], data: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return an entity from the value of a region.

    The positions in HTML that a region of the tag `HyperText` has are paths. `globalOffsets` are
    its positions in the text that the page shows, which is the text itself where it has no HTML.
    """
    offsets = value.get("globalOffsets")
    if not isinstance(value.get("start"), str):
        span = {key: value[key] for key in _SPAN_KEYS if key in value}
    elif is_object(offsets) and not any(map(_is_html, data.values())):
        span = {"start": offsets.get("start"), "end": offsets.get("end")}
        span |= {"text": value["text"]} if "text" in value else {}
    else:
        raise DataError(
            f"{place}: positions in HTML. Received: {value!r:.300}. Only `globalOffsets` in a "
            "text without HTML can be read. Label the plain text, with the tag `Text`."
        )
    span["labels"] = value.get("labels", value.get(kind))
    return span


def _is_html(value: Any) -> bool:
    """Return whether a text has tags or entities of HTML."""
    return isinstance(value, str) and _MARKUP.search(value) is not None


class ChoicesReader:
    """Reader of values in tasks of Label Studio: those of `data`, and choices.

    Args:
        keys: keys of `data`. One of them may be the name of a tag `Choices`, or any other name in a
            file whose choices are all of one tag.
    """

    def __init__(self, keys: Sequence[Any]):
        self._keys = [f"{key}" for key in keys]
        self._tag: str | None = None  # that has the choices in the tasks before

    def values(self, task: Mapping[str, Any], place: str) -> list[Any] | None:
        """Return the value of each key, a list for choices; None for a task without annotation.

        Raises:
            DataError: no such key, a key of `data` that is a tag with another value too,
                annotations that differ, or choices of another tag than in the tasks before.
        """
        data: dict[str, Any] = task["data"]
        tags = [_choices(result) for result in _results_of(task)]
        known = {tag for of_tags in tags for tag in of_tags}
        values: list[Any] = []
        for key in self._keys:
            similar = [key] if key in data else matching_names(key, data)
            if len(similar) == 1:
                values.append(_value(data, similar[0], key, tags, place))
                continue
            others = [other for other in self._keys if not matching_names(other, data)]
            if len(others) == len(self._keys) or len(others) > 1:  # choices have one value
                raise DataError(_no_key(others[0], data, known, place))
            if not tags:
                return None
            choices = [self._of_tag(of_tags, key, data, place) for of_tags in tags]
            values.append(_same(choices, place))
        return values

    def _of_tag(
        self, tags: Mapping[str, list[Any]], key: str, data: Mapping[str, Any], place: str
    ) -> list[Any]:
        """Return the choices of the tag `key`, or else of the only tag that has choices."""
        if key not in tags and len(tags) != 1:
            raise DataError(_no_key(key, data, tags, place))
        tag = key if key in tags else next(iter(tags))
        if self._tag not in (None, tag):
            raise DataError(
                f"{place}: choices of the tag {tag!r}, and of {self._tag!r} in the tasks before. "
                "Name the tag to read (in recipes label=TAG), and remove tasks without choices of "
                "it."
            )
        self._tag = tag
        return tags[tag]


def _choices(result: list[Any]) -> dict[str, list[Any]]:
    """Return the choices of each tag that are of the whole text."""
    tags: dict[str, list[Any]] = {}
    for region in result:
        value: Any = region.get("value") if is_object(region) else None
        if is_object(value) and is_array(value.get("choices")) and "start" not in value:
            tags.setdefault(f"{region.get('from_name')}", []).extend(value["choices"])
    return tags


def _value(
    data: Mapping[str, Any],
    name: str,
    key: str,
    tags: Sequence[Mapping[str, list[Any]]],
    place: str,
) -> Any:
    """Return `data[name]`, which must be the choice of a tag `key` if there is one."""
    for choices in (of_tags[key] for of_tags in tags if key in of_tags):
        if data[name] != choices and [data[name]] != choices:
            raise DataError(
                f"{place}: {key!r} is a tag with the choices {choices!r:.100}, and a key of the "
                f"data. Received: data[{name!r}] = {data[name]!r:.100}. Rename or remove the key "
                "of the data that is not meant."
            )
    return data[name]


def _no_key(key: str, data: Mapping[str, Any], tags: Iterable[str], place: str) -> str:
    """Return the message about a key that neither `data` nor a tag has."""
    return (
        f"{place}: no key {key!r}. Received: data with the keys {[*data]!r:.300}, and choices of "
        f"the tags {sorted(tags)!r:.300}. Name one of these (in recipes text=KEY label=KEY)."
    )
