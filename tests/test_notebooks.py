"""The notebooks: sources and stored results match, and (slow) every cell runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("jupytext")
pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

DOCS = Path(__file__).parents[1] / "docs"
SOURCES = sorted((DOCS / "notebooks").glob("*.py"))
# Paths of a machine, and names of its users and folders.
PRIVATE = re.compile(r"(?<![\w.~:/])/(?:home|mnt|opt|root|tmp|Users|usr|var|work)/\S+")
MOST_BYTES = 250_000  # of a notebook with its pictures


def program() -> ModuleType:
    """Import `docs/run_notebooks.py`, which is in no package."""
    spec = importlib.util.spec_from_file_location("run_notebooks", DOCS / "run_notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run_notebooks = program()


def problems(notebook: Any) -> list[str]:
    """List the outputs that a stored notebook may not have."""
    found = []
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            text = str(dict(output))
            if output.output_type == "error" or "Traceback (most" in text:
                found.append(f"cell {number}: an error")
            if output.get("name") == "stderr":
                found.append(f"cell {number}: text of stderr")
            if match := PRIVATE.search(text):
                found.append(f"cell {number}: {match[0]}")
    return found


def test_there_are_eight_notebooks_and_each_is_stored() -> None:
    assert len(SOURCES) == 8
    stored = sorted((DOCS / "notebooks").glob("*.ipynb"))
    assert [path.stem for path in stored] == [path.stem for path in SOURCES]
    contents = (DOCS / "index.md").read_text(encoding="utf-8")
    assert all(f"\nnotebooks/{path.stem}\n" in contents for path in SOURCES)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_results_belong_to_the_source(source: Path) -> None:
    stored = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    expected = run_notebooks.unexecuted(source)
    stale = f"run `python docs/run_notebooks.py {source.stem}`"
    assert [(c.cell_type, c.source) for c in stored.cells] == [
        (c.cell_type, c.source) for c in expected.cells
    ], stale
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), stale
    assert sum(bool(cell.outputs) for cell in code) > len(code) // 2
    assert not problems(stored)
    assert source.with_suffix(".ipynb").stat().st_size < MOST_BYTES
    assert stored.cells[0].source.startswith("# ")


@pytest.mark.parametrize(
    "output",
    [
        nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[]),
        nbformat.v4.new_output("stream", name="stderr", text="a warning"),
        nbformat.v4.new_output("stream", name="stdout", text="saved /home/" + "someone/x.png"),
    ],
)
def test_a_bad_output_is_noticed(output: Any) -> None:
    cell = nbformat.v4.new_code_cell("1", outputs=[output])
    assert len(problems(nbformat.v4.new_notebook(cells=[cell]))) == 1


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(SystemExit, match="No such notebook: nothing"):
        run_notebooks.sources(["nothing"])


def test_a_notebook_is_executed_and_stored(tmp_path: Path) -> None:
    source = tmp_path / "small.py"
    source.write_text("# %% [markdown]\n# # A title\n\n# %%\nprint(1 + 1)\n", encoding="utf-8")
    run_notebooks.store(run_notebooks.executed(source), source)
    stored = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    assert stored.cells[1].outputs[0].text == "2\n"
    assert stored.cells[1].execution_count == 1
    again = run_notebooks.executed(source)
    assert nbformat.writes(again) == nbformat.writes(stored)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_every_cell_runs(source: Path) -> None:
    if source.stem == "other_models":
        pytest.importorskip("transformers")
        pytest.importorskip("torch")
    if source.stem == "export_and_serving":
        pytest.importorskip("onnxruntime")
    notebook = run_notebooks.executed(source)
    assert not problems(notebook)
