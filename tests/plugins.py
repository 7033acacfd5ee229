"""Plugin of pytest: the backend in its header, and a failure for each skip in a complete run.

With BERT_KERAS_REQUIRE_REFERENCE=1, as in CI, a skipped test is a failed one, unless its reason is
that the test has no meaning here: another backend or platform, a privileged user, no real data.
So a library to compare with that is missing, or broken, cannot pass unseen.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Generator
from importlib.metadata import version

import pytest

_MAY_BE_SKIPPED = re.compile(r"backend|platform|as root|no real test data")


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
