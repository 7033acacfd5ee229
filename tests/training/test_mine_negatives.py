"""The program `mine-negatives`: its table, its summary, what it keeps, its error messages."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    Predictor,
    SentenceEncoder,
    SequenceClassifier,
    TextRanker,
    Tokenizer,
)
from bert_keras.training import mine_negatives as module
from bert_keras.training.finetune import main as finetune
from bert_keras.training.mine_negatives import main
from tests import contracts
from tests.contracts import TINY
from tests.processes import kill, start_training, wait_until

_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]
_PAIRS = [(f"w{n % 9} w{n}", f"w{n} w{n + 9} w{n % 7}") for n in range(30)]
_SOME = ("text=q", "pair=a", "out=mined.csv", "num_negatives=2")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "encoder"
    contracts.as_trained(SentenceEncoder(BertEncoder(TINY))).save_to_preset(folder)
    Tokenizer(_WORDS).save_to_preset(folder)
    return str(folder)


@pytest.fixture(scope="module", params=[SequenceClassifier, TextRanker])
def ranker(model: str, request: pytest.FixtureRequest) -> str:
    folder = Path(model).with_name(request.param.__name__)
    is_classifier = request.param is SequenceClassifier
    options = {"num_classes": 1, "problem": "regression"} if is_classifier else {}
    task = request.param(BertEncoder(TINY), **options)
    contracts.as_trained(task, seed=1).save_to_preset(folder)
    Tokenizer(_WORDS).save_to_preset(folder)
    return str(folder)


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    lines = [json.dumps({"q": query, "a": answer}) for query, answer in _PAIRS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "corpus.txt").write_text("\n".join(f"w{n} w{n + 20}" for n in range(20)) + "\n\n")
    return "pairs.jsonl"


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, dialect="excel-tab" if path.suffix == ".tsv" else "excel"))


def test_a_table_of_columns(call: Callable, model: str, pairs: str, tmp_path: Path) -> None:
    done = call(main, model, pairs, *_SOME, "corpus=corpus.txt")
    assert done.code == 0, done.err
    rows = _rows(tmp_path / "mined.csv")
    assert [(row["q"], row["a"]) for row in rows] == _PAIRS
    texts = [*(answer for _, answer in _PAIRS), *(f"w{n} w{n + 20}" for n in range(20))]
    predictor = Predictor.from_preset(model)
    firsts, seconds = (predictor.encode(side, normalize=True) for side in ([*dict(_PAIRS)], texts))
    for row, cosines in zip(rows, firsts @ seconds.T, strict=True):
        assert list(row) == ["q", "a", "negative_1", "negative_2"]
        best = [texts[index] for index in np.argsort(-cosines) if texts[index] != row["a"]]
        assert {row["negative_1"], row["negative_2"]} <= {*best[:3]}  # float16 may swap neighbours
    assert "pairs.jsonl: 30 pairs, by number of negatives: 30 with 2" in done.out
    assert "Candidates left out: " in done.out
    assert "mining: done in" in done.err
    assert all(text in done.out for text in [*_PAIRS[0], rows[0]["negative_1"]])


def test_triplets_with_scores(
    call: Callable, model: str, ranker: str, pairs: str, tmp_path: Path
) -> None:
    """The scores are those of the cross-encoder, and the limits hold for them."""
    limits = ("relative_margin=0.01", "sampling=random", "seed=3", "range_max=20")
    done = call(
        main, model, pairs, "text=q", "pair=a", "out=a.tsv", "form=triplets", "scores=true",
        f"cross_encoder={ranker}", "num_negatives=2", *limits,
    )  # fmt: skip
    assert done.code == 0, done.err
    rows = _rows(tmp_path / "a.tsv")
    right = [float(row["answer_score"]) for row in rows]
    wrong = [float(row["negative_score"]) for row in rows]
    assert rows
    assert all(b <= a - 0.01 * abs(a) + 2e-6 for a, b in zip(right, wrong, strict=True))
    scores = Predictor.from_preset(ranker).predict_pair_scores(
        [row["q"] for row in rows], [row["negative"] for row in rows]
    )
    assert wrong == pytest.approx(scores.tolist(), abs=1e-5)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_fine_tuning_reads_the_table(
    ending: str, call: Callable, model: str, pairs: str, tmp_path: Path, finetuning
) -> None:
    """The program prints the command that trains on its table, whatever is in the texts."""
    texts = [("w1 'w2'", 'w3, "w4"\tw5'), ("w6", "w7\nw8"), ("w9 w10", "w11; w12"), ("w2", "w13")]
    lines = [json.dumps({"q": query, "a": answer}) for query, answer in texts]
    (tmp_path / pairs).write_text("\n".join(lines))
    done = call(main, model, pairs, "text=q", "pair=a", f"out=mined.{ending}", "num_negatives=2")
    assert done.code == 0, done.err
    line = next(line for line in done.out.splitlines() if line.startswith("Fine-tune: "))
    words = line.split()[3:]
    assert words[0] == "retrieval"
    assert "negatives=negative_1,negative_2" in words
    if ending != "csv":
        words.append("--dry-run")
    small = ("max_length=12", "batch_size=2", "epochs=1", "out=run", "workers=1")
    trained = call(finetune, finetuning("retrieval"), *words[1:], *small)
    assert trained.code == 0, trained.err
    assert ending != "csv" or (tmp_path / "run" / "model.safetensors").is_file()


def test_the_same_command_writes_the_same_bytes(
    call: Callable, model: str, ranker: str, pairs: str, tmp_path: Path, monkeypatch
) -> None:
    """Vectors and scores are kept for the same texts and models, and for other limits."""
    command = (model, pairs, *_SOME, f"cross_encoder={ranker}", "absolute_margin=0.001")
    first = call(main, *command)
    assert first.code == 0, first.err
    written = (tmp_path / "mined.csv").read_bytes()
    kept = sorted(path.name.split("-")[0] for path in (tmp_path / "mined.csv.vectors").iterdir())
    assert kept == ["corpus", "pairs", "queries"]
    encoded: list[int] = []
    encode = Predictor.encode
    monkeypatch.setattr(
        Predictor, "encode", lambda self, texts, **o: encoded.append(1) or encode(self, texts, **o)
    )
    again = call(main, *command, "overwrite=true")
    assert (again.code, again.out) == (0, first.out)
    assert (tmp_path / "mined.csv").read_bytes() == written
    other = call(main, model, pairs, *_SOME, "overwrite=true", "range_min=1")
    assert other.code == 0, other.err
    assert encoded == []
    fresh = call(main, *command, "overwrite=true", "cache=other")
    assert fresh.code == 0
    assert (tmp_path / "mined.csv").read_bytes() == written
    assert len(encoded) == 2


def test_a_killed_process(call: Callable, model: str, pairs: str, tmp_path: Path) -> None:
    """Vectors from before a `kill -9` are kept, and the table is that of a whole run."""
    many = "\n".join(f"w{n % 43} w{n // 43 % 43} w{n // 1849}" for n in range(8_000))
    (tmp_path / "corpus.txt").write_text(many)
    options = ("text=q", "pair=a", "corpus=corpus.txt", "batch_size=128")
    assert call(main, model, pairs, *options, "out=whole.csv").code == 0
    folder = tmp_path / "killed.csv.vectors"

    def size() -> int:
        return sum(path.stat().st_size for path in folder.glob("corpus-*.npy.part"))

    arguments = (model, pairs, *options, "out=killed.csv")
    with start_training("mine_negatives", *arguments, folder=tmp_path) as process:
        wait_until(process, lambda: size() > 1024 * 16)
        kill(process)
    done = size() - 128
    assert 0 < done < 8_000 * 16, "killed too late: this tests nothing"
    assert not (tmp_path / "killed.csv").exists()
    assert call(main, *arguments).code == 0
    assert (tmp_path / "killed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    ("values", "code", "message"),
    [
        ((), 2, "A model and a file of pairs are needed. Write: bert-keras mine-negatives MODEL"),
        (("pairs.jsonl",), 2, "out= is missing. Give out=FILE"),
        (("pairs.jsonl", "out=a.txt"), 2, "out= must end with .csv, .jsonl, .tsv"),
        (("pairs.jsonl", "out=pairs.jsonl", "overwrite=true"), 2, "is an input"),
        (("pairs.jsonl", "out=taken.csv"), 2, "taken.csv exists"),
        (("pairs.jsonl", "out=a.csv", "margin=1"), 2, "Unknown key. Received: 'margin=1'"),
        (("pairs.jsonl", "out=a.csv", "max_score=x"), 2, "max_score must be a number"),
        (("pairs.jsonl", "out=a.csv", "num_negatives=0"), 2, "num_negatives must be at least 1"),
        (("pairs.jsonl", "out=a.csv", "sampling=best"), 2, "Received: sampling='best'"),
        (("pairs.jsonl", "out=a.csv", "vectors=ubinary"), 2, "vectors must be one of float32"),
        (("pairs.jsonl", "out=a.csv", "cross_encoder=x"), 2, "by a limit of their scores"),
        (("pairs.jsonl", "out=a.csv"), 3, "no key 'text'"),
        (("nowhere.jsonl", "out=a.csv"), 3, "nowhere.jsonl"),
        (("empty.jsonl", "out=a.csv"), 3, "empty.jsonl:2: 'pair' is empty, in 1 rows"),
        (("good.jsonl", "out=a.csv", "corpus=blank.txt"), 3, "blank.txt: no texts"),
        (("good.jsonl", "out=a.csv", "num_negatives=2"), 3, "no pair has 2 negatives. Left out: 2"),
        (("good.jsonl", "out=a.csv", "max_score=1", "cross_encoder=MODEL"), 2, "with no classes"),
        (("good.jsonl", "out=a.csv", "max_length=99"), 2, "max_length"),
    ],
)
def test_bad_input(
    values, code, message, call: Callable, model: str, pairs: str, tmp_path: Path
) -> None:
    (tmp_path / "taken.csv").write_text("")
    (tmp_path / "blank.txt").write_text("\n \n")
    good = '{"text": "w1", "pair": "w2"}\n'
    (tmp_path / "good.jsonl").write_text(good + '{"text": "w3", "pair": "w4"}\n')
    (tmp_path / "empty.jsonl").write_text(good + '{"text": "w3", "pair": " "}\n')
    done = call(main, model, *(value.replace("MODEL", model) for value in values))
    assert done.code == code, done.err
    assert done.err.count("error: ") == 1
    assert message in done.err
    assert not (tmp_path / "a.csv").exists()


def test_a_model_that_is_missing(call: Callable, pairs: str) -> None:
    done = call(main, "no_model", pairs, *_SOME)
    assert done.code == 4, done.err
    assert "no_model" in done.err


def test_help(call: Callable) -> None:
    done = call(main, "--help")
    assert done.code == 0
    assert done.out.startswith("Find hard negatives")
    for key in module._DEFAULTS:
        assert f"{key}=" in done.out
