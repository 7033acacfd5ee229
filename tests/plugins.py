"""Plugin of pytest: backend, slow tests, shares of the cores, and no skips in a complete run.

With BERT_KERAS_REQUIRE_REFERENCE=1, as in CI, a skipped test is a failed one, unless its reason is
that the test has no meaning here: another backend or platform, a privileged user, no real data.
So a library to compare with that is missing, or broken, cannot pass unseen.

`@pytest.mark.slow_on("tensorflow", "jax")` marks a test as `slow` on these backends. It is for
tests of Python code that no backend computes differently: one backend runs them every time.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Generator
from importlib.metadata import version

import pytest

_MAY_BE_SKIPPED = re.compile(r"backend|platform|as root|no real test data")


def pytest_configure(config: pytest.Config) -> None:
    """Give each process of `pytest -n` its own cores.

    Where processes share cores, their threads wait for each other in loops, and all are slower.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or not hasattr(os, "sched_setaffinity"):
        return
    cores = share_of(sorted(os.sched_getaffinity(0)), worker["workerid"], worker["workercount"])
    if cores:
        os.sched_setaffinity(0, cores)


def share_of(cores: list[int], worker: str, workers: int) -> list[int]:
    """Return the cores of a process of `pytest -n`, such as "gw0"; none if there are too few."""
    return cores[int(worker.removeprefix("gw")) :: workers]


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what `-m` does not select
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what is slow on this backend."""
    slow = [(item, mark) for item in items for mark in item.iter_markers("slow_on")]
    if slow:
        import keras

        backend = keras.backend.backend()
        for item, mark in slow:
            if backend in mark.args:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Lets the garbage collector pass over what is imported, which it would walk all the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_report_header() -> str:
    backend = os.environ.get("KERAS_BACKEND", "the default backend")
    return f"keras: {version('keras')} on {backend}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _require(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _require(report)
    return report


def _require(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turns a skip into a failure where everything is required and the reason does not excuse."""
    if os.environ.get("BERT_KERAS_REQUIRE_REFERENCE") != "1":
        return
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not _MAY_BE_SKIPPED.search(reason):
        report.outcome = "failed"
        report.longrepr = f"{reason}\nNothing may be skipped where BERT_KERAS_REQUIRE_REFERENCE=1."
