"""Tables become texts with targets for each kind of problem. Real tables are read too."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bert_keras.data.examples import Texts
from bert_keras.data.text_classification import read_table
from bert_keras.errors import DataError


def _read(tmp_path: Path, data: str, **options: Any) -> Texts:
    """Write a table file and read it as texts with targets."""
    path = tmp_path / options.pop("name", "a.tsv")
    path.write_text(data, encoding="utf-8", newline="")
    return read_table(path, **{"text": "text", **options})


def _json(tmp_path: Path, *labels: Any, **options: Any) -> Texts:
    rows = [json.dumps({"text": "t", "y": label}) for label in labels]
    return _read(tmp_path, "\n".join(rows), name="a.jsonl", label="y", **options)


def test_texts_stay_as_they_are(tmp_path: Path) -> None:
    found = _read(tmp_path, "y\ttext\tmore\n1\t a \tb\n\n0\t\t c\n", pair="more", label="y")
    places = (f"{tmp_path / 'a.tsv'}:2", f"{tmp_path / 'a.tsv'}:4")
    assert found == Texts((" a ", ""), ("b", " c"), ("1", "0"), places)
    alone = _read(tmp_path, "y\ttext\n1\ta\n")
    assert (alone.pairs, alone.targets) == (None, None)


def test_single_labels_are_text(tmp_path: Path) -> None:
    assert _read(tmp_path, "y\ttext\n 01 \ta\n", label="y").targets == ("01",)
    assert _json(tmp_path, 1, -2, True, False, " good ").targets == (
        "1",
        "-2",
        "true",
        "false",
        "good",
    )


def test_several_labels(tmp_path: Path) -> None:
    data = "text\ty\na\tjoy, fear,joy\nb\t\nc\tfear\n"
    found = _read(tmp_path, data, label="y", problem="multi_label").targets
    assert found == (("joy", "fear"), (), ("fear",))
    lists = _json(tmp_path, ["b", "a", 1], [], "a|b", problem="multi_label", label_separator="|")
    assert lists.targets == (("b", "a", "1"), (), ("a", "b"))


def test_scores(tmp_path: Path) -> None:
    found = _read(tmp_path, "text\ty\na\t 4.500\nb\t-1e2\n", label="y", problem="regression")
    assert found.targets == (4.5, -100.0)
    assert _json(tmp_path, 3, 2.5, "1", problem="regression").targets == (3.0, 2.5, 1.0)


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    columns = {"text": ["a", "b"], "one": [0, 1], "some": [["x", "y"], []], "score": [0.5, None]}
    parquet.write_table(arrow.table(columns), path)
    assert read_table(path, text="text", label="one").targets == ("0", "1")
    several = read_table(path, text="text", label="some", problem="multi_label")
    assert several.targets == (("x", "y"), ())
    with pytest.raises(DataError, match=r"a\.parquet:2: 'score': a finite number .*None"):
        read_table(path, text="text", label="score", problem="regression")


_SCORE, _MANY = {"problem": "regression"}, {"problem": "multi_label"}
_KNOWN = {"known_labels": ["good", "bad"]}


@pytest.mark.parametrize(
    ("label", "options", "message"),
    [
        ("", {}, r"a\.jsonl:2: 'y': the label is empty\. Received: ''"),
        (" ", {}, "the label is empty"),
        (None, {}, "a label must be text or a whole number. Received: None"),
        (1.0, {}, "a label must be text or a whole number. Received: 1.0. .*regression"),
        (["good", "bad"], {}, "a label must be text .*multi_label"),
        ("x\0", {}, r"a\.jsonl:2: 'y' must be text without NUL"),
        ("ugly", _KNOWN, r"a\.jsonl:2: 'y': unknown label 'ugly'\. Known: 'good', 'bad'\."),
        (
            "ugly",
            {"known_labels": ["good", *map(str, range(60))]},
            r"Known: 'good', '0'.* and 11 more",
        ),
        (["good", "ugly"], {**_KNOWN, **_MANY}, "unknown label 'ugly'"),
        ("good,,bad", _MANY, "the label is empty"),
        (1, _MANY, "several labels must be a list, or text .* Received: 1"),
        (None, _MANY, "several labels must be a list, or text .* Received: None"),
        (float("nan"), _SCORE, r"a\.jsonl:2: 'y': a finite number is needed\. Received: nan"),
        ("-inf", _SCORE, "finite number is needed. Received: '-inf'"),
        ("1e999", _SCORE, "finite number"),
        (10**400, _SCORE, "finite number"),
        ("", _SCORE, "finite number is needed. Received: ''"),
        ("1_0", _SCORE, "finite number is needed. Received: '1_0'"),
        ("1,5", _SCORE, "finite number"),
        (True, _SCORE, "finite number is needed. Received: True"),
        (None, _SCORE, "finite number"),
        ([1.0], _SCORE, "finite number"),
    ],
)
def test_bad_targets(tmp_path: Path, label: Any, options: Any, message: str) -> None:
    first: Any = 1.5 if options.get("problem") == "regression" else "good"
    with pytest.raises(DataError, match=message) as caught:
        _json(tmp_path, first, label, **options)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("text\tmore\n \tx\n", {}, r"a\.tsv:2: no text\. Received: \[' '\]"),
        ("text\tmore\n\t\n", {"pair": "more"}, r"a\.tsv:2: neither text nor pair"),
        (
            '{"text": "a", "text": "b"}\n',
            {"name": "a.jsonl"},
            r"a\.jsonl:1: 'text' is said twice",
        ),
        ('{"text": 5}\n', {"name": "a.jsonl"}, r"a\.jsonl:1: 'text' must be text\. Received: 5"),
        ('{"text": null}\n', {"name": "a.jsonl"}, "'text' must be text. Received: None"),
        ('{"text": "a\\u0000"}\n', {"name": "a.jsonl"}, "'text' must be text without NUL"),
        ('{"text": "\\ud800"}\n', {"name": "a.jsonl"}, "'text' must be text without half of a"),
        ("text\tmore\nx\ty\n", {"label": "y"}, r"a\.tsv:1: no column 'y'"),
    ],
)
def test_bad_texts(tmp_path: Path, data: str, options: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _read(tmp_path, data, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problem": "ranking"}, "problem must be one of"),
        ({"known_labels": ["1"], **_SCORE}, "known_labels cannot be used with scores"),
        ({"known_labels": "good"}, "known_labels must be a list of names"),
        ({"label_separator": "", **_MANY}, "label_separator at least one character"),
    ],
)
def test_bad_arguments(tmp_path: Path, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, "text\ty\na\t1\n", label="y", **options)


_GLUE = {"text": "sentence1", "pair": "sentence2", "label": "label"}
_MRPC: dict[str, Any] = {**_GLUE, "quoting": True}
_STSB = {**_GLUE, "label": "score", "problem": "regression"}
_SICK = {"text": "sentence_A", "pair": "sentence_B"}
_ENTAILMENT = {**_SICK, "label": "entailment_judgment"}
_RELATEDNESS = {**_SICK, "label": "relatedness_score", "problem": "regression"}
_TREC: dict[str, Any] = {
    "format": "label_text",
    "text": "text",
    "label": "label",
    "encoding": "latin-1",
}
_BARE_PAIR = {"header": False, "text": 0, "pair": 1, "label": 2}


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "options", "rows", "labels"),
    [
        ("sst2/glue_train.tsv", {"text": "sentence", "label": "label"}, 67_349, 2),
        ("sst2/glue_dev.tsv", {"text": "content", "label": "label"}, 872, 2),
        ("mrpc/becel_train.tsv", _MRPC, 3_668, 2),
        ("mrpc/becel_validation.tsv", _MRPC, 408, 2),
        ("stsb/official_train.tsv", _STSB, 5_749, None),
        ("stsb/official_dev.tsv", _STSB, 1_500, None),
        ("rte/train.tsv", _GLUE, 2_490, 2),
        ("cola/official_train.tsv", {"header": False, "text": 3, "label": 1}, 8_551, 2),
        ("sick/SICK_train.txt", _ENTAILMENT, 4_500, 3),
        ("sick/SICK_trial.txt", _RELATEDNESS, 500, None),
        (
            "snli/validation.tsv",
            {"text": "premise", "pair": "hypothesis", "label": "label"},
            9_842,
            3,
        ),
        ("trec/TREC.train.all", _TREC, 5_452, 6),
        ("zh_chnsenticorp/train.tsv", {"header": False, "text": 0, "label": 1}, 9_600, 2),
        ("zh_chnsenticorp/dev_not_in_train.tsv", {"header": False, "text": 0, "label": 1}, 862, 2),
        ("zh_pairs/LCQMC_dev.txt", _BARE_PAIR, 8_802, 2),
        ("zh_pairs/OCNLI_dev.txt", _BARE_PAIR, 2_950, 3),
    ],
)
def test_real_tables(
    shared_data: Path, name: str, options: Any, rows: int, labels: int | None
) -> None:
    found = read_table(shared_data / name, **options)
    assert len(found) == rows
    assert found.targets is not None
    is_headed = options.get("header", True) and "format" not in options
    assert found.places[-1] == f"{shared_data / name}:{rows + is_headed}"
    if labels is None:
        assert all(isinstance(score, float) and 0 <= score <= 5 for score in found.targets)
    else:
        assert len(Counter(found.targets)) == labels
    texts = [*found.texts, *(found.pairs or ())]
    assert not [text for text in texts if "\t" in text or text != text.strip("\r\n")]


@pytest.mark.data
def test_real_quotes_and_bytes(shared_data: Path) -> None:
    mrpc = read_table(shared_data / "mrpc" / "becel_train.tsv", **_MRPC)
    assert mrpc.texts[0].startswith('Amrozi accused his brother , whom he called " the witness "')
    with pytest.raises(DataError, match=r'TREC\.train\.all:\d+: not UTF-8.* f0\..*"latin-1"'):
        read_table(shared_data / "trec" / "TREC.train.all", **{**_TREC, "encoding": "utf-8"})
