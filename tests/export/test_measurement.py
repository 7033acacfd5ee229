"""Each check of an export's measurement finds the fault that it is made for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bert_keras import features
from bert_keras.export import measurement
from bert_keras.export.clients import Client, IdsClient, RuntimeClient, TextClient
from bert_keras.export.runtimes.formats import Manifest
from bert_keras.models import BertEncoder, MaskedLM, SequenceClassifier, TokenClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained


class Lengths(Client):
    """Client that answers with the length of each text, and has a chosen fault."""

    names, mask = ("text",), ""

    def __init__(self, fault: str = ""):
        self.fault = fault

    def answer(self, columns: Any) -> dict[str, np.ndarray]:
        texts = columns["text"]
        if self.fault == "long" and any(len(text) > 10_000 for text in texts):
            raise MemoryError("too long\nby far")
        found = np.array([float(len(text)) for text in texts], np.float32)
        if self.fault == "blank" and texts and not texts[0]:
            found[0] = np.nan
        if self.fault == "alone" and len(texts) == 1:
            found[0] = np.nan
        if self.fault == "batch":
            found += len(texts)
        if self.fault == "names" and len(texts) == 1:
            return {"number": found, "label": np.array([b"x"])}
        return {"number": found, "label": np.array([b"y"] * len(texts))}


class Texts(Lengths, TextClient):
    """Client like a SavedModel's, which takes bytes."""

    def answer(self, columns: Any) -> dict[str, np.ndarray]:
        if self.fault == "nothing" and not columns["text"]:
            return {"number": np.zeros(1, np.float32)}
        if self.fault == "bytes" and b"\xff" in b"".join(
            text for text in columns["text"] if isinstance(text, bytes)
        ):
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return super().answer(columns)


def failed(client: Client) -> list[str]:
    return [check.name for check in measurement.checks(client) if not check.passed]


@pytest.mark.parametrize(
    ("fault", "names"),
    [
        ("", []),
        ("long", ["a text of 100 kB"]),
        ("blank", ["empty and blank texts"]),
        ("batch", ["a batch is its rows one by one", "bytes that are not UTF-8"]),
        ("names", ["a batch is its rows one by one", "bytes that are not UTF-8"]),
        ("alone", ["a batch is its rows one by one", "bytes that are not UTF-8"]),
        ("nothing", ["no texts at all"]),
        ("bytes", ["bytes that are not UTF-8"]),
    ],
)
def test_faults_are_found(fault: str, names: list[str]) -> None:
    assert failed(Texts(fault)) == names


def test_what_python_reads_is_not_given_broken_bytes() -> None:
    class Ids(Lengths, RuntimeClient):
        """Client of a runtime model with a tokenizer in Python."""

    client = Ids("bytes")
    client.manifest = Manifest("onnx", None, "", 8, {}, False, 0, {}, {})
    found = list(measurement.checks(client))
    assert (len(found), failed(client)) == (5, [])


def test_what_is_told_is_one_line() -> None:
    check = next(check for check in measurement.checks(Lengths("long")) if not check.passed)
    assert check.details == "too long"


def test_columns() -> None:
    client = Lengths()
    client.names, client.mask = ("prompt", "options"), "[MASK]"
    assert measurement.columns_of(client, ["a", "b"]) == {
        "prompt": ["[MASK] a", "[MASK] b"],
        "options": [["[MASK] b", "[MASK] a"], ["[MASK] a", "[MASK] b"]],
    }


def test_what_is_shown() -> None:
    outputs = {
        "label": np.array([b"caf\xc3\xa9"]),
        "score": np.array([0.123456789], np.float32),
        "count": np.array([3], np.int32),
        "vector": np.ones((1, 4, 3), np.float32),
        "tokens": np.array([[b"a", b"b"]]),
    }
    assert measurement.shown(outputs, 0) == {
        "label": "café",
        "score": 0.123457,
        "count": 3,
        "vector": {"shape": [4, 3], "first": [1.0] * 4},
        "tokens": ["a", "b"],
    }


