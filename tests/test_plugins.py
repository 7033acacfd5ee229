"""A complete run has no silent hole: tests/plugins.py, on a small suite of its own."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from tests.plugins import share_of
from tests.test_architecture import LIBRARY, sources

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


def run(folder: Path, required: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "BERT_KERAS_REQUIRE_REFERENCE": required,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "tests.plugins", "-c", os.devnull, "-rs"]
    command += ["--rootdir", str(folder), *options, str(folder)]
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
    assert ("Nothing may be skipped" in result.stdout) is bool(required)


def test_a_module_that_skips_itself_fails_too(tmp_path: Path) -> None:
    source = "import pytest\npytest.importorskip('a_library_that_is_not_there')\n"
    (tmp_path / "test_suite.py").write_text(source, encoding="utf-8")
    assert run(tmp_path, "1").returncode == 2
    assert run(tmp_path, "").returncode == 5  # no test was run


def test_the_header_names_the_backend(tmp_path: Path) -> None:
    assert "keras: " in run(tmp_path, "").stdout


SLOW = f"""
import pytest

@pytest.mark.slow_on("{keras.backend.backend()}")
def test_slow_here():
    pass

@pytest.mark.slow_on("another")
def test_slow_elsewhere():
    pass
"""


def test_slow_tests_are_slow_on_the_named_backends(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SLOW, encoding="utf-8")
    assert "1 passed, 1 deselected" in run(tmp_path, "", "-m", "not slow").stdout
    assert "2 passed" in run(tmp_path, "").stdout


def test_processes_share_the_cores() -> None:
    assert [share_of([0, 1, 2], worker, 2) for worker in ("gw0", "gw1")] == [[0, 2], [1]]
    assert share_of([5], "gw1", 2) == []


def quick_tests(source: str) -> list[str]:
    """Return the tests of a file that no mark makes slow, on any backend."""
    body = ast.parse(source).body
    slow = {
        target.id
        for node in body
        if isinstance(node, ast.Assign) and "mark.slow" in ast.unparse(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if "pytestmark" in slow:
        return []

    def is_slow(decorator: ast.expr) -> bool:
        names = {node.id for node in ast.walk(decorator) if isinstance(node, ast.Name)}
        return "mark.slow" in ast.unparse(decorator) or bool(names & slow)

    return [
        node.name
        for node in ast.walk(ast.Module(body, []))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if not any(map(is_slow, node.decorator_list))
    ]


@pytest.mark.parametrize(
    ("source", "quick"),
    [
        ("def test_a(): ...", ["test_a"]),
        ("@pytest.mark.slow\ndef test_a(): ...\ndef test_b(): ...", ["test_b"]),
        ("@pytest.mark.slow_on('jax')\ndef test_a(): ...", []),
        ("mine = pytest.mark.slow\n@mine\ndef test_a(): ...", []),
        (
            "A = [pytest.param(1, marks=pytest.mark.slow)]\n"
            "@pytest.mark.parametrize('a', A)\ndef test_a(a): ...",
            [],
        ),
        ("pytestmark = [pytest.mark.slow]\ndef test_a(): ...", []),
    ],
)
def test_quick_tests_are_found(source: str, quick: list[str]) -> None:
    assert quick_tests(source) == quick


def test_every_module_has_a_quick_test() -> None:
    """What is slow runs before a larger piece of work ends; a module is tested at each change."""
    missing = []
    for path in sources(LIBRARY, "training"):
        folder = path.parent if path.parts[0] == "training" else path.parent.relative_to(LIBRARY)
        mirror = ROOT / "tests" / folder / f"test_{path.stem.strip('_')}.py"
        if mirror.is_file() and not quick_tests(mirror.read_text(encoding="utf-8")):
            missing.append(f"{mirror.relative_to(ROOT)} of {path}")
    assert not missing, "\n".join(missing)
