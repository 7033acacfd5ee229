"""Execute the notebooks, and store their results.

    python docs/run_notebooks.py [NAME ...]

The sources are `docs/notebooks/NAME.py`, in Jupytext's percent format. The results are stored in
`docs/notebooks/NAME.ipynb`, which the documentation site shows and Jupyter opens. Edit the source,
not the notebook. Needs `pip install -e ".[docs]"` and a backend: PyTorch, unless KERAS_BACKEND is
set.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"
MOST_SECONDS = 300  # of a cell


def sources(names: list[str]) -> list[Path]:
    """Return the sources of notebooks; of all notebooks without names."""
    paths = [FOLDER / f"{name}.py" for name in names] or sorted(FOLDER.glob("*.py"))
    missing = [path.stem for path in paths if not path.is_file()]
    if missing:
        raise SystemExit(f"No such notebook: {', '.join(missing)}. {FOLDER} has the sources.")
    return paths


def unexecuted(source: Path) -> nbformat.NotebookNode:
    """Return the notebook of a source, without outputs, with ids that depend on the order alone."""
    notebook = jupytext.read(source, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def executed(source: Path) -> nbformat.NotebookNode:
    """Run the notebook of a source in a new process and an empty folder, and return it."""
    notebook = unexecuted(source)
    environment = {"KERAS_BACKEND": "torch", "TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=MOST_SECONDS, resources={"metadata": {"path": folder}}
        )
        client.execute(env=environment)
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                output.pop("metadata", None) if output.output_type == "stream" else None
    return notebook


def store(notebook: nbformat.NotebookNode, source: Path) -> None:
    """Write a notebook beside its source."""
    nbformat.validate(notebook)
    nbformat.write(notebook, source.with_suffix(".ipynb"))


def main(names: list[str]) -> None:
    """Execute and store notebooks."""
    for source in sources(names):
        print(source.stem, flush=True)
        store(executed(source), source)


if __name__ == "__main__":
    main(sys.argv[1:])