# === Differences are found, and latencies are measured after warm-up calls ===


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
TEXTS = {"text": [f"a {letter} b" for letter in "abcdefgh"] * 5}
MASKED = {"text": ["a [MASK] b [MASK]", "[MASK]"]}


class Answers(Client):
    """Client of a SavedModel with correct outputs, or with one changed score."""

    def __init__(self, predictor: Predictor, add: float = 0.0, drop: int = 0, label: str = ""):
        self.predictor, self.add, self.drop, self.label = predictor, add, drop, label

    def answer(self, columns: Any) -> dict[str, np.ndarray]:
        found = self.predictor(columns["text"])
        if isinstance(self.predictor.task, SequenceClassifier):
            names = np.array([self.label or label.label for label in found], "S").astype(object)
            return {"label": names, "score": np.array([label.score + self.add for label in found])}
        if isinstance(self.predictor.task, MaskedLM):
            scores = np.zeros((len(found), 2, 5))
            for row, masks in enumerate(found):
                for place, fills in enumerate(masks):
                    scores[row, place] = [fill.score + self.add for fill in fills]
            return {"scores": scores, "mask_count": np.array([len(m) - self.drop for m in found])}
        most = max(map(len, found)) + 1
        rows = [[e.score for e in row] + [9.0] * (most - len(row)) for row in found]
        places = {
            name: np.array(
                [[getattr(e, name) for e in row] + [0] * (most - len(row)) for row in found]
            )
            for name in ("label", "start", "end")
        }
        places["label"] = places["label"].astype("S").astype(object)
        places["start"] = places["start"] + self.drop
        counts = np.array([len(row) for row in found])
        return {"score": np.array(rows), "count": counts, **places}


class Ids(IdsClient):
    """Client of another runtime with correct outputs, or with one changed number."""

    def __init__(self, predictor: Predictor, add: float):
        self.predictor, self.add = predictor, add

    def encode(self, columns: Any) -> dict[str, np.ndarray]:
        found = self.predictor.tokenizer(columns["text"])
        # An input that the model does not have.
        return {features.MASK_POSITIONS: found["token_ids"], **found}

    def run(self, inputs: Any) -> dict[str, np.ndarray]:
        taken = {name: inputs[name] for name in ("token_ids", "segment_ids", "padding_mask")}
        found = {n: np.array(v) for n, v in self.predictor.task.predict_on_batch(taken).items()}
        found["label"][-1, -1] += self.add
        return found


def predictor_of(make: Any, *arguments: Any) -> Predictor:
    encoder = BertEncoder(TINY.replace(vocab_size=len(VOCABULARY)))
    return Predictor(as_trained(make(encoder, *arguments)), Tokenizer(VOCABULARY))


@pytest.fixture(scope="module")
def labels() -> Predictor:
    return predictor_of(SequenceClassifier, 2)


@pytest.mark.parametrize("add", [0.0, 0.25, math.nan])
def test_of_answers(labels: Predictor, add: float) -> None:
    """The difference is the largest change of a score. A score of NaN makes it infinite."""
    expected = math.inf if math.isnan(add) else pytest.approx(add, abs=1e-6)
    assert measurement.difference(Answers(labels, add), labels, TEXTS) == expected


def test_of_fills_and_entities() -> None:
    """A missing fill or entity makes the difference infinite."""
    fills = predictor_of(MaskedLM)
    assert measurement.difference(Answers(fills, 0.5), fills, MASKED) == pytest.approx(
        0.5, abs=1e-6
    )
    assert measurement.difference(Answers(fills, drop=1), fills, MASKED) == math.inf
    entities = predictor_of(lambda e: TokenClassifier(e, 3, labels=["O", "B-X", "I-X"]))
    assert any(entities(TEXTS["text"]))
    assert measurement.difference(Answers(entities), entities, TEXTS) < 1e-6
    assert measurement.difference(Answers(entities, drop=1), entities, TEXTS) == math.inf


