"""Reports say with what they were measured, and no path of a machine."""

from __future__ import annotations

from benchmarks.report import circumstances, command


def test_the_command_without_files() -> None:
    arguments = ["--size", "base", "--out", "a/b.json", "--only", "jax", "torch", "--plot", "c.png"]
    found = command("memory", arguments)
    assert found == "python -m benchmarks.memory --size base --only jax torch"
    assert command("memory", []) == "python -m benchmarks.memory"


def test_what_is_not_installed_has_no_version() -> None:
    found = circumstances(["keras", "no-such-package"])
    assert found["versions"]["no-such-package"] is None
    assert found["versions"]["keras"]
    assert found["machine"]["cores"]
