"""The program `rank`: documents in the order of their scores for queries."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bert_keras import BertEncoder, Predictor, SentenceEncoder, SequenceClassifier, Tokenizer
from bert_keras.training import rank as module
from bert_keras.training.rank import main
from tests import contracts

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(45))]
DOCUMENTS = ["w1 w2", "w3", "w4 w5 w6", "w7 [x]"]
QUERIES = ["w1", "w4 w5"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of a cross-encoder, of an encoder of vectors, and of a classifier."""
    config = contracts.TINY.replace(vocab_size=len(WORDS), num_layers=1)
    made: dict[str, Any] = {
        "scores": SequenceClassifier(BertEncoder(config), 1),
        "vectors": SentenceEncoder(BertEncoder(config), prompts={"title": "w30 w31 w32 "}),
        "labels": SequenceClassifier(BertEncoder(config), 3),
    }
    folders = {}
    for name, task in made.items():
        task.tokenizer = Tokenizer(WORDS)
        folders[name] = tmp_path_factory.mktemp("rank") / name
        contracts.as_trained(task).save_to_preset(folders[name])
    return folders


@pytest.mark.parametrize("name", ["scores", "vectors"])
def test_a_query_prints_a_table(
    name: str, models: dict[str, Path], tmp_path: Path, call: Callable
) -> None:
    (tmp_path / "documents.txt").write_text("\n".join(DOCUMENTS) + "\n")
    done = call(main, str(models[name]), "w1 w2", "documents.txt", "top_k=3")
    assert done.code == 0, done.err
    expected = Predictor.from_preset(models[name]).rank("w1 w2", DOCUMENTS, top_k=3)
    lines = [line.strip() for line in done.out.splitlines() if line.strip()]
    assert lines[0] == "w1 w2"
    assert lines[1].split() == ["rank", "score", "text"]
    for line, number, ranked in zip(lines[2:], (1, 2, 3), expected, strict=True):
        assert line.split(maxsplit=2) == [str(number), f"{ranked.score:.4f}", ranked.text]


@pytest.mark.parametrize("ending", ["jsonl", "tsv"])
@pytest.mark.parametrize("name", ["scores", "vectors"])
def test_files_of_queries_and_documents(
    name: str, ending: str, models: dict[str, Path], tmp_path: Path, call: Callable
) -> None:
    (tmp_path / "queries.csv").write_text("question\n" + "\n".join(QUERIES) + "\n")
    rows = [json.dumps({"passage": text}) for text in DOCUMENTS]
    (tmp_path / "documents.jsonl").write_text("\n".join(rows) + "\n")
    command = (str(models[name]), "queries.csv", "documents.jsonl", f"out=new/ranked.{ending}")
    columns = ("query=question", "document=passage", "top_k=0")
    done = call(main, *command, *columns)
    assert done.code == 0, done.err
    assert "8 documents for 2 queries" in done.out
    text = (tmp_path / "new" / f"ranked.{ending}").read_text()
    found: list[Any] = (
        list(csv.DictReader(io.StringIO(text), dialect="excel-tab"))
        if ending == "tsv"
        else [json.loads(line) for line in text.splitlines()]
    )
    expected = Predictor.from_preset(models[name]).rank(QUERIES, DOCUMENTS)
    wanted = [
        (query, rank, each)
        for query, ranked in zip(QUERIES, expected, strict=True)
        for rank, each in enumerate(ranked, 1)
    ]
    for row, (query, rank, each) in zip(found, wanted, strict=True):
        assert (row["query"], int(row["rank"])) == (query, rank)
        assert (int(row["index"]), row["text"]) == (each.index, each.text)
        assert float(row["score"]) == pytest.approx(each.score, abs=1e-5)
    again = call(main, *command, *columns)
    assert (again.code, "exists" in again.err) == (2, True)


def test_standard_input_and_a_prompt(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, call: Callable
) -> None:
    answers = []
    for more in ((), ("prompt_name=title",)):
        lines = "\n".join(DOCUMENTS).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        done = call(main, str(models["vectors"]), "w1 w2", "-", *more)
        assert done.code == 0, done.err
        answers.append(done.out)
    expected = Predictor.from_preset(models["vectors"]).rank(
        "w1 w2", DOCUMENTS, prompt_name="title"
    )
    assert f"{expected[0].score:.4f}" in answers[1]
    assert f"{expected[0].score:.4f}" not in answers[0]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("MODEL", "w1"), 2, "The model, the query and the documents are needed"),
        (("MODEL", "w1", "nothing there"), 2, "nothing there: no such file of documents"),
        (("MODEL", "w1", "nowhere.txt"), 3, "nowhere.txt"),
        (("MODEL", "-", "documents.txt"), 2, "Standard input is for the documents"),
        (("MODEL", "w1", "documents.txt", "top_k=-1"), 2, "top_k must be at least 0"),
        (("MODEL", "w1", "documents.txt", "out=a.xlsx"), 2, "out= must end with"),
        (("MODEL", "w1", "documents.txt", "prompt_name=other"), 2, "`prompt_name` must be one of"),
        (("MODEL", "w1", "empty.txt"), 3, "empty.txt: no texts"),
        (("LABELS", "w1", "documents.txt"), 2, "one score for a query and a document"),
    ],
)
def test_refusals(
    words: tuple[str, ...],
    code: int,
    message: str,
    models: dict[str, Path],
    tmp_path: Path,
    call: Callable,
) -> None:
    (tmp_path / "documents.txt").write_text("\n".join(DOCUMENTS) + "\n")
    (tmp_path / "empty.txt").write_text("")
    names = {"MODEL": str(models["vectors"]), "LABELS": str(models["labels"])}
    done = call(main, *(names.get(word, word) for word in words))
    assert done.code == code, done.err
    assert message in done.err


def test_help(call: Callable) -> None:
    done = call(main, "--help")
    assert done.code == 0
    assert done.out.startswith("Rank documents for a query")
    for key in module._DEFAULTS:
        assert f"{key}=" in done.out