def test_of_labels(labels: Predictor) -> None:
    """Another label makes the difference infinite."""
    assert measurement.difference(Answers(labels, label="LABEL_9"), labels, TEXTS) == math.inf
    best = Predictor(labels.task, labels.tokenizer, options={"top_k": 2})

    class Best(Client):
        def answer(self, columns: Any) -> dict[str, np.ndarray]:
            found = best(columns["text"])
            names = [[label.label.encode() for label in row] for row in found]
            scores = np.array([[label.score for label in row] for row in found])
            both = {"labels": np.array(names, object), "scores": scores}
            return {"label": both["labels"][:, 0], "score": scores[:, 0], **both}

    assert measurement.difference(Best(), best, TEXTS) < 1e-6


def test_of_missing_outputs(labels: Predictor) -> None:
    """A missing output makes the difference infinite."""

    class Nothing(Ids):
        def run(self, _: Any) -> dict[str, np.ndarray]:
            return {"other": np.zeros(1)}

    assert measurement.difference(Nothing(labels, 0.0), labels, TEXTS) == math.inf


def test_of_tokens() -> None:
    """Differences at padding tokens are ignored."""
    tags = predictor_of(TokenClassifier, 3)

    class Tags(Ids):
        def run(self, inputs: Any) -> dict[str, np.ndarray]:
            found = self.predictor.task.predict_on_batch(dict(inputs))["tags"]
            place = (0, -1 if self.add else 0, 0)
            found[place] += 1.0
            return {"tags": found}

        def encode(self, columns: Any) -> dict[str, np.ndarray]:
            return self.predictor.tokenizer(columns["text"])

    texts = {"text": ["a", "a b c"]}
    assert measurement.difference(Tags(tags, add=1.0), tags, texts) < 1e-6
    assert measurement.difference(Tags(tags, add=0.0), tags, texts) == pytest.approx(1.0)


@pytest.mark.parametrize("add", [0.0, 0.25])
def test_of_outputs(labels: Predictor, add: float) -> None:
    """The difference of a runtime model is the largest change of an output."""
    found = measurement.difference(Ids(labels, add), labels, TEXTS)
    assert found == pytest.approx(add, abs=1e-6)


def test_every_timed_request_was_answered_before() -> None:
    calls: list[tuple[str, ...]] = []
    found = measurement.latencies(lambda batch: calls.append(tuple(batch["text"])), TEXTS)
    assert found.keys() == {1, 32}
    for size in (1, 32):
        mine = [call for call in calls if len(call) == size]
        half = len(mine) // 2
        assert mine[:half] == mine[half:]
    assert 0.0 <= found[1].p50 <= found[1].p99
    assert {size: latency.calls for size, latency in found.items()} == measurement.CALLS


def test_no_call_is_begun_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call starts after the time limit.

    Each call takes a second. Batches of one text get eight calls, and batches of 32 get eight.
    """
    now = 0.0

    def answer(_batch: Any) -> None:
        nonlocal now
        now += 1.0

    told: list[tuple[int, int, int]] = []
    monkeypatch.setattr(measurement.time, "perf_counter", lambda: now)
    found = measurement.latencies(answer, TEXTS, seconds=16, progress=lambda *all: told.append(all))
    assert {size: latency.calls for size, latency in found.items()} == {1: 4, 32: 4}
    assert (now, found[1].p50) == (16.0, 1000.0)
    assert told == [(size, done, measurement.CALLS[size]) for size in (1, 32) for done in range(5)]

    found = measurement.latencies(answer, TEXTS, seconds=0)  # one warm-up call and one timed call
    assert {size: latency.calls for size, latency in found.items()} == {1: 1, 32: 1}
    assert now == 20.0


def test_size(tmp_path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"12345")
    (tmp_path / "b").write_bytes(b"1")
    assert measurement.size_of(tmp_path) == 6
