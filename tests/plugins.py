"""A pytest plugin: seeds, slow tests, CPU cores of each process, forbidden skips, slow files.

With BERT_KERAS_REQUIRE_REFERENCE=1, as in CI, a skipped test fails. Only a reason that this
environment cannot change excuses a skip: another backend or platform, a privileged user, no real
test data. A missing or broken reference library therefore fails the run.

A test that `tests/slow_tests.py` names gets the mark `slow` on the backends named there.
`--durations=N` also shows the N files whose tests took the longest in all.
"""

from __future__ import annotations

import gc
import os
import random
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.slow_tests import SLOW, Tests

_MOST_MAPPINGS = 25_000
_TESTS_BETWEEN = 16  # as many, on average
_MAY_BE_SKIPPED = re.compile(r"backend|platform|as root|no real test data")


def pytest_configure(config: pytest.Config) -> None:
    """Give each process of `pytest -n` its own CPU cores, and keep the order of the files.

    On shared cores, the threads of several processes slow each other by busy waiting. pytest-xdist
    would run the files with the fewest tests at the end. Some of these take a minute, in which the
    other processes would wait.
    """
    config.option.loadscopereorder = False
    _without_deadlines(config)
    worker = getattr(config, "workerinput", None)
    if worker is None or not hasattr(os, "sched_setaffinity"):
        return
    cores = share_of(sorted(os.sched_getaffinity(0)), worker["workerid"], worker["workercount"])
    if cores:
        os.sched_setaffinity(0, cores)


def _without_deadlines(config: pytest.Config) -> None:
    """Let property tests take their time: on a loaded machine, any test may be slow."""
    if config.pluginmanager.hasplugin("hypothesispytest") and not config.getoption(
        "--hypothesis-profile", None
    ):
        from hypothesis import settings

        settings.register_profile("without deadlines", deadline=None)
        settings.load_profile("without deadlines")


def share_of(cores: list[int], worker: str, workers: int) -> list[int]:
    """Return the cores of the `pytest -n` process "gw0", "gw1", …; empty if there are too few."""
    return cores[int(worker.removeprefix("gw")) :: workers]


@pytest.hookimpl(tryfirst=True)  # before pytest deselects tests by `-m`
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that are slow on this backend."""
    if not any(item.nodeid.startswith("tests/") for item in items):
        return  # the small suite of tests/test_plugins.py
    backend = os.environ.get("KERAS_BACKEND")
    if not backend:
        import keras

        backend = keras.backend.backend()
    if backend == "tensorflow":
        _skip_graph_optimizer()
    slow = SLOW[backend]
    for item in items:
        if is_slow(item.nodeid, slow):
            item.add_marker(pytest.mark.slow)
    if not any("::" in argument for argument in config.args):
        _require_quick_cases([item.nodeid for item in items], slow)


def is_slow(nodeid: str, slow: Tests) -> bool:
    """Return whether a table of slow tests names this one."""
    path, _, rest = nodeid.partition("::")
    test, _, parameters = rest.partition("[")
    if path not in slow:
        return False
    if not slow[path]:
        return True
    quick = slow[path].get(test)
    return quick is not None and parameters.removesuffix("]") not in (quick or (None,))


def _skip_graph_optimizer() -> None:
    """Switch off TensorFlow's graph optimizer: a tiny model gains less time than it costs.

    `.ci/full` keeps it.
    """
    if os.environ.get("BERT_KERAS_CI") != "full":
        import tensorflow as tf

        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def _require_quick_cases(nodeids: list[str], slow: Tests) -> None:
    """Raise an error if the table names a test case that does not exist.

    Otherwise a renamed case would silently be run with the slow tests only.
    """
    cases: dict[str, set[str]] = {}
    for nodeid in nodeids:
        test, _, parameters = nodeid.partition("[")
        cases.setdefault(test, set()).add(parameters.removesuffix("]"))
    named = {f"{path}::{test}": quick for path in slow for test, quick in slow[path].items()}
    for test, quick in named.items():
        if test in cases and (lost := set(quick) - cases[test]):
            raise pytest.UsageError(
                f"tests/slow_tests.py: {test} has no case {sorted(lost)}. It has: "
                f"{sorted(cases[test])}. Name the cases that run every time."
            )


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection, which would take much time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(tryfirst=True)  # before the fixtures of the test
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed the random numbers of a test and of the fixtures that it is the first to use.

    Keras draws the seeds of new weights from `random`. Without this, a model under test would start
    from other weights in every run, and about one run in a hundred would learn too little.
    """
    random.seed(zlib.crc32(item.nodeid.encode()))


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Free what JAX has compiled, between files and after some tests of a long one."""
    is_last = nextitem is None or nextitem.path != item.path
    if is_last or zlib.crc32(item.nodeid.encode()) % _TESTS_BETWEEN == 0:
        free_compiled()


def free_compiled(most: int = _MOST_MAPPINGS) -> None:
    """Let JAX forget its compiled functions if this process has more memory mappings than `most`.

    Linux allows 65,530, and the whole suite needs more. Then the process ends with a segmentation
    fault.
    """
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and maps.read_bytes().count(b"\n") > most:
        sys.modules["jax"].clear_caches()
        gc.collect()


def pytest_report_header() -> str:
    backend = os.environ.get("KERAS_BACKEND", "the default backend")
    return f"keras: {version('keras')} on {backend}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show the files whose tests took the longest, because many quick tests add up."""
    count = config.getoption("durations")
    reports = [report for group in terminalreporter.stats.values() for report in group]
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    if not count or not seconds:
        return
    terminalreporter.section(f"slowest {count} files")
    for path, total in sorted(seconds.items(), key=lambda item: -item[1])[:count]:
        terminalreporter.line(f"{total:.0f} s {path}")


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
    """Turn a skip into a failure if references are required and the reason is no excuse."""
    if os.environ.get("BERT_KERAS_REQUIRE_REFERENCE") != "1":
        return
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not _MAY_BE_SKIPPED.search(reason):
        report.outcome = "failed"
        report.longrepr = f"{reason}\nNothing may be skipped where BERT_KERAS_REQUIRE_REFERENCE=1."
