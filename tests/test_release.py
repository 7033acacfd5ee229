"""Requirements of a release: changelog, tags, workflows, tested Pythons, licences, citation."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import pytest
import yaml

import bert_keras

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Sections of Keep a Changelog 1.1.0.
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
# Licences that a package of Apache-2.0 can require without conditions for its own code.
PERMISSIVE = {
    *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause"),
    *("BSL-1.0", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "PSF-2.0", "Zlib"),
}
one_backend = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="one backend for all programs"
)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _numbers(version: str) -> tuple[int, ...]:
    match = VERSION.fullmatch(version)
    assert match, f"{version} is not a semantic version"
    return tuple(map(int, match.groups()))


def test_the_changelog_has_versions_and_dates() -> None:
    headings = re.findall(r"^## (.*)$", _read("CHANGELOG.md"), re.MULTILINE)
    entries = [re.fullmatch(r"\[([^\]]+)\] - (unreleased|\d{4}-\d{2}-\d{2})", h) for h in headings]
    assert entries
    assert all(entries), headings
    versions = [entry[1] for entry in entries if entry]
    assert all(_numbers(newer) > _numbers(older) for newer, older in pairwise(versions))
    assert [entry[2] for entry in entries if entry].count("unreleased") <= 1
    assert "unreleased" not in [entry[2] for entry in entries[1:] if entry]


def test_each_version_has_one_section_of_a_kind() -> None:
    for entry in re.split(r"^## ", _read("CHANGELOG.md"), flags=re.MULTILINE)[1:]:
        sections = re.findall(r"^### (.*)$", entry, re.MULTILINE)
        assert set(sections) <= SECTIONS
        assert len(sections) == len(set(sections)), sections


def test_each_tag_has_an_entry_in_the_changelog() -> None:
    command = ["git", "tag", "--list", "v*"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    for tag in run.stdout.split():
        assert f"## [{tag.removeprefix('v')}] - 2" in _read("CHANGELOG.md"), tag


def _workflow(name: str) -> dict[Any, Any]:
    return yaml.safe_load(_read(f".github/workflows/{name}.yml"))


def test_the_workflow_tests_what_the_classifiers_claim(project: dict[str, Any]) -> None:
    """Versions of Python, systems and backends of the test matrix are those of the metadata."""
    matrix = _workflow("ci")["jobs"]["tests"]["strategy"]["matrix"]
    claimed = [line.split(" :: ") for line in project["classifiers"]]
    pythons = {
        line[-1] for line in claimed if line[0] == "Programming Language" and "." in line[-1]
    }
    assert set(matrix["python"]) == pythons
    lowest = min(pythons, key=lambda version: int(version.partition(".")[2]))
    assert project["requires-python"] == f">={lowest}"
    systems = {"ubuntu-latest": "Linux", "macos-latest": "MacOS", "windows-latest": "Windows"}
    claimed_systems = {line[-1] for line in claimed if line[0] == "Operating System"}
    assert {systems[name] for name in matrix["system"]} == claimed_systems
    assert set(matrix["backend"]) == {"tensorflow", "jax", "torch"}
    for left_out in matrix["exclude"]:
        assert all(value in matrix[key] for key, value in left_out.items())


def test_the_programs_of_the_workflows_are_here() -> None:
    programs = {
        program
        for path in WORKFLOWS
        for program in re.findall(r"bash (\S+)", path.read_text(encoding="utf-8"))
    }
    assert {".ci/run", ".ci/floors", ".ci/release"} <= programs
    for program in programs:
        subprocess.run(["bash", "-n", str(ROOT / program)], check=True)


@one_backend
@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", WORKFLOWS),
        ("vendor.citation-file-format", [ROOT / "CITATION.cff"]),
        ("vendor.readthedocs", [ROOT / ".readthedocs.yaml"]),
        ("vendor.compose-spec", [ROOT / "examples" / "docker" / "compose.yaml"]),
    ],
    ids=["workflows", "timeouts", "citation", "readthedocs", "compose"],
)
def test_files_of_services_are_valid(schema: str, paths: list[Path]) -> None:
    """They are valid by their JSON schemas, which the checker brings with it."""
    assert paths
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        schema,
        *map(str, paths),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_citation_is_of_this_version(project: dict[str, Any]) -> None:
    citation = yaml.safe_load(_read("CITATION.cff"))
    assert citation["version"] == bert_keras.__version__
    assert citation["license"] == project["license"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in project["authors"]
    ]


def test_how_to_report_a_vulnerability_is_described() -> None:
    first = _read("SECURITY.md").split("\n\n")[1]
    assert "privately" in first
    assert "Report a vulnerability" in first


def _licence_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licence_table", ROOT / "docs/licence_table.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_licences_of_all_requirements_are_listed() -> None:
    """The page has each direct requirement, with its extras and the licence of its metadata."""
    table = _licence_table()
    rows = re.findall(r"^\| ([\w.-]+) \| ([^|]+) \| ([^|]+) \|$", _read("docs/licences.md"), re.M)
    listed = {name: (licence, needed) for name, licence, needed in rows if name != "package"}
    listed.pop("---", None)
    direct = table.direct_requirements()
    assert set(listed) == set(direct), "run `python docs/licence_table.py`"
    for name, extras in direct.items():
        licence, needed = listed[name]
        assert needed == ", ".join(f"`{extra}`" if extra else "always" for extra in extras), name
        for found in (licence, table.licence_of(name) or licence):  # here, and installed
            parts = set(re.split(" AND | OR ", found.replace("(", "").replace(")", "")))
            assert parts <= PERMISSIVE, f"{name}: {found}"
