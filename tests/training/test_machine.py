"""The machine is described, and not named."""

from __future__ import annotations

import socket

import numpy as np

from training import machine


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
