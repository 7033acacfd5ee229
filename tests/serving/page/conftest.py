"""Fixtures of the tests of the page: a server, a browser, and a visit to the page in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.page import browsing, stand_in
from tests.serving.page.browsing import Site, Visit


@pytest.fixture(scope="module")
def server() -> Iterator[stand_in.StandIn]:
    with stand_in.running() as server:
        yield server


@pytest.fixture(scope="module")
def site(server: stand_in.StandIn) -> Site:
    """Return the site for tests of test_page.py, which hold for any server."""
    special = (stand_in.SAVED_MODEL, stand_in.CROSS_ENCODER, stand_in.BOTH)
    tasks = {task: name for name, task in stand_in.MODELS.items() if name not in special}
    return Site(server.url, tasks)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = browsing.find_browser()
    library = pytest.importorskip("playwright.sync_api")
    with library.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("BERT_KERAS_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def visit(browser: Any, site: Site) -> Iterator[Visit]:
    with browsing.visiting(browser, site.url) as visit:
        yield visit


@pytest.fixture
def fresh(visit: Visit, server: stand_in.StandIn) -> Iterator[stand_in.StandIn]:
    """Return the stand-in server; its settings are as before after the test."""
    server.sent.clear()
    yield server
    server.token, server.failures, server.delay = None, [], 0.0
    server.labels = dict(stand_in.LABELS)
