"""The table of slow tests names tests that exist, and leaves each module a quick test."""

from __future__ import annotations

import ast

import pytest

from tests.plugins import is_slow
from tests.slow_tests import SLOW
from tests.slow_tests_backends import Tests
from tests.slow_tests_compiled import NOT_ON_JAX, NOT_ON_TENSORFLOW
from tests.test_architecture import LIBRARY, ROOT, sources


def marks_of(source: str) -> dict[str, bool]:
    """Return the tests of a file, and whether a mark in that file makes any case of them slow."""
    body = ast.parse(source).body
    slow = {
        target.id
        for node in body
        if isinstance(node, ast.Assign) and "mark.slow" in ast.unparse(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def marks_slow(decorator: ast.expr) -> bool:
        names = {node.id for node in ast.walk(decorator) if isinstance(node, ast.Name)}
        return "mark.slow" in ast.unparse(decorator) or bool(names & slow)

    return {
        node.name: "pytestmark" in slow or any(map(marks_slow, node.decorator_list))
        for node in ast.walk(ast.Module(body, []))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def test_a(): ...", {"test_a": False}),
        (
            "@pytest.mark.slow\ndef test_a(): ...\ndef test_b(): ...",
            {"test_a": True, "test_b": False},
        ),
        ("mine = pytest.mark.slow\n@mine\ndef test_a(): ...", {"test_a": True}),
        (
            "A = [pytest.param(1, marks=pytest.mark.slow)]\n"
            "@pytest.mark.parametrize('a', A)\ndef test_a(a): ...",
            {"test_a": True},
        ),
        ("pytestmark = [pytest.mark.slow]\ndef test_a(): ...", {"test_a": True}),
    ],
)
def test_marks_are_found(source: str, expected: dict[str, bool]) -> None:
    assert marks_of(source) == expected


def test_every_module_has_a_quick_test() -> None:
    """On every backend: what is slow runs seldom, and a module is tested at each change."""
    missing = []
    for path in sources(LIBRARY, "training"):
        folder = path.parent if path.parts[0] == "training" else path.parent.relative_to(LIBRARY)
        mirror = (ROOT / "tests" / folder / f"test_{path.stem.strip('_')}.py").relative_to(ROOT)
        if not (ROOT / mirror).is_file():
            continue  # test_architecture.py says which module needs one
        marked = marks_of((ROOT / mirror).read_text(encoding="utf-8"))
        for backend, table in SLOW.items():
            slow = table.get(mirror.as_posix())
            if slow == {} or not any(
                not is_marked and (slow or {}).get(name) != () for name, is_marked in marked.items()
            ):
                missing.append(f"{mirror} of {path} on {backend}")
    assert not missing, "\n".join(missing)


def test_every_slow_test_exists() -> None:
    wrong = []
    for backend, table in SLOW.items():
        for path, tests in table.items():
            if not (ROOT / path).is_file():
                wrong.append(f"{backend}: {path}")
                continue
            there = marks_of((ROOT / path).read_text(encoding="utf-8"))
            wrong += [f"{backend}: {path}::{test}" for test in tests if test not in there]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("table", "other"), [(NOT_ON_JAX, "tensorflow"), (NOT_ON_TENSORFLOW, "jax")]
)
def test_what_one_backend_leaves_out_two_others_run(table: Tests, other: str) -> None:
    nowhere = [
        f"{path}::{test} is slow on {backend} too"
        for path, tests in table.items()
        for test in tests
        for backend in ("torch", other)
        if SLOW[backend].get(path) == {} or SLOW[backend].get(path, {}).get(test) == ()
    ]
    assert not nowhere, "\n".join(nowhere)


@pytest.mark.parametrize(
    ("node", "slow"),
    [
        ("tests/test_a.py::test_one", True),
        ("tests/test_a.py::test_one[x]", True),
        ("tests/test_a.py::test_two[x]", True),
        ("tests/test_a.py::test_two[y-1]", False),
        ("tests/test_a.py::test_three", False),
        ("tests/test_b.py::test_one", True),
    ],
)
def test_parameters_may_stay(node: str, slow: bool) -> None:
    table = {
        "tests/test_a.py": {"test_one": (), "test_two": ("y-1",)},
        "tests/test_b.py": {},
    }
    assert is_slow(node, table) is slow
