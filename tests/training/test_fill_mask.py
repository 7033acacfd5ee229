"""The program `fill-mask` on exported models."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bert_keras.training import fill_mask

FILLS = {
    "tokens": np.array([[[b"capital", b"[pad]"]], [[b"a", b"b"]]], object),
    "scores": np.array([[[0.75, 0.125]], [[0.5, 0.25]]], np.float32),
    "mask_count": np.array([1, 0], np.int32),
}


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory) -> Path:
    """Return a folder with a stand-in for an exported model that always predicts two tokens."""
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(text):
        count = tf.strings.length(tf.strings.regex_replace(text, r"[^\[]", ""))
        shape = [tf.size(text), tf.reduce_max(count), 1]
        return {
            "tokens": tf.tile(tf.constant([[["cat", "##s"]]]), shape),
            "scores": tf.tile(tf.constant([[[0.5, 0.25]]]), shape),
            "mask_count": count,
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def encode(text):
        return {"sentence_vector": tf.zeros([tf.size(text), 2])}

    folder = tmp_path_factory.mktemp("models")
    for name, function in {"fills": serve, "vectors": encode}.items():
        module = tf.Module()
        module.serve = function
        tf.saved_model.save(module, str(folder / name), signatures=function)
    return folder


def run(arguments: list[str], monkeypatch, stdin: bytes = b"", *, trust: bool = True) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    return fill_mask.main([*arguments, *["--trust"] * trust])


def test_a_model_of_another_process_needs_trust(saved_model, monkeypatch, capsys):
    assert run([f"{saved_model}/fills", "[MASK]"], monkeypatch, trust=False) == 2
    assert "None of its operations writes files" in capsys.readouterr().err


def test_texts_of_the_command_line(saved_model, monkeypatch, capsys):
    assert run([f"{saved_model}/fills", "a [MASK] and [MASK]", "[MASK]"], monkeypatch) == 0
    output = capsys.readouterr().out
    assert "a [MASK] and [MASK]" in output
    assert "[MASK] 2" in output
    assert "cat" in output
    assert "50.0" in output


def test_texts_of_standard_input(saved_model, monkeypatch, capsys):
    lines = "".join(f"text {number} [MASK]\n\n" for number in range(40)).encode()
    assert run([f"{saved_model}/fills"], monkeypatch, lines) == 0
    output = capsys.readouterr().out
    assert output.count("cat") == 40
    assert output.index("text 7 ") < output.index("text 39 ")


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (b"a [MASK]\n\nno mask\n", "standard input:3: the line has no [MASK]. Received: 'no mask'"),
        (b"\xff [MASK]\n", "standard input:1: the line is not UTF-8"),
    ],
)
def test_lines_that_cannot_be_used(saved_model, monkeypatch, capsys, stdin, message):
    assert run([f"{saved_model}/fills"], monkeypatch, stdin) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("count", [1, 2])
def test_a_mask_that_is_cut_off(count, monkeypatch, capsys):
    """The other texts are answered before the error."""

    def fill(texts):
        return {**FILLS, "mask_count": np.array([1, 0] + [0] * (len(texts) - 2), np.int32)}

    monkeypatch.setattr(fill_mask, "load", lambda *_, **__: fill)
    tokens, scores = (np.repeat(FILLS[name], 2, axis=0) for name in ("tokens", "scores"))
    monkeypatch.setitem(FILLS, "tokens", tokens)
    monkeypatch.setitem(FILLS, "scores", scores)
    assert run(["folder", "a [MASK]", *["b" * 100 + " [MASK]"] * count], monkeypatch) == 3
    printed = capsys.readouterr()
    assert "capital" in printed.out
    assert "error: the length limit of the model cuts off a [MASK] of the text 'bbb" in printed.err
    assert (" and 1 more" in printed.err) is (count == 2)
    assert "larger --max-length" in printed.err


def test_a_model_that_does_something_else(saved_model, monkeypatch, capsys):
    assert run([f"{saved_model}/vectors", "[MASK]"], monkeypatch) == 4
    assert "Received: ['sentence_vector']" in capsys.readouterr().err


def test_a_folder_that_is_no_model(tmp_path, monkeypatch, capsys):
    assert run([str(tmp_path), "[MASK]"], monkeypatch) == 4
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {tmp_path}: not a SavedModel")
    assert "saved_models/NAME/VERSION" in printed


def test_a_folder_of_another_kind_is_answered_with_what_to_do(tmp_path, monkeypatch, capsys):
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "saved_model.pb").touch()
    assert run([str(tmp_path), "[MASK]"], monkeypatch) == 4
    assert f"Name the folder of a version: {tmp_path / '2'}\n" in capsys.readouterr().err
    (tmp_path / "config.json").touch()
    assert run([str(tmp_path), "[MASK]"], monkeypatch) == 4
    assert f"bert-keras predict {tmp_path} " in capsys.readouterr().err


def test_a_damaged_model(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tensorflow_text")
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01 damaged")
    assert run([str(tmp_path), "[MASK]"], monkeypatch) == 4
    assert f"{tmp_path}: the SavedModel cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--unknown"], ["folder", "no mask"]])
def test_bad_command_lines(arguments, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stopped:
        run(arguments, monkeypatch)
    assert stopped.value.code == 2
    assert "error" in capsys.readouterr().err


def test_the_table():
    console = Console(file=io.StringIO(), width=60)
    fill_mask.show(["the [MASK] of [MASK]", "cut [MASK]"], FILLS, console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert any("capital" in line and "75.0" in line for line in lines)
    # printed as text, not parsed as markup of rich
    assert any("[pad]" in line and "12.5" in line for line in lines)
    assert any("cut: 1 [MASK] lost" in line for line in lines)
