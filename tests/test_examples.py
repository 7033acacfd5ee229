"""The programs in examples/: each one runs with --quick, and the README lists it."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import keras
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples"
# Modules that the programs or their readers import.
HELPERS = ("program", "entity_client", "short_entity_client", "compare_sst2.job")
MOST_LINES = 45  # the lines of a screen
# Text that a program prints with --quick.
PRINTED = {
    "answer_questions": "Where is Anna? '",
    "classify_reviews": "): A bad film.",
    "compare_sst2.keras_hub_peer": "5 lines, ",
    "compare_sst2.ours": "4 lines, ",
    "compare_sst2.tfidf": "accuracy 1.0000",
    "compare_saliency": "integrated_gradients",
    "continue_pretraining": "after: validation loss",
    "distil_and_quantise": "int8: ",
    "find_entities": "LOC (",
    "make_pictures": "saliency.png",
    "onnx_entities": "LOC (",
    "pretrain_on_folder": "nsp_accuracy",
    "search_sentences": "1,000 texts in ",
    "serve_saved_model": "bad (0.",
}
NAMES = sorted(
    ".".join(path.relative_to(FOLDER).with_suffix("").parts) for path in FOLDER.rglob("*.py")
)
PROGRAMS = [name for name in NAMES if name not in HELPERS]
SLOW = ("onnx_entities",)  # tests/export/runtimes tests its export and its clients


def source(name: str) -> str:
    return FOLDER.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8")


@pytest.fixture
def required(request: pytest.FixtureRequest) -> None:
    """Skip a program if this environment or backend lacks a library that it needs."""
    name = request.node.callspec.params["name"]
    if name == "serve_saved_model" and keras.backend.backend() != "tensorflow":
        pytest.skip("SavedModels are written on the TensorFlow backend")
    if name == "compare_sst2.keras_hub_peer":
        if keras.backend.backend() != "tensorflow":
            pytest.skip("the comparison is made on the TensorFlow backend")
        request.getfixturevalue("keras_hub")
    if name == "onnx_entities":
        pytest.importorskip("onnxruntime")
    if name in ("compare_sst2.tfidf", "make_pictures"):
        pytest.importorskip("sklearn")


@pytest.mark.usefixtures("required")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PROGRAMS]
)
def test_the_quick_form_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"examples.{name}")
    keras.utils.set_random_seed(0)
    with warnings.catch_warnings():
        if name == "compare_sst2.keras_hub_peer":
            warnings.simplefilter("ignore")  # KerasHub's preprocessing warns about its own datasets
        module.main(["--quick"])
    assert PRINTED[name] in capsys.readouterr().out


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_of_one_screen_and_says_how_it_is_run(name: str) -> None:
    text = source(name)
    assert len(text.splitlines()) <= MOST_LINES
    assert f"python -m examples.{name}" in (ast.get_docstring(ast.parse(text)) or "")


def test_the_page_lists_every_program() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[`(\w+)\.py`\]\((\w+\.py)\)", page, re.MULTILINE)
    assert sorted(name for name, _ in linked) == [name for name in PROGRAMS if "." not in name]
    assert all(file == f"{name}.py" for name, file in linked)
    assert all(f"python -m examples.{name}" in page for name in PROGRAMS)


def test_the_page_counts_lines_of_code_as_the_programs_print_them() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows: dict[str, Any] = dict(re.findall(r"^\| [^|]+ \| `(\w+)\.py` \| (\d+) \|", page, re.M))
    assert rows == {
        "ours": PRINTED["compare_sst2.ours"].split()[0],
        "keras_hub_peer": PRINTED["compare_sst2.keras_hub_peer"].split()[0],
        "tfidf": "6",
    }


def test_without_pandas_columns_are_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.classify_reviews import read_table

    (tmp_path / "a.csv").write_text('text,label\n"one, two",a\nthree,b\n', encoding="utf-8")
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = read_table(str(tmp_path / "a.csv"))
    assert table == {"text": ["one, two", "three"], "label": ["a", "b"]}
