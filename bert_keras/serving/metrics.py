"""Prometheus metrics of the server."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Upper bounds of the histograms' buckets, in seconds and in rows.
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters and histograms of one server, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "bert_keras_requests", "Answered requests.", ("route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "bert_keras_request_seconds",
            "Time from the arrival of a request to its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._batch_rows = Histogram(
            "bert_keras_batch_rows",
            "Rows in a batch.",
            ("model",),
            buckets=_ROWS,
            registry=registry,
        )
        self._batch_seconds = Histogram(
            "bert_keras_batch_seconds",
            "Time of a batch in the model.",
            ("model",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._queue = Gauge(
            "bert_keras_queue_rows", "Rows that wait for a model.", ("model",), registry=registry
        )
        self._version = Gauge(
            "bert_keras_model_version",
            "Newest version that is loaded.",
            ("model",),
            registry=registry,
        )

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            route: pattern of its path, such as "/v1/models/{name}", so that there are few labels.
            status: HTTP status of the answer.
            seconds: time from the arrival of the request to its answer.
        """
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_batch(self, model: str, version: int, rows: int, seconds: float) -> None:
        """Count a batch of `rows` rows that ran for `seconds` seconds."""
        del version
        self._batch_rows.labels(model).observe(rows)
        self._batch_seconds.labels(model).observe(seconds)

    def text(self, queues: Iterable[tuple[str, int, int]]) -> bytes:
        """Return all metrics in Prometheus's text format.

        Args:
            queues: (name, newest version, number of waiting rows) of each model.
        """
        for name, version, rows in queues:
            self._queue.labels(name).set(rows)
            self._version.labels(name).set(version)
        return generate_latest(self._registry)
