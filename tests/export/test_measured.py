"""Differences are found where there are some, and times are of calls that were made before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bert_keras import features
from bert_keras.export import measured
from bert_keras.export.clients import Client, IdsClient
from bert_keras.models import BertEncoder, MaskedLM, SequenceClassifier, TokenClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
TEXTS = {"text": [f"a {letter} b" for letter in "abcdefgh"] * 5}
MASKED = {"text": ["a [MASK] b [MASK]", "[MASK]"]}


class Answers(Client):
    """A SavedModel as it should be, or with another score."""

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
    """Another runtime, as it should be, or with one number that is off."""

    def __init__(self, predictor: Predictor, add: float):
        self.predictor, self.add = predictor, add

    def encode(self, columns: Any) -> dict[str, np.ndarray]:
        found = self.predictor.tokenizer(columns["text"])
        return {features.MASK_POSITIONS: found["token_ids"], **found}  # one too many

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
    expected = math.inf if math.isnan(add) else pytest.approx(add, abs=1e-6)
    assert measured.difference(Answers(labels, add), labels, TEXTS) == expected


def test_of_fills_and_entities() -> None:
    fills = predictor_of(MaskedLM)
    assert measured.difference(Answers(fills, 0.5), fills, MASKED) == pytest.approx(0.5, abs=1e-6)
    assert measured.difference(Answers(fills, drop=1), fills, MASKED) == math.inf
    entities = predictor_of(lambda e: TokenClassifier(e, 3, labels=["O", "B-X", "I-X"]))
    assert any(entities(TEXTS["text"]))
    assert measured.difference(Answers(entities), entities, TEXTS) < 1e-6
    assert measured.difference(Answers(entities, drop=1), entities, TEXTS) == math.inf


def test_of_labels(labels: Predictor) -> None:
    assert measured.difference(Answers(labels, label="LABEL_9"), labels, TEXTS) == math.inf
    best = Predictor(labels.task, labels.tokenizer, options={"top_k": 2})

    class Best(Client):
        def answer(self, columns: Any) -> dict[str, np.ndarray]:
            found = best(columns["text"])
            names = [[label.label.encode() for label in row] for row in found]
            scores = np.array([[label.score for label in row] for row in found])
            both = {"labels": np.array(names, object), "scores": scores}
            return {"label": both["labels"][:, 0], "score": scores[:, 0], **both}

    assert measured.difference(Best(), best, TEXTS) < 1e-6


def test_of_missing_outputs(labels: Predictor) -> None:
    class Nothing(Ids):
        def run(self, _: Any) -> dict[str, np.ndarray]:
            return {"other": np.zeros(1)}

    assert measured.difference(Nothing(labels, 0.0), labels, TEXTS) == math.inf


def test_of_tokens() -> None:
    """Values at padding may differ."""
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
    assert measured.difference(Tags(tags, add=1.0), tags, texts) < 1e-6
    assert measured.difference(Tags(tags, add=0.0), tags, texts) == pytest.approx(1.0)


@pytest.mark.parametrize("add", [0.0, 0.25])
def test_of_outputs(labels: Predictor, add: float) -> None:
    found = measured.difference(Ids(labels, add), labels, TEXTS)
    assert found == pytest.approx(add, abs=1e-6)


def test_every_timed_request_was_answered_before() -> None:
    calls: list[tuple[str, ...]] = []
    found = measured.latencies(lambda batch: calls.append(tuple(batch["text"])), TEXTS)
    assert found.keys() == {1, 32}
    for size in (1, 32):
        mine = [call for call in calls if len(call) == size]
        half = len(mine) // 2
        assert mine[:half] == mine[half:]
    assert 0.0 <= found[1].p50 <= found[1].p99
    assert {size: latency.calls for size, latency in found.items()} == measured.CALLS


def test_no_call_is_begun_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call takes a second: eight are for batches of one, and eight for batches of 32."""
    now = 0.0

    def answer(_batch: Any) -> None:
        nonlocal now
        now += 1.0

    told: list[tuple[int, int, int]] = []
    monkeypatch.setattr(measured.time, "perf_counter", lambda: now)
    found = measured.latencies(answer, TEXTS, seconds=16, progress=lambda *all: told.append(all))
    assert {size: latency.calls for size, latency in found.items()} == {1: 4, 32: 4}
    assert (now, found[1].p50) == (16.0, 1000.0)
    assert told == [(size, done, measured.CALLS[size]) for size in (1, 32) for done in range(5)]

    found = measured.latencies(answer, TEXTS, seconds=0)  # once before, and once timed
    assert {size: latency.calls for size, latency in found.items()} == {1: 1, 32: 1}
    assert now == 20.0


def test_size(tmp_path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"12345")
    (tmp_path / "b").write_bytes(b"1")
    assert measured.size_of(tmp_path) == 6
