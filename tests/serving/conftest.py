"""A server of tiny models of every task, for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

for _library in ("starlette", "uvicorn", "orjson", "prometheus_client"):
    pytest.importorskip(_library)
from tests.serving import running  # noqa: E402


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folder of a checkpoint of every task."""
    return running.save(running.TASKS, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def served(folders: dict[str, Path]) -> Iterator[running.Running]:
    """Return a server of all checkpoints."""
    with running.running(folders) as found:
        yield found
