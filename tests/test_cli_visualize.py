"""The commands `bert-keras visualize attention`, `saliency` and `embeddings`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_keras import Predictor
from tests.visualize.pictures import classifier, one_backend


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli_visualize") / "model"
    Predictor(classifier()).save_to_preset(path)
    return path


@one_backend
def test_attention_and_saliency(call, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.html"
    done = call("visualize", "attention", model, "a b", "c", "--out", out, "--layer", 0)
    assert (done.code, done.out) == (0, f"{out}\n"), done.err
    assert '"tokens": ["[CLS]", "a", "b", "[SEP]", "c", "[SEP]"]' in out.read_text("utf-8")
    text = tmp_path / "text.txt"
    text.write_text("a\nb\n", encoding="utf-8")
    options = ("--file", text, "--label", "odd", "--out", tmp_path / "b.svg")
    done = call("visualize", "saliency", model, *options)
    assert (done.code, (tmp_path / "b.svg").is_file()) == (0, True), done.err
    assert "fill: #ffffff" in (tmp_path / "b.svg").read_text(encoding="utf-8")
    done = call("visualize", "saliency", model, *options)
    assert done.code == 2
    assert "exists already" in done.err
    assert (
        call("visualize", "saliency", model, *options, "--overwrite", "--theme", "dark").code == 0
    )
    assert "fill: #14171d" in (tmp_path / "b.svg").read_text(encoding="utf-8")


@one_backend
def test_embeddings_of_texts_lines_and_tables(call, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    lines = tmp_path / "lines.txt"
    lines.write_text("a b\n\n c d\n", encoding="utf-8")
    out = tmp_path / "map.html"
    projector = tmp_path / "board"
    done = call(
        *("visualize", "embeddings", model, "e f", lines, "--out", out, "--projector", projector)
    )
    assert done.code == 0, done.err
    assert done.out == f"{out}\n{projector}/ (tensorboard --logdir {projector})\n"
    rows = (projector / "metadata.tsv").read_text(encoding="utf-8").splitlines()
    assert rows == ["e f", "a b", "c d"]
    table = tmp_path / "table.jsonl"
    values = [{"words": f"a {n}", "kind": "x" if n else "y"} for n in range(6)]
    table.write_text("".join(json.dumps(row) + "\n" for row in values), encoding="utf-8")
    options = (
        "--text",
        "words",
        "--label",
        "kind",
        "--method",
        "tsne",
        "--out",
        tmp_path / "t.png",
    )
    done = call("visualize", "embeddings", model, table, *options)
    assert done.code == 0, done.err
    nameless = tmp_path / "nameless.csv"
    nameless.write_text("e f\na b\n")
    done = call("visualize", "embeddings", model, nameless, "--out", tmp_path / "n.html")
    assert done.code == 3
    assert "--no-header" in done.err
    options = ("--text", "0", "--no-header", "--out", tmp_path / "n.html")
    done = call("visualize", "embeddings", model, nameless, *options)
    assert done.code == 0, done.err


@one_backend
def test_a_long_text_and_the_name_of_a_folder_are_texts(
    call, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file can have a name of 300 characters, and a folder holds no lines."""
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    done = call("visualize", "embeddings", model, "a " * 150, "b", "--out", "a.html")
    assert (done.code, done.out) == (0, "a.html\n"), done.err


@one_backend
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("attention", "MODEL", "--out", "a.html"), 2, "Give one text in quotes, or --file"),
        (("attention", "MODEL", "a", "--file", "b", "--out", "a.html"), 2, "Received: both"),
        (("attention", "MODEL", "a", "--out", "a.pdf"), 2, "ends in .html, .png or .svg"),
        (("attention", "MODEL", "a", "--layer", 9, "--out", "a.html"), 2, "from 0 to 1"),
        (("attention", "MODEL", "a", "--theme", "x", "--out", "a.png"), 2, "'light' or 'dark'"),
        (("attention", "MODEL", "a", "--theme", "dark", "--out", "a.html"), 2, "of the browser"),
        (("attention", "NONE", "a", "--out", "a.html"), 4, "no such folder"),
        (("saliency", "MODEL", "a", "--label", "x", "--out", "a.html"), 2, "must be one of good"),
        (("saliency", "MODEL", "--file", "no.txt", "--out", "a.html"), 2, "no such file"),
        (("embeddings", "MODEL", "no.csv", "--out", "a.html"), 2, "no such file"),
        (("embeddings", "MODEL", "a", "--label", "x", "--out", "a.html"), 2, "is no table"),
        (("embeddings", "MODEL", "empty.txt", "--out", "a.html"), 3, "holds no text"),
        (("embeddings", "MODEL", "t.csv", "--text", "x", "--out", "a.html"), 3, "no column 'x'"),
        (("embeddings", "MODEL", "a", "--method", "umap", "--out", "a.html"), 2, "'pca' or 'tsne'"),
    ],
)
def test_what_cannot_be(
    call,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple,
    code: int,
    message: str,
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    (tmp_path / "t.csv").write_text("text\na\n", encoding="utf-8")
    words = [model if word == "MODEL" else word for word in arguments]
    done = call("visualize", *words)
    assert (done.code, message in done.err) == (code, True), done.err
    assert not (tmp_path / "a.html").exists()


def test_help_has_a_group(call) -> None:
    done = call("--help")
    group = done.out[done.out.index("Use a model") :]
    assert "visualize" in group[: group.index("╰")]
    for command in ("attention", "saliency", "embeddings"):
        assert command in call("visualize", "--help").out
