"""The reference pages: every public name has a section with an example that runs."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import keras
import pytest

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"


def extension(name: str) -> ModuleType:
    """Import a module of `docs/_ext`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


public_names = extension("public_names")
page_examples = extension("page_examples")
NAMES = public_names.public_names()
EXAMPLES = sorted(page for page in PAGES.glob("*.md") if page.stem != "index")


def sections(page: str) -> dict[str, str]:
    """Return the text below each heading of a page."""
    found: dict[str, str] = {}
    heading, in_code = "", False
    for line in page.splitlines():
        in_code ^= line.startswith("```")
        if line.startswith("## ") and not in_code:
            heading = line.removeprefix("## ")
            assert heading not in found, f"two sections {heading}"
            found[heading] = ""
        elif heading:
            found[heading] += f"{line}\n"
    return found


def named(code: str) -> set[str]:
    """Return the names and attributes in Python code."""
    nodes = list(ast.walk(ast.parse(code)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def missing(names: list, texts: dict[str, str]) -> list[str]:
    """Return the public names whose page lacks a section, or an example that has the name."""
    found = []
    for name in names:
        if name.home != name.package:
            continue  # described on the page of another package
        section = sections(texts.get(public_names.page_of(name.package), "")).get(name.name)
        if section is None:
            found.append(f"{name.path}: no section")
        elif not any(
            name.name in named(example.code) for example in page_examples.examples(section)
        ):
            found.append(f"{name.path}: no example with this name")
    return found


def test_every_public_name_has_a_section_with_an_example() -> None:
    texts = {page.stem: page.read_text(encoding="utf-8") for page in EXAMPLES}
    found = missing(NAMES, texts)
    assert not found, "add these to docs/reference/:\n" + "\n".join(found)
    assert len(NAMES) > 200


def test_a_name_without_an_example_is_noticed() -> None:
    name = next(name for name in NAMES if name.path == "bert_keras.metrics.accuracy")
    assert missing([name], {}) == ["bert_keras.metrics.accuracy: no section"]
    other = {"metrics": "## accuracy\n\n```python\nprint(1)\n```\n"}
    assert missing([name], other) == ["bert_keras.metrics.accuracy: no example with this name"]
    assert not missing([name], {"metrics": "## accuracy\n\n```python\nmetrics.accuracy\n```\n"})


def test_a_name_is_described_once() -> None:
    homes = {name.path for name in NAMES if name.home == name.package}
    for name in NAMES:
        assert f"{name.home}.{name.name}" in homes, f"{name.path} has no home"


def test_every_page_belongs_to_a_package_and_is_listed() -> None:
    packages = {public_names.page_of(package) for package in public_names.public_packages()}
    packages.add(public_names.LIBRARY)
    contents = (PAGES / "index.md").read_text(encoding="utf-8")
    for page in EXAMPLES:
        assert page.stem in packages, f"{page.name} has no package"
        assert f"({page.name})" in contents, f"index.md has no link to {page.name}"
        assert f"\n{page.stem}\n" in contents, f"the menu of index.md lacks {page.stem}"
    assert packages <= {page.stem for page in EXAMPLES}
    for page in EXAMPLES:
        package = page.stem if page.stem == "bert_keras" else f"bert_keras.{page.stem}"
        names = {name.name for name in NAMES if name.package == package}
        assert set(sections(page.read_text(encoding="utf-8"))) <= names, (
            f"{page.name}: no such name"
        )


BACKEND = keras.backend.backend()


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
@pytest.mark.filterwarnings("default")  # of the libraries that exports and KerasHub call
def test_the_examples_print_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    for_it = [example for example in page_examples.examples(text) if example.backend == BACKEND]
    if BACKEND != page_examples.MAIN_BACKEND and not for_it:
        pytest.skip(f"the backend {page_examples.MAIN_BACKEND} runs this page")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", sys.stdin)  # an example replaces it
    try:
        results = page_examples.run_page(text, str(page), BACKEND)
    except ImportError as error:  # CI has every library, and no skip
        if f"{error.name}".startswith("bert_keras"):
            raise
        pytest.skip(f"a library is missing: {error}")
    assert len(results) > (0 if page.stem in ("export.runtimes", "tokenizers") else 1)
    for example, printed in results:
        assert printed == example.output, f"{page.name}:{example.line}"


PAGE = """# A page

```python
x = 2
```

<!-- backend: tensorflow -->

```python
print(x + 1)
```

```python
print(x)
```

```text
3
```
"""


@pytest.mark.parametrize(("backend", "shown"), [("torch", ["", "2"]), ("tensorflow", ["", "3"])])
def test_the_reader_of_examples(backend: str, shown: list[str]) -> None:
    results = page_examples.run_page(PAGE, "page", backend)
    assert [printed for _, printed in results] == shown
    assert results[0][0].line == 4
    assert page_examples.examples(PAGE)[2].output == "3"


def test_outputs_are_stored() -> None:
    stored = page_examples.with_outputs(PAGE, "page", "torch")
    assert stored == PAGE.replace("\n3\n", "\n2\n")
    assert page_examples.with_outputs(stored, "page", "torch") == stored
