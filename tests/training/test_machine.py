"""The description of the machine, which must not contain its name."""

from __future__ import annotations

import importlib.metadata
import os
import socket

import keras
import numpy as np
import pytest

from bert_keras.training import machine

_LITTLE = "--xla_cpu_enable_concurrency_optimized_scheduler=false"


def test_small_sizes_are_in_mebibytes() -> None:
    sizes = (2**30, 2**30 // 4, 2**20 * 51, 2**19, None)
    shown = ["1.0 GiB", "0.2 GiB", "51.0 MiB", "0.5 MiB", "unknown"]
    assert [machine.gibibytes(size) for size in sizes] == shown


def test_the_machine_has_no_name() -> None:
    facts = machine.facts()

    assert set(facts) == {"processor", "cpus", "memory_bytes", "platform"}
    assert isinstance(facts["cpus"], int)
    assert facts["cpus"] >= 1
    assert socket.gethostname() not in machine.described(facts).split()
    assert str(facts["cpus"]) in machine.described(facts)


def test_the_peak_is_at_least_what_is_in_use() -> None:
    before = machine.peak_memory_bytes()
    held = np.ones(1 << 26, np.uint8)
    after = machine.peak_memory_bytes()

    assert before is None or (after is not None and max(before, held.nbytes) <= after < 2**42)


def test_freed_memory_may_be_kept_more_than_once() -> None:
    for _ in range(2):
        machine.keep_freed_memory()
    assert np.ones(1 << 25).sum() == 1 << 25


@pytest.mark.parametrize(
    ("backend", "version", "before", "after"),
    [
        ("jax", "0.10.2", None, _LITTLE),
        ("jax", "0.12.0.1", "--a=1", f"--a=1 {_LITTLE}"),
        ("jax", "0.10.2", *[_LITTLE.replace("false", "true")] * 2),
        ("jax", "0.99.0", "--a=1", "--a=1"),
        ("torch", "0.10.2", None, None),
        (None, "0.10.2", None, None),
    ],
    ids=["alone", "beside others", "said already", "a version not tried", "torch", "none said"],
)
def test_xla_is_asked_for_little_memory_where_it_is_used_and_knows_how(
    monkeypatch, backend: str | None, version: str, before: str | None, after: str | None
) -> None:
    for name, value in (("KERAS_BACKEND", backend), ("XLA_FLAGS", before)):
        monkeypatch.delenv(name, raising=False)
        if value:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)

    machine.order_for_memory()

    assert os.environ.get("XLA_FLAGS") == after


def test_nothing_is_asked_of_an_xla_that_is_not_there(monkeypatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("XLA_FLAGS", "--a=1")
    monkeypatch.setattr(importlib.metadata, "version", missing)

    machine.order_for_memory()

    assert os.environ["XLA_FLAGS"] == "--a=1"


def test_versions() -> None:
    found = machine.versions()
    assert found["keras"] == keras.__version__
    assert set(found) >= {"numpy", "tokenizers"}
