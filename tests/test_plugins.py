"""tests/plugins.py on a small test suite: a complete run fails on a skipped test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins import free_compiled, share_of

ROOT = Path(__file__).parents[1]

SUITE = """
import pytest

def test_passes():
    pass

def test_compares_with_a_library():
    pytest.importorskip("a_library_that_is_not_there")

@pytest.mark.skipif(True, reason="needs the TensorFlow backend")
def test_of_another_backend():
    pass

@pytest.mark.xfail(reason="a known fault elsewhere", strict=True)
def test_known_fault():
    assert False
"""


def run(folder: Path, required: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "BERT_KERAS_REQUIRE_REFERENCE": required,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "tests.plugins", "-c", os.devnull, "-rs"]
    command += ["--durations=1", "--rootdir", str(folder), str(folder)]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("required", "code", "counts"),
    [("", 0, "1 passed, 2 skipped, 1 xfailed"), ("1", 1, "1 failed, 1 passed, 1 skipped")],
)
def test_a_missing_library_fails_a_complete_run(
    tmp_path: Path, required: str, code: int, counts: str
) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE, encoding="utf-8")
    result = run(tmp_path, required)
    assert result.returncode == code, result.stdout
    assert counts in result.stdout
    assert re.search(r"slowest 1 files =+\n\d+ s test_suite.py\n", result.stdout)
    assert ("Nothing may be skipped" in result.stdout) is bool(required)


def test_a_module_that_skips_itself_fails_too(tmp_path: Path) -> None:
    source = "import pytest\npytest.importorskip('a_library_that_is_not_there')\n"
    (tmp_path / "test_suite.py").write_text(source, encoding="utf-8")
    assert run(tmp_path, "1").returncode == 2
    assert run(tmp_path, "").returncode == 5  # pytest's exit code if it ran no test


def test_the_header_names_the_backend(tmp_path: Path) -> None:
    assert "keras: " in run(tmp_path, "").stdout


@pytest.mark.skipif(sys.platform != "linux", reason="this platform has no /proc/self/maps")
def test_compiled_functions_are_freed_when_there_are_too_many() -> None:
    import jax

    traced: list[int] = []
    doubled = jax.jit(lambda x: traced.append(1) or 2 * x)
    for most, expected in ((10**9, 1), (0, 2)):
        doubled(1.0)
        free_compiled(most)
        doubled(1.0)
        assert len(traced) == expected


def test_processes_share_the_cores() -> None:
    assert [share_of([0, 1, 2], worker, 2) for worker in ("gw0", "gw1")] == [[0, 2], [1]]
    assert share_of([5], "gw1", 2) == []
