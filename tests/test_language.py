"""Words of modules and docstrings: those of the field, and sentences that say what code does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("bert_keras", "training", "benchmarks", "examples", "tests")
# A docstring that opens with one of these is a noun clause, and not a sentence.
OPENINGS = (
    *("What", "Whether", "Which", "How", "Who", "Where", "That", "Why"),
    *("Of", "Those", "Likewise", "Whoever", "Nobody", "Also"),
)
# Earlier names of modules, which said nothing of what is in them.
OLD_NAMES = (
    *("answers", "bins", "blocks", "checked", "checks", "choices", "code_points", "configs"),
    *("direct", "distance", "engine_files", "engines", "entities", "extras", "families", "faults"),
    *("feeding", "finetuned", "fitting", "folder", "format", "generator", "head_options", "health"),
    *("hub", "in_graph", "inner", "kinds", "lines", "longest_match", "masked", "masks", "measured"),
    *("packed", "packing", "pairs", "pickled", "plan", "questions", "replacement", "requests"),
    *("pace", "block", "classifier", "sentences", "packed_batch", "pair_targets", "labels"),
    *("question_targets", "word_table", "safetensors_file", "preset", "serving", "card"),
    *("second_process", "finetune_best", "entity_rules"),
    *("rows", "running", "sampling", "saving", "scheme", "several", "slots", "spans", "surgery"),
    *("targets", "transfer", "unread", "vectors", "view", "waiting", "windows", "words"),
    *("written_out",),
)
# Sequence packing, tokenization in a TensorFlow graph, and serving: the field's own words.
ALLOWED = ("bert_keras/layers/packing.py", "benchmarks/in_graph.py", "benchmarks/serving.py")


def opening(docstring: str) -> str:
    """Return the first word, without an apostrophe or punctuation behind it."""
    return docstring.split()[0].split("'")[0].rstrip(",.:;")


def clauses(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and first line of each docstring that opens with a word of `OPENINGS`."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, kinds):
            continue
        docstring = ast.get_docstring(node)
        if docstring and opening(docstring) in OPENINGS:
            yield node.body[0].lineno, docstring.splitlines()[0]


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_open_with_a_verb_or_a_noun(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in clauses(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("docstring", "is_clause"),
    [
        ("What a backend computes.", True),
        ("Who's measured.", True),
        ("Whatever.", False),
        ("Return whether it is one.", False),
    ],
)
def test_the_reader_of_docstrings(docstring: str, is_clause: bool) -> None:
    source = f"def f():\n    {docstring!r}\n"
    assert [text for _, text in clauses(source)] == [docstring] * is_clause


def test_no_module_has_an_old_name() -> None:
    folders = [folder for folder in FOLDERS if folder != "tests"]
    paths = [path.relative_to(ROOT) for name in folders for path in (ROOT / name).rglob("*.py")]
    assert not [
        str(path) for path in paths if path.stem in OLD_NAMES and path.as_posix() not in ALLOWED
    ]


# === Pages ===


LONGEST = {"README.md": 150, "docs/performance.md": 150}  # lines; other pages have 250
FOLDERS_OF_PAGES = (".", "docs", "examples", "saved_models")
PAGES = sorted(page for folder in FOLDERS_OF_PAGES for page in (ROOT / folder).glob("*.md"))
GROWING = ("CHANGELOG.md", "docs/decisions.md")  # lists, which have no length


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_not_too_long(page: Path) -> None:
    name = page.relative_to(ROOT).as_posix()
    if name not in GROWING:
        assert len(page.read_text(encoding="utf-8").splitlines()) <= LONGEST.get(name, 250)


def test_a_decision_has_three_lines() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    for decision in re.split(r"\n### ", text)[1:]:
        heading, *lines = decision.partition("\n## ")[0].strip().splitlines()
        starts = [line.partition(":")[0] for line in lines]
        assert starts == ["- Design", "- Found", "- Decided"], heading
