"""Dynamic batching: which rows run together, when, and what happens to errors."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from bert_keras.serving import batching
from bert_keras.serving.batching import Batcher, ClosedError, QueueFullError
from bert_keras.serving.signatures import STRING, Columns, Outputs, Signature, Spec

TEXT = {"text": Spec(STRING, (None,))}


class Model:
    """A model that notes its batches, and may be held."""

    def __init__(self, inputs: dict[str, Spec] = TEXT, *, has_text_rows: bool = True):
        self.batches: list[list[str]] = []
        self.may_go = threading.Event()
        self.may_go.set()
        self.has_started = threading.Event()
        self.signature = Signature(self.run, inputs, {}, has_text_rows=has_text_rows)

    def run(self, columns: Columns) -> Outputs:
        texts = list(columns["text"])
        self.batches.append(texts)
        self.has_started.set()
        assert self.may_go.wait(20)
        if "bad" in texts:
            raise ValueError("a bad text")
        return {"length": np.array([len(text) for text in texts], np.int32)}

    def hold(self, batcher: Batcher) -> Any:
        """Start a batch that runs until `may_go` is set; return its job."""
        self.may_go.clear()
        self.has_started.clear()
        job = batcher.submit(self.signature, {"text": ["first"]}, 1)
        assert self.has_started.wait(20)
        return job


def lengths(job: Any) -> list[int]:
    return job.future.result(20)["length"].tolist()


def test_an_idle_model_runs_at_once() -> None:
    model, batcher = Model(), Batcher("m", max_wait=1000.0)  # a wait would last for ever
    assert lengths(batcher.submit(model.signature, {"text": ["a", "bcd"]}, 2)) == [1, 3]
    assert lengths(batcher.submit(model.signature, {"text": ["ab"]}, 1)) == [2]
    assert model.batches == [["a", "bcd"], ["ab"]]
    batcher.close()


def test_long_texts_run_in_small_batches() -> None:
    model, batcher = Model(), Batcher("m", max_wait=0.0)
    first = model.hold(batcher)
    jobs = [batcher.submit(model.signature, {"text": ["a" * 60_000]}, 1) for _ in range(9)]
    model.may_go.set()
    assert [lengths(job) for job in [first, *jobs]] == [[5], *[[60_000]] * 9]
    assert [len(batch) for batch in model.batches] == [1, 4, 4, 1]
    batcher.close()


def test_an_error_outside_the_model_does_not_end_the_thread(monkeypatch) -> None:
    def fails(*_) -> None:
        raise RuntimeError("an error of the program")

    model, batcher = Model(), Batcher("m", report=fails)
    with pytest.raises(RuntimeError, match="of the program"):
        lengths(batcher.submit(model.signature, {"text": ["a"]}, 1))
    batcher.close()
    batcher = Batcher("m")
    with monkeypatch.context() as patch:
        patch.setattr(batching, "joined_rows", fails)
        with pytest.raises(RuntimeError, match="of the program"):
            lengths(batcher.submit(model.signature, {"text": ["a"]}, 1))
    assert lengths(batcher.submit(model.signature, {"text": ["ab"]}, 1)) == [2]
    batcher.close()


def test_requests_that_arrive_meanwhile_run_together() -> None:
    model, batcher = Model(), Batcher("m", max_batch=3, max_wait=0.0)
    first = model.hold(batcher)
    jobs = [batcher.submit(model.signature, {"text": [text]}, 1) for text in "abcd"]
    model.may_go.set()
    assert [lengths(job) for job in (first, *jobs)] == [[5], *[[1]] * 4]
    assert model.batches == [["first"], ["a", "b", "c"], ["d"]]
    batcher.close()


def test_a_busy_model_waits_for_a_full_batch() -> None:
    model, batcher = Model(), Batcher("m", max_batch=2, max_wait=1000.0)
    model.hold(batcher)
    jobs = [batcher.submit(model.signature, {"text": [text]}, 1) for text in ("a", "b")]
    model.may_go.set()
    assert [lengths(job) for job in jobs] == [[1], [1]]
    lonely = batcher.submit(model.signature, {"text": ["c"]}, 1)
    batcher.close()  # it does not wait for more rows either
    assert lengths(lonely) == [1]


def test_texts_of_similar_length_run_together() -> None:
    model, batcher = Model(), Batcher("m", max_batch=8, max_wait=0.0)
    model.hold(batcher)
    texts = ["a", "x" * 300, "b", "y" * 290, "c" * 20]
    jobs = [batcher.submit(model.signature, {"text": [text]}, 1) for text in texts]
    model.may_go.set()
    assert [lengths(job) for job in jobs] == [[len(text)] for text in texts]
    assert model.batches[1:] == [["a", "b", "c" * 20], ["x" * 300, "y" * 290]]
    batcher.close()


def test_signatures_do_not_mix() -> None:
    model, other, batcher = Model(), Model(), Batcher("m", max_wait=0.0)
    model.hold(batcher)
    jobs = [batcher.submit(m.signature, {"text": ["a"]}, 1) for m in (model, other, model)]
    model.may_go.set()
    for job in jobs:
        lengths(job)
    assert model.batches[1:] == [["a", "a"]]
    assert other.batches == [["a"]]
    batcher.close()


def test_a_large_request_is_split_and_joined_in_order() -> None:
    model, batcher = Model(), Batcher("m", max_batch=4, max_wait=0.0)
    texts = ["x" * size for size in (9, 100, 1, 2, 3, 300, 4, 5, 6)]
    assert lengths(batcher.submit(model.signature, {"text": texts}, 9)) == [*map(len, texts)]
    assert max(map(len, model.batches)) <= 4
    batcher.close()


def test_a_signature_without_text_rows_runs_as_one_request() -> None:
    model, batcher = Model(has_text_rows=False), Batcher("m", max_batch=1, max_wait=0.0)
    assert lengths(batcher.submit(model.signature, {"text": ["a", "bb"]}, 2)) == [1, 2]
    assert model.batches == [["a", "bb"]]
    batcher.close()


def test_an_error_concerns_its_request_only() -> None:
    model, batcher = Model(), Batcher("m", max_wait=0.0)
    model.hold(batcher)
    jobs = [
        batcher.submit(model.signature, {"text": texts}, len(texts))
        for texts in (["a"], ["b", "bad"], ["c"])
    ]
    model.may_go.set()
    assert lengths(jobs[0]) == [1]
    with pytest.raises(ValueError, match="a bad text"):
        lengths(jobs[1])
    assert lengths(jobs[2]) == [1]
    assert lengths(batcher.submit(model.signature, {"text": ["d"]}, 1)) == [1]
    batcher.close()


def test_a_full_queue_refuses_requests_and_says_when_to_come_back() -> None:
    model, batcher = Model(), Batcher("m", max_queue=3, max_wait=0.0)
    model.hold(batcher)
    kept = batcher.submit(model.signature, {"text": ["a", "b", "c"]}, 3)
    with pytest.raises(QueueFullError, match="3 rows wait") as error:
        batcher.submit(model.signature, {"text": ["d"]}, 1)
    assert error.value.retry_after >= 1
    model.may_go.set()
    assert lengths(kept) == [1, 1, 1]
    # A request that is larger than the queue runs if nothing waits.
    assert len(lengths(batcher.submit(model.signature, {"text": ["e"] * 9}, 9))) == 9
    batcher.close()


def test_a_cancelled_request_does_not_run() -> None:
    model, batcher = Model(), Batcher("m", max_wait=0.0)
    model.hold(batcher)
    cancelled = batcher.submit(model.signature, {"text": ["never"]}, 1)
    kept = batcher.submit(model.signature, {"text": ["a"]}, 1)
    assert cancelled.future.cancel()
    model.may_go.set()
    assert lengths(kept) == [1]
    assert ["never"] not in model.batches
    batcher.close()


def test_closing_answers_what_waits_and_refuses_the_rest() -> None:
    model, batcher = Model(), Batcher("m", max_wait=0.0)
    model.hold(batcher)
    waiting = batcher.submit(model.signature, {"text": ["a"]}, 1)
    closing = threading.Thread(target=batcher.close)
    closing.start()
    model.may_go.set()
    closing.join(20)
    assert lengths(waiting) == [1]
    with pytest.raises(ClosedError):
        batcher.submit(model.signature, {"text": ["b"]}, 1)


def test_batches_are_reported() -> None:
    sizes: list[int] = []
    model = Model()
    batcher = Batcher("m", report=lambda rows, seconds: sizes.append(rows if seconds >= 0 else -1))
    lengths(batcher.submit(model.signature, {"text": ["a", "b"]}, 2))
    batcher.close()
    assert sizes == [2]
