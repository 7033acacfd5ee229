"""The tests of test_page.py once more, with the real server and tiny models of every task."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest

from tests.serving import running
from tests.serving.page.browsing import Site, Visit
from tests.serving.page.test_page import *  # noqa: F403 (the tests, with the fixture below)


@pytest.fixture(scope="module")
def site(served: running.Running) -> Site:
    """Return the site of the server of `tests.serving`, with one model of each task."""
    models = served.get("/api/models")["models"]
    return Site(f"{served.url}/", {model["task"]: model["name"] for model in reversed(models)})


@pytest.mark.parametrize("mode", ["compare", "search"])
def test_the_copied_code_prints_the_answer(visit: Visit, site: Site, mode: str) -> None:
    visit.open(site.models["sentence_similarity"], mode)
    reply = visit.run("search" if mode == "search" else "answer")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(visit.code("Python"), "copied", "exec"), {})
    numbers = [float(line.split()[0]) for line in printed.getvalue().splitlines()]
    if mode == "compare":
        assert numbers == [pytest.approx(reply["answer"]["similarity"], abs=1e-5)]
    else:
        expected = [result["score"] for result in reply["results"]]
        np.testing.assert_allclose(numbers, expected, atol=1e-3)


def test_every_task_is_visited(site: Site, folders: dict[str, Path]) -> None:
    assert len(site.models) == 12
    assert set(site.models.values()) <= set(folders)
