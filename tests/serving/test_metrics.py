"""Prometheus metrics."""

from __future__ import annotations

import pytest

from bert_keras.serving.metrics import Metrics


def test_requests_batches_and_queues_are_counted() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    metrics = Metrics()
    metrics.count_request("/embed", 200, 0.01)
    metrics.count_request("/embed", 429, 0.001)
    metrics.count_batch("m", 3, 8, 0.2)
    text = metrics.text([("m", 3, 5)]).decode()
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }
    for status in ("200", "429"):
        assert found["bert_keras_requests_total", *sorted(("/embed", status))] == 1
    assert found["bert_keras_queue_rows", "m"] == 5
    assert found["bert_keras_model_version", "m"] == 3
    assert found["bert_keras_batch_rows_sum", "m"] == 8
    assert found["bert_keras_request_seconds_count", "/embed"] == 2


def test_two_servers_do_not_share_their_metrics() -> None:
    first, second = Metrics(), Metrics()
    first.count_request("/embed", 200, 0.01)
    assert b"/embed" not in second.text([])
