"""Files of doccano, Label Studio and spaCy become words with tags."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bert_keras.data.annotation_files import annotation_format, read_entities
from bert_keras.data.examples import TaggedWords
from bert_keras.errors import DataError
from tests.data.test_table_columns import COLUMNS, FEATURES, write_folder

TEXT = "Anna lives in Rome."
SPANS = [[0, 4, "PER"], [14, 18, "LOC"]]
WORDS = ("Anna", "lives", "in", "Rome", ".")
TAGS = ("B-PER", "O", "O", "B-LOC", "O")
DICTIONARIES = [{"start": start, "end": end, "label": label} for start, end, label in SPANS]
DOCCANO = [{"id": 4, "start_offset": a, "end_offset": b, "label": c} for a, b, c in SPANS]
STUDIO = [{"start": a, "end": b, "text": TEXT[a:b], "labels": [c]} for a, b, c in SPANS]


def region(value: Any, kind: str = "labels") -> dict[str, Any]:
    return {"value": value, "from_name": "label", "to_name": "text", "type": kind}


def task(*results: list[Any], number: int = 1, **more: Any) -> dict[str, Any]:
    """Return a task of Label Studio with an annotation for each result."""
    annotations = [{"id": i, "was_cancelled": False, "result": r} for i, r in enumerate(results)]
    return {"id": number, "data": {"text": TEXT}, "annotations": annotations, **more}


RESULT = [region(value) for value in reversed(STUDIO)]
MIN = {"id": 1, "text": TEXT, "label": STUDIO, "annotator": 1, "annotation_id": 2, "lead_time": 3.5}
JSON, PAIRS = "JSON of texts with spans", "spaCy's pairs of text and entities"
# Name of the file, its rows, and the name of the format. A ".json" file is a list.
FILES: dict[str, tuple[str, list[Any], str]] = {
    "doccano": ("a.jsonl", [{"id": 1, "text": TEXT, "label": SPANS, "Comments": []}], JSON),
    "doccano with relations": (
        "a.jsonl",
        [{"id": 1, "text": TEXT, "entities": DOCCANO, "relations": []}],
        JSON,
    ),
    "labels": ("a.jsonl", [{"text": TEXT, "labels": SPANS}], JSON),
    "spans, as Prodigy": (
        "a.jsonl",
        [{"text": TEXT, "tokens": [{"text": "Anna"}], "spans": DICTIONARIES, "answer": "accept"}],
        JSON,
    ),
    "a list": ("a.json", [{"text": TEXT, "entities": SPANS}], JSON),
    "spaCy's pairs in lines": ("a.jsonl", [[TEXT, {"entities": SPANS}]], PAIRS),
    "spaCy's pairs": ("a.json", [[TEXT, {"entities": SPANS}]], PAIRS),
    "Label Studio": ("a.json", [task(RESULT)], "Label Studio, JSON"),
    "Label Studio, minimal": ("a.json", [MIN], "Label Studio, JSON-MIN"),
    "words": ("a.jsonl", [{"tokens": WORDS, "ner_tags": TAGS}], "JSON of words with tags"),
    "words in another scheme": (
        "a.json",
        [{"words": WORDS, "tags": ["U-PER", "O", "O", "U-LOC", "O"]}],
        "JSON of words with tags",
    ),
}


def write(path: Path, rows: list[Any], *, indent: int | None = None) -> Path:
    """Write rows as a list of JSON or, to a `.jsonl` file, as lines of JSON."""
    lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    whole = json.dumps(rows, ensure_ascii=False, indent=indent)
    text = lines if path.name.endswith(".jsonl") else whole
    path.write_text(text, encoding="utf-8")
    return path


def assert_read(found: TaggedWords) -> None:
    assert [tuple(words) for words in found.words] == [WORDS]
    assert found.tags is not None
    assert [tuple(tags) for tags in found.tags] == [TAGS]


@pytest.mark.parametrize("form", FILES)
def test_every_format(tmp_path: Path, form: str) -> None:
    name, rows, recognised = FILES[form]
    path = write(tmp_path / name, rows)
    assert annotation_format(path) == recognised
    assert_read(read_entities(path))
    assert read_entities(path, labelled=False).tags is None
    write(path, rows, indent=2)  # a list that is spread over lines
    assert_read(read_entities(path))
    other = write(tmp_path / "lines.txt", rows)  # the content tells the format
    assert annotation_format(other) == recognised
    assert_read(read_entities(other))
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert_read(read_entities(packed))


def test_places_are_lines_and_tasks(tmp_path: Path) -> None:
    row = {"text": TEXT, "label": SPANS}
    path = write(tmp_path / "a.jsonl", [row, row])
    assert read_entities(path).places == (f"{path}:1", f"{path}:2")
    path = write(tmp_path / "b.json", [task(RESULT, number=7), task(RESULT, number=9)])
    found = read_entities(path)
    assert found.places == (f"{path}: task with id 7", f"{path}: task with id 9")
    assert found.place(1, 3) == f"{path}: task with id 9, word 'Rome'"
    path = write(tmp_path / "c.jsonl", [{"tokens": WORDS, "tags": TAGS}])
    assert read_entities(path).place(0, 3) == f"{path}: row 1, word 'Rome'"
    path = write(tmp_path / "d.json", [row])
    assert read_entities(path).places == (f"{path}: item 0",)


def test_keys_of_other_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"文本": TEXT, "Étiquettes": SPANS}])
    assert_read(read_entities(path, text="文本", entities="étiquettes"))
    with pytest.raises(DataError, match=r"a\.jsonl:1: no key 'text' or .*'文本', .*text=KEY"):
        read_entities(path)
    with pytest.raises(DataError, match=r"no key 'entities' or .*'Étiquettes'.*label=KEY"):
        read_entities(path, text="文本")
    studio = {**task(RESULT), "data": {"review": TEXT, "source": "web"}}
    path = write(tmp_path / "b.json", [studio])
    assert_read(read_entities(path, text="review"))
    with pytest.raises(DataError, match=r"id 1: data: no key 'text' or .*'review', 'source'"):
        read_entities(path)
    write(path, [{**task(RESULT), "data": {"review": TEXT}}])
    assert_read(read_entities(path))


def test_annotations_of_label_studio(tmp_path: Path) -> None:
    """Cancelled and missing annotations do not count; ground truth counts alone."""
    path = tmp_path / "a.json"
    other = [region(STUDIO[0])]
    skipped = task(other)
    skipped["annotations"][0]["was_cancelled"] = True
    write(path, [task(), skipped, task(RESULT, [*reversed(RESULT)]), task([])])
    found = read_entities(path)
    assert found.tags == (TAGS, ("O",) * 5)
    truth = task(other, RESULT)
    truth["annotations"][1]["ground_truth"] = True
    relation = {"type": "relation", "from_id": "a", "to_id": "b"}
    choice = region({"choices": ["news"]}, "choices")
    old = {"id": 2, "data": {"text": TEXT}, "completions": [{"result": RESULT}]}
    write(path, [truth, task([*RESULT, relation, choice]), old])
    with pytest.warns(UserWarning, match="1 of choices, 1 of relation"):
        assert read_entities(path).tags == (TAGS, TAGS, TAGS)
    write(path, [task(RESULT, other, number=5)])
    with pytest.raises(DataError, match=r"task with id 5: 2 annotations that differ"):
        read_entities(path)
    html = {**STUDIO[0], "start": "/p[1]/text()[1]", "end": "/p[1]/text()[1]"}
    write(path, [task([region(html, "hypertextlabels")])])
    with pytest.raises(DataError, match="positions in HTML"):
        read_entities(path)
    write(path, [task(), task()])
    with pytest.raises(DataError, match=r"a\.json: no rows with annotations"):
        read_entities(path)
    nothing = {key: value for key, value in MIN.items() if key != "label"}
    assert read_entities(write(path, [nothing])).tags == (("O",) * 5,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "Anna", "label": [[0, 3, "X"]]}', r":1: the entity \[0, 3, 'X'\] 'Ann' ends"),
        ('{"text": "Anna", "label": "PER"}', r":1: labels of the whole text, not entities"),
        ('{"text": "Anna", "label": null}', r":1: the entities of a text must be a list"),
        ('{"text": "Anna"}', r":1: no key 'entities' or"),
        ('{"text": 3, "label": []}', r":1: the text must be text"),
        ('{"text": " ", "label": []}', r":1: no text"),
        ('{"text": "a", "text": "b", "label": []}', r":1: 'text' is said twice"),
        ('{"text": "a", "label": []}\n{"text": }\n', r":2: not JSON"),
        ('{"text": "a", "label": []}\n7\n', r":2: a row must be an object"),
        ('{"text": "a", "label": []}\n{"tokens": ["a"], "tags": ["O"]}', r":2: all rows must have"),
        ('{"tokens": ["a"], "ner_tags": [0]}', r":1: the tags must be .*`ClassLabel`"),
        ('{"tokens": ["a", ""], "tags": ["O", "O"]}', r":1: the words must be"),
        ('{"tokens": ["a"], "tags": ["O", "O"]}', r":1: .* Received: 1 words and 2 tags"),
        ('{"tokens": ["a"], "tags": ["U-X"]}\n{"tokens": ["a"], "tags": ["E-X"]}', r"row 2, tag 0"),
        ('{"id": 0, "paragraphs": []}', r":1: the JSON of spaCy 2.*spacy convert"),
        ('[{"text": "a",\n "label": [}]', r":2: neither JSON nor lines of JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("", "no rows with annotations"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(DataError, match=rf"(?s)^{path}.*{message}"):
        read_entities(path)


def test_all_bad_rows_are_counted(tmp_path: Path) -> None:
    rows = [{"text": "Anna", "label": [[0, end, "X"]]} for end in (1, 2, 3, 4, 5)]
    with pytest.raises(DataError) as caught:
        read_entities(write(tmp_path / "a.jsonl", rows))
    lines = str(caught.value).splitlines()
    assert lines[0] == "4 errors:"
    assert [line.split(": ")[0].rpartition(":")[2] for line in lines[1:]] == ["1", "2", "3", "5"]
    assert read_entities(write(tmp_path / "b.jsonl", rows[:4]), misaligned="widen").tags


def test_other_files_are_no_annotations(tmp_path: Path) -> None:
    for text in ("[ O\nAnna B-PER\n", "{ O\n", "7\tO\n", "", "Anna B-PER\n"):
        path = tmp_path / "a.conll"
        path.write_text(text)
        assert annotation_format(path) is None, text
    path.write_bytes("Änne O\n".encode("latin-1"))
    assert annotation_format(path) is None
    assert annotation_format(tmp_path / "missing.txt") is None


def test_parquet_and_folders_of_datasets(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = write_folder(tmp_path / "set", COLUMNS, FEATURES)
    found = read_entities(folder, text="tokens")
    assert found.tags == [["O", "B-X"], ["B-X"], ["B-X"]]
    assert annotation_format(folder) == "a folder of `datasets`"
    assert found.place(1, 0) == f"{folder}: row 2, word 'c'"
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"tokens": [list(WORDS)], "tags": [list(TAGS)]}), path)
    assert annotation_format(path) == "Parquet"
    assert_read(read_entities(path))
    parquet.write_table(arrow.table({"text": [TEXT], "entities": [DICTIONARIES]}), path)
    assert_read(read_entities(path))
    with pytest.raises(DataError, match=r"a\.parquet: no column 'body'\. .*text=COLUMN"):
        read_entities(path, text="body")


def test_a_file_of_spacy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in of spaCy returns what its `DocBin` does; spaCy itself is not needed."""
    path = tmp_path / "train.spacy"
    path.write_bytes(b"a DocBin")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match=r"(?s)train\.spacy: .*pip install spacy.*json\.dumps"):
        read_entities(path)
    ents = [SimpleNamespace(start_char=a, end_char=b, label_=c) for a, b, c in SPANS]

    class DocBin:
        def from_disk(self, file: Path) -> DocBin:
            if not file.read_bytes().startswith(b"a DocBin"):
                raise ValueError("unpack failed")
            return self

        def get_docs(self, _: Any) -> list[Any]:
            return [SimpleNamespace(text=TEXT, ents=ents)]

    spacy, tokens = ModuleType("spacy"), ModuleType("spacy.tokens")
    vars(spacy).update(blank=lambda _: SimpleNamespace(vocab=None), tokens=tokens)
    vars(tokens).update(DocBin=DocBin)
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    monkeypatch.setitem(sys.modules, "spacy.tokens", tokens)
    assert_read(read_entities(path))
    assert annotation_format(path) == "spaCy's DocBin"
    path.write_bytes(b"other")
    with pytest.raises(DataError, match=r"not a `DocBin` of spaCy 3: unpack failed"):
        read_entities(path)
