"""The tests of test_page.py once more, with the real server and tiny models of every task."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving import running
from tests.serving.page.browsing import Site
from tests.serving.page.test_page import *  # noqa: F403 (the tests, with the fixture below)


@pytest.fixture(scope="module")
def site(served: running.Running) -> Site:
    """Return the site of the server of `tests.serving`, with one model of each task."""
    models = served.get("/api/models")["models"]
    return Site(f"{served.url}/", {model["task"]: model["name"] for model in reversed(models)})


def test_every_task_is_visited(site: Site, folders: dict[str, Path]) -> None:
    assert len(site.models) == 11
    assert set(site.models.values()) <= set(folders)
